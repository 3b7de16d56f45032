"""Equilibria and responses of many models: equal to one at a time, known answers, bad input."""

import warnings

import numpy as np
import pytest
from problems import attention_blow_up, planted_problem, random_model, scalar_riccati

import gausscontrol as gct
from gausscontrol.analysis.newton import polish as polish_one
from gausscontrol.analysis.search import follow_flow
from gausscontrol.sweeps.arrival import SETTLED, follow
from gausscontrol.sweeps.batch import Stack
from gausscontrol.sweeps.equilibria import find_equilibria_batch
from gausscontrol.sweeps.polish import polish, polish_factors
from gausscontrol.sweeps.responses import moment_response_batch


def stack(models):
    return Stack(*(np.array([getattr(m, name) for m in models]) for name in "ABVb"))


def mixed(rng, count, dim, heads):
    return [
        planted_problem(rng, dim, heads, rng.uniform(0, 2))[0]
        if i % 2
        else random_model(rng, dim, heads)
        for i in range(count)
    ]


# -- the parts that follow and polish -----------------------------------------------------------


@pytest.mark.parametrize(("dim", "rank"), [(2, 2), (3, 3), (3, 2), (3, 1), (4, 4), (5, 4)])
def test_flows_come_to_the_places_of_one_at_a_time(dim, rank):
    rng = np.random.default_rng(dim + rank)
    models = mixed(rng, 8, dim, 1)
    start = rng.standard_normal((8, dim, rank))
    found = follow(stack(models), start, 1e-2, 150)
    names = ["unsettled", "settled", "singular", "escape"]
    for model, L, end, reason in zip(models, start, found.factor, found.reason, strict=True):
        alone = follow_flow(model, L, 1e-2, 150)
        assert alone.reason == names[reason]
        assert np.allclose(end, alone.factor, rtol=1e-3, atol=1e-3 * np.abs(alone.factor).max())


def test_newton_takes_the_same_steps():
    rng = np.random.default_rng(0)
    models = mixed(rng, 20, 3, 2)
    Z = rng.standard_normal((20, 3, 3))
    starts = Z @ Z.transpose(0, 2, 1)
    found = polish(stack(models), starts)
    assert found.found.any()
    for i, model in enumerate(models):
        alone = polish_one(model, starts[i])
        assert (alone is not None) == found.found[i]
        if alone is not None:
            assert np.allclose(found.covariance[i], alone.covariance, rtol=1e-9)


def test_polished_factors_are_equilibria():
    rng = np.random.default_rng(1)
    models = stack(mixed(rng, 20, 3, 1))
    arrivals = follow(models, rng.standard_normal((20, 3, 2)), 1e-2, 150)
    some = np.flatnonzero(arrivals.reason == SETTLED)
    L, found = polish_factors(models.take(some), arrivals.factor[some])
    assert found.any()
    for i, factor in zip(some[found], L[found], strict=True):
        S = factor @ factor.T
        M = models.model(i).drift(S)
        assert np.linalg.norm(M @ S + S @ M.T) < 1e-10 * np.linalg.norm(M) * np.linalg.norm(S)


# -- equilibria -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "heads"), [(2, 1), (3, 2)])
def test_equilibria_are_those_of_one_model_at_a_time(dim, heads):
    models = mixed(np.random.default_rng(dim), 8, dim, heads)
    found = find_equilibria_batch(*stack(models))
    assert found.found[1::2].all()
    for i, model in enumerate(models):
        try:
            alone = gct.find_equilibrium(model)
        except gct.EquilibriumNotFound:
            assert not found.found[i]
            continue
        assert found.found[i]
        assert np.allclose(found.covariance[i], alone.covariance, rtol=1e-8)
        assert np.allclose(found.mean[i], alone.mean, rtol=1e-6, atol=1e-9)
        assert np.isclose(found.covariance_abscissa[i], alone.covariance_abscissa, rtol=1e-6)
        assert np.isclose(found.mean_abscissa[i], alone.mean_abscissa, rtol=1e-6)
        assert found.is_stable[i] == alone.is_stable
        assert found.method[i] == alone.method


def test_scalar_equilibria_are_exact():
    a, v = np.array([0.5, 1.0, -1.0, 1.0]), np.array([-0.25, -2.0, 0.5, 1.0])
    found = find_equilibria_batch(*(x[:, None, None] for x in (a, np.ones(4), v)))
    assert found.found.tolist() == [True, True, True, False]
    assert np.allclose(found.covariance[:3, 0, 0], [2.0, 0.5, 2.0], rtol=1e-14)
    assert np.allclose(found.covariance_abscissa[:3], -2 * a[:3])
    assert np.allclose(found.attention_form_margin[:3], a[:3])
    assert np.isnan(found.covariance[3]).all()
    assert not (found.covariance_is_stable | found.mean_is_stable)[3]
    assert not found.single.any()


def test_singular_means_are_told():
    # M = 0 at the equilibrium, so that the mean equation is Vbar mu = -b with Vbar singular.
    B = np.array([[[[1.0, 0.2], [0.0, 1.0]], [[1.0, 0.0], [0.3, 2.0]]]])
    V = np.array([[[[-1.0, 0.0], [0.0, -1.0]], [[1.0, 0.0], [0.0, -1.0]]]])
    A = -(V @ B).sum(axis=1)
    found = find_equilibria_batch(A, B, V, [[1.0, 0.0]])
    assert found.found.all()
    alone = gct.find_equilibrium(gct.GaussianTransformer(A[0], B[0], V[0], [1.0, 0.0]))
    assert (alone.mean is None) == np.isnan(found.mean[0]).all()


