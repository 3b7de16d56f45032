"""Extended certificates: what they cover, what they refuse, and attacks on what they say."""

from dataclasses import replace

import numpy as np
import pytest
from flows import converge
from numpy.testing import assert_allclose
from problems import random_covariance, two_attractors
from scipy.integrate import solve_ivp

import gausscontrol as gct
from gausscontrol.analysis.spectra import covariance_abscissa
from gausscontrol.certificates.evidence import form_stability
from gausscontrol.certificates.extended import (
    check_extended,
    extended_shortfall,
    extended_stability,
)
from gausscontrol.certificates.rigorous.extended import prove_extended
from gausscontrol.errors import ParameterError
from gausscontrol.linalg.polynomials import monomials
from gausscontrol.linalg.symmetric import smat, svec

STARTS = 6


def identity_form(V, B):
    """The largest eigenvalue of q, and L without its skew part, on svec."""
    dim = V.shape[-1]
    n = dim * (dim + 1) // 2
    basis = np.moveaxis(smat(np.eye(n)), -1, 0)
    T = (V[:, None] @ basis @ B[:, None]).sum(axis=0)
    return basis, T


def ensemble(dim, count, seed):
    """Locally stable models at the identity: normal heads less u lambda_max(q) times E."""
    rng = np.random.default_rng([seed, dim])
    made = []
    while len(made) < count:
        heads = int(rng.integers(1, 3))
        V, B = rng.standard_normal((2, heads, dim, dim))
        u = rng.uniform(0.3, 1.1)
        Z = rng.standard_normal((dim, dim))
        K = (Z - Z.T) * int(rng.integers(0, 2))
        basis, T = identity_form(V, B)
        q = np.einsum("aij,bij->ab", basis, T)
        shift = u * np.linalg.eigvalsh((q + q.T) / 2)[-1]
        image = K @ basis - basis @ K + T + T.swapaxes(1, 2) - 2 * shift * basis
        if np.linalg.eigvals(svec(np.moveaxis(image, 0, -1))).real.max() < -0.05:
            V = np.concatenate([V, -shift * np.eye(dim)[None]])
            B = np.concatenate([B, np.eye(dim)[None]])
            made.append(gct.GaussianTransformer(K - (V @ B).sum(axis=0), B, V))
    return made


def attacked(models, seed, starts=STARTS, depth=5_000.0):
    """Tell of which models, whitened, all adversarial starts reach the identity."""
    rng = np.random.default_rng(seed)
    fine = np.zeros(len(models), dtype=bool)
    for heads in {model.n_heads for model in models}:
        here = [i for i, model in enumerate(models) if model.n_heads == heads]
        stack = [
            np.array([getattr(models[i], key) for i in here]).repeat(starts, axis=0)
            for key in "AVB"
        ]
        dim = models[here[0]].dim
        axes = np.linalg.qr(rng.standard_normal((len(stack[0]), dim, dim)))[0]
        L = axes * 10 ** (rng.uniform(-6, 4, (len(axes), 1, dim)) / 2)
        fine[here] = converge(*stack, L, depth=depth).reshape(-1, starts).all(axis=1)
    return fine


def fixed(dim=2, seed=2026, index=0, degree=2):
    """The index-th model of an ensemble that the form does not certify and a degree does."""
    found = -1
    for model in ensemble(dim, 40, seed):
        if form_stability(model, np.eye(dim)).margin > 0:
            continue
        evidence = extended_stability(model, np.eye(dim), degree)
        found += evidence.margin > 0
        if found == index:
            return model, evidence
    raise AssertionError("no such model")


@pytest.fixture(scope="module")
def case():
    return fixed()


# -- coverage and attack --------------------------------------------------------------------------


