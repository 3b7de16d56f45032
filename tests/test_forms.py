"""The two forms of the right side agree, and the gauge of the factor rests and stays small."""

import numpy as np
import pytest
from problems import planted_problem, random_covariance, random_model

from gausscontrol.linalg.symmetric import factor, vech
from gausscontrol.model.moments import MomentField
from gausscontrol.systems.forms import CovarianceFlow, FactorFlow
from gausscontrol.systems.integrate import integrate


def constant(model):
    field = MomentField.of(model)
    return lambda t: field


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_flows_agree_on_the_right_side(dim):
    rng = np.random.default_rng(dim)
    model = random_model(rng, dim, 2, tilted=True)
    mean, S = rng.standard_normal(dim), random_covariance(rng, dim)
    covariance = CovarianceFlow(constant(model), dim)
    y = np.concatenate([mean, vech(S)])
    rate = covariance.rate(0, y)
    dS = covariance.covariance(rate)
    L = factor(S)
    for gauge in (True, False):
        flow = FactorFlow(constant(model), dim, dim, gauge=gauge)
        z = np.concatenate([mean, L.reshape(-1)])
        slope = flow.rate(0, z)
        dL = flow.factor(slope)
        assert np.allclose(slope[:dim], rate[:dim], rtol=1e-12)
        assert np.allclose(dL @ L.T + L @ dL.T, dS, atol=1e-12 * np.abs(dS).max())
        assert np.isclose(flow.trace(z), np.trace(S))
        assert np.isclose(flow.trace_rate(z, slope), np.trace(dS))
    assert np.isclose(covariance.trace(y), np.trace(S))
    assert np.isclose(covariance.trace_rate(y, rate), np.trace(dS))


@pytest.mark.parametrize("rank", [2, 3])
def test_gauge_is_the_shortest_lift(rank):
    rng = np.random.default_rng(rank)
    model = random_model(rng, 3, 1)
    z = np.concatenate([np.zeros(3), rng.standard_normal(3 * rank)])
    slope = FactorFlow(constant(model), 3, rank).rate(0, z)[3:]
    plain = FactorFlow(constant(model), 3, rank, gauge=False).rate(0, z)[3:]
    assert np.linalg.norm(slope) < np.linalg.norm(plain)
    # Horizontal: L^T L' is symmetric.
    product = z[3:].reshape(3, rank).T @ slope.reshape(3, rank)
    assert np.allclose(product, product.T, atol=1e-12)


def test_gauge_rests_at_a_rotating_equilibrium():
    rng = np.random.default_rng(0)
    model, S = planted_problem(rng, 4, 1, 5.0)
    y = np.concatenate([np.zeros(4), factor(S).reshape(-1)])
    size = np.linalg.norm(y)
    assert np.linalg.norm(FactorFlow(constant(model), 4, 4).rate(0, y)[4:]) < 1e-9 * size
    assert np.linalg.norm(FactorFlow(constant(model), 4, 4, gauge=False).rate(0, y)[4:]) > size


def test_gauge_stays_bounded_at_nearly_dependent_columns():
    model = random_model(np.random.default_rng(1), 3, 1)
    L = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0 + 1e-15]])
    slope = FactorFlow(constant(model), 3, 2).rate(0, np.concatenate([np.zeros(3), L.reshape(-1)]))
    M = model.drift(L @ L.T)
    assert np.linalg.norm(slope[3:]) <= 2 * np.linalg.norm(M, 2) * np.linalg.norm(L)


@pytest.mark.parametrize("gauge", [True, False])
def test_transition_matrix_carries_the_covariance(gauge):
    rng = np.random.default_rng(2)
    model = random_model(rng, 3, 2)
    L = rng.standard_normal((3, 2)) / 3
    times = np.linspace(0, 0.7, 4)
    flow = FactorFlow(constant(model), 3, 2, gauge=gauge, transition=True)
    state = np.concatenate([np.zeros(3), L.reshape(-1), np.eye(3).reshape(-1)])
    leg = integrate(flow, 0.0, state, 0.7, times, rtol=1e-12, atol=1e-14)
    for state in leg.states.T:
        Psi = state[flow.size :].reshape(3, 3)
        S = flow.covariance(state)
        assert np.allclose(Psi @ L @ L.T @ Psi.T, S, atol=1e-9 * np.abs(S).max())
