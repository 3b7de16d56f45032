"""Structure of the heads: recognised whatever the gauge, never where it is not."""

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, relative, seeds
from problems import no_equilibrium, random_covariance, random_model

import gausscontrol as gct
from gausscontrol.model.structure import common_key, riccati_gain, trace_obstruction

GAUGES = [1e-8, 1e-3, 1.0, 1e5, 1e8]


@LAWS
@given(dims, seeds)
def test_riccati_gain_gives_the_rate(dim, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((dim, dim)), rng.standard_normal((3, dim, dim))
    V = rng.standard_normal(3)[:, None, None] * np.eye(dim)
    model, S = gct.GaussianTransformer(A, B, V), random_covariance(rng, dim)
    G = riccati_gain(model)
    rate = model.drift(S) @ S
    assert relative(A @ S + S @ A.T + S @ G @ S, rate + rate.T) < 1e-12
    assert np.array_equal(G, G.T)


def test_riccati_gain_needs_scalar_values():
    identity = np.eye(2)
    assert riccati_gain(gct.GaussianTransformer(identity, identity, np.diag([1.0, 1.1]))) is None
    values = np.stack([identity, [[0.0, 1.0], [0.0, 0.0]]])
    model = gct.GaussianTransformer(identity, np.stack([identity, identity]), values)
    assert riccati_gain(model) is None
    assert riccati_gain(gct.GaussianTransformer(1, 2, 0)) == pytest.approx(0)


@pytest.mark.parametrize("gauge", GAUGES)
def test_heads_that_share_a_key_become_one(gauge):
    rng = np.random.default_rng(0)
    B, V = random_covariance(rng, 3), rng.standard_normal((3, 3, 3))
    factors = np.array([2.0, -0.5, 1.0])
    model = gct.GaussianTransformer(np.eye(3), factors[:, None, None] * B, V)
    key, value = common_key(model.rescale_heads([gauge, 1.0, 1 / gauge]))
    assert np.linalg.eigvalsh(key)[0] > 0
    S = random_covariance(rng, 3)
    assert relative(value @ S @ key, model.attention(S)) < 1e-12


@pytest.mark.parametrize("gauge", GAUGES)
def test_gauge_hides_no_second_key(gauge):
    keys = np.stack([np.eye(2), np.diag([1.0, 2.0])])
    model = gct.GaussianTransformer(np.eye(2), keys, np.stack([-np.eye(2), np.eye(2)]))
    assert common_key(model.rescale_heads([1 / gauge, gauge])) is None


@pytest.mark.parametrize("B", [np.diag([1.0, -1.0]), [[1.0, 0.5], [0.0, 1.0]], np.zeros((2, 2))])
def test_a_key_is_symmetric_and_definite(B):
    assert common_key(gct.GaussianTransformer(np.eye(2), B, np.eye(2))) is None


def test_a_negative_key_changes_sides():
    B, V = common_key(gct.GaussianTransformer(np.eye(2), -np.eye(2), np.eye(2)))
    assert np.array_equal(B, np.eye(2))
    assert np.allclose(V, -np.eye(2), rtol=1e-15)


def test_trace_obstruction_says_why():
    assert "tr A" in trace_obstruction(no_equilibrium().model)
    assert "negative" in trace_obstruction(no_equilibrium().model.reversed())
    assert trace_obstruction(gct.GaussianTransformer(1, 1, -1)) is None
    assert trace_obstruction(gct.GaussianTransformer(1, 0, 0)) is not None
    low_rank = gct.GaussianTransformer(np.eye(2), np.ones((2, 2)), np.eye(2))
    assert trace_obstruction(low_rank) is not None


def test_units_do_not_obstruct():
    # sym(B V) is indefinite; its negative eigenvalue is 1e-16 of the largest in these units.
    model = gct.GaussianTransformer(np.eye(2), np.diag([0.1, -1.0]), np.eye(2))
    scaled = model.transform(np.diag([1e-4, 1e4]))
    assert trace_obstruction(model) is None
    assert trace_obstruction(scaled) is None


def test_no_model_with_an_equilibrium_is_obstructed():
    rng = np.random.default_rng(1)
    for _ in range(300):
        dim, heads = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        model = random_model(rng, dim, heads)
        Z = rng.standard_normal((dim, dim))
        S = random_covariance(rng, dim, condition=1e6)
        # M(S) S is skew: S is an equilibrium.
        A = (Z - Z.T) @ np.linalg.inv(S) - model.attention(S)
        assert trace_obstruction(model.replace(A=A)) is None