def coverage(dim, count, seed, degree, higher=0, depth=60.0):
    """Return who is certified by form, by degree 2, by `degree` too, and whose starts converge.

    Higher degrees are tried where degree 2 fails, on `higher` models whose starts converge. Starts
    of certified models that take longer than a depth are followed to 50,000 before anything is
    called refuted: one of 500 leaves a singular equilibrium at the rate 0.0009.
    """
    models, identity = ensemble(dim, count, seed), np.eye(dim)
    form = np.array([form_stability(model, identity).margin > 0 for model in models])
    two = np.array([extended_stability(model, identity, 2).margin > 0 for model in models])
    assert not (form & ~two).any()
    settled = attacked(models, seed, depth=depth)
    auto = two.copy()
    for i in np.flatnonzero(settled & ~two)[:higher]:
        auto[i] = extended_stability(models[i], identity, degree).margin > 0
    late = np.flatnonzero(auto & ~settled)
    if late.size:
        assert attacked([models[i] for i in late], seed, depth=50_000.0).all()
        settled[late] = True
    return form, two, auto, settled


def test_coverage_at_two_dimensions_and_none_is_refuted():
    form, two, auto, settled = coverage(2, 20, 1, None, higher=20)
    assert auto.sum() >= 2 * form.sum() > 0
    assert auto.sum() >= 0.85 * settled.sum()
    assert auto.sum() > two.sum()


def test_coverage_at_three_dimensions_and_none_is_refuted():
    form, two, _, settled = coverage(3, 16, 3, None)
    assert two.sum() > form.sum() > 0
    assert two.sum() >= 0.65 * settled.sum()


@pytest.mark.slow
def test_coverage_of_five_hundred_models():
    form, _, auto, settled = coverage(2, 500, 2026, None, higher=500, depth=5_000.0)
    assert auto.sum() >= 2 * form.sum()
    assert auto.sum() >= 0.85 * settled.sum()
    form, two, auto, settled = coverage(3, 500, 2026, 4, higher=6, depth=5_000.0)
    assert two.sum() >= 2 * form.sum()
    assert two.sum() >= 0.65 * settled.sum()
    assert auto.sum() > two.sum()


def test_nearly_marginal_models_are_not_refuted():
    # The identity map is taken away until the certificate is all but lost.
    models = []
    for model in ensemble(2, 24, 7):
        V, B = model.V[:-1], model.B[:-1]
        low, high = 0.0, float(-model.V[-1, 0, 0])
        if high <= 0 or not extended_stability(model, np.eye(2), 2).margin > 0:
            continue
        K = model.A + (model.V @ model.B).sum(axis=0)
        for _ in range(9):
            middle = (low + high) / 2
            heads = np.concatenate([V, -middle * np.eye(2)[None]])
            keys = np.concatenate([B, np.eye(2)[None]])
            trial = gct.GaussianTransformer(K - (heads @ keys).sum(axis=0), keys, heads)
            if extended_stability(trial, np.eye(2), 2).margin > 0:
                high, kept = middle, trial
            else:
                low = middle
        models.append(kept)
    assert len(models) >= 4
    assert attacked(models[:6], 3, starts=3).all()


# -- what the evidence says -----------------------------------------------------------------------


