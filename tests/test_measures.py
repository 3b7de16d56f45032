"""Measures of a stable system: known answers, laws, units, refusals, python-control as oracle."""

import control as ct
import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, OSCILLATOR, dims, relative, seeds, stable

from gausscontrol.errors import MatrixEquationError, ShapeError
from gausscontrol.linalg.equations import lyapunov
from gausscontrol.linalg.measures import (
    controllability_gramian,
    distance_to_instability,
    h2_norm,
    hankel_singular_values,
    hinf_norm,
    observability_gramian,
)

# Reference cases


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1.0, 1e6, 1e200])
def test_ab13fd_example(scale):
    A = np.array(
        [
            [246.5, 242.5, 202.5, -197.5],
            [-252.5, -248.5, -207.5, 202.5],
            [-302.5, -297.5, -248.5, 242.5],
            [-307.5, -302.5, -252.5, 246.5],
        ]
    )
    assert distance_to_instability(scale * A) / scale == pytest.approx(0.0039196472317, abs=1e-12)


def test_stability_is_judged_by_eigenvalues_of_a_nonsymmetric_matrix():
    M = np.array([[0.0, 1.0], [-578.0978, -67.4375]])
    P = lyapunov(M.T, np.eye(2)).solution
    assert np.linalg.eigvalsh(P).min() > 0.0
    assert 0.0 < distance_to_instability(M) <= 10.09
    assert np.linalg.eigvalsh(controllability_gramian(M, np.eye(2))).min() > 0.0


# Inputs stay as they are


@pytest.mark.parametrize("order", ["C", "F"])
def test_inputs_are_never_mutated(order):
    rng = np.random.default_rng(17)
    shapes = {"A": (4, 4), "B": (4, 2), "C": (3, 4), "D": (3, 2)}
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    arrays["A"] = stable(rng, 4)
    arrays = {name: np.array(value, order=order) for name, value in arrays.items()}
    kept = {name: value.copy() for name, value in arrays.items()}
    A, B, C, D = arrays.values()
    distance_to_instability(A)
    hinf_norm(A, B, C, D)
    h2_norm(A, B, C)
    controllability_gramian(A, B)
    observability_gramian(A, C)
    hankel_singular_values(A, B, C)
    for name, value in arrays.items():
        assert np.array_equal(value, kept[name]), name


# python-control as oracle


@pytest.mark.parametrize("d", [1, 3, 7, 50])
def test_against_python_control_measures(d):
    rng = np.random.default_rng(23 + d)
    A, B, C = stable(rng, d), rng.standard_normal((d, 2)), rng.standard_normal((2, d))
    D = rng.standard_normal((2, 2))
    strictly, feedthrough = ct.ss(A, B, C, 0), ct.ss(A, B, C, D)
    assert relative(controllability_gramian(A, B), ct.gram(strictly, "c")) < 1e-9
    assert relative(observability_gramian(A, C), ct.gram(strictly, "o")) < 1e-9
    energy = np.trace(C @ ct.gram(strictly, "c") @ C.T)
    assert h2_norm(A, B, C) == pytest.approx(np.sqrt(energy), rel=1e-8)
    assert h2_norm(A, B, C) == pytest.approx(ct.system_norm(strictly, 2), rel=1e-8)
    values = hankel_singular_values(A, B, C)
    expected = np.asarray(ct.hankel_singular_values(strictly))
    assert np.allclose(values, expected, rtol=1e-6, atol=1e-7 * values[0])
    for system, peak in (
        (strictly, hinf_norm(A, B, C)[0]),
        (feedthrough, hinf_norm(A, B, C, D)[0]),
    ):
        expected = ct.system_norm(system, "inf", tol=1e-9, method="scipy")
        assert peak == pytest.approx(expected, rel=1e-7)


# Measures


@LAWS
@given(d=dims, seed=seeds)
def test_distance_to_instability_is_the_smallest_singular_value_on_the_axis(d, seed):
    rng = np.random.default_rng(seed)
    A = stable(rng, d, margin=10.0 ** rng.uniform(-3.0, 1.0))
    distance = distance_to_instability(A)
    peak, frequency = hinf_norm(A, np.eye(d), np.eye(d))
    smallest = np.linalg.svd(A - 1j * frequency * np.eye(d), compute_uv=False)[-1]
    assert distance == pytest.approx(smallest, rel=1e-8)
    assert distance == pytest.approx(1.0 / peak, rel=1e-8)
    assert distance <= -np.linalg.eigvals(A).real.max() * (1.0 + 1e-12)


@pytest.mark.parametrize("damping", [1e-3, 1e-6, 1e-9, 1e-12])
def test_distance_is_right_below_the_accuracy_of_ab13fd(damping):
    A = OSCILLATOR - damping * np.eye(2)
    assert distance_to_instability(A) == pytest.approx(damping, rel=1e-6)


