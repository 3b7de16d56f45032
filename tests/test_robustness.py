"""The robustness radius: known answers, attacks at the radius, laws, tampering, bad input."""

import copy

import numpy as np
import pytest
from problems import planted_problem

import gausscontrol as gct
from gausscontrol.analysis.enclosure import WhitenedPoint
from gausscontrol.certificates.perturbation import Moves, WhitenedMoves, _worst
from gausscontrol.certificates.robustness import robustness_radius

SCALAR = gct.GaussianTransformer(1.0, 1.0, -1.0)


def planted(seed, dim=2, heads=1):
    model, Sigma = planted_problem(np.random.default_rng(seed), dim, heads, 1.0)
    return model, gct.find_equilibrium(model, Sigma).covariance


def local_only(rng, dim=2):
    """A locally stable model at Sigma* = I whose form is indefinite."""
    while True:
        V, B, Z = rng.standard_normal((3, dim, dim))
        model = gct.GaussianTransformer((Z - Z.T) - V @ B, B, V)
        try:
            gct.certify_global_stability(model, np.eye(dim), method="form")
        except gct.NotCertified:
            pass
        else:
            continue
        try:
            if -gct.find_equilibrium(model, np.eye(dim)).covariance_abscissa > 0.3:
                return model
        except gct.EquilibriumNotFound:
            continue


def direction(rng, dim):
    """A matrix of spectral norm 1: orthogonal, of rank 1, or the sign of a random symmetric one."""
    U, W = np.linalg.qr(rng.standard_normal((2, dim, dim)))[0]
    kind = rng.integers(3)
    if kind == 0:
        return U
    if kind == 1:
        return np.outer(U[0], W[0])
    return U * rng.choice([-1.0, 1.0], dim) @ U.T


def moved(model, rng, size):
    """The model with every matrix moved by `size(matrix)` in a random extreme direction."""

    def move(M):
        return M + size(M) * direction(rng, model.dim)

    return model.replace(
        A=move(model.A),
        V=np.stack([move(v) for v in model.V]),
        B=np.stack([move(b) for b in model.B]),
    )


def spectral(M):
    return np.linalg.norm(M, 2)


# -- attacks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "heads"), [(1, 1), (2, 1), (2, 2), (3, 1), (4, 2)])
def test_no_move_within_the_radius_loses_global_stability(dim, heads):
    rng = np.random.default_rng(dim)
    model, Sigma = planted(dim, dim, heads)
    robust = robustness_radius(model, Sigma)
    assert robust.kind == "global"
    assert robust.verify()
    for size in (lambda M: robust.radius, lambda M: robust.relative_radius * spectral(M)):
        for _ in range(30):
            other = moved(model, rng, size)
            found = gct.find_equilibrium(other, Sigma)
            certificate = gct.certify_global_stability(other, found, method="form")
            assert certificate.verified
            assert robust.covers(other)
            gap = np.linalg.norm(found.covariance - Sigma)
            assert gap <= robust.displacement_of(other)
            if size(model.A) == robust.radius:
                assert gap <= robust.displacement


def worst_directions(model, Sigma, step):
    """Signs of the gradient of the form's margin: the worst moves to first order."""
    parts = [model.A, model.V, model.B]

    def margin(parts):
        other = gct.GaussianTransformer(parts[0], parts[2], parts[1])
        found = gct.find_equilibrium(other, Sigma)
        return gct.analyze(other, found).attention_form_margin

    base, worst = margin(parts), []
    for place, part in enumerate(parts):
        gradient = np.zeros_like(part)
        for index in np.ndindex(part.shape):
            shifted = [p.copy() for p in parts]
            shifted[place][index] += step
            gradient[index] = (margin(shifted) - base) / step
        U, _, W = np.linalg.svd(gradient)
        worst.append(-U @ W)
    return margin, parts, worst


def test_the_worst_direction_within_the_radius_and_beyond():
    for seed in range(3):
        model, Sigma = planted(seed)
        robust = robustness_radius(model, Sigma)
        margin, parts, worst = worst_directions(model, Sigma, 1e-3 * robust.radius)

        def at(factor, margin=margin, parts=parts, worst=worst, r=robust.radius):
            return margin([p + factor * r * w for p, w in zip(parts, worst, strict=True)])

        assert at(1.0) > 0
        # The radius is a lower bound, yet not an idle one: the verdict is lost within 1000 of it.
        factor = 2.0
        while factor < 1000:
            try:
                if at(factor) < 0:
                    break
            except gct.EquilibriumNotFound:
                break
            factor *= 1.5
        assert factor < 1000