@pytest.mark.parametrize("degree", [2, 4, 6])
def test_the_identity_holds_at_points(case, degree):
    model, _ = case
    evidence = extended_stability(model, np.eye(2), degree)
    witness = evidence.witness
    assert evidence.margin > 0
    assert evidence.data["residual"] < 1e-10
    rng = np.random.default_rng(degree)
    basis = monomials(3, 1, degree // 2)

    def p(e):
        z = np.prod(e[None] ** basis.exponents, axis=1) * basis.weight
        return z @ witness.Phi @ z / 2

    for e in rng.standard_normal((5, 3)):
        E = smat(e)
        rate = svec(sum(plain_rate(model, np.eye(2) + E)))
        slope = np.array([p(e + 1e-30j * unit).imag / 1e-30 for unit in np.eye(3)])
        form = np.sum(E * (model.V @ E @ model.B).sum(axis=0))
        z = basis(e)
        lift = np.kron(z[:, None], np.eye(2))
        right = witness.alpha * e @ e + z @ witness.Q @ z
        right += np.trace(lift.T @ witness.G @ lift @ (np.eye(2) + E))
        assert_allclose(2 * witness.eta * form + slope @ rate, -right, rtol=1e-8)


def plain_rate(model, S):
    drift = (model.A + (model.V @ S @ model.B).sum(axis=0)) @ S
    return drift, drift.T


def test_the_lyapunov_function_decreases_along_trajectories(case):
    model, evidence = case
    witness = evidence.witness
    rng = np.random.default_rng(4)
    for _ in range(4):
        S0 = random_covariance(rng, 2, condition=1e3)
        path = solve_ivp(
            lambda t, s: sum(plain_rate(model, s.reshape(2, 2))).reshape(-1),
            (0, 3),
            S0.reshape(-1),
            rtol=1e-9,
            atol=1e-12,
            t_eval=np.linspace(0, 3, 40),
        )
        covariances = path.y.T.reshape(-1, 2, 2)
        values = np.array([witness.lyapunov_function(S) for S in covariances])
        squares = ((covariances - np.eye(2)) ** 2).sum(axis=(1, 2))
        assert (np.diff(values) <= 0).all()
        # V falls at least by alpha times the integral of |E|^2.
        fallen = witness.alpha * np.trapezoid(squares, path.t)
        assert values[0] - values[-1] >= 0.9 * fallen > 0
    assert witness.lyapunov_function(np.eye(2)) == 0
    assert witness.lyapunov_function(np.diag([1.0, 0.0])) == np.inf


def test_the_rate_is_one_that_the_linearisation_keeps(case):
    model, evidence = case
    assert 0 < evidence.rate <= -covariance_abscissa(model)
    hessian = evidence.witness.hessian
    assert_allclose(evidence.rate, evidence.witness.alpha / np.linalg.eigvalsh(hessian)[-1])


def test_higher_degrees_certify_more():
    more = None
    for model in ensemble(2, 60, 2026):
        two, four = (extended_stability(model, np.eye(2), k).margin > 0 for k in (2, 4))
        assert four or not two
        if four and not two:
            more = model
            break
    evidence = extended_stability(more, np.eye(2), None)
    assert evidence.data["degree"] == evidence.witness.degree == 4
    assert evidence.margin > 0


@pytest.mark.parametrize("power", [-8, 8])
def test_units_gauge_and_coordinates_do_not_matter(case, power):
    model, evidence = case
    factor = 10.0**power
    gauged = gct.GaussianTransformer(model.A, model.B / factor, model.V * factor)
    assert_allclose(extended_stability(gauged, np.eye(2)).rate, evidence.rate, rtol=1e-4)
    R = np.array([[2.0, 0.3], [-0.5, 0.7]]) * 10.0 ** (power / 2)
    moved = model.transform(R)
    found = extended_stability(moved, R @ R.T)
    assert found.margin > 0
    assert_allclose(found.rate, evidence.rate, rtol=1e-4)
    slow = gct.GaussianTransformer(model.A * factor, model.B, model.V * factor)
    assert_allclose(extended_stability(slow, np.eye(2)).rate, factor * evidence.rate, rtol=1e-4)


def test_one_dimension():
    model = gct.GaussianTransformer(1.5, 0.5, -1.0)
    evidence = extended_stability(model, np.array([[3.0]]), None)
    assert evidence.margin > 0
    assert evidence.mean_stable
    assert evidence.rate <= 3.0


# -- the check ------------------------------------------------------------------------------------


def test_the_check_needs_only_the_witness(case):
    model, evidence = case
    again = check_extended(model, np.eye(2), evidence.witness)
    assert again.margin == evidence.margin
    assert again.rate == evidence.rate


def changed(witness, name, change):
    value = getattr(witness, name)
    return replace(witness, **{name: change(value)})


def spoilt(X):
    X = X.copy()
    X[0, 0] = np.nan
    return X


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("Q", lambda Q: Q - 0.05 * np.eye(len(Q))),
        ("Q", lambda Q: 1.5 * Q),
        ("G", lambda G: 1.01 * G),
        ("G", lambda G: G + 1e-2 * np.eye(len(G))),
        ("Phi", lambda Phi: 0.9 * Phi),
        ("Phi", lambda Phi: -Phi),
        ("eta", lambda eta: -eta),
        ("eta", lambda eta: 2 * eta),
        ("alpha", lambda alpha: 10 * alpha),
        ("alpha", lambda alpha: -alpha),
        ("Q", spoilt),
        ("G", spoilt),
        ("Phi", spoilt),
        ("alpha", lambda alpha: np.nan),
        ("eta", lambda eta: np.inf),
        ("degree", lambda degree: 4),
        ("degree", lambda degree: 3),
        ("G", lambda G: G[:3, :3]),
    ],
)
def test_a_changed_witness_is_refused(case, name, change):
    model, evidence = case
    found = check_extended(model, np.eye(2), changed(evidence.witness, name, change))
    assert not found.margin > 0
    assert found.rate == 0
    assert not found.mean_stable


