"""Regimes of many models: equal to those of one at a time, laws, structure, bad input."""

import numpy as np
import pytest
from attack import SORTS, dissipative, planted
from problems import planted_problem, random_model

import gausscontrol as gct
from gausscontrol import ParameterError
from gausscontrol.certificates.balance import Balanced
from gausscontrol.certificates.policy import REGIMES, next_step
from gausscontrol.certificates.subspace import planes, subspace_growth
from gausscontrol.sweeps.balance import balanced
from gausscontrol.sweeps.batch import Stack, read_stack
from gausscontrol.sweeps.behaviour import blow_up, bounded, collapse
from gausscontrol.sweeps.classify import classify_batch
from gausscontrol.sweeps.evidence import NO, UNCLEAR, YES


def stack(models):
    return Stack(*(np.array([getattr(m, name) for m in models]) for name in "ABVb"))


def arrays(models):
    return stack(models)[:3]


def loose(rng, dim, heads):
    """An equilibrium whose attention form is negative or not."""
    P, Q, *noise = rng.standard_normal((4, heads, dim, dim))
    size, unit = rng.uniform(0, 1), np.eye(dim)
    V = -(P @ P.transpose(0, 2, 1) / dim + 0.2 * unit) + size * noise[0] / np.sqrt(dim)
    B = Q @ Q.transpose(0, 2, 1) / dim + 0.2 * unit + size * noise[1] / np.sqrt(dim)
    Z = rng.standard_normal((dim, dim))
    A = rng.uniform(0, 2) * (Z - Z.T) / 2 - (V @ B).sum(axis=0)
    R = np.linalg.qr(rng.standard_normal((dim, dim)))[0] * 10 ** rng.uniform(-0.5, 0.5, dim)
    return gct.GaussianTransformer(A, B, V).transform(R)


def ensemble(rng, count, dim, heads):
    """Half with a planted equilibrium, half without any structure."""
    makers = (
        lambda: planted(rng, dim, heads)[0],
        lambda: random_model(rng, dim, heads),
        lambda: loose(rng, dim, heads),
        lambda: dissipative(rng, dim, heads)[0],
    )
    return [makers[i % 4]() for i in range(count)]


def check(models):
    found = classify_batch(*arrays(models))
    for i, model in enumerate(models):
        if not found.single[i]:
            alone = gct.classify(model, sdp=False)
            assert (found.regime[i], found.scope[i]) == (alone.regime, alone.scope), i
    return found


@pytest.mark.parametrize(("dim", "heads"), [(2, 1), (2, 2), (3, 1)])
def test_verdicts_are_those_of_one_model_at_a_time(dim, heads):
    found = check(ensemble(np.random.default_rng(dim + heads), 8, dim, heads))
    assert found.single.sum() <= 2
    assert len(found.counts) >= 2


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "heads"), [(2, 1), (2, 2), (3, 1), (3, 2), (4, 1)])
def test_verdicts_of_two_thousand_models_agree(dim, heads):
    """Ten thousand in all; some ten minutes on one core, nearly all of them the single path's."""
    found = check(ensemble(np.random.default_rng(10 * dim + heads), 2000, dim, heads))
    assert found.single.mean() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("sort", SORTS)
def test_verdicts_of_every_sort_of_model_agree(sort):
    rng = np.random.default_rng(0)
    models = [sort(rng, 2, 1)[0] for _ in range(100)]
    sizes = {m.n_heads for m in models}
    for heads in sizes:
        check([m for m in models if m.n_heads == heads])


def test_scalar_models_are_classified_by_signs():
    rng = np.random.default_rng(0)
    A, V, B = rng.standard_normal((3, 50))
    found = classify_batch(A[:, None, None], B[:, None, None], V[:, None, None])
    gain = V * B
    wanted = np.where(gain > 0, "blow-up", np.where(A > 0, "globally stable", "collapse"))
    assert (found.regime == wanted).all()
    assert not found.single.any()
    settled = gain < 0
    stable = np.where(A > 0, V, A + V) < 0
    both = found.scope == "covariance and mean"
    assert (both[settled] == stable[settled]).all()
    assert (found.scope[~settled] == "covariance").all()
    for i in range(0, 50, 10):
        alone = gct.classify(gct.GaussianTransformer(A[i], B[i], V[i]), sdp=False)
        assert (alone.regime, alone.scope) == (found.regime[i], found.scope[i])


