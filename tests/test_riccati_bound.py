"""Boundedness with scalar values and a singular G: known limits, flows, proofs, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import gausscontrol as gct
from gausscontrol.certificates.regime import Collapse, certify_boundedness
from gausscontrol.errors import NotCertified

FEW = settings(derandomize=True, deadline=None, max_examples=15)
SADDLE = np.array([[1.0, 0.5], [0.25, -1.0]])
SEEN = np.diag([1.0, 0.0])
STEP = 0.05


def filtering(A, C, skew=0.0, values=-1.0):
    """Return the layer with G = -2 C^T C; entries are short enough for exact products."""
    B = C.T @ C
    turn = np.triu(np.ones_like(B), 1)
    return gct.GaussianTransformer(A, B + skew * (turn - turn.T), values * np.eye(len(B)))


def levels(model, P, start, steps=400):
    """Yield lambda_max(P Sigma) along a trajectory; Sigma = V U^-1, of which both are linear."""
    dim, root = model.dim, np.linalg.cholesky(P)
    G = -(model.B[0] + model.B[0].T)
    flow = expm(STEP * np.block([[-model.A.T, -G], [np.zeros((dim, dim)), model.A]]))
    Sigma = start
    for _ in range(steps):
        U = flow[:dim, :dim] + flow[:dim, dim:] @ Sigma
        V = flow[dim:, :dim] + flow[dim:, dim:] @ Sigma
        Sigma = np.linalg.solve(U.T, V.T)
        Sigma = (Sigma + Sigma.T) / 2
        yield np.linalg.eigvalsh(root.T @ Sigma @ root)[-1]


def test_the_bound_is_the_limit():
    # s' = 2 s - 2 s^2 for the first entry, and the second decays.
    found = certify_boundedness(filtering(np.diag([1.0, -1.0]), SEEN))
    assert (found.method, found.scope, found.relative) == ("riccati", "covariance", False)
    assert 1 <= found.bound < 1 + 1e-4
    assert found.verify()


def test_it_is_the_limit_of_the_filter():
    model = filtering(SADDLE, SEEN)
    limit = gct.moment_response(model, [0.0, 40.0], ([0, 0], 100 * np.eye(2))).covariance[..., -1]
    found = certify_boundedness(model)
    assert np.trace(limit) <= found.bound <= np.trace(limit) * (1 + 1e-4)
    assert np.linalg.eigvalsh(np.linalg.inv(found.P) - limit)[0] > 0


@FEW
@given(st.integers(0, 10_000), st.integers(2, 4), st.sampled_from([0.0, 0.5]))
def test_the_level_decreases_until_it_is_below_one(seed, dim, skew):
    rng = np.random.default_rng(seed)
    A = np.round(16 * rng.standard_normal((dim, dim))) / 16
    C = np.round(8 * rng.standard_normal((dim - 1, dim))) / 8
    model = filtering(A, C, skew)
    try:
        found = certify_boundedness(model, sdp=False)
    except NotCertified:
        return
    if found.method != "riccati":
        return
    factor = rng.standard_normal((dim, dim))
    before = np.inf
    for level in levels(model, found.P, 10.0 ** rng.integers(-1, 4) * factor @ factor.T):
        assert level <= max(1.0, before * np.exp(2 * found.rate * STEP)) * (1 + 1e-7)
        before = level


def test_balls_prove_it_with_its_bound():
    found = certify_boundedness(filtering(SADDLE, SEEN), rigorous=True)
    assert (found.proved, found.method) == (True, "riccati")
    for change in (
        {"bound": found.bound * (1 - 1e-6)},
        {"rate": 2 * found.rate},
        {"P": 2 * found.P},
        {"P": -found.P},
        {"gain": 1.0},
        {"relative": True},
        {"relative": True, "rate": 0.0, "bound": 1e3 * found.bound},
        {"model": filtering(SADDLE, 1.001 * SEEN).replace(V=np.diag([-1.0, -1.01]))},
    ):
        assert not replace(found, **change)._prove(), change
        assert not replace(found, **change).verify(), change
    assert not replace(found, multiplier=np.eye(4)).verify()


def test_it_is_no_collapse():
    found = certify_boundedness(filtering(SADDLE, SEEN))
    claim = Collapse(found.model, found.margin, {}, -2 * found.rate, "riccati", found.P)
    assert not claim.verify()
    assert not claim._prove()
    with pytest.raises(NotCertified):
        gct.certify_collapse(found.model)


@pytest.mark.parametrize("values", [-5.0, -0.5])
def test_scope_says_whether_the_mean_stays_bounded(values):
    found = certify_boundedness(filtering(SADDLE, SEEN, values=values), rigorous=True)
    assert found.scope == ("covariance and mean" if values < -1 else "covariance")


def test_what_nothing_sees_grows():
    with pytest.raises(NotCertified, match="not certified as bounded"):
        certify_boundedness(filtering(np.diag([-1.0, 1.0]), SEEN))


def test_a_last_digit_decides():
    B = np.array([[1.0, -1.0], [-1.0, 1.0]])
    model = gct.GaussianTransformer(SADDLE, B, -np.eye(2))
    assert certify_boundedness(model).method == "riccati"
    # G has a positive eigenvalue, and covariances that are large enough escape.
    with pytest.raises(NotCertified):
        certify_boundedness(model.replace(B=B - np.diag([0.0, 2.0**-52])))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e7])
def test_units_and_gauge_change_nothing(unit):
    model = filtering(SADDLE, SEEN)
    scale = np.diag([unit, 1.0])
    moved = model.transform(scale).replace(V=-8 * np.eye(2))
    moved = moved.replace(B=moved.B / 8)
    plain, found = certify_boundedness(model), certify_boundedness(moved)
    assert (plain.method, found.method) == ("riccati", "riccati")
    assert np.isclose(found.rate, plain.rate, rtol=0.3)
    # tr P^-1 in the new coordinates, whatever P was chosen.
    assert np.isclose(found.bound, np.trace(scale @ np.linalg.inv(plain.P) @ scale), rtol=1e-3)


def test_classification_says_so():
    A = np.array([[1.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    found = gct.classify(filtering(A, np.eye(3)[:1]), sdp=False)
    assert "bounded" in found.certificates or found.regime == "globally stable"