def test_no_move_within_the_radius_loses_local_stability():
    rng = np.random.default_rng(1)
    for _ in range(4):
        model = local_only(rng)
        robust = robustness_radius(model, np.eye(2))
        assert robust.kind == "local"
        assert "near this one" in robust.statement
        assert robust.verify()
        for _ in range(20):
            other = moved(model, rng, lambda M, r=robust.radius: r)
            found = gct.find_equilibrium(other, np.eye(2))
            assert found.covariance_abscissa < 0
            assert np.linalg.norm(found.covariance - np.eye(2)) <= robust.displacement


def test_the_mean_follows_up_to_its_radius():
    rng = np.random.default_rng(2)
    seen = set()
    for seed in range(8):
        model, Sigma = planted(seed)
        robust = robustness_radius(model, Sigma)
        assert 0 <= robust.mean_radius <= robust.radius
        whole = robust.mean_radius == robust.radius
        assert robust.scope == ("covariance and mean" if whole else "covariance")
        seen.add(whole)
        for _ in range(10):
            other = moved(model, rng, lambda M, r=robust.mean_radius: r)
            if robust.mean_radius > 0:
                assert gct.find_equilibrium(other, Sigma).mean_abscissa < 0
    assert True in seen


# -- known answers and laws -----------------------------------------------------------------------


def test_scalar_model_by_hand():
    # d = 1: q = v b sigma* = -a, stable as long as a > 0 and v b < 0; so r < 1 for a = b = -v = 1.
    robust = robustness_radius(SCALAR, 1.0)
    assert robust.kind == "global"
    assert 0.05 < robust.radius < 1
    # a, v and b have norm 1: both radii are one number, and the worst equilibrium is known.
    assert robust.relative_radius == pytest.approx(robust.radius, rel=1e-3)
    r = robust.radius
    assert robust.displacement >= (1 + r) / (1 - r) ** 2 - 1


def test_bounds_in_whitened_coordinates_hold():
    rng = np.random.default_rng(3)
    model, Sigma = planted(3, 3, 2)
    point = WhitenedPoint(model, Sigma)
    bounds = WhitenedMoves(point, Sigma)
    white = model.whiten(Sigma)
    J = gct.analyze(model, gct.find_equilibrium(model, Sigma))
    assert J.is_stable or J.mean_abscissa > 0
    for r in (1e-4, 1e-1):
        reach = bounds.reach(Moves.equal(model), r)
        for _ in range(100):
            other = moved(model, rng, lambda M, r=r: r).whiten(Sigma)
            E = rng.standard_normal((3, 3))
            E = E + E.T
            change = other.attention(E) - white.attention(E)
            assert np.linalg.norm(change) <= reach.attention * np.linalg.norm(E)
            drift = other.drift(np.eye(3)) - white.drift(np.eye(3))
            assert spectral(drift) <= reach.spectral
            assert np.linalg.norm(drift) <= reach.frobenius
            assert spectral(other.V.sum(axis=0) - white.V.sum(axis=0)) <= reach.total
            step = np.linalg.solve(plain_linearisation(white), (drift + drift.T).ravel())
            assert np.linalg.norm(step) <= reach.step


def plain_linearisation(white):
    """E -> M E + E M^T + T(E) + T(E)^T on all matrices, symmetric ones mapped as they should be."""
    dim = white.dim
    M = white.drift(np.eye(dim))
    columns = []
    for k in range(dim * dim):
        E = np.zeros(dim * dim)
        E[k] = 1.0
        E = E.reshape(dim, dim)
        S, skew = (E + E.T) / 2, (E - E.T) / 2
        T = white.attention(S)
        columns.append((M @ S + S @ M.T + T + T.T + skew).ravel())
    return np.stack(columns, axis=1)


def test_worst_case_of_a_linear_map():
    rng = np.random.default_rng(4)
    inverse, P, Q = rng.standard_normal((6, 6)), *rng.standard_normal((2, 3, 3))
    bound = _worst(inverse, P, Q)
    reached = 0.0
    for _ in range(500):
        image = P @ direction(rng, 3) @ Q
        reached = max(reached, np.linalg.norm(inverse @ svec(image + image.T)))
    assert 0.4 * bound < reached <= bound


def svec(E):
    rows, columns = np.triu_indices(len(E))
    weight = np.where(rows == columns, 1.0, np.sqrt(2.0))
    return E[columns, rows] * weight


def test_relative_radius_has_no_units_and_no_gauge():
    model, Sigma = planted(5, 2, 2)
    plain = robustness_radius(model, Sigma)
    scaled = robustness_radius(model.transform(1e3 * np.eye(2)), 1e6 * Sigma)
    assert scaled.relative_radius == pytest.approx(plain.relative_radius, rel=1e-3)
    assert scaled.displacement == pytest.approx(1e6 * plain.displacement, rel=0.2)
    for gauge in (1e-8, 1e8):
        turned = robustness_radius(model.rescale_heads(gauge), Sigma)
        assert turned.kind == plain.kind
        assert turned.relative_radius == pytest.approx(plain.relative_radius, rel=1e-3)


