"""The slycot room: each call solves its equation, copies its arguments and fails in one way."""

import warnings

import numpy as np
import pytest
from matrices import OSCILLATOR, relative, stable, symmetric

from gausscontrol.linalg.mateqn import (
    ab13bd,
    ab13dd,
    ab13ed,
    ab13fd,
    sb02md,
    sb03md,
    sb03od,
    sg03ad,
)

I, ZERO = np.eye(2), np.zeros((2, 2))


@pytest.fixture(params=["C", "F"])
def data(request):
    """Matrices of a stable system in either memory order."""
    rng = np.random.default_rng(3)
    matrices = {
        "A": stable(rng, 4),
        "E": np.eye(4) + 0.1 * rng.standard_normal((4, 4)),
        "B": rng.standard_normal((4, 2)),
        "C": rng.standard_normal((3, 4)),
        "D": rng.standard_normal((3, 2)),
        "Q": symmetric(rng, 4),
    }
    return {name: np.array(M, order=request.param) for name, M in matrices.items()}


def test_equations_are_solved(data):
    A, E, B, _, _, Q = data.values()
    X, separation = sb03md(A, Q)
    assert relative(A @ X + X @ A.T, -Q) < 1e-13
    assert 0.0 < separation < 2.0 * np.linalg.norm(A)
    X, separation = sg03ad(A, E, Q)
    assert relative(A @ X @ E.T + E @ X @ A.T, -Q) < 1e-13
    fast, bound = sg03ad(A, E, Q, estimate=False)
    assert relative(fast, X) < 1e-13
    assert bound == pytest.approx(np.linalg.norm(Q) / np.linalg.norm(X))
    assert 0.0 < separation < 5.0 * bound
    assert sg03ad(A, E, np.zeros((4, 4)), estimate=False)[1] == np.inf
    X = sb02md(A, B @ B.T, np.eye(4))
    assert relative(A.T @ X + X @ A - X @ B @ B.T @ X, -np.eye(4)) < 1e-12


@pytest.mark.parametrize("inputs", [1, 2, 4, 7])
def test_gramian_factor_is_upper_triangular(inputs):
    rng = np.random.default_rng(inputs)
    A, B = stable(rng, 4), rng.standard_normal((4, inputs))
    F = sb03od(A, B)
    assert np.array_equal(F, np.triu(F))
    assert relative(A @ F @ F.T + F @ F.T @ A.T, -B @ B.T) < 1e-12


def test_measures(data):
    A, _, B, C, D, _ = data.values()
    peak, frequency = ab13dd(A, B, C, D)
    response = D + C @ np.linalg.solve(1j * frequency * np.eye(4) - A, B)
    assert peak == pytest.approx(np.linalg.norm(response, 2))
    assert ab13bd(A, B, C) == pytest.approx(np.linalg.norm(C @ sb03od(A, B)))
    low, high = ab13ed(A), ab13fd(A)
    assert 0.99 * high <= low <= high * (1.0 + 1e-8)


def test_arguments_are_copied(data):
    A, E, B, C, D, Q = data.values()
    kept = {name: M.copy() for name, M in data.items()}
    sb03md(A, Q)
    sg03ad(A, E, Q)
    sb02md(A, B @ B.T, Q @ Q)
    sb03od(A, B)
    ab13ed(A)
    ab13fd(A)
    ab13dd(A, B, C, D)
    ab13bd(A, B, C)
    for name, M in data.items():
        assert np.array_equal(M, kept[name]), name


@pytest.mark.parametrize(
    "call",
    [
        lambda: sb03md(np.diag([1.0, -1.0]), I),
        lambda: sg03ad(I, ZERO, I),
        lambda: sb02md(OSCILLATOR, ZERO, ZERO),
        lambda: sb03od(I, I),
        lambda: ab13bd(I, I, I),
    ],
)
def test_errors_and_warnings_of_slycot_leave_as_one_exception(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(np.linalg.LinAlgError) as info:
            call()
    assert caught == []
    assert "\n" not in str(info.value)


def test_the_warning_of_lost_accuracy_is_not_passed_on():
    A = OSCILLATOR - 1e-12 * I
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert ab13fd(A) < 1e-7
    assert caught == []
