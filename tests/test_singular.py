"""Singular equilibria and the spectrum on and across their leaf (Theory 3.5)."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from problems import random_model

import gausscontrol as gct
from gausscontrol.analysis.singular import (
    isotropic_factors,
    leaf_spectrum,
    pencil_factors,
    rank_factors,
)
from gausscontrol.model.moments import MomentField


def residual(model, L):
    rate = MomentField.of(model).covariance_rate(L @ L.T)
    return np.linalg.norm(rate) / np.linalg.norm(L @ L.T)


def predicted_pairs(model):
    """Real eigenpairs of (A, V) with s > 0, from the plain definition."""
    A, B, V = model.A, model.B[0], model.V[0]
    values, vectors = np.linalg.eig(np.linalg.solve(V, A))
    pairs = []
    for value, u in zip(values, vectors.T, strict=True):
        if abs(value.imag) < 1e-12 * abs(value):
            u = np.real(u / u[np.abs(u).argmax()])
            u /= np.linalg.norm(u)
            s = -value.real / (u @ B @ u)
            if s > 0:
                pairs.append(s * np.outer(u, u))
    return pairs


def test_pencil_lists_every_predicted_equilibrium():
    rng, count = np.random.default_rng(0), 0
    for _ in range(100):
        model = random_model(rng, int(rng.integers(2, 7)), 1)
        found = [L @ L.T for L in pencil_factors(model)]
        wanted = predicted_pairs(model)
        assert len(found) == len(wanted)
        for S in wanted:
            assert min(np.linalg.norm(S - F) for F in found) < 1e-7 * np.linalg.norm(S)
            count += 1
        for L in pencil_factors(model):
            assert residual(model, L) < 1e-8 * np.linalg.norm(model.A)
    assert count > 50


def test_leaf_and_transverse_make_up_the_whole_spectrum():
    rng = np.random.default_rng(1)
    for _ in range(40):
        model = random_model(rng, int(rng.integers(2, 6)), 1)
        for L in pencil_factors(model):
            spectrum = leaf_spectrum(model, L)
            J = MomentField.of(model).covariance_jacobian(L @ L.T)
            whole = np.linalg.eigvals(J).real.max()
            assert max(spectrum.leaf, spectrum.transverse) == pytest.approx(whole, rel=1e-6)


def test_transverse_abscissa_is_twice_that_of_the_quotient():
    # A = diag(-1, 2), V = -I, B = I: Sigma = 2 e2 e2^T is stable on its leaf, and M across is -3.
    model = gct.GaussianTransformer(np.diag([-1.0, 2.0]), np.eye(2), -np.eye(2))
    spectrum = leaf_spectrum(model, np.array([[0.0], [np.sqrt(2)]]))
    assert spectrum.leaf == pytest.approx(-3)  # the mixed entry: (-1) + (2 - 4) ... slowest is -3
    assert spectrum.transverse == pytest.approx(-2)
    assert spectrum.is_isolated


def test_zero_has_sums_of_eigenvalues_of_A():
    A = np.array([[-1.0, 3.0], [0.0, -0.5]])
    model = gct.GaussianTransformer(A, np.eye(2), np.eye(2))
    spectrum = leaf_spectrum(model, np.zeros((2, 0)))
    assert spectrum.transverse == pytest.approx(-1)
    assert spectrum.leaf == -np.inf


@pytest.mark.parametrize("dim", [3, 4, 5])
def test_pure_attention_has_lines_of_equilibria(dim):
    rng = np.random.default_rng(35)
    Q = rng.normal(size=(dim // 2, dim))
    model = gct.GaussianTransformer(np.zeros((dim, dim)), -Q.T @ Q, np.eye(dim))
    found = list(isotropic_factors(model))
    assert len(found) == dim - dim // 2
    for u in found:
        assert np.linalg.norm(Q @ u) < 1e-10
        assert not leaf_spectrum(model, u).is_isolated


def test_indefinite_key_has_isotropic_directions():
    B = np.diag([1.0, -2.0])
    model = gct.GaussianTransformer(np.zeros((2, 2)), B, np.eye(2))
    found = list(isotropic_factors(model))
    assert len(found) == 2
    for u in found:
        assert abs(float(u[:, 0] @ B @ u[:, 0])) < 1e-12
        for scale in (0.1, 1.0, 7.0):
            assert residual(model, scale * u) < 1e-12


def test_no_kernel_gives_no_line():
    assert not list(isotropic_factors(random_model(np.random.default_rng(2), 3, 1)))


def test_repeated_eigenvalues_are_a_continuum():
    model = gct.GaussianTransformer(np.eye(3), np.eye(3), -np.eye(3))
    found = list(pencil_factors(model))
    assert found
    assert not any(leaf_spectrum(model, L).is_isolated for L in found)


def test_singular_pencil_yields_nothing_false():
    A = np.diag([1.0, 0.0])
    V = np.diag([-1.0, 0.0])
    model = gct.GaussianTransformer(A, np.eye(2), V)
    for L in pencil_factors(model):
        assert residual(model, L) < 1e-10


def test_flow_finds_rank_two():
    rng = np.random.default_rng(5)
    A = np.diag([1.0, 0.8, -1.0]) + 0.1 * rng.normal(size=(3, 3))
    model = gct.GaussianTransformer(A, np.eye(3), -np.eye(3) + 0.1 * rng.normal(size=(3, 3)))
    found = list(rank_factors(model, [rng.normal(size=(3, 2)) for _ in range(3)]))
    assert found
    for L in found:
        assert L.shape == (3, 2)
        assert residual(model, L) < 1e-9
        values = np.linalg.svd(L, compute_uv=False)
        assert values[1] > 1e-3 * values[0]


def test_discrete_leaf_uses_the_layer_map():
    model = gct.GaussianTransformer(np.diag([-1.0, 2.0]), np.eye(2), -np.eye(2), dt=0.1)
    spectrum = leaf_spectrum(model, np.array([[0.0], [np.sqrt(2)]]))
    D = np.eye(2) + 0.1 * (np.diag([-1.0, 2.0]) - np.diag([0.0, 2.0]))
    assert spectrum.transverse == pytest.approx(2 * np.log(D[0, 0]) / 0.1)
    J = MomentField.of(model).covariance_jacobian(np.diag([0.0, 2.0]))
    radius = np.abs(scipy.linalg.eigvals(J)).max()
    assert max(spectrum.leaf, spectrum.transverse) == pytest.approx(np.log(radius) / 0.1)


def test_flow_finds_rank_two_of_the_layer_map():
    rng = np.random.default_rng(5)
    A = np.diag([1.0, 0.8, -1.0]) + 0.3 * rng.normal(size=(3, 3))
    V = -np.eye(3) + 0.2 * rng.normal(size=(3, 3))
    model = gct.GaussianTransformer(A, np.eye(3), V, dt=0.1)
    found = list(rank_factors(model, [rng.normal(size=(3, 2)) for _ in range(3)]))
    assert found
    for L in found:
        D = np.eye(3) + 0.1 * model.drift(L @ L.T)
        gap = np.linalg.norm(D @ L @ L.T @ D.T - L @ L.T)
        assert gap < 1e-9 * np.linalg.norm(L @ L.T)


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e5])
def test_pencil_does_not_mind_unlike_units(unit):
    A, B = np.array([[1, 0.2], [0.3, 0.8]]), np.array([[1, 0.3], [0.1, 0.7]])
    model = gct.GaussianTransformer(A, B, -np.array([[1, 0.5], [0.5, 1.2]]))
    R = np.diag([1.0, unit])
    plain = sorted(np.trace(L @ L.T) for L in pencil_factors(model))
    moved = [np.diag(1 / np.diag(R)) @ L for L in pencil_factors(model.transform(R))]
    assert len(plain) == 2
    assert np.allclose(sorted(np.trace(L @ L.T) for L in moved), plain, rtol=1e-6)
    assert not list(isotropic_factors(model.transform(R)))
