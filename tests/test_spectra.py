"""Rightmost eigenvalues of the linearisation against dense oracles."""

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, seeds
from problems import (
    central_difference,
    lyapunov_globally_stable,
    plain_rates,
    planted_problem,
    random_model,
)

from gausscontrol.analysis import spectra
from gausscontrol.analysis.spectra import (
    covariance_abscissa,
    dense_operator,
    linear_operator,
    matrix_abscissa,
)
from gausscontrol.linalg.symmetric import unvech, vech
from gausscontrol.model.transformer import GaussianTransformer


def plain_linearisation(model):
    zero = np.zeros(model.dim)
    return central_difference(
        lambda x: vech(plain_rates(model, zero, unvech(x))[1]), vech(np.eye(model.dim))
    )


@LAWS
@given(dims, seeds)
def test_abscissa_is_that_of_the_plain_linearisation(dim, seed):
    model = random_model(np.random.default_rng(seed), dim, 2)
    values = np.linalg.eigvals(plain_linearisation(model))
    assert covariance_abscissa(model) == pytest.approx(values.real.max(), abs=1e-9)
    assert matrix_abscissa(dense_operator(model)) == pytest.approx(values.real.max(), abs=1e-9)


@pytest.mark.parametrize("dt", [0, 0.1])
def test_the_operator_is_the_dense_matrix(dt):
    model = random_model(np.random.default_rng(0), 4, 2, dt=dt)
    operator = linear_operator(model)
    columns = np.stack([operator @ e for e in np.eye(10)], axis=1)
    assert np.allclose(columns, dense_operator(model), atol=1e-13)


def test_case_2():
    problem = lyapunov_globally_stable()
    white = problem.model.whiten(problem.covariance)
    spectrum = np.sort(np.linalg.eigvals(dense_operator(white)).real)
    assert np.allclose(spectrum, problem.known["spectrum"], atol=1e-10)


def test_discrete_depth_gives_a_rate():
    assert matrix_abscissa(np.array([[np.exp(-0.3)]]), 0.1) == pytest.approx(-3)
    assert matrix_abscissa(np.zeros((1, 1)), 0.1) == -np.inf


def test_matrix_free_agrees_with_dense(monkeypatch):
    rng = np.random.default_rng(2)
    model, S = planted_problem(rng, 14, 2, 1.0)
    white = model.whiten(S)
    expected = covariance_abscissa(white)
    monkeypatch.setattr(spectra, "DENSE_DIM", 10)
    assert covariance_abscissa(white) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("speed", [1.0, 10.0, 100.0])
def test_fast_rotation_does_not_hide_the_rightmost_eigenvalues(monkeypatch, speed):
    """Where ARPACK's own search for them can be misled."""
    rng = np.random.default_rng(5)
    P, Q, Z = rng.normal(size=(3, 20, 20))
    V, B = -(P @ P.T / 20 + 0.2 * np.eye(20)), Q @ Q.T / 20 + 0.2 * np.eye(20)
    white = GaussianTransformer(speed * (Z - Z.T) / 8 - V @ B, B, V)
    expected = np.linalg.eigvals(dense_operator(white)).real.max()
    monkeypatch.setattr(spectra, "DENSE_DIM", 10)
    poles = spectra.rightmost_poles(white)
    assert poles.real.max() == pytest.approx(expected, rel=1e-7)


def test_poles_without_a_gap_are_dense_ones(monkeypatch):
    white = GaussianTransformer(-0.5 * np.eye(12), np.eye(12), np.zeros((12, 12)))
    monkeypatch.setattr(spectra, "DENSE_DIM", 10)
    assert spectra.rightmost_poles(white).real == pytest.approx(-1.0)
