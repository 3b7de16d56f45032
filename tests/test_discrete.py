"""Certificates of residual layers (Theory 4.10), attacked."""

from __future__ import annotations

import numpy as np
import pytest
from problems import planted_problem, random_covariance
from scipy.linalg import expm

import gausscontrol as gct
from gausscontrol.certificates.contraction import contraction, contraction_matrix, schur_margin
from gausscontrol.certificates.discrete import certify_semiglobal_stability
from gausscontrol.certificates.divergence import divergence
from gausscontrol.linalg.symmetric import whitening
from gausscontrol.model.moments import MomentField


def layer(model, Sigma):
    dim = model.dim
    return gct.unpack(MomentField.of(model).covariance_form(gct.pack(np.zeros(dim), Sigma)))[1]


def on_the_boundary(rng, Sigma, level):
    """A covariance with W = level, in a random direction."""
    dim = len(Sigma)
    Z = rng.normal(size=(dim, dim))
    direction = (Z + Z.T) / np.linalg.norm(Z + Z.T, 2)
    _, root = whitening(Sigma)
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        inside = divergence(Sigma, root @ expm(middle * direction) @ root) <= level
        low, high = (middle, high) if inside else (low, middle)
    return root @ expm(low * direction) @ root


def test_W_decreases_all_over_the_certified_set():
    rng = np.random.default_rng(0)
    for _ in range(25):
        model, Sigma = planted_problem(rng, int(rng.integers(1, 4)), int(rng.integers(1, 3)), 0.0)
        start = random_covariance(rng, model.dim)
        tiny = model.replace(dt=1e-9)
        largest = certify_semiglobal_stability(tiny, Sigma, start).largest_step
        certificate = certify_semiglobal_stability(model.replace(dt=0.98 * largest), Sigma, start)
        assert certificate.verify()
        assert certificate.contains(start)
        for _ in range(3):
            current = on_the_boundary(rng, Sigma, certificate.level)
            before = certificate.lyapunov_function(current)
            for _ in range(60):
                current = layer(certificate.model, current)
                after = certificate.lyapunov_function(current)
                assert after < before or after < 1e-12
                before = after


def test_semiglobal_refuses_with_the_step_that_would_do():
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    with pytest.raises(gct.NotCertified, match="dt: 1 is too large"):
        certify_semiglobal_stability(model.replace(dt=1.0), 2 * np.eye(2), 6 * np.eye(2))
    with pytest.raises(gct.ParameterError, match="dt: expected residual layers"):
        certify_semiglobal_stability(model, 2 * np.eye(2), 6 * np.eye(2))


def test_semiglobal_needs_balance_and_a_negative_form():
    rng = np.random.default_rng(1)
    model, Sigma = planted_problem(rng, 3, 1, 1.0)
    with pytest.raises(gct.NotCertified, match="balanced"):
        certify_semiglobal_stability(model.replace(dt=1e-3), Sigma, Sigma)
    unstable = gct.GaussianTransformer(-np.eye(2), np.eye(2), 0.5 * np.eye(2), dt=0.01)
    with pytest.raises(gct.NotCertified, match="attention form"):
        certify_semiglobal_stability(unstable, 2 * np.eye(2), 3 * np.eye(2))


def test_never_global_at_fixed_dt():
    # d = 1: beyond sigma/sigma* = 1 + 2/(dt a) a layer overshoots.
    a, dt = 0.5, 0.1
    model = gct.GaussianTransformer(a, 1, -0.25, dt=dt)
    far = 2.0 * (1 + 2 / (dt * a)) * 1.01
    assert layer(model, np.array([[far]]))[0, 0] > far
    near = 2.0 * (1 + 2 / (dt * a)) * 0.99
    assert layer(model, np.array([[near]]))[0, 0] < near


def test_contraction_encloses_the_fixed_point_of_the_map():
    rng = np.random.default_rng(2)
    certified = 0
    for _ in range(40):
        model, Sigma = planted_problem(rng, int(rng.integers(1, 5)), 1, 0.5)
        model = model.replace(dt=0.02)
        for _ in range(20_000):
            moved = layer(model, Sigma)
            if np.linalg.norm(moved - Sigma) < 1e-15 * np.linalg.norm(Sigma):
                break
            Sigma = moved
        guess = gct.find_equilibrium(model, Sigma).covariance
        try:
            P = contraction_matrix(model, guess)
        except gct.NotCertified:
            continue
        found = contraction(model, guess, P)
        if found.margin > 0:
            certified += 1
            R, _ = whitening(guess)
            assert np.linalg.norm(R @ (Sigma - guess) @ R) <= found.radius + 1e-8
        wrong = contraction(model, 1.3 * guess, P)
        assert wrong.margin <= 0 or wrong.radius > 0.05
    assert certified >= 15


def test_contraction_matrix_refuses_an_unstable_point():
    model = gct.GaussianTransformer(-0.5, 1, 0.25, dt=0.1)
    with pytest.raises(gct.NotCertified, match="spectral radius"):
        contraction_matrix(model, np.array([[2.0]]))


@pytest.mark.parametrize("radius", [0.2, 0.99, 0.999999, 1.0, 1.2])
def test_schur_margin(radius):
    rng = np.random.default_rng(3)
    T = rng.normal(size=(4, 4))
    A = T @ np.diag([radius, -radius / 2, 0.1, 0.0]) @ np.linalg.inv(T)
    assert (schur_margin(A, 0.0) > 0) == (radius < 1)
    assert schur_margin(A, 2.0) <= 0


def test_schur_margin_covers_the_perturbation():
    rng = np.random.default_rng(4)
    for _ in range(50):
        A = 0.4 * rng.normal(size=(3, 3))
        size = 10.0 ** rng.uniform(-4, 0)
        if schur_margin(A, size) > 0:
            for _ in range(20):
                E = rng.normal(size=(3, 3))
                E *= size / np.linalg.norm(E, 2)
                assert np.abs(np.linalg.eigvals(A + E)).max() < 1


def test_semiglobal_mean_is_judged_with_room():
    # Sigma* = 1 exactly, and the mean diverges at rate 1e-10.
    model = gct.GaussianTransformer(1, -1e10, 1e-10, dt=0.01)
    certificate = certify_semiglobal_stability(model, [[1 + 5e-10]], [[1.5]])
    assert not certificate.mean_stable


def test_semiglobal_refuses_a_resolution_coarser_than_the_set():
    model = gct.GaussianTransformer(np.diag([1, -5e-10]), np.eye(2), -np.diag([1, 5e-10]), dt=1e-10)
    with pytest.raises(gct.NotCertified):
        certify_semiglobal_stability(model, np.eye(2), 1.5 * np.eye(2))