def test_hinf_norm_of_a_resonance():
    damping = 1e-3
    peak, frequency = hinf_norm([[0.0, 1.0], [-1.0, -damping]], [[0.0], [1.0]], [[1.0, 0.0]])
    assert peak == pytest.approx(1.0 / (damping * np.sqrt(1.0 - damping**2 / 4.0)), rel=1e-9)
    assert frequency == pytest.approx(np.sqrt(1.0 - damping**2 / 2.0), rel=1e-6)


def test_hinf_norm_at_infinite_frequency():
    peak, frequency = hinf_norm([[-1.0]], [[1.0]], [[-1.0]], [[5.0]])
    assert peak == pytest.approx(5.0)
    assert frequency == np.inf


def test_uncontrollable_part_has_hankel_values_at_rounding_level():
    A = np.diag([-1.0, -2.0, -3.0])
    values = hankel_singular_values(A, [[1.0], [0.0], [0.0]], np.ones((1, 3)))
    assert values[0] == pytest.approx(0.5)
    assert np.all(values[1:] < 1e-15)


def test_measures_scale_with_the_units():
    rng = np.random.default_rng(29)
    A, B, C = stable(rng, 5), rng.standard_normal((5, 2)), rng.standard_normal((2, 5))
    for a, b, c in ((1e6, 1e-6, 1.0), (1e-60, 1e40, 1e-30)):
        peak, frequency = hinf_norm(a * A, b * B, c * C)
        expected, where = hinf_norm(A, B, C)
        assert peak * a / (b * c) == pytest.approx(expected)
        assert frequency / a == pytest.approx(where, abs=1e-6)
        scale = np.sqrt(a) / (b * c)
        assert h2_norm(a * A, b * B, c * C) * scale == pytest.approx(h2_norm(A, B, C))
        P = controllability_gramian(a * A, b * B) * (a / b**2)
        assert relative(P, controllability_gramian(A, B)) < 1e-12
        values = hankel_singular_values(a * A, b * B, c * C) * (a / (b * c))
        assert values == pytest.approx(hankel_singular_values(A, B, C))


def test_more_inputs_than_states():
    rng = np.random.default_rng(31)
    A, B = stable(rng, 2), rng.standard_normal((2, 5))
    P = controllability_gramian(A, B)
    assert np.linalg.norm(A @ P + P @ A.T + B @ B.T) < 1e-12 * np.linalg.norm(B @ B.T)


@pytest.mark.parametrize(
    "call",
    [
        lambda A: distance_to_instability(A),
        lambda A: hinf_norm(A, np.eye(2), np.eye(2)),
        lambda A: h2_norm(A, np.eye(2), np.eye(2)),
        lambda A: controllability_gramian(A, np.eye(2)),
        lambda A: observability_gramian(A, np.eye(2)),
        lambda A: hankel_singular_values(A, np.eye(2), np.eye(2)),
        lambda A: h2_norm(A, np.zeros((2, 1)), np.eye(2)),
    ],
)
def test_measures_refuse_an_unstable_system(call):
    with pytest.raises(MatrixEquationError, match="spectral abscissa 3"):
        call(np.diag([3.0, -1.0]))
    for marginal in (OSCILLATOR, 1e6 * OSCILLATOR, np.zeros((2, 2)), np.diag([-1e-18, -1.0])):
        with pytest.raises(MatrixEquationError, match="expected A Hurwitz"):
            call(marginal)


def test_measures_of_empty_and_silent_systems():
    A, none = -np.eye(2), np.zeros((0, 0))
    assert distance_to_instability(none) == np.inf
    for B, C in ((np.zeros((2, 0)), np.eye(2)), (np.eye(2), np.zeros((1, 2)))):
        assert hinf_norm(A, B, C) == (0.0, 0.0)
        assert h2_norm(A, B, C) == 0.0
        assert not hankel_singular_values(A, B, C).any()
    assert hinf_norm(A, np.zeros((2, 1)), np.eye(2), [[3.0], [4.0]]) == (5.0, 0.0)
    assert hinf_norm(none, np.zeros((0, 2)), np.zeros((1, 0)), [[3.0, 4.0]])[0] == 5.0
    assert h2_norm(none, np.zeros((0, 2)), np.zeros((1, 0))) == 0.0
    assert controllability_gramian(A, np.zeros((2, 0))).shape == (2, 2)
    assert not observability_gramian(A, np.zeros((1, 2))).any()


# Bad input


def test_shapes_must_agree():
    I = np.eye(2)
    with pytest.raises(ShapeError, match="C"):
        hinf_norm(-I, I, np.eye(3))
    with pytest.raises(ShapeError, match="D"):
        hinf_norm(-I, I, I, np.eye(3))