def test_a_larger_move_of_one_matrix_can_be_covered():
    model, Sigma = planted(6)
    robust = robustness_radius(model, Sigma)
    rng = np.random.default_rng(6)
    one = model.replace(A=model.A + 1.5 * robust.radius * direction(rng, 2))
    assert robust.covers(one)
    assert robust.displacement_of(model) < 1e-6
    far = model.replace(A=model.A + 1e3 * np.eye(2))
    assert not robust.covers(far)
    assert robust.displacement_of(far) == np.inf


def test_b_and_k_do_not_matter_and_zero_heads_may_move():
    model = gct.GaussianTransformer(
        np.eye(2), np.stack([np.eye(2), 0 * np.eye(2)]), np.stack([-np.eye(2), -np.eye(2)])
    )
    robust = robustness_radius(model, np.eye(2))
    assert robust.radius > 0
    rng = np.random.default_rng(7)
    for _ in range(10):
        other = moved(model, rng, lambda M: robust.radius)
        found = gct.find_equilibrium(other, np.eye(2))
        assert gct.certify_global_stability(other, found).verified
    assert robust.covers(model.replace(b=[1e6, 0.0], k=1e6 * np.ones((2, 2))))


def test_large_models_use_the_form_alone():
    dim = 40
    model = gct.GaussianTransformer(np.eye(dim), np.eye(dim), -np.eye(dim))
    robust = robustness_radius(model, np.eye(dim))
    assert robust.kind == "global"
    assert robust.radius > 1e-3
    assert robust.verify()


# -- repeating the check, and bad input -----------------------------------------------------------


def tampered(certificate, **changes):
    twin = copy.copy(certificate)
    for name, value in changes.items():
        object.__setattr__(twin, name, value)
    return twin


def test_tampering_is_noticed():
    model, Sigma = planted(3)
    robust = robustness_radius(model, Sigma)
    assert robust.verify()
    assert not tampered(robust, radius=1.1 * robust.radius).verify()
    assert not tampered(robust, relative_radius=1.1 * robust.relative_radius).verify()
    assert not tampered(robust, displacement=0.5 * robust.displacement).verify()
    assert not tampered(robust, mean_radius=robust.radius * 2).verify()
    assert not tampered(robust, covariance=1.1 * Sigma).verify()
    assert not tampered(robust, kind="local").verify()
    assert not tampered(robust, model=model.reversed()).verify()
    local = robustness_radius(local_only(np.random.default_rng(3)), np.eye(2))
    assert local.verify()
    assert not tampered(local, lyapunov_matrix=-local.lyapunov_matrix).verify()
    assert not tampered(local, lyapunov_matrix=None, kind="global").verify()


def test_the_report_says_what_may_move():
    robust = robustness_radius(SCALAR, gct.find_equilibrium(SCALAR))
    for words in ("Certified", "global", "radius", "%", "[x]^2", "margin", "scope"):
        assert words in str(robust)
    with pytest.raises(gct.NotCertified, match="rigorous"):
        robust.verify(rigorous=True)


def test_what_is_not_stable_has_no_radius():
    with pytest.raises(gct.NotCertified, match="no stability to keep"):
        robustness_radius(gct.GaussianTransformer(-1.0, 1.0, 1.0), 1.0)
    with pytest.raises(gct.NotCertified, match="dt"):
        robustness_radius(SCALAR.replace(dt=0.1), 1.0)
    with pytest.raises(gct.NotCertified, match="equilibrium"):
        robustness_radius(SCALAR, 1.5)
    unstable = gct.GaussianTransformer(-np.eye(33), np.eye(33), np.eye(33))
    with pytest.raises(gct.NotCertified, match="d = 32"):
        robustness_radius(unstable, np.eye(33))


def test_bad_input():
    robust = robustness_radius(SCALAR, 1.0)
    for other in (
        "x",
        None,
        SCALAR.replace(dt=0.1),
        gct.GaussianTransformer(np.eye(2), np.eye(2), np.eye(2)),
    ):
        with pytest.raises(gct.ParameterError, match=r"^other") as raised:
            robust.covers(other)
        assert "\n" not in str(raised.value)
    with pytest.raises(gct.ParameterError, match="model"):
        robustness_radius("x", 1.0)
    with pytest.raises(gct.ParameterError, match="equilibrium"):
        robustness_radius(SCALAR, -1.0)