def test_structure_is_left_to_the_single_path():
    unit = np.eye(2)
    A = np.array([-unit, np.diag([0.0, -1.0]), unit])
    B, V = np.array([unit, 0 * unit, unit]), np.array([-unit, unit, unit])
    found = classify_batch(A, B, V)
    assert list(found.regime) == ["collapse", "bounded", "blow-up"]
    assert found.single.all()


def test_order_and_company_do_not_matter():
    rng = np.random.default_rng(1)
    models = [planted(rng, 2, 1)[0] for _ in range(4)] + [random_model(rng, 2, 1)]
    whole = classify_batch(*arrays(models))
    for part in ([4, 1, 0], [2, 3]):
        found = classify_batch(*arrays([models[i] for i in part]))
        assert (found.regime == whole.regime[part]).all()
        assert (found.single == whole.single[part]).all()


def test_verdicts_survive_head_gauge_and_units():
    rng = np.random.default_rng(2)
    A, B, V = arrays([planted_problem(rng, 2, 2, 0.5)[0] for _ in range(5)])
    found = classify_batch(A, B, V)
    assert (found.regime == "globally stable").all()
    assert (classify_batch(A, B / 8, 8 * V).regime == found.regime).all()
    assert (classify_batch(A, 100 * B, V).regime == found.regime).all()


def test_the_report_counts():
    found = classify_batch(*np.ones((3, 4, 1, 1)))
    assert str(found).splitlines()[0] == "4 models, 0 of them classified one by one"
    assert found.counts == {"blow-up": 4}
    assert "100.0%" in str(found)
    assert len(found) == 4
    assert repr(found) == "<BatchClassification: 4 models, 0 of them classified one by one>"
    page = found._repr_html_()
    assert "<table" in page
    assert "blow-up" in page


def test_inputs_are_not_changed():
    rng = np.random.default_rng(3)
    given = arrays([random_model(rng, 2, 1) for _ in range(2)])
    before = [x.copy() for x in given]
    classify_batch(*given)
    assert all((x == y).all() for x, y in zip(given, before, strict=True))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"A": np.zeros((2, 2))}, gct.ShapeError, r"A: expected shape \(N, d, d\)"),
        ({"B": np.zeros((3, 2, 3))}, gct.ShapeError, "B: expected shape"),
        ({"V": np.zeros((3, 2, 2, 2))}, gct.ShapeError, r"V: expected 1 head\(s\)"),
        ({"V": np.full((3, 2, 2), np.nan)}, gct.ParameterError, "V: expected finite numbers"),
        ({"b": np.zeros(2)}, gct.ShapeError, r"b: expected shape \(3, 2\)"),
        ({"A": np.zeros((0, 2, 2))}, gct.ShapeError, "A: expected at least one model"),
    ],
)
def test_bad_input_is_named(change, error, words):
    given = {name: np.zeros((3, 2, 2)) for name in "ABV"} | change
    with pytest.raises(error, match=words):
        classify_batch(**given)


def test_whole_numbers_raise_no_warning():
    rng = np.random.default_rng(7)
    A, B, V = rng.integers(-2, 3, size=(3, 40, 2, 2))
    found = classify_batch(A, B, V)
    for i in np.flatnonzero(~found.single)[:10]:
        alone = gct.classify(gct.GaussianTransformer(A[i], B[i], V[i]), sdp=False)
        assert (found.regime[i], found.scope[i]) == (alone.regime, alone.scope), i


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_model_beyond_all_scales_is_named(size):
    V = -np.ones((3, 1, 1))
    V[1] *= size
    with pytest.raises(ParameterError, match=r"V\[1, 0\]: expected entries between 1e-100 and"):
        classify_batch(np.ones((3, 1, 1)), np.ones((3, 1, 1)), V)
    with pytest.raises(ParameterError, match=r"V: expected entries between 1e-100 and"):
        gct.classify(gct.GaussianTransformer(1.0, 1.0, -size))


