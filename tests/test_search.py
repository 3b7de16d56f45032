"""Starts and the flow: where trajectories end, and that every search ends."""

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, relative, seeds
from problems import no_equilibrium, planted_problem, random_model

import gausscontrol as gct
from gausscontrol.analysis.search import balanced_covariance, default_starts, follow_flow


@LAWS
@given(dims, seeds)
def test_balanced_covariance_stops_the_drift(dim, seed):
    model = random_model(np.random.default_rng(seed), dim, 1)
    M = model.drift(balanced_covariance(model))
    condition = np.linalg.cond(model.V[0]) * np.linalg.cond(model.B[0])
    assert np.linalg.norm(M) < 1e-13 * condition * np.linalg.norm(model.A)


def test_balance_needs_one_invertible_head():
    assert balanced_covariance(random_model(np.random.default_rng(0), 3, 2)) is None
    assert (
        balanced_covariance(gct.GaussianTransformer(np.eye(2), np.eye(2), np.ones((2, 2)))) is None
    )


@LAWS
@given(dims, seeds)
def test_starts_are_definite_and_reproducible(dim, seed):
    model = random_model(np.random.default_rng(seed), dim, 2)
    starts = list(default_starts(model, 3, seed))
    again = list(default_starts(model, 3, seed))
    assert len(starts) >= 4
    assert all(np.linalg.eigvalsh(S)[0] > 0 for S in starts)
    assert all(np.array_equal(S, R) for S, R in zip(starts, again, strict=True))


@pytest.mark.parametrize("gauge", [1e-8, 1e8])
def test_starts_do_not_depend_on_gauge(gauge):
    model = random_model(np.random.default_rng(1), 3, 2)
    moved = model.rescale_heads([gauge, 1 / gauge])
    for S, R in zip(default_starts(model, 2, 0), default_starts(moved, 2, 0), strict=True):
        assert relative(R, S) < 1e-8


@pytest.mark.parametrize("dt", [0, 0.02])
def test_the_flow_settles_near_an_attractor(dt):
    model, S = planted_problem(np.random.default_rng(2), 3, 2, 1.0)
    arrival = follow_flow(model.replace(dt=dt), np.linalg.cholesky(2 * S), 1e-4)
    assert arrival.settled
    assert relative(arrival.factor @ arrival.factor.T, S) < (1e-2 if not dt else 0.1)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_ends_that_are_no_equilibria(unit):
    L = np.eye(2) * np.sqrt(unit)
    growing = no_equilibrium().model
    growing = growing.replace(B=growing.B / unit)
    assert follow_flow(growing, L, 1e-3).reason == "escape"
    shrinking = growing.replace(A=-np.eye(2), V=-np.eye(2))
    assert follow_flow(shrinking, L, 1e-3).reason == "singular"
    half = gct.GaussianTransformer(np.diag([1.0, -1.0]), np.eye(2) / unit, -np.eye(2))
    assert follow_flow(half, L, 1e-6).reason == "singular"


def test_oscillation_is_cut_short():
    # Conservative predator and prey go round for ever.
    predator = gct.GaussianTransformer(
        np.diag([0.5, -0.5]),
        np.stack([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]),
        np.stack([[[0.0, -0.5], [0.0, 0.0]], [[0.0, 0.0], [0.5, 0.0]]]),
    )
    arrival = follow_flow(predator, np.diag([1.0, 0.5]), 1e-4)
    assert not arrival.settled
    flip = gct.GaussianTransformer(2.1, 1.0, -2.1, dt=1.0)
    assert not follow_flow(flip, np.array([[0.5]]), 1e-6).settled
