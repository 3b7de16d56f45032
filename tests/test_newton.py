"""Newton's method on the cone: known roots, units, discrete maps, refusals."""

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, relative, seeds
from problems import (
    all_problems,
    generalised_lyapunov,
    no_equilibrium,
    planted_problem,
    random_covariance,
    random_model,
)

import gausscontrol as gct
from gausscontrol.analysis import newton
from gausscontrol.analysis.newton import polish, scaled_residual
from gausscontrol.linalg.symmetric import symmetrise

ROOTED = [
    p
    for p in all_problems()
    if p.covariance is not None and np.linalg.eigvalsh(p.covariance)[0] > 0
]


@pytest.mark.parametrize("problem", ROOTED, ids=str)
def test_reference_equilibria_are_found_from_near_by(problem):
    root = polish(problem.model, problem.covariance * 1.01)
    assert root.residual < 1e-13
    assert relative(root.covariance, problem.covariance) < 1e-10
    assert np.array_equal(root.covariance, root.covariance.T)


@LAWS
@given(dims, seeds)
def test_polish_does_not_depend_on_units(dim, seed):
    rng = np.random.default_rng(seed)
    model, S = planted_problem(rng, dim, 1 + seed % 3, 1.0)
    start = symmetrise(S + 0.05 * np.linalg.eigvalsh(S)[0] * rng.standard_normal((dim, dim)))
    R = rng.standard_normal((dim, dim)) + 2 * np.eye(dim)
    R = R * np.geomspace(1e-2, 1e2, dim)[:, None]
    plain = polish(model, start)
    moved = polish(model.transform(R), symmetrise(R @ start @ R.T))
    assert relative(plain.covariance, S) < 1e-9
    assert relative(moved.covariance, R @ S @ R.T) < 1e-8


def test_sg03ad_is_a_newton_step():
    known = generalised_lyapunov()
    X, Y = known.known["X"], known.known["Y"]
    assert np.allclose(newton._dense_step(known.model, -Y), X, atol=1e-10)
    assert np.allclose(newton._krylov_step(known.model, -Y), X, atol=1e-7)


@pytest.mark.parametrize("heads", [1, 3])
def test_krylov_steps_agree_with_dense_ones(heads):
    model, S = planted_problem(np.random.default_rng(3), 8, heads, 0.5)
    white = model.whiten(S)
    rate = symmetrise(np.random.default_rng(4).standard_normal((8, 8)))
    dense, free = newton._dense_step(white, rate), newton._krylov_step(white, rate)
    assert relative(free, dense) < 1e-6


@pytest.mark.parametrize("condition", [1e4, 1e6, 1e8])
def test_ill_conditioned_covariances(condition):
    rng = np.random.default_rng(5)
    model, S = planted_problem(rng, 3, 2, 1.0)
    axes = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    root = axes * np.sqrt(np.geomspace(1, condition, 3)) @ axes.T
    wide = model.whiten(S).transform(root)
    found = polish(wide, symmetrise(root @ root))
    inverse = np.linalg.inv(root)
    assert np.linalg.norm(inverse @ found.covariance @ inverse - np.eye(3)) < 1e-13 * condition


def test_residual_is_relative_to_the_terms():
    model = random_model(np.random.default_rng(6), 3, 2)
    rate, residual = scaled_residual(model)
    M = model.drift(np.eye(3))
    assert np.allclose(rate, M + M.T)
    assert 0 < residual <= 1
    faster = model.replace(A=1e6 * model.A, V=1e6 * model.V)
    assert scaled_residual(faster)[1] == pytest.approx(residual)
    still = gct.GaussianTransformer(0, 0, 0)
    assert scaled_residual(still)[1] == 0


def test_an_exact_root_takes_one_look():
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    assert np.array_equal(polish(model, np.eye(2)).covariance, np.eye(2))


def test_fixed_points_of_a_map():
    rng = np.random.default_rng(7)
    model, S = planted_problem(rng, 3, 2, 1.0)
    layers = model.replace(dt=0.02)
    root = polish(layers, S)
    D = np.eye(3) + layers.dt * layers.drift(root.covariance)
    assert relative(D @ root.covariance @ D.T, root.covariance) < 1e-13
    assert relative(root.covariance, S) > 1e-4  # K != 0: the fixed point is another


@pytest.mark.parametrize("start", [1e-3, 1.0, 1e3])
def test_no_root_is_made_up(start):
    assert polish(no_equilibrium().model, start * np.eye(2)) is None
    skew = gct.GaussianTransformer([[0.0, 1.0], [-1.0, 1e-3]], np.zeros((2, 2)), np.zeros((2, 2)))
    assert polish(skew, start * random_covariance(np.random.default_rng(8), 2)) is None
