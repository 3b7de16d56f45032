"""Regions of attraction: known basins, sampling, attack, tampering, invariance, bad input."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from problems import plain_attention_form, plain_rates, random_covariance
from test_soundness import converge

import gausscontrol as gct
from gausscontrol.analysis.enclosure import WhitenedPoint
from gausscontrol.certificates import region_search
from gausscontrol.certificates.linearisation import in_whitened_svec
from gausscontrol.certificates.region import certify_region_of_attraction
from gausscontrol.certificates.region_identity import (
    LocalField,
    Witness,
    certified_decay,
    level_identity,
    quadratic_part,
)
from gausscontrol.certificates.region_search import explicit
from gausscontrol.errors import NotCertified, ParameterError
from gausscontrol.linalg.polynomials import monomials
from gausscontrol.linalg.symmetric import smat, svec

IDENTITY = np.eye(2)
# Sigma = I is stable, large covariances blow up; V = -I, so the basin is known exactly.
SPIRAL = gct.GaussianTransformer([[1.0, 1.5], [-1.5, -0.5]], np.diag([1.0, -0.5]), -IDENTITY)


def tampered(certificate, **changes):
    twin = copy.copy(certificate)
    for name, value in changes.items():
        object.__setattr__(twin, name, value)
    return twin


def locally_stable(rng, dim):
    """A model at I with abscissa below -.05 whose attention form is indefinite."""
    while True:
        heads = int(rng.integers(1, 3))
        V, B = rng.standard_normal((2, heads, dim, dim))
        top = np.linalg.eigvalsh(plain_attention_form(V, B))[-1]
        # Always three heads, so that models can be stacked.
        spare = np.zeros((2 - heads, dim, dim))
        V = np.concatenate([V, -rng.uniform(0.3, 1.1) * top * np.eye(dim)[None], spare])
        B = np.concatenate([B, np.eye(dim)[None], spare])
        Z = rng.standard_normal((dim, dim))
        K = Z - Z.T if rng.integers(2) else np.zeros((dim, dim))
        model = gct.GaussianTransformer(K - (V @ B).sum(axis=0), B, V)
        if np.linalg.eigvalsh(plain_attention_form(V, B))[-1] < 0:
            continue
        try:
            equilibrium = gct.find_equilibrium(model, np.eye(dim))
        except gct.EquilibriumNotFound:
            continue
        if equilibrium.covariance_abscissa < -0.05:
            return model, equilibrium


def inside(rng, region, count):
    """Starts in a region, every other one on its edge."""
    P = in_whitened_svec(region.lyapunov_matrix, region.covariance)
    y = rng.standard_normal((len(P), count))
    y *= np.where(np.arange(count) % 2, 1 - 1e-9, rng.uniform(0, 1, count)) / np.linalg.norm(
        y, axis=0
    )
    e = np.sqrt(region.level) * np.linalg.solve(np.linalg.cholesky(P).T, y)
    root = scipy.linalg.sqrtm(region.covariance)
    return region.covariance + root @ np.moveaxis(smat(e), -1, 0) @ root


@pytest.fixture(scope="module")
def spiral():
    return certify_region_of_attraction(SPIRAL, IDENTITY)


@pytest.fixture(scope="module")
def bent():
    """A region in other coordinates, of condition 25."""
    R = np.array([[2.0, 0.5], [0.0, 0.4]])
    return certify_region_of_attraction(SPIRAL.transform(R), R @ R.T), R


# -- what a region claims -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["norm", "sos"])
def test_one_dimension_reaches_almost_to_zero(method):
    # s' = 2 (1/2 - s/4) s: the interval (0, 4) around 2, whose left end is the equilibrium 0.
    region = certify_region_of_attraction(
        gct.GaussianTransformer(0.5, 1.0, -0.25), [[2.0]], method=method
    )
    assert 0.98 < region.radius < 1
    assert region.contains([[0.05]])
    assert region.contains([[3.95]])
    assert not region.contains([[0.0]])
    assert region.lyapunov_function([[2.0]]) == 0


def test_sums_of_squares_beat_the_norm_bound(spiral):
    norm = certify_region_of_attraction(SPIRAL, IDENTITY, method="norm")
    sos = certify_region_of_attraction(SPIRAL, IDENTITY, method="sos")
    assert norm.method == "norm"
    assert norm.witness is None
    assert spiral.method == sos.method == "sos"
    assert spiral.level == sos.level > 16 * norm.level
    assert np.array_equal(norm.lyapunov_matrix, sos.lyapunov_matrix)
    assert spiral.data["norm_level"] == norm.level
    assert norm.verify()
    assert spiral.verify()


def test_norm_bound_is_that_of_the_formula():
    model = SPIRAL
    norm = certify_region_of_attraction(model, IDENTITY, method="norm")
    P = in_whitened_svec(norm.lyapunov_matrix, IDENTITY)
    E = np.moveaxis(smat(np.eye(3)), -1, 0)
    K = model.A + model.attention(IDENTITY)
    J = np.stack([svec((K @ X + model.attention(X)) + (K @ X + model.attention(X)).T) for X in E]).T
    Q = -(J.T @ P + P @ J)
    nu = np.linalg.norm(model.V[0], 2) * np.linalg.norm(model.B[0], 2)
    reach = np.linalg.eigvalsh(Q)[0] / (4 * nu * np.linalg.norm(P, 2))
    assert norm.level == pytest.approx(np.linalg.eigvalsh(P)[0] * reach**2, rel=3e-3)


def test_v_decreases_at_the_rate_of_the_margin(bent):
    region, _ = bent
    for S in inside(np.random.default_rng(0), region, 400):
        _, rate = plain_rates(region.model, np.zeros(2), S)
        e, slope = gct.vech(S - region.covariance), gct.vech(rate)
        V = e @ region.lyapunov_matrix @ e
        assert pytest.approx(region.lyapunov_function(S), rel=1e-9) == V
        assert 2 * slope @ region.lyapunov_matrix @ e <= -(1 - 1e-6) * region.margin * V


def test_no_start_of_the_exact_complement_is_inside(spiral):
    # X = Sigma^-1 moves to I + e^{-A^T t} (X - I) e^{-A t} and must stay positive definite.
    flows = np.stack([scipy.linalg.expm(-SPIRAL.A * t) for t in np.linspace(0, 12, 61)])
    rng = np.random.default_rng(1)
    escaping = 0
    for scale in np.tile([0.05, 0.3, 1.0, 3.0], 30):
        E = rng.standard_normal((2, 2))
        S = scipy.linalg.expm(scale * (E + E.T))
        path = IDENTITY + flows.swapaxes(1, 2) @ (np.linalg.inv(S) - IDENTITY) @ flows
        escapes = np.linalg.eigvalsh(path).min() <= 0
        escaping += escapes
        assert not (escapes and spiral.contains(S))
    assert escaping > 10


def test_region_lies_in_the_open_cone(spiral):
    angle = np.linspace(0, np.pi, 181)
    for u in np.stack([np.cos(angle), np.sin(angle)], axis=1):
        assert not spiral.contains(IDENTITY - np.outer(u, u))
    assert spiral.radius < 1


def test_ball_is_inside_and_no_larger_one_is(bent):
    region, _ = bent
    P = in_whitened_svec(region.lyapunov_matrix, region.covariance)
    root = scipy.linalg.sqrtm(region.covariance)
    worst = smat(np.linalg.eigh(P)[1][:, -1])
    for factor, held in ((1 - 1e-6, True), (1 + 1e-6, False)):
        S = region.covariance + factor * region.radius * root @ worst @ root
        assert region.contains(S) == held


def test_no_start_in_random_regions_escapes():
    rng = np.random.default_rng(2)
    ratios, models, starts = [], [], []
    for _ in range(8):
        model, equilibrium = locally_stable(rng, 2)
        norm = certify_region_of_attraction(model, equilibrium, method="norm")
        sos = certify_region_of_attraction(model, equilibrium, method="sos")
        assert sos.level >= norm.level
        ratios.append(np.sqrt(sos.level / norm.level))
        models += [model] * 40
        starts.append(inside(rng, sos, 40))
    assert np.median(ratios) > 5
    matrices = (np.array([getattr(model, name) for model in models]) for name in "AVB")
    S = np.concatenate(starts)
    assert np.linalg.eigvalsh(S).min() > 0
    assert converge(*matrices, np.linalg.cholesky(S)).all()


def test_three_dimensions():
    model, equilibrium = locally_stable(np.random.default_rng(5), 3)
    region = certify_region_of_attraction(model, equilibrium)
    assert region.method == "sos"
    assert region.level > region.data["norm_level"]
    assert region.verify()


def test_five_dimensions_need_no_solver(monkeypatch):
    model, equilibrium = locally_stable(np.random.default_rng(5), 5)
    monkeypatch.setattr(region_search, "Program", None)
    region = certify_region_of_attraction(model, equilibrium)
    assert region.method == "sos"
    assert region.level > 2 * region.data["norm_level"]
    assert region.verify()
    assert not tampered(region, level=1.2 * region.level).verify()


def test_closed_form_lies_between_the_norm_bound_and_the_programme(spiral):
    field = LocalField(WhitenedPoint(SPIRAL, IDENTITY), 0.0, spiral.witness.coordinates)
    scale, witness = explicit(field)
    assert spiral.data["norm_level"] < scale**2 < spiral.level
    assert certified_decay(field, scale, witness) > 0
    assert certified_decay(field, 1.02 * scale, witness) < 0


def test_large_models_get_the_norm_bound():
    model, equilibrium = locally_stable(np.random.default_rng(3), 9)
    region = certify_region_of_attraction(model, equilibrium)
    assert region.method == "norm"
    assert region.verify()
    with pytest.raises(NotCertified, match="d = 9"):
        certify_region_of_attraction(model, equilibrium, method="sos")


def test_mean_needs_no_region(spiral):
    assert spiral.mean_stable
    assert spiral.scope == "covariance and mean"
    # The same attention with the gauge (V, B) -> (-V, -B) has an unstable mean.
    flipped = gct.GaussianTransformer(SPIRAL.A, -SPIRAL.B[0], -SPIRAL.V[0])
    other = certify_region_of_attraction(flipped, IDENTITY)
    assert not other.mean_stable
    assert other.scope == "covariance"
    assert other.level == pytest.approx(spiral.level, rel=1e-6)


def test_report(spiral):
    report = str(spiral)
    assert "V < 0.00" in report
    assert "whitened Frobenius norm" in report
    assert spiral.statement.startswith("every Gaussian")


# -- invariance -----------------------------------------------------------------------------------


def test_coordinates_do_not_matter(spiral, bent):
    region, R = bent
    assert region.radius == pytest.approx(spiral.radius, rel=1e-2)
    for S in inside(np.random.default_rng(4), spiral, 40):
        for factor, held in ((0.98, True), (1.2, None), (3.0, None)):
            moved = IDENTITY + factor * (S - IDENTITY)
            if np.linalg.eigvalsh(moved)[0] > 0:
                held = spiral.contains(moved) if held is None else held
                assert region.contains(R @ moved @ R.T) == held


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_head_gauge_does_not_matter(spiral, scale):
    model = gct.GaussianTransformer(SPIRAL.A, SPIRAL.B / scale, SPIRAL.V * scale)
    region = certify_region_of_attraction(model, IDENTITY)
    assert region.level == pytest.approx(spiral.level, rel=1e-4)


# -- the check ------------------------------------------------------------------------------------


def test_identity_holds_at_points(spiral):
    witness = spiral.witness
    field = LocalField(WhitenedPoint(SPIRAL, IDENTITY), 0.0, witness.coordinates)
    scale = np.sqrt(spiral.level)
    rng = np.random.default_rng(6)
    for y in rng.standard_normal((20, 3)):
        E = scale * smat(witness.coordinates @ y)
        _, rate = plain_rates(SPIRAL, np.zeros(2), IDENTITY + E)
        decay = -2 * y @ np.linalg.solve(witness.coordinates, svec(rate)) / scale
        S = np.einsum("a,aibj,b->ij", y, witness.cone.reshape(3, 2, 3, 2), y)
        z = np.concatenate([y, svec(np.outer(y, y))])
        parts = (
            (y @ witness.multiplier @ y) * (1 - y @ y),
            np.sum(S * (IDENTITY + E)),
            z @ witness.gram @ z,
            witness.rate * (y @ y),
        )
        assert sum(parts) == pytest.approx(decay, abs=1e-6 * (1 + y @ y) ** 2)
    assert certified_decay(field, scale, witness) == pytest.approx(spiral.margin, rel=1e-3)


def test_quadratic_part_against_the_formula():
    model, _ = locally_stable(np.random.default_rng(7), 3)
    N = quadratic_part(model)
    assert np.array_equal(N, N.transpose(0, 2, 1))
    e = np.random.default_rng(8).standard_normal(6)
    E, T = smat(e), model.attention(smat(e))
    assert np.allclose(np.einsum("ijk,j,k", N, e, e), svec(T @ E + E @ T.T))


def test_a_witness_is_not_trusted(spiral):
    witness = spiral.witness
    field = LocalField(WhitenedPoint(SPIRAL, IDENTITY), 0.0, witness.coordinates)
    scale = np.sqrt(spiral.level)
    negative = np.diag([-1.0, 0.0, 0.0])
    changes = (
        {"rate": witness.rate + 1e-2},
        {"multiplier": witness.multiplier + 1e-2 * negative},
        {"multiplier": witness.multiplier + 1e-2 * np.eye(3)},
        {"cone": witness.cone - 1e-2 * np.eye(6)},
        {"cone": witness.cone + 1e-2 * np.eye(6)},
        {"gram": witness.gram - 1e-2 * np.eye(9)},
    )
    for change in changes:
        assert certified_decay(field, scale, replace(witness, **change)) < 0
    assert certified_decay(field, 1.2 * scale, witness) < 0
    zero = Witness(witness.coordinates, np.zeros((3, 3)), np.zeros((6, 6)), np.zeros((9, 9)), 1.0)
    assert certified_decay(field, scale, zero) < 0


def test_nothing_is_certified_where_the_matrices_lack_what_the_identity_hides(spiral):
    """An identity that holds exactly, by a Gram matrix that is not semidefinite."""
    witness = spiral.witness
    field = LocalField(WhitenedPoint(SPIRAL, IDENTITY), 0.0, witness.coordinates)
    scale = 3 * np.sqrt(spiral.level)
    identity = level_identity(field, scale)
    exact = identity.correct(witness.unknowns, keep=(0, 1, 3))
    assert np.abs(identity.residual(exact)).max() < 1e-12
    gram = smat(identity.split(exact)[2])
    assert len(gram) == len(monomials(3, 1, 2))
    assert certified_decay(field, scale, replace(witness, gram=gram)) < 0


def test_tampering_shows(spiral):
    norm = certify_region_of_attraction(SPIRAL, IDENTITY, method="norm")
    for region in (spiral, norm):
        assert region.verify()
        assert not tampered(region, level=1.2 * region.level).verify()
        assert not tampered(region, level=-region.level).verify()
        assert not tampered(region, radius=1.1 * region.radius).verify()
        assert not tampered(region, lyapunov_matrix=np.eye(3)).verify()
        assert not tampered(region, lyapunov_matrix=-region.lyapunov_matrix).verify()
        assert not tampered(region, covariance=1.01 * IDENTITY).verify()
        assert not tampered(region, model=SPIRAL.replace(A=SPIRAL.A + 0.1)).verify()
    unstable = gct.GaussianTransformer(SPIRAL.A, -SPIRAL.B[0], -SPIRAL.V[0])
    assert not tampered(spiral, model=unstable).verify()
    assert not tampered(spiral, witness=None).verify()


def test_distance_to_the_equilibrium_comes_off_the_level(spiral):
    rough = IDENTITY + 2e-5 * np.array([[1.0, 0.5], [0.5, -1.0]])
    region = certify_region_of_attraction(SPIRAL, rough)
    assert 1e-6 < region.data["existence_radius"] < 1e-3
    assert region.level < spiral.level
    assert region.verify()


def test_a_solver_that_fails_is_no_verdict(monkeypatch):
    def fail(*_, **__):
        raise gct.GausscontrolError("unexpected")

    monkeypatch.setattr(region_search.Program, "solve", fail)
    with pytest.raises(gct.GausscontrolError, match="unexpected"):
        certify_region_of_attraction(SPIRAL, IDENTITY)

    def refuse(*_, **__):
        raise region_search.SolverError("no point", status="failed")

    monkeypatch.setattr(region_search.Program, "solve", refuse)
    assert certify_region_of_attraction(SPIRAL, IDENTITY).method == "norm"
    with pytest.raises(NotCertified, match="method='norm'"):
        certify_region_of_attraction(SPIRAL, IDENTITY, method="sos")


# -- refusals -------------------------------------------------------------------------------------


def test_unstable_equilibrium_is_refused():
    model = gct.GaussianTransformer(-IDENTITY, IDENTITY, IDENTITY)
    with pytest.raises(NotCertified) as raised:
        certify_region_of_attraction(model, IDENTITY)
    assert "\n" not in str(raised.value)


def test_what_is_no_equilibrium_is_refused():
    with pytest.raises(NotCertified, match="polish"):
        certify_region_of_attraction(SPIRAL, 1.2 * IDENTITY)


def test_residual_layers_are_referred_elsewhere():
    with pytest.raises(NotCertified, match="certify_semiglobal_stability"):
        certify_region_of_attraction(SPIRAL.replace(dt=0.1), IDENTITY)


def test_badly_scaled_coordinates_are_named():
    angle = np.array([[0.8, -0.6], [0.6, 0.8]])
    R = np.diag([1.0, 1e5]) @ angle
    R = angle @ R
    with pytest.raises(NotCertified, match="condition number 1e"):
        certify_region_of_attraction(SPIRAL.transform(R), R @ R.T, method="norm")


def test_bad_input(spiral):
    with pytest.raises(ParameterError, match="method: expected one of auto, norm, sos"):
        certify_region_of_attraction(SPIRAL, IDENTITY, method="best")
    with pytest.raises(ParameterError, match="model"):
        certify_region_of_attraction(IDENTITY, IDENTITY)
    with pytest.raises(ParameterError):
        certify_region_of_attraction(SPIRAL, np.diag([1.0, 0.0]))
    with pytest.raises(gct.ShapeError):
        spiral.contains(np.eye(3))
    with pytest.raises(ParameterError):
        spiral.contains(np.diag([1.0, -1.0]))


def test_inputs_are_left_alone():
    Sigma = random_covariance(np.random.default_rng(9), 2, condition=3)
    R = np.linalg.cholesky(Sigma)
    before = Sigma.copy()
    certify_region_of_attraction(SPIRAL.transform(R), Sigma, method="norm").contains(Sigma)
    assert np.array_equal(Sigma, before)
