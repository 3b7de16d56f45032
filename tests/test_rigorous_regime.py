"""Boundedness, collapse and blow-up proved; barely false ones, tampering, gauge, rational cases."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import attention_blow_up, cubic_factor, rank_one_problem

import gausscontrol as gct
from gausscontrol.certificates.blow_up import BlowUp, certify_blow_up
from gausscontrol.certificates.regime import certify_boundedness, certify_collapse
from gausscontrol.certificates.rigorous.blow_up import prove_blow_up
from gausscontrol.certificates.rigorous.common_key import common_key_of
from gausscontrol.certificates.rigorous.cone import cone_remainder
from gausscontrol.certificates.rigorous.exact_model import ExactModel, working
from gausscontrol.certificates.rigorous.regime import prove_boundedness, prove_collapse
from gausscontrol.errors import NotCertified
from gausscontrol.linalg import balls

FEW = settings(derandomize=True, deadline=None, max_examples=12)
SEEDS = st.integers(0, 10_000)
I2 = np.eye(2)


def shared_key_model(rng, dim, sign, heads=1):
    """Return a model with heads on one B > 0 and sym V of one sign."""
    Q = rng.standard_normal((dim, dim))
    B = Q @ Q.T / dim + 0.2 * np.eye(dim)
    weights = 2.0 ** rng.integers(-2, 3, heads)
    A, W = rng.standard_normal((2, dim, dim))
    V = sign * (np.eye(dim) + 0.2 * W @ W.T) + 0.3 * (W - W.T)
    B = (B + B.T) / 2
    return gct.GaussianTransformer(A, weights[:, None, None] * B, np.stack([V] * heads))


# -- boundedness and collapse ---------------------------------------------------------------------


@FEW
@given(SEEDS, st.integers(1, 5), st.integers(1, 2))
def test_bounds_are_proved_as_certified(seed, dim, heads):
    model = shared_key_model(np.random.default_rng(seed), dim, -1.0, heads)
    found = certify_boundedness(model, sdp=False)
    assert prove_boundedness(found)
    assert not prove_boundedness(replace(found, gain=found.gain * 1e3))
    assert not prove_boundedness(replace(found, gain=np.nan))
    assert not prove_boundedness(replace(found, rate=found.rate - 1e-3 * abs(found.rate) - 1e-9))
    if found.bound > 0:
        assert not prove_boundedness(replace(found, bound=found.bound * (1 - 1e-9)))
        assert not prove_boundedness(replace(found, bound=np.nan))


def test_the_programme_and_its_multiplier_are_proved():
    rng = np.random.default_rng(4)
    count = 0
    for _ in range(12):
        A, V, B = rng.standard_normal((3, 2, 2))
        model = gct.GaussianTransformer(A, np.eye(2) + 0.6 * B, -np.eye(2) + 0.8 * V)
        try:
            found = certify_boundedness(model)
        except NotCertified:
            continue
        assert prove_boundedness(found)
        if found.multiplier is None:
            continue
        count += 1
        assert not prove_boundedness(replace(found, multiplier=-found.multiplier))
        assert not prove_boundedness(replace(found, P=-found.P))
    assert count


def test_mean_is_part_of_the_scope():
    A = np.array([[0.5, 1.0], [0.0, 0.25]])
    model = gct.GaussianTransformer(A, I2, -4 * I2)
    found = certify_boundedness(model)
    assert found.scope == "covariance and mean"
    assert prove_boundedness(found)
    # A second head with B = 0 moves the mean alone, here beyond what the first gives.
    drifting = gct.GaussianTransformer(A, np.stack([I2, 0 * I2]), np.stack([-4 * I2, 5 * I2]))
    assert prove_boundedness(replace(found, model=drifting, mean_stable=False))
    assert not prove_boundedness(replace(found, model=drifting))
    collapse = certify_collapse(gct.GaussianTransformer(-I2, I2, -I2))
    moved = gct.GaussianTransformer(-I2, np.stack([I2, 0 * I2]), np.stack([-I2, 3 * I2]))
    assert prove_collapse(collapse)
    assert prove_collapse(replace(collapse, model=moved, mean_stable=False))
    assert not prove_collapse(replace(collapse, model=moved))


@FEW
@given(SEEDS, st.integers(1, 4))
def test_collapse_is_proved_as_certified(seed, dim):
    model = shared_key_model(np.random.default_rng(seed), dim, -1.0)
    model = model.replace(A=model.A - 5 * np.eye(dim))
    found = certify_collapse(model, sdp=False)
    assert prove_collapse(found)
    assert not prove_collapse(replace(found, rate=found.rate * 1.01))
    assert not prove_collapse(replace(found, rate=-1.0))
    assert not prove_collapse(replace(found, model=model.replace(A=-model.A)))


@pytest.mark.parametrize("margin", [1e-10, 1e-13, 0.0])
def test_the_sign_of_a_thin_margin_decides(margin):
    """V = diag(-1, -margin) is dissipative, diag(-1, margin) is not; zero is decided exactly."""
    found = certify_collapse(gct.GaussianTransformer(-I2, I2, -I2))
    for sign in (1.0, -1.0):
        V = np.diag([-1.0, -sign * margin])
        model = gct.GaussianTransformer(-I2, I2, V)
        assert prove_collapse(replace(found, model=model)) is (sign > 0 or margin == 0)
        # Rotated exactly, by 45 degrees and a factor of 2.
        turn = np.array([[1.0, 1.0], [1.0, -1.0]])
        turned = gct.GaussianTransformer(-I2, I2, turn @ V @ turn)
        assert prove_collapse(replace(found, model=turned)) is (sign > 0 or margin == 0)


def test_exact_cases_without_any_slack():
    """No attention, scalar values with a singular gain, and V skew in the coordinates of B."""
    A = np.array([[-1.0, 7.0], [0.0, -2.0]])
    gain = -np.array([[1.0, 3.0], [3.0, 9.0]])
    skew = np.array([[0.0, 1.0], [-1.0, 0.0]])
    none = gct.GaussianTransformer(A, 0 * I2, I2)
    riccati = gct.GaussianTransformer(A, gain, I2)
    rotation = gct.GaussianTransformer(-I2, I2, skew)
    for model in (none, riccati, rotation):
        assert prove_collapse(certify_collapse(model))
    found = certify_collapse(riccati)
    gain[1, 1] = np.nextafter(-9.0, 0.0)
    assert not prove_collapse(replace(found, model=gct.GaussianTransformer(A, gain, I2)))
    skew[0, 0] = 1e-18
    found = certify_collapse(rotation)
    assert not prove_collapse(replace(found, model=gct.GaussianTransformer(-I2, I2, skew)))


@pytest.mark.parametrize("key", [I2, np.diag([1.0, 2.0])])
def test_the_marginal_case_is_decided_in_rationals(key):
    """P A + A^T P <= 0 has no slack, and a = 1e-300 is not a = 0."""
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    fading = certify_collapse(gct.GaussianTransformer(turn, key, -I2))
    staying = certify_boundedness(gct.GaussianTransformer(turn, 0 * key, I2))
    for found, prove in ((fading, prove_collapse), (staying, prove_boundedness)):
        assert found.rate == 0
        assert prove(found)
        leaving = found.model.replace(A=turn + 1e-300 * np.diag([1.0, 0.0]))
        assert not prove(replace(found, model=leaving))
        larger = found.model.replace(A=turn - np.diag([1.0, 0.0]))
        assert prove(replace(found, model=larger))
    assert not prove_collapse(replace(fading, tail=0.99 * fading.tail))
    assert not prove_collapse(replace(fading, gain=1.01 * fading.gain))
    assert not prove_boundedness(replace(staying, bound=0.99))
    assert not prove_boundedness(replace(staying, relative=False))


def test_head_gauge_and_units_change_nothing():
    rng = np.random.default_rng(6)
    model = shared_key_model(rng, 3, -1.0)
    for power in (-8, 8):
        gauged = gct.GaussianTransformer(model.A, model.B * 10.0**-power, model.V * 10.0**power)
        assert prove_boundedness(certify_boundedness(gauged, sdp=False))
    D = np.diag([1e-4, 1.0, 1e4])
    assert prove_boundedness(certify_boundedness(model.transform(D), sdp=False))
    growing = shared_key_model(rng, 3, 1.0)
    assert prove_blow_up(certify_blow_up(growing.transform(D), sdp=False))


def test_discrete_depth_is_refused():
    found = certify_boundedness(gct.GaussianTransformer(I2, I2, -I2))
    layers = found.model.replace(dt=0.1)
    assert not prove_boundedness(replace(found, model=layers))
    collapse = certify_collapse(gct.GaussianTransformer(-I2, I2, -I2))
    assert not prove_collapse(replace(collapse, model=layers))


def test_eight_dimensions_are_proved():
    rng = np.random.default_rng(8)
    assert prove_boundedness(certify_boundedness(shared_key_model(rng, 8, -1.0), sdp=False))
    model, _ = rank_one_problem(rng, 8)
    assert prove_boundedness(certify_boundedness(model, sdp=False))


# -- heads that share a key -----------------------------------------------------------------------


def test_common_keys_are_exact_or_bounded():
    B = np.array([[2.0, 1.0], [1.0, 3.0]])
    V = np.array([[-1.0, 2.0], [0.0, -3.0]])
    with balls.precision():
        exact = ExactModel.of(gct.GaussianTransformer(I2, np.stack([B, -B / 4]), np.stack([V, V])))
        head = common_key_of(exact, B)
        assert head.is_exact
        assert np.allclose([[float(x) for x in row] for row in head.V.table()], 0.75 * V)
        rough = ExactModel.of(
            gct.GaussianTransformer(I2, np.stack([B, 0.3 * B + 1e-9 * I2]), np.stack([V, V]))
        )
        head = common_key_of(rough, B)
        assert not head.is_exact
        assert 1e-10 < float(head.rest) < 1e-7
        assert common_key_of(exact, -B) is None


@FEW
@given(SEEDS, st.integers(1, 3), st.integers(1, 2))
def test_cone_remainder_is_the_form(seed, dim, heads):
    rng = np.random.default_rng(seed)
    A, P, S = rng.standard_normal((3, dim, dim))
    V, B = rng.standard_normal((2, heads, dim, dim))
    G = rng.standard_normal((dim * dim, dim * dim))
    P, S, G = P + P.T, S + S.T, G @ G.T
    model = gct.GaussianTransformer(A, B, V)
    with working(dim):
        form = cone_remainder(ExactModel.of(model), balls.exact_matrix(P), G, 0.5, -1.0)
        matrix = np.array([[float(x) for x in row] for row in form.table()])
    x = gct.vech(S)
    wanted = -np.trace(P @ model.attention(S) @ S) - np.sum(G * np.kron(S, S))
    assert np.isclose(x @ matrix @ x, wanted - 0.5 * np.trace(P @ S) ** 2)


# -- blow-up --------------------------------------------------------------------------------------


def refused(found: BlowUp, **changes) -> bool:
    return not prove_blow_up(replace(found, **changes))


@FEW
@given(SEEDS, st.integers(1, 5), st.integers(1, 2))
def test_spectral_blow_up_is_proved_as_certified(seed, dim, heads):
    model = shared_key_model(np.random.default_rng(seed), dim, 1.0, heads)
    found = certify_blow_up(model, sdp=False)
    assert prove_blow_up(found)
    assert refused(found, threshold=found.threshold * (1 - 1e-9) - 1e-9)
    assert refused(found, gain=found.gain * 1e3)
    assert refused(found, gain=-found.gain)
    assert refused(found, rate=found.rate + 10 * np.linalg.norm(model.A))
    assert refused(found, model=model.replace(V=-model.V))
    assert refused(found, model=model.replace(dt=0.1))


@FEW
@given(SEEDS, st.integers(2, 5))
def test_invariant_subspaces_are_proved(seed, dim):
    rng = np.random.default_rng(seed)
    model = shared_key_model(rng, dim, -1.0)
    # One eigenvalue of V in the right half-plane, in a random direction.
    W = rng.standard_normal((dim, dim))
    V = W @ np.diag([2.0, *(-1.0 - np.arange(dim - 1))]) @ np.linalg.inv(W)
    found = certify_blow_up(model.replace(V=V), sdp=False)
    if found.method != "subspace":
        return
    assert prove_blow_up(found)
    assert refused(found, loss=found.loss * 0.5 - 1e-9)
    assert refused(found, gain=found.gain * 1.01)
    assert refused(found, uncertainty=0.0) or len(found.weight) == dim
    assert refused(found, weight=-found.weight)
    assert refused(found, basis=np.roll(found.basis, 1, axis=0))
    assert refused(found, basis=np.full_like(found.basis, np.nan))


def test_subspaces_need_one_head_exactly():
    B, V = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 4.0], [0.0, -2.0]])
    one = certify_blow_up(gct.GaussianTransformer(-I2, B, V), sdp=False)
    assert one.method == "subspace"
    assert prove_blow_up(one)
    halves = gct.GaussianTransformer(-I2, np.stack([B, B]) / 2, np.stack([V, V]))
    assert prove_blow_up(certify_blow_up(halves, sdp=False))
    off = np.stack([B, B]) / 2
    off[1, 0, 0] = np.nextafter(off[1, 0, 0], 2.0)
    assert refused(one, model=halves.replace(B=off))


def test_programmes_for_blow_up_are_proved():
    rng = np.random.default_rng(7)
    count = 0
    for _ in range(4):
        V, B = rng.standard_normal((2, 2, 2, 2))
        model = gct.GaussianTransformer(rng.standard_normal((2, 2)), I2 + 0.5 * B, I2 + 0.5 * V)
        try:
            found = certify_blow_up(model)
        except NotCertified:
            continue
        assert prove_blow_up(found)
        if found.method != "sdp":
            continue
        count += 1
        assert refused(found, gain=found.gain * 1.1)
        assert refused(found, P=-found.P)
        if found.multiplier is not None:
            assert refused(found, multiplier=-found.multiplier)
    assert count


def test_known_escapes_are_proved():
    cubic = certify_blow_up(cubic_factor().model)
    assert np.isclose(cubic.threshold, 1.0)
    assert prove_blow_up(cubic)
    assert refused(cubic, threshold=1 - 1e-9)
    known = attention_blow_up()
    found = certify_blow_up(known.model)
    assert prove_blow_up(found)


@pytest.mark.parametrize("margin", [1e-10, 1e-13])
def test_barely_positive_values_decide(margin):
    found = certify_blow_up(gct.GaussianTransformer(0 * I2, I2, I2))
    found = replace(found, method="spectral", P=None, loss=0.0)
    for sign in (1.0, -1.0):
        model = gct.GaussianTransformer(0 * I2, I2, np.diag([1.0, sign * margin]))
        # y' >= 2 (margin y^2 / 4 - y / 1000), a little less than what holds for the right sign.
        claim = replace(found, model=model, gain=margin / 4, rate=-1e-3, threshold=4e-3 / margin)
        assert prove_blow_up(claim) is (sign > 0)
