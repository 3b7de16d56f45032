"""Design: planted instances, reasons for refusal, what the user may ask for."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import plain_attention_form, planted_problem

import gausscontrol as gct
from gausscontrol.linalg.lmi import Program, equality_rows, linear_image
from gausscontrol.synthesis.design import Design, design
from gausscontrol.synthesis.design_problem import ConvexDesign

FREE = (("V",), ("B",), ("A", "V"), ("A", "B"))
IDS = ["".join(names) for names in FREE]

SKEWED = np.array([[0.6, 0.9], [-0.7, 0.3]])
TARGET = (np.array([1.0, 0.5]), np.array([[2.0, 0.8], [0.8, 1.0]]))
KEYS = np.array([[1.0, 0.3], [-0.2, 0.8]])


def planted(seed, dim, heads=1):
    """A feasible instance: its target, its matrices and its alpha."""
    rng = np.random.default_rng([seed, dim])
    model, Sigma = planted_problem(rng, dim, heads, kappa=1.0)
    white = model.whiten(Sigma)
    alpha = -np.linalg.eigvalsh(plain_attention_form(white.V, white.B))[-1]
    return (rng.standard_normal(dim), Sigma), model, alpha


def check(des, target, rtol=1e-5):
    """What every design must be, computed here from the definition.

    The certified rate falls short of the computed one by what rounding may do, which grows with
    the norms.
    """
    mean, Sigma = target
    model, dim = des.model, len(mean)
    drift = model.A @ Sigma + np.einsum("hij,jk,hkl,lm->im", model.V, Sigma, model.B, Sigma)
    assert np.linalg.norm(drift + drift.T) <= 1e-9 * np.linalg.norm(model.A @ Sigma)
    white = model.whiten(Sigma)
    form = plain_attention_form(white.V, white.B)
    assert -2 * np.linalg.eigvalsh(form)[-1] == pytest.approx(des.decay_rate, rel=rtol)
    assert des.decay_rate <= -2 * np.linalg.eigvalsh(form)[-1] * (1 + 1e-12)
    assert des.decay_rate <= des.optimal_rate == pytest.approx(2 * np.trace(model.A) / dim)
    M = model.drift(Sigma)
    total = model.V.sum(axis=0)
    assert np.linalg.eigvals(M + total).real.max() < 0
    tilt = np.einsum("hij,jk,hk->i", model.V, Sigma, model.k)
    rest = (M + total) @ mean + tilt + model.b
    assert np.linalg.norm(rest) <= 1e-9 * (1 + np.linalg.norm((M + total) @ mean))
    symmetric = (white.V.sum(axis=0) + white.V.sum(axis=0).T) / 2
    assert -np.linalg.eigvalsh(symmetric)[-1] == pytest.approx(des.mean_decay_rate, rel=1e-6)
    assert des.mean_decay_rate > 0
    assert des.certificate.scope == "covariance and mean"
    assert des.verify()


def given_matrices(model, free):
    return {name: getattr(model, name) for name in "ABV" if name not in free}


# -- planted instances ----------------------------------------------------------------------------


@pytest.mark.parametrize("free", FREE, ids=IDS)
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_planted_instances_are_solved_at_least_as_fast(free, dim):
    target, model, alpha = planted(1, dim)
    rate = {"decay_rate": 2 * alpha} if "A" in free else {}
    des = design(target, free=free, **given_matrices(model, free), **rate)
    check(des, target)
    assert des.decay_rate >= 2 * alpha * (1 - 1e-5)
    for name in given_matrices(model, free):
        kept = getattr(des.model, name)
        np.testing.assert_array_equal(kept if name == "A" else kept[:1], getattr(model, name))


@settings(derandomize=True, deadline=None, max_examples=6)
@given(st.integers(0, 10_000), st.integers(2, 3), st.integers(1, 3), st.sampled_from(FREE[:2]))
def test_several_heads_are_free_together(seed, dim, heads, free):
    target, model, alpha = planted(seed, dim, heads)
    des = design(target, free=free, **given_matrices(model, free), decay_rate=1.5 * alpha)
    check(des, target)
    assert des.model.n_heads - des.mean_heads == heads


def test_random_starts_converge():
    des = design(TARGET, A=SKEWED, B=KEYS)
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(TARGET[1])
    for _ in range(5):
        W = rng.standard_normal((2, 2))
        shape = 10 ** rng.uniform(-1, 1) * (W @ W.T / 2 + 0.05 * np.eye(2))
        start = (rng.standard_normal(2), root @ shape @ root.T)
        resp = gct.moment_response(des.model, [0, 20 / des.decay_rate], start, method="covariance")
        white = np.linalg.solve(root, np.linalg.solve(root, resp.covariance[:, :, -1]).T)
        np.testing.assert_allclose(white, np.eye(2), atol=1e-4)


def test_the_optimum_is_reached_where_the_keys_allow_it():
    des = design((np.zeros(3), np.eye(3)), A=np.diag([1.0, 1.0, 1.0]), B=np.eye(3))
    np.testing.assert_allclose(des.decay_rate, 2.0, rtol=1e-6)
    np.testing.assert_allclose(des.model.V[0], -np.eye(3), atol=1e-6)


@pytest.mark.parametrize("free", FREE, ids=IDS)
def test_units_do_not_matter(free):
    target, model, alpha = planted(4, 2)
    time, length = 1e5, 1e-3
    scaled = {"A": time * model.A, "V": time * model.V, "B": model.B / length**2}
    other = (length * target[0], length**2 * target[1])
    rate = 2 * alpha * 0.7
    des = design(target, free=free, **given_matrices(model, free), decay_rate=rate)
    kept = {name: scaled[name] for name in "ABV" if name not in free}
    moved = design(other, free=free, **kept, decay_rate=rate * time, norm_bound=1e12)
    check(moved, other)
    assert moved.decay_rate >= rate * time * (1 - 1e-6)
    assert des.decay_rate >= rate * (1 - 1e-6)


@pytest.mark.parametrize("gauge", [1e-8, 1e8])
def test_head_gauge_of_what_is_given_does_not_matter(gauge):
    target, model, alpha = planted(5, 2)
    des = design(target, A=model.A, B=gauge * model.B, decay_rate=alpha, norm_bound=1e12)
    check(des, target)
    plain = design(target, A=model.A, B=model.B, decay_rate=alpha, norm_bound=1e12)
    own = slice(0, 1)
    if not plain.mean_heads + des.mean_heads:
        np.testing.assert_allclose(gauge * des.model.V[own], plain.model.V[own], rtol=1e-3)


def test_inputs_are_not_changed():
    A, B, mean, Sigma = SKEWED.copy(), KEYS.copy(), TARGET[0].copy(), TARGET[1].copy()
    design((mean, Sigma), A=A, B=B)
    for array, kept in ((A, SKEWED), (B, KEYS), (mean, TARGET[0]), (Sigma, TARGET[1])):
        np.testing.assert_array_equal(array, kept)


# -- rates and norms ------------------------------------------------------------------------------


def test_a_given_rate_is_reached_with_smaller_norms():
    fast = design(TARGET, A=SKEWED, B=KEYS)
    slow = design(TARGET, A=SKEWED, B=KEYS, decay_rate=fast.decay_rate / 2)
    assert slow.decay_rate >= fast.decay_rate / 2 * (1 - 1e-6)
    assert slow.norms["V"] <= fast.norms["V"] * (1 + 1e-6)
    check(slow, TARGET)


@pytest.mark.parametrize("free", FREE, ids=IDS)
def test_norm_bounds_hold_in_original_coordinates(free):
    target, model, _ = planted(6, 3)
    norms = {
        name: 1.5 * np.linalg.norm(getattr(model, name), 2, axis=(-2, -1)).max() for name in free
    }
    des = design(target, free=free, **given_matrices(model, free), norm_bound=norms)
    check(des, target)
    for name in free:
        assert des.norms[name] <= norms[name]
    assert des.bounds == norms


def test_more_norm_is_faster_up_to_what_the_keys_allow():
    rates = [design(TARGET, A=SKEWED, B=KEYS, norm_bound=x).decay_rate for x in (0.95, 1.0, 10.0)]
    assert rates == sorted(rates)
    assert rates[0] < 0.99 * rates[-1]


def test_the_mean_gets_the_rate_asked_for():
    des = design(TARGET, A=SKEWED, B=KEYS, mean_decay_rate=0.3)
    assert des.mean_decay_rate >= 0.3 * (1 - 1e-6)
    check(des, TARGET)


def test_a_head_is_added_for_the_mean_where_v_is_given():
    V = -design(TARGET, A=SKEWED, B=KEYS).model.V[0]
    B = design(TARGET, A=SKEWED, V=-V, free=("B",)).model.B
    des = design(TARGET, A=SKEWED, V=V, free=("B",), mean_decay_rate=1.0)
    assert (des.mean_heads, des.model.n_heads) == (1, 2)
    np.testing.assert_array_equal(des.model.B[1], 0)
    g = -des.model.V[1, 0, 0]
    np.testing.assert_array_equal(des.model.V[1], -g * np.eye(2))
    np.testing.assert_allclose(des.mean_decay_rate, 1.0, rtol=1e-5)
    np.testing.assert_allclose(des.model.B[0], -B[0], rtol=1e-3)
    check(des, TARGET)


# -- the user's own terms -------------------------------------------------------------------------


def test_constraints_are_in_original_coordinates_and_hold_exactly():
    B = [KEYS, np.eye(2)]
    seen = {}

    def pattern(variables):
        seen.update(variables)
        first, second = variables["V"]
        return [first[0, 1] == 0, second[1, 0] == 0.125, second <= 3]

    des = design(TARGET, A=SKEWED, B=B, constraints=pattern)
    check(des, TARGET)
    first, second = des.model.V[:2]
    assert first[0, 1] == 0
    np.testing.assert_allclose(second[1, 0], 0.125, rtol=1e-13)
    assert second.max() <= 3
    assert set(seen) == {"A", "V", "B", "alpha"}
    np.testing.assert_array_equal(seen["A"].value, SKEWED)
    np.testing.assert_array_equal(seen["B"][0].value, KEYS)


def test_the_variables_are_what_ends_in_the_model():
    kept = {}

    def keep(variables):
        kept.update(variables)
        return []

    des = design(TARGET, A=SKEWED, B=KEYS, constraints=keep)
    np.testing.assert_allclose(kept["V"].value, des.model.V[0], rtol=1e-9)
    np.testing.assert_allclose(2 * kept["alpha"].value, des.decay_rate, rtol=1e-5)


def test_an_objective_replaces_the_norms():
    rate = design(TARGET, A=SKEWED, B=KEYS).decay_rate / 4
    few = design(
        TARGET, A=SKEWED, B=KEYS, decay_rate=rate, objective=lambda v: cp.sum(cp.abs(v["V"]))
    )
    small = design(TARGET, A=SKEWED, B=KEYS, decay_rate=rate)
    assert np.abs(few.model.V).sum() <= np.abs(small.model.V).sum() * (1 + 1e-6)
    assert isinstance(few.problem, cp.Problem)
    check(few, TARGET)


def test_an_objective_without_a_rate_keeps_one_percent_of_the_optimum():
    des = design(TARGET, A=SKEWED, B=KEYS, objective=lambda v: v["alpha"])
    assert des.decay_rate >= 0.01 * des.optimal_rate
    assert des.verify()


def test_initial_is_stayed_near_and_gives_what_is_missing():
    near = design(TARGET, A=SKEWED, B=KEYS, decay_rate=0.01).model
    rng = np.random.default_rng(0)
    start = gct.GaussianTransformer(
        SKEWED, KEYS, near.V + 0.05 * rng.standard_normal((1, 2, 2)), k=[0.5, -1.0], name="trained"
    )
    rate = design(TARGET, A=SKEWED, B=KEYS).decay_rate / 2
    des = design(TARGET, initial=start, decay_rate=rate)
    check(des, TARGET)
    small = design(TARGET, A=SKEWED, B=KEYS, decay_rate=rate)
    distance = np.linalg.norm(des.model.V - start.V)
    assert distance <= np.linalg.norm(small.model.V - start.V) * (1 + 1e-6)
    np.testing.assert_array_equal(des.model.k, start.k)
    assert des.model.name == "trained"
    settled = design(TARGET, initial=des.model, decay_rate=rate / 2)
    np.testing.assert_allclose(settled.model.V, des.model.V, atol=1e-5)


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [("V",), ("B",), ("V", "B")])
def test_a_trace_that_is_not_positive_is_the_reason(free):
    for shift in (0.45, 0.8):
        A = SKEWED - shift * np.eye(2)
        kept = {name: KEYS for name in "BV" if name not in free}
        with pytest.raises(gct.InfeasibleDesign, match=r"tr A = .* tr A > 0 is necessary"):
            design(TARGET, A=A, free=free, **kept)


@pytest.mark.parametrize("free", FREE[:2], ids=IDS[:2])
def test_a_norm_below_what_the_trace_needs_is_the_reason(free):
    target, model, _ = planted(7, 3)
    other = {"V": target[1] @ model.B[0], "B": model.V[0] @ target[1]}[free[0]]
    least = np.trace(model.A) / np.linalg.norm(other, "nuc")
    with pytest.raises(gct.InfeasibleDesign, match=r"norm bound: tr A = .* needs"):
        design(target, free=free, **given_matrices(model, free), norm_bound=0.95 * least)


def test_a_norm_below_what_the_form_needs_is_the_reason_and_says_how_much():
    least = design(TARGET, A=SKEWED, B=KEYS, decay_rate=1e-3).norms["V"]
    with pytest.raises(gct.InfeasibleDesign, match="norm bound: without it the design exists"):
        design(TARGET, A=SKEWED, B=KEYS, norm_bound={"V": 0.9 * least})
    assert design(TARGET, A=SKEWED, B=KEYS, norm_bound=1.1 * least).norms["V"] <= 1.1 * least


def test_a_fixed_matrix_is_the_reason():
    with pytest.raises(gct.InfeasibleDesign, match=r"^B: no V makes the attention form negative"):
        design(TARGET, A=SKEWED, B=np.diag([1.0, -1.0]))
    with pytest.raises(gct.InfeasibleDesign, match=r"^V: no B makes the attention form negative"):
        design(TARGET, A=SKEWED, V=np.diag([1.0, -1.0]), free=("B",))
    with pytest.raises(gct.InfeasibleDesign, match=r"^B: no V makes"):
        design(TARGET, B=np.diag([1.0, -1.0]), free=("A", "V"), decay_rate=1.0)


def test_a_rate_beyond_the_optimum_or_the_keys_is_the_reason():
    with pytest.raises(gct.InfeasibleDesign, match=r"decay_rate: tr A = 0.9 allows at most 0.9"):
        design(TARGET, A=SKEWED, B=KEYS, decay_rate=0.91)
    with pytest.raises(gct.InfeasibleDesign, match="decay_rate: with this B at most"):
        design(TARGET, A=SKEWED, B=KEYS, decay_rate=0.899)


@pytest.mark.parametrize("what", ["constraints", "objective"])
def test_an_unknown_variable_is_named(what):
    with pytest.raises(gct.ParameterError, match=r"variables: expected one of A, V, B.* found 'W'"):
        design(TARGET, A=SKEWED, B=KEYS, **{what: lambda v: v["W"]})


def test_constraints_are_the_reason():
    with pytest.raises(gct.InfeasibleDesign, match="constraints: without them the design exists"):
        design(TARGET, A=SKEWED, B=KEYS, constraints=lambda v: [v["V"] >= 0])


def test_a_zero_matrix_is_the_reason_and_no_norm_bound_is():
    for unknown, fixed in (("V", "B"), ("B", "V")):
        with pytest.raises(gct.InfeasibleDesign, match=f"^{fixed}: expected a head that is not"):
            design(TARGET, A=SKEWED, free=(unknown,), **{fixed: np.zeros((2, 2))})
    both = design(TARGET, A=SKEWED, B=[KEYS, np.zeros((2, 2))])
    assert both.verify()


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("status", ["failed", "refused", "unbounded"])
def test_a_solver_that_fails_is_no_statement_about_the_design(monkeypatch, status, failing):
    """From the given solve on every one fails; the constraint alone is excluded by a proof."""
    solve, calls = Program.solve, []

    def fail(self, **options):
        calls.append(self)
        if len(calls) < failing:
            return solve(self, **options)
        raise gct.SolverError("design: out of order", status=status)

    monkeypatch.setattr(Program, "solve", fail)
    conditions = {"constraints": lambda v: [v["V"] >= 0]} if failing > 1 else {}
    with pytest.raises(gct.SolverError, match="design: out of order") as caught:
        design(TARGET, A=SKEWED, B=KEYS, **conditions)
    assert caught.value.status == status
    assert "\n" not in str(caught.value)
    assert "no V makes" not in str(caught.value)


def test_constraints_no_solver_settles_are_not_called_impossible(monkeypatch):
    solve = Program.solve

    def fail(self, **options):
        if self.constrained_by_user:
            raise gct.SolverError("design: out of order", status="failed")
        return solve(self, **options)

    post = ConvexDesign._constrain

    def constrain(self):
        post(self)
        self.program.constrained_by_user = True

    monkeypatch.setattr(Program, "constrained_by_user", False, raising=False)
    monkeypatch.setattr(Program, "solve", fail)
    monkeypatch.setattr(ConvexDesign, "_constrain", constrain)
    with pytest.raises(gct.SolverError, match=r"constraints: without them .* which is no proof"):
        design(TARGET, A=SKEWED, B=KEYS, constraints=lambda v: [v["V"][0] == 0])


@pytest.mark.parametrize("free", FREE, ids=IDS)
@pytest.mark.parametrize("dt", [0.0, 0.02])
def test_the_certificate_has_the_rate_that_was_asked_for(free, dt):
    target, model, alpha = planted(8, 2, heads=3)
    for share in (0.01, 0.7) if not dt or "A" not in free else (0.7,):
        rate = share * 2 * alpha
        des = design(target, free=free, **given_matrices(model, free), decay_rate=rate, dt=dt)
        assert des.decay_rate >= rate * (1 - 1e-9)
        if not dt:
            assert des.certificate.rate == des.decay_rate


def test_the_optimal_rate_itself_can_be_asked_for():
    des = design((np.zeros(2), np.eye(2)), A=np.eye(2), B=np.eye(2), decay_rate=2.0)
    np.testing.assert_allclose(des.decay_rate, 2.0, rtol=1e-6)


# -- residual layers ------------------------------------------------------------------------------


def test_residual_layers_are_balanced_and_contract():
    B = [KEYS, np.eye(2), np.array([[0.5, -1.0], [1.0, 0.5]])]
    des = design(TARGET, A=SKEWED, B=B, dt=0.1)
    model, Sigma = des.model, TARGET[1]
    np.testing.assert_allclose(model.drift(Sigma), 0, atol=1e-12)
    assert des.verify()
    assert model.dt == 0.1 < des.largest_step
    an = gct.analyze(model, des.equilibrium)
    assert np.log(np.abs(an.poles).max()) / 0.1 < 0
    covariance = np.linalg.eigvals(
        gct.moment_system(model.replace(dt=0)).linearize(gct.pack(TARGET[0], Sigma)).A[2:, 2:]
    )
    step = (-2 * covariance.real / np.abs(covariance) ** 2).min()
    np.testing.assert_allclose(des.largest_step, step, rtol=1e-9)
    with pytest.raises(gct.NotCertified):
        gct.certify_local_stability(model.replace(dt=1.001 * step), Sigma)
    gct.certify_local_stability(model.replace(dt=0.999 * step), Sigma)


def test_residual_layers_reach_a_given_rate():
    A, B = np.eye(2), np.linalg.inv(TARGET[1])
    des = design(TARGET, A=A, B=B, dt=0.05, decay_rate=1.0, mean_decay_rate=0.5)
    assert des.decay_rate >= 1.0 * (1 - 1e-6)
    assert des.mean_decay_rate >= 0.5 * (1 - 1e-6)
    assert isinstance(des.certificate, gct.SemiglobalStability)
    start = (np.zeros(2), 3 * TARGET[1])
    resp = gct.moment_response(des.model, np.array([0.0, 20.0]), start)
    np.testing.assert_allclose(resp.covariance[:, :, -1], TARGET[1], atol=1e-6)
    np.testing.assert_allclose(resp.mean[:, -1], TARGET[0], atol=1e-3)


def test_layers_too_large_for_the_trace_are_refused():
    with pytest.raises(gct.InfeasibleDesign, match=r"dt: tr A = 0.9 needs dt < d / tr A"):
        design(TARGET, A=SKEWED, B=KEYS, dt=2.5)


def test_one_head_leaves_residual_layers_no_choice():
    with pytest.raises(
        gct.InfeasibleDesign, match=r"B: no V makes one layer of depth 0.1 balanced"
    ):
        design(TARGET, A=[[0.6, 2.9], [-2.7, 0.3]], B=KEYS, dt=0.1)


# -- the result -----------------------------------------------------------------------------------


def test_report():
    des = design(TARGET, A=SKEWED, B=KEYS)
    text = str(des)
    assert isinstance(des, Design)
    assert text.startswith("Design, d = 2, V free, 1 head")
    for part in (
        "of the optimum 0.9, 2 tr A/d",
        "|V| =",
        "[1/x^2]",
        "covariance and mean",
        "mean ",
    ):
        assert part in text
    assert des.equilibrium.method == "design"
    assert des.equilibrium.is_stable
    np.testing.assert_allclose(des.equilibrium.mean, TARGET[0], rtol=1e-9)
    assert des.status in ("optimal", "optimal_inaccurate")


def test_the_report_says_that_an_inaccurate_point_was_verified():
    des = design(TARGET, A=SKEWED, B=KEYS)
    rough = dataclasses.replace(des, status="optimal_inaccurate")
    assert "solver     optimal_inaccurate, its point verified apart from it" in str(rough)


def test_the_report_of_layers_states_the_radius_it_speaks_of():
    des = design(TARGET, A=np.eye(2), B=np.linalg.inv(TARGET[1]), dt=0.9)
    assert isinstance(des.certificate, gct.LocalStability)
    assert "within the stated radius" in str(des)
    assert f"radius     {des.certificate.radius:.1e} (whitened" in str(des)


def test_verify_can_be_a_proof():
    pytest.importorskip("flint")
    des = design(TARGET, A=SKEWED, B=KEYS)
    assert des.verify(rigorous=True)
    worse = des.certificate.model.replace(V=-des.certificate.model.V)
    broken = dataclasses.replace(des, certificate=dataclasses.replace(des.certificate, model=worse))
    assert not broken.verify(rigorous=True)


def test_verify_notices_a_model_that_was_swapped():
    des = design(TARGET, A=SKEWED, B=KEYS)
    other = dataclasses.replace(des, model=des.model.replace(V=1.01 * des.model.V))
    assert not other.verify()


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": np.eye(2)}, r"target: expected \(mean, covariance\), found ndarray"),
        ({"target": (TARGET[0],)}, r"target: expected \(mean, covariance\), found 1 items"),
        ({"target": 3.0}, r"target: expected \(mean, covariance\), found float"),
        ({"target": (TARGET[0], -TARGET[1])}, "target covariance: expected"),
        ({"target": (TARGET[0], np.diag([1.0, 0.0]))}, "target covariance: .* needs some variance"),
        ({"target": (TARGET[0], np.eye(3))}, "target mean: expected 3 entries, as the covariance"),
        ({"A": None}, r"A: expected a matrix, since it is not among free"),
        ({"B": None}, r"B: expected a matrix, since it is not among free"),
        ({"V": KEYS}, "V: expected nothing, since free=.* leaves it to the design"),
        ({"A": np.eye(3)}, "A: expected a 2 x 2 matrix"),
        ({"B": np.eye(3)}, "B: expected shape"),
        ({"A": [[np.nan, 0], [0, 1]]}, "A: expected finite numbers"),
        ({"free": ("A",)}, r"free: expected one of .* found \('A',\)"),
        ({"free": ("V", "W")}, "free: expected one of"),
        ({"free": 3}, "free: expected one of"),
        ({"decay_rate": 0}, "decay_rate: expected a positive rate"),
        ({"decay_rate": "fast"}, "decay_rate: expected a positive rate"),
        ({"decay_rate": True}, "decay_rate: expected a positive rate"),
        ({"mean_decay_rate": -1}, "mean_decay_rate: expected a positive rate"),
        ({"norm_bound": 0}, "norm_bound: expected a positive norm"),
        ({"norm_bound": {}}, "norm_bound: expected at least one bound"),
        ({"norm_bound": {"B": 1}}, "norm_bound: expected bounds on V, which are free"),
        ({"norm_bound": {"V": np.inf}}, "norm_bound"),
        ({"n_heads": 2}, "n_heads: expected nothing, since B says how many"),
        ({"n_heads": 1.5}, "n_heads: expected a positive integer"),
        ({"dt": -1}, "dt: expected 0 or a positive number"),
        ({"constraints": []}, "constraints: expected a function"),
        ({"constraints": lambda v: 3}, "constraints: expected a list of cvxpy constraints"),
        ({"constraints": lambda v: [True]}, "constraints: expected cvxpy constraints, found bool"),
        ({"objective": 1}, "objective: expected a function"),
        ({"objective": lambda v: 1.0}, "objective: expected a scalar cvxpy expression"),
        ({"objective": lambda v: v["V"]}, "objective: expected a scalar cvxpy expression"),
        ({"objective": lambda v: -cp.norm(v["V"])}, "objective: expected a convex expression"),
        ({"initial": np.eye(2)}, "initial: expected a GaussianTransformer"),
        ({"initial": gct.GaussianTransformer(1, 1, 1)}, "initial: expected d = 2"),
        ({"constraints": lambda v: [cp.norm(v["V"]) >= 1]}, "constraints: expected convex ones"),
        ({"solver": 3}, "solver: expected one of .*CLARABEL.*, found 3"),
        ({"solver": "FOO"}, "solver: expected one of .*SCS.*, found 'FOO', which is not installed"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    arguments = {"target": TARGET, "A": SKEWED, "B": KEYS} | changes
    with pytest.raises((gct.ParameterError, gct.ShapeError), match=message) as caught:
        design(arguments.pop("target"), **arguments)
    assert "\n" not in str(caught.value)


def test_a_free_needs_a_rate_or_a_bound():
    with pytest.raises(gct.ParameterError, match="norm_bound: expected one, or a decay_rate"):
        design(TARGET, B=KEYS, free=("A", "V"))


def test_initial_must_have_as_many_heads():
    start = gct.GaussianTransformer(SKEWED, [KEYS, KEYS], [KEYS, KEYS])
    with pytest.raises(gct.ShapeError, match=r"initial: expected 1 head\(s\) as in B, found 2"):
        design(TARGET, A=SKEWED, B=KEYS, initial=start)


# -- helpers of the semidefinite room -------------------------------------------------------------


def test_equality_rows_are_the_jacobian():
    rng = np.random.default_rng(0)
    X, Y, fixed = cp.Variable((2, 3)), cp.Variable((3, 3)), cp.Variable()
    K = rng.standard_normal((2, 2))
    constraints = [K @ X == 1, X[0, 1] + fixed == 0]
    constraints += [Y == Y.T, X >= 0, cp.trace(Y) == 3]
    for variable in (X, Y, fixed):
        variable.value = rng.standard_normal(variable.shape)
    J, values = equality_rows(constraints, [X, Y])
    step = rng.standard_normal(15)
    X.value = X.value + step[:6].reshape(2, 3)
    Y.value = Y.value + step[6:].reshape(3, 3)
    _, moved = equality_rows(constraints, [X, Y])
    np.testing.assert_allclose(values + J @ step, moved, atol=1e-13)
    assert J.shape == (6 + 1 + 9 + 1, 15)


def test_linear_image_is_row_major():
    X = cp.Variable((2, 3))
    X.value = np.arange(6.0).reshape(2, 3)
    operator = np.arange(24.0).reshape(4, 6)
    image = linear_image(operator, X, (2, 2))
    np.testing.assert_array_equal(image.value, (operator @ np.arange(6.0)).reshape(2, 2))