def test_the_report_of_equilibria():
    found = find_equilibria_batch(*np.array([[[[0.5]]], [[[1.0]]], [[[-0.25]]]]))
    assert "1 models, 1 with a positive definite equilibrium, 0 searched one by one" in str(found)
    assert "abscissa -1 to -1" in str(found)
    assert len(found) == 1


# -- responses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "heads"), [(1, 2), (2, 1), (3, 1)])
def test_responses_are_those_of_one_model_at_a_time(dim, heads):
    rng = np.random.default_rng(dim)
    models = mixed(rng, 4, dim, heads)
    times, mean, S = np.linspace(1, 2, 5), rng.standard_normal(dim), 0.5 * np.eye(dim)
    A, B, V, b = stack(models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gct.BlowUpWarning)
        found = moment_response_batch(A, B, V, (mean, S), times, b)
        alone = [gct.moment_response(model, times, (mean, S)) for model in models]
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.covariance).all()
    for i, one in enumerate(alone):
        count = one.t.size
        assert found.valid[i].sum() == count
        scale = np.abs(one.covariance).max()
        assert np.abs(found.covariance[i][..., :count] - one.covariance).max() < 1e-6 * scale
        assert np.allclose(found.mean[i][:, :count], one.mean, rtol=1e-5, atol=1e-6)
        assert found.blow_up[i] == (one.blow_up_time is not None)
        if found.blow_up[i]:
            error = found.blow_up_error[i] + one.blow_up_error
            assert abs(found.blow_up_time[i] - one.blow_up_time) < 10 * error


def test_known_escapes():
    for problem, end in ((scalar_riccati(), 2.0), (attention_blow_up(), 1.0)):
        model, known = problem.model, problem.known
        A, B, V, b = stack([model])
        start = (np.zeros(model.dim), known["start"])
        with pytest.warns(gct.BlowUpWarning, match="1 of 1 covariances escape"):
            found = moment_response_batch(A, B, V, start, np.linspace(0, end, 21), b)
        assert found.blow_up.all()
        assert np.isclose(found.blow_up_time[0], known["blow_up_time"], rtol=1e-6)
        assert found.blow_up_error[0] < 1e-5
        last = int(found.valid[0].sum())
        assert found.t[last - 1] < found.blow_up_time[0] <= found.t[last]
        held = found.covariance[0][..., last - 1 : last]
        assert (found.covariance[0][..., last:] == held).all()
        assert "blow-up             1" in str(found)


def test_the_exact_solution_of_one_dimension():
    a, v = np.array([0.5, -1.0, 2.0]), np.array([-0.25, -1.0, -0.5])
    times, start = np.array([0.0, 0.1, 3.0]), 0.3
    one = np.ones((3, 1, 1))
    found = moment_response_batch(
        a[:, None, None], one, v[:, None, None], ([0.0], [[start]]), times, rtol=1e-10
    )
    growth = np.exp(2 * a[:, None] * times)
    exact = start * growth / (1 - start * v[:, None] / a[:, None] * (growth - 1))
    assert np.allclose(found.covariance[:, 0, 0], exact, rtol=1e-9)
    assert (found.blow_up_time == np.inf).all()
    assert not (found.single | found.stopped | found.blow_up).any()


def test_rank_and_starts_of_their_own():
    rng = np.random.default_rng(4)
    A, B, V, b = stack([planted_problem(rng, 3, 1, 0.5)[0] for _ in range(3)])
    u = rng.standard_normal((3, 3))
    S = u[:, :, None] * u[:, None]
    S[0] += np.eye(3)
    found = moment_response_batch(A, B, V, (u, S), [0, 0.3], b)
    assert np.allclose(found.mean[..., 0], u)
    assert np.allclose(found.covariance[..., 0], S)
    values = np.linalg.eigvalsh(found.covariance[..., -1])
    assert (values[1:, :2] < 1e-12 * values[1:, 2:]).all()
    assert (values[0] > 0).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"initial": np.zeros(2)}, gct.ParameterError, r"initial: expected \(mean, covariance\)"),
        ({"initial": ([0.0], np.eye(2))}, gct.ShapeError, "initial mean: expected shape"),
        ({"initial": ([0, 0], np.eye(3))}, gct.ShapeError, "initial covariance: expected shape"),
        ({"initial": ([0, 0], -np.eye(2))}, gct.ParameterError, "for model 0"),
        ({"initial": ([0, 0], [[1, 1], [0, 1]])}, gct.ParameterError, "symmetric"),
        ({"rtol": 2.0}, gct.ParameterError, "rtol: expected"),
        ({"atol": -1.0}, gct.ParameterError, "atol: expected"),
        ({"timepts": [1.0, 0.0]}, gct.ParameterError, "timepts"),
    ],
)
def test_bad_input_is_named(change, error, words):
    given = {name: np.ones((3, 2, 2)) for name in "ABV"}
    given |= {"initial": ([0.0, 0.0], np.eye(2)), "timepts": [0.0, 0.1]} | change
    with pytest.raises(error, match=words):
        moment_response_batch(**given)