def test_heads_may_be_left_out():
    one = np.ones((3, 2, 2))
    assert read_stack(one, one, one).B.shape == (3, 1, 2, 2)


# -- parts ----------------------------------------------------------------------------------------


def test_the_policy_asks_in_order_and_stops():
    def ask(answers, **options):
        known, asked = {}, []
        step = next_step(known, **options)
        while step.question is not None:
            asked.append(step.question)
            known[step.question] = step.question in answers
            step = next_step(known, **options)
        return asked, step.regime

    assert ask({"quick collapse"}, layers=False) == (["quick collapse"], "collapse")
    asked, regime = ask({"equilibrium", "locally stable"}, layers=False)
    assert asked[-2:] == ["blow-up", "bounded"]
    assert regime == "locally stable"
    asked, regime = ask({"equilibrium", "locally stable"}, layers=False, thorough=False)
    assert (asked[-1], regime) == ("locally stable", "locally stable")
    assert ask(set(), layers=False)[1] == "undecided"
    asked, regime = ask({"singular limit"}, layers=True)
    assert (asked, regime) == (["equilibrium", "singular limit"], "singular limit")
    assert "semiglobally stable" not in ask({"equilibrium"}, layers=False)[0]
    for regime in set(REGIMES) - {"undecided", "semiglobally stable"}:
        point = {"equilibrium"} if "stable" in regime else set()
        assert ask({regime} | point, layers=False)[1] == regime


@pytest.mark.parametrize("heads", [1, 2])
def test_balancing_takes_the_same_powers_of_two(heads):
    rng = np.random.default_rng(heads)
    models = ensemble(rng, 20, 3, heads)
    found = balanced(stack(models))
    assert found.sure.mean() > 0.8
    for i in np.flatnonzero(found.sure):
        alone = Balanced(models[i])
        assert np.array_equal(alone.scale, found.scale[i])
        assert alone.depth == found.depth[i]
        for name in "ABV":
            assert np.array_equal(getattr(alone.model, name), getattr(found.models, name)[i])


def certified(certify, model):
    try:
        return certify(model, sdp=False)
    except gct.NotCertified:
        return None


@pytest.mark.parametrize(("dim", "heads"), [(2, 1), (3, 1), (2, 2)])
def test_large_behaviour_is_what_the_certificates_say(dim, heads):
    rng = np.random.default_rng(20 + dim + heads)
    models = [dissipative(rng, dim, heads)[0] for _ in range(15)]
    models += [planted(rng, dim, heads)[0] for _ in range(5)]
    for batch, certify in (
        (blow_up, gct.certify_blow_up),
        (bounded, gct.certify_boundedness),
        (collapse, gct.certify_collapse),
    ):
        answer = batch(stack(models))
        assert (answer.holds == UNCLEAR).mean() < 0.2
        for i, model in enumerate(models):
            certificate = certified(certify, model)
            if answer.holds[i] != UNCLEAR:
                assert (certificate is not None) == (answer.holds[i] == YES)
            if answer.holds[i] == YES and answer.mean[i] != UNCLEAR:
                both = certificate.scope == "covariance and mean"
                assert both == (answer.mean[i] == YES)


def test_growth_along_planes_of_every_rank():
    rng = np.random.default_rng(5)
    models = []
    for _ in range(20):
        V, B = rng.standard_normal((2, 3, 3))
        models.append(gct.GaussianTransformer(-np.eye(3), B + 1.5 * np.eye(3), V))
    answer = blow_up(stack(models)).holds
    assert {NO, YES} <= set(answer.tolist())
    for i, model in enumerate(models):
        found = Balanced(model)
        shown = any(subspace_growth(found, plane) for plane in planes(found))
        assert answer[i] in (UNCLEAR, YES if shown else NO)