def test_a_witness_of_another_model_is_refused(case):
    model, evidence = case
    other = model.replace(V=model.V * 1.01, A=model.A * 1.01 + 0.2 * np.array([[0, 1], [-1, 0]]))
    assert not check_extended(other, np.eye(2), evidence.witness).margin > 0


def test_a_rough_equilibrium_costs_margin_and_then_the_certificate(case):
    model, evidence = case
    near = np.eye(2) + 1e-7 * np.array([[1.0, 0.5], [0.5, -1.0]])
    found = extended_stability(model, near)
    assert evidence.data["defect"] < found.data["defect"]
    assert found.margin < evidence.margin
    with pytest.raises(gct.NotCertified, match="polish"):
        extended_stability(model, 1.05 * np.eye(2))


@pytest.mark.parametrize(("dim", "degree", "count"), [(2, 2, 6), (2, 4, 4), (3, 2, 4)])
def test_ball_arithmetic_proves_what_the_check_accepts(dim, degree, count):
    pytest.importorskip("flint")
    proved = 0
    for model in ensemble(dim, count, 77):
        found = extended_stability(model, np.eye(dim), degree)
        if found.margin > 0:
            assert prove_extended(model, np.eye(dim), found.witness, found.radius, rate=found.rate)
            proved += 1
    assert proved >= 2


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [2, 4, 6])
def test_two_attractors_are_not_certified(degree):
    model, second = two_attractors()
    evidence = extended_stability(model, np.eye(2), degree)
    assert not evidence.margin > 0
    assert "no V of degree" in extended_shortfall(evidence)
    with pytest.raises(gct.NotCertified, match="exact one"):
        extended_stability(model, second, degree)


def test_positive_products_of_indefinite_factors_are_not_certified():
    # V = diag(1, -5), B = diag(-1, 5) is not even locally stable.
    V, B = np.diag([1.0, -5.0]), np.diag([-1.0, 5.0])
    model = gct.GaussianTransformer(-V @ B, B, V)
    evidence = extended_stability(model, np.eye(2), None)
    assert not evidence.margin > 0
    assert "locally stable" in extended_shortfall(evidence)


def test_a_negative_trace_is_hopeless():
    # A spiral: locally stable although tr A < 0.
    model = next(m for m in ensemble(2, 400, 5) if np.trace(m.A) < 0)
    evidence = extended_stability(model, np.eye(2), None)
    assert evidence.margin == np.trace(model.A)
    assert "tr A" in extended_shortfall(evidence)


def test_large_models_are_not_tried_by_default():
    model = gct.GaussianTransformer(np.eye(6), np.eye(6), -np.eye(6))
    evidence = extended_stability(model, np.eye(6), None)
    assert not evidence.margin > 0
    assert "minutes" in extended_shortfall(evidence)


@pytest.mark.parametrize("degree", [0, 3, -2, 2.5, True, "2"])
def test_degrees_are_even_and_positive(case, degree):
    with pytest.raises(ParameterError, match="degree: expected 2, 4, 6"):
        extended_stability(case[0], np.eye(2), degree)
