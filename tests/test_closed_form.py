"""The closed-form flow of the Riccati case (Theory 3.2)."""

from __future__ import annotations

import numpy as np
import pytest
from problems import reference_solution
from scipy.linalg import expm, solve_continuous_lyapunov

import gausscontrol as gct
from gausscontrol.errors import IntegrationError
from gausscontrol.model.closed_form import ScalarValueModel, closed_form_flow


def scalar_value_model(rng, dim, heads=2, definite=True):
    """A model with V_h = v_h I, and the same data for the closed form."""
    values = rng.normal(size=heads)
    A = rng.normal(size=(dim, dim)) / np.sqrt(dim)
    B, k = rng.normal(size=(heads, dim, dim)), rng.normal(size=(heads, dim))
    if definite:
        Q, skew = rng.normal(size=(2, dim, dim))
        wanted = -(Q @ Q.T) / dim - 0.2 * np.eye(dim) + skew - skew.T
        B[0] += (wanted / 2 - np.tensordot(values, B, 1)) / values[0]
    b = rng.normal(size=dim)
    V = values[:, None, None] * np.eye(dim)
    model = gct.GaussianTransformer(A, B, V, b, k=k)
    return model, ScalarValueModel(A, np.tensordot(values, B, 1), values.sum(), values @ k, b)


def covariances(flow):
    return np.einsum("irn,jrn->ijn", flow.factor, flow.factor)


@pytest.mark.parametrize("dim", [1, 2, 4, 8])
def test_agrees_with_an_independent_integration(dim):
    rng = np.random.default_rng(dim)
    model, data = scalar_value_model(rng, dim)
    L = rng.normal(size=(dim, max(1, dim - 1)))
    mean, times = rng.normal(size=dim), np.linspace(0, 3, 12)
    flow = closed_form_flow(data, mean, L, times)
    ref_mean, ref_covariance = reference_solution(model, mean, L @ L.T, times)[:2]
    assert flow.blow_up_time is None
    np.testing.assert_allclose(covariances(flow), ref_covariance, atol=1e-10)
    np.testing.assert_allclose(flow.mean, ref_mean, atol=1e-10 * np.abs(ref_mean).max())


def test_long_antistable_run_does_not_overflow():
    rng = np.random.default_rng(0)
    A = 3 * np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    data = ScalarValueModel(A, -np.eye(3) / 2, 1.0, np.zeros(3), np.zeros(3))
    flow = closed_form_flow(data, np.zeros(3), 1e-6 * np.eye(3), np.array([0.0, 500.0]))
    # The limit is X^-1 with A^T X + X A = -G, G = -I.
    X = solve_continuous_lyapunov(A.T, np.eye(3))
    np.testing.assert_allclose(covariances(flow)[:, :, -1], np.linalg.inv(X), rtol=1e-10)


@pytest.mark.parametrize(
    ("A", "Bv", "start", "expected"),
    [
        (0.5, 0.5, 0.25, np.log(1 + 0.5 / 0.125)),  # scalar Riccati with vb = 1/2
        (0.5, 1.0, 0.25, 1.0986122886681098),  # cases: scalar Riccati
        (-1.0, 1.0, 1.1, 1.1989476363991853),  # cases: cubic, sigma0 above threshold
    ],
)
def test_scalar_escape_is_exact(A, Bv, start, expected):
    data = ScalarValueModel(np.array([[A]]), np.array([[Bv]]), 1.0, np.zeros(1), np.zeros(1))
    flow = closed_form_flow(data, np.zeros(1), np.array([[np.sqrt(start)]]), np.linspace(0, 3, 20))
    assert abs(flow.blow_up_time - expected) < 1e-12
    assert flow.blow_up_error < 1e-11
    assert flow.mean.shape[1] == int(np.sum(np.linspace(0, 3, 20) < expected))


def rotating(rate=20.0, gain=60.0):
    A = np.array([[0.0, rate], [-rate, 0.0]])
    return ScalarValueModel(A, gain * np.diag([1.0, -1.0]) / 2, 1.0, np.zeros(2), np.zeros(2))


def quadratic_growth(data, L, t):
    """lambda_max(L^T W(t) L) by plain quadrature, an oracle for the first crossing."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for x, w in zip(nodes, weights, strict=True):
        E = expm(data.A * t * (x + 1) / 2) @ L
        total += w * t / 2 * (E.T @ data.gain @ E)
    return float(np.linalg.eigvalsh(total)[-1])


def test_indefinite_gain_finds_the_first_of_several_crossings():
    data, L = rotating(), np.array([[0.9], [0.9]])
    flow = closed_form_flow(data, np.zeros(2), L, np.linspace(0, 1, 6))
    t = flow.blow_up_time
    assert abs(quadratic_growth(data, L, t) - 1) < 1e-9
    grid = np.linspace(0, t, 400)[1:-1]
    assert max(quadratic_growth(data, L, s) for s in grid) < 1
    # The function returns to zero within the period: sampling it at t = 1 would see nothing.
    assert abs(quadratic_growth(data, L, 2 * np.pi / 20)) < 1e-9


def test_indefinite_gain_without_crossing_is_not_an_escape():
    data = rotating()
    L = np.array([[0.3], [0.3]])
    assert max(quadratic_growth(data, L, s) for s in np.linspace(0.001, 0.4, 300)) < 1
    flow = closed_form_flow(data, np.zeros(2), L, np.linspace(0, 5, 11))
    assert flow.blow_up_time is None
    model = gct.GaussianTransformer(data.A, data.Bv, np.eye(2))
    reference = reference_solution(model, np.zeros(2), L @ L.T, np.linspace(0, 5, 11))[1]
    np.testing.assert_allclose(covariances(flow), reference, atol=1e-9)


def test_rank_is_kept_and_zero_stays_zero():
    _, data = scalar_value_model(np.random.default_rng(3), 4)
    L = np.random.default_rng(4).normal(size=(4, 2))
    flow = closed_form_flow(data, np.zeros(4), L, np.linspace(0, 10, 4))
    assert flow.factor.shape == (4, 2, 4)
    nothing = closed_form_flow(data, np.zeros(4), np.zeros((4, 0)), np.linspace(0, 1, 3))
    assert nothing.factor.shape == (4, 0, 3)
    assert nothing.blow_up_time is None


def test_huge_indefinite_start_is_refused_rather_than_guessed():
    with pytest.raises(IntegrationError, match="initial"):
        closed_form_flow(
            rotating(1.0, 1e-3),
            np.zeros(2),
            1e40 * np.array([[1.0, 0.0], [0.0, 1.0]]),
            np.array([0.0, 1.0]),
        )
