"""Matrix equations: reference cases, both backends, laws, refusals, oracles of python-control."""

import warnings

import control as ct
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import (
    LAWS,
    METHODS,
    OSCILLATOR,
    dims,
    relative,
    seeds,
    stable,
    symmetric,
    well_posed,
)

from gausscontrol.errors import GausscontrolError, MatrixEquationError, ParameterError, ShapeError
from gausscontrol.linalg.equations import (
    bernoulli,
    generalized_lyapunov,
    lyapunov,
    solve_lyapunov,
    solve_newton_lyapunov,
)
from gausscontrol.linalg.riccati import riccati

both = pytest.mark.parametrize("method", METHODS)


# Reference cases


@both
def test_carex_1_2(method):
    A, B = np.array([[4.0, 3.0], [-4.5, -3.5]]), np.array([[1.0], [-1.0]])
    Q = np.array([[9.0, 6.0], [6.0, 4.0]])
    result = riccati(A, B, Q, [[1.0]], method=method)
    assert relative(result.solution, (1.0 + np.sqrt(2.0)) * Q) < 1e-12
    assert result.residual < 1e-12
    assert np.allclose(np.sort(result.poles.real), [-np.sqrt(2.0), -0.5])
    assert relative(result.gain, B.T @ result.solution) < 1e-14
    # S = X_s - X_a = 2 sqrt(2) Q has rank one: as a Bernoulli equation it has no definite solution
    closed = A - B @ result.gain
    with pytest.raises(MatrixEquationError, match="no solution S > 0"):
        bernoulli(-closed.T, -B @ B.T, method=method)


@both
def test_sb03qd_example(method):
    A = np.array([[3.0, 1.0, 1.0], [1.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
    C = np.array([[25.0, 24.0, 15.0], [24.0, 32.0, 8.0], [15.0, 8.0, 40.0]])
    X = np.array([[3.2604, 2.7187, 1.8616], [2.7187, 4.4271, 0.5699], [1.8616, 0.5699, 6.0461]])
    assert np.abs(lyapunov(A.T, -C, method=method).solution - X).max() < 5.1e-5
    S = bernoulli(A, -C, method=method).solution
    assert np.abs(np.linalg.inv(S) - X).max() < 5.1e-5
    assert np.linalg.norm(A @ S + S @ A.T - S @ C @ S) < 1e-12 * np.linalg.norm(C)


@both
def test_sg03ad_example(method):
    A = np.array([[3.0, 1.0, 1.0], [1.0, 3.0, 0.0], [1.0, 0.0, 2.0]])
    E = np.array([[1.0, 3.0, 0.0], [3.0, 2.0, 1.0], [1.0, 0.0, 1.0]])
    Y = np.array([[-64.0, -73.0, -28.0], [-73.0, -70.0, -25.0], [-28.0, -25.0, -18.0]])
    X = -np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 3.0]])
    result = generalized_lyapunov(A.T, -Y, E.T, method=method)
    assert relative(result.solution, X) < 1e-13
    assert result.residual < 1e-13
    assert relative(solve_newton_lyapunov(A.T, E, Y), X) < 1e-13


# Both backends on random problems


@pytest.mark.parametrize("d", [1, 2, 3, 8, 50])
def test_backends_agree_on_lyapunov(d):
    rng = np.random.default_rng(d)
    A, Q = stable(rng, d), symmetric(rng, d)
    first, second = (lyapunov(A, Q, method=method) for method in METHODS)
    assert relative(first.solution, second.solution) < 1e-10
    for result in (first, second):
        residual = np.linalg.norm(A @ result.solution + result.solution @ A.T + Q)
        assert residual < 1e-10 * np.linalg.norm(Q)
        assert result.residual < 1e-10
        assert np.array_equal(result.solution, result.solution.T)
    assert first.backend == "slycot"
    assert second.backend == "scipy"
    assert relative(solve_lyapunov(A, Q), first.solution) < 1e-12


@pytest.mark.parametrize("d", [1, 2, 3, 8, 50])
def test_backends_agree_on_generalized_lyapunov(d):
    rng = np.random.default_rng(100 + d)
    E = np.eye(d) + 0.5 * rng.standard_normal((d, d)) / np.sqrt(d)
    A, Q = stable(rng, d) @ E, symmetric(rng, d)
    first, second = (generalized_lyapunov(A, Q, E, method=method) for method in METHODS)
    assert relative(first.solution, second.solution) < 1e-9
    X = second.solution
    assert np.linalg.norm(A @ X @ E.T + E @ X @ A.T + Q) < 1e-9 * np.linalg.norm(Q)
    assert relative(solve_newton_lyapunov(A, E.T, -Q), X) < 1e-9


@pytest.mark.parametrize("d", [1, 2, 3, 8, 50])
def test_backends_agree_on_riccati(d):
    rng = np.random.default_rng(200 + d)
    m = max(1, d // 2)
    A, B, Q = rng.standard_normal((d, d)), rng.standard_normal((d, m)), np.eye(d)
    R = np.eye(m) + np.diag(rng.random(m))
    first, second = (riccati(A, B, Q, R, method=method) for method in METHODS)
    assert relative(first.solution, second.solution) < 1e-8
    assert relative(first.gain, second.gain) < 1e-8
    assert max(first.poles.real.max(), second.poles.real.max()) < 0.0
    assert np.linalg.eigvalsh(first.solution).min() > 0.0


@pytest.mark.parametrize("d", [1, 2, 3, 8, 50])
def test_backends_agree_on_bernoulli(d):
    rng = np.random.default_rng(300 + d)
    A, Z = -stable(rng, d), rng.standard_normal((d, d))
    G = -np.eye(d) - Z @ Z.T / d
    first, second = (bernoulli(A, G, method=method) for method in METHODS)
    assert relative(first.solution, second.solution) < 1e-8
    S = first.solution
    assert np.linalg.eigvalsh(S).min() > 0.0
    assert np.linalg.norm(A @ S + S @ A.T + S @ G @ S) < 1e-8 * np.linalg.norm(S @ G @ S)


def test_slycot_separation_bounds_that_of_the_kronecker_matrix():
    for d in range(1, 6):
        A = stable(np.random.default_rng(d), d)
        K = np.kron(A, np.eye(d)) + np.kron(np.eye(d), A)
        exact = np.linalg.svd(K, compute_uv=False).min()
        slycot = lyapunov(A, np.eye(d)).separation
        scipy = lyapunov(A, np.eye(d), method="scipy").separation
        assert exact / d / 3.0 <= slycot <= 3.0 * d * exact
        assert exact * (1.0 - 1e-10) <= scipy <= 2.0 * exact


# Laws


@LAWS
@given(d=dims, seed=seeds, method=st.sampled_from(METHODS))
def test_lyapunov_is_covariant(d, seed, method):
    rng = np.random.default_rng(seed)
    A, Q = well_posed(rng, d), symmetric(rng, d)
    T = np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)
    X = lyapunov(A, Q, method=method).solution
    assert np.linalg.norm(A @ X + X @ A.T + Q) < 1e-11 * np.linalg.norm(Q)
    moved = lyapunov(T @ A @ np.linalg.inv(T), T @ Q @ T.T, method=method).solution
    assert relative(moved, T @ X @ T.T) < 1e-8
    # adjoint: <P, X> is the same for the pair of transposed problems
    P = symmetric(rng, d)
    Y = lyapunov(A.T, P, method=method).solution
    assert np.sum(P * X) == pytest.approx(np.sum(Y * Q), rel=1e-8, abs=1e-8)


@LAWS
@given(d=dims, seed=seeds, method=st.sampled_from(METHODS))
def test_generalized_lyapunov_reduces_and_is_symmetric_in_its_two_matrices(d, seed, method):
    rng = np.random.default_rng(seed)
    A, Q = well_posed(rng, d), symmetric(rng, d)
    E = np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)
    X = lyapunov(A, Q, method=method).solution
    assert relative(generalized_lyapunov(A, Q, np.eye(d), method=method).solution, X) < 1e-9
    moved = generalized_lyapunov(E @ A, E @ Q @ E.T, E, method=method).solution
    assert relative(moved, X) < 1e-8
    swapped = generalized_lyapunov(E, E @ Q @ E.T, E @ A, method=method).solution
    assert relative(swapped, X) < 1e-8


@LAWS
@given(d=dims, seed=seeds, method=st.sampled_from(METHODS))
def test_riccati_is_covariant(d, seed, method):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((d, d)), np.eye(d) + 0.2 * rng.standard_normal((d, d)) / np.sqrt(d)
    T = np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)
    inverse = np.linalg.inv(T)
    X = riccati(A, B, np.eye(d), method=method).solution
    moved = riccati(T @ A @ inverse, T @ B, inverse.T @ inverse, method=method).solution
    assert relative(moved, inverse.T @ X @ inverse) < 1e-7


@LAWS
@given(d=dims, seed=seeds, method=st.sampled_from(METHODS))
def test_bernoulli_is_a_riccati_equation_without_constant_term(d, seed, method):
    rng = np.random.default_rng(seed)
    A = -stable(rng, d)
    S = bernoulli(A, -np.eye(d), method=method).solution
    assert relative(riccati(A.T, np.eye(d), np.zeros((d, d)), method=method).solution, S) < 1e-6


# No verdict depends on units


@both
@pytest.mark.parametrize(("a", "q"), [(1e6, 1e-6), (1e-6, 1e6), (1e100, 1e-100), (1e-100, 1.0)])
def test_scaling_changes_no_verdict_and_no_digit(method, a, q):
    rng = np.random.default_rng(5)
    A, Q, E = stable(rng, 4), symmetric(rng, 4), np.eye(4) + 0.1 * rng.standard_normal((4, 4))
    plain, scaled = lyapunov(A, Q, method=method), lyapunov(a * A, q * Q, method=method)
    assert relative(scaled.solution * (a / q), plain.solution) < 1e-12
    assert scaled.separation / a == pytest.approx(plain.separation)
    assert scaled.residual < 1e-13
    plain = generalized_lyapunov(A, Q, E, method=method)
    scaled = generalized_lyapunov(a * A, q * Q, E, method=method)
    assert relative(scaled.solution * (a / q), plain.solution) < 1e-12
    plain = bernoulli(-A, -np.eye(4), method=method)
    scaled = bernoulli(-a * A, -q * np.eye(4), method=method)
    assert relative(scaled.solution / (a / q), plain.solution) < 1e-10
    plain = riccati(A, np.eye(4), np.eye(4), method=method)
    scaled = riccati(a * A, np.eye(4), q * np.eye(4), (q / a) / a * np.eye(4), method=method)
    assert relative(scaled.solution * (a / q), plain.solution) < 1e-12
    assert relative(scaled.poles.real.min() / a, plain.poles.real.min()) < 1e-10
    for singular in (OSCILLATOR, np.diag([1.0, -1.0])):
        with pytest.raises(MatrixEquationError):
            lyapunov(a * singular, q * np.eye(2), method=method)


@both
def test_a_slow_mode_is_still_answered(method):
    A = np.array([[-1e-9, 1.0], [0.0, -1.0]])
    X = lyapunov(A, np.eye(2), method=method).solution
    assert X[1, 1] == pytest.approx(0.5)
    assert X[0, 0] == pytest.approx(1e9, rel=1e-3)


def test_out_of_range_solution_is_refused():
    with pytest.raises(MatrixEquationError, match="range of double precision"):
        lyapunov([[-1e-200]], [[1e200]])


# No unique solution: one exception


def singular_matrices():
    rng = np.random.default_rng(7)
    yield "zero", np.zeros((2, 2))
    yield "scalar zero", np.zeros((1, 1))
    yield "oscillator", OSCILLATOR
    yield "opposite", np.diag([1.0, -1.0])
    yield "nilpotent", np.diag(np.ones(4), 1)
    yield "nearly opposite", np.diag([1.0, -1.0 + 1e-15])
    for d in (3, 8, 20):
        Z, T = rng.standard_normal((2, d, d))
        yield f"skew {d}", Z - Z.T
        values = np.r_[2.0, -2.0, rng.standard_normal(d - 2)]
        yield f"opposite in general position {d}", T @ np.diag(values) @ np.linalg.inv(T)
        Qr = np.linalg.qr(T)[0]
        yield f"nilpotent in general position {d}", Qr @ np.diag(np.ones(d - 1), 1) @ Qr.T


@both
@pytest.mark.parametrize(("name", "A"), list(singular_matrices()))
def test_singular_linear_equations_are_refused(method, name, A):
    d = len(A)
    I = np.eye(d)
    for call in (
        lambda: lyapunov(A, I, method=method),
        lambda: bernoulli(A, -I, method=method),
        lambda: generalized_lyapunov(A, I, I, method=method),
        lambda: solve_lyapunov(A, I),
        lambda: solve_newton_lyapunov(A, I, I + 0.1),
    ):
        with pytest.raises(MatrixEquationError, match=r"no unique solution: eigenvalues .* add up"):
            call()


@both
def test_consistent_right_side_does_not_hide_a_singular_equation(method):
    for Q in (np.diag([1.0, -1.0]), np.zeros((2, 2))):
        with pytest.raises(MatrixEquationError, match="no unique solution"):
            lyapunov(OSCILLATOR, Q, method=method)
        with pytest.raises(MatrixEquationError, match="no unique solution"):
            generalized_lyapunov(OSCILLATOR, Q, np.eye(2), method=method)


@both
@pytest.mark.parametrize("gap", [0.0, 1e-17, 1e-15])
def test_singular_pencils_are_refused(method, gap):
    rng = np.random.default_rng(11)
    T, U = rng.standard_normal((2, 4, 4))
    A, Q = T @ np.diag([1.0, 2.0, 3.0, -1.0]) @ U, np.eye(4)
    for E in (
        T @ np.diag([1.0, 1.0, 1.0, 1.0 + gap]) @ U,
        T @ np.diag([1.0, 1.0, gap, 1.0]) @ U,
        np.zeros((4, 4)),
    ):
        with pytest.raises(MatrixEquationError, match=r"of the pencil \(A, E\)"):
            generalized_lyapunov(A, Q, E, method=method)
    with pytest.raises(MatrixEquationError, match="infinity"):
        generalized_lyapunov(np.eye(2), np.eye(2), np.diag([1.0, 0.0]), method=method)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_inner_loop_functions_refuse_data_that_are_not_finite(value):
    bad = np.array([[value, 0.0], [0.0, 1.0]])
    for call in (
        lambda: solve_lyapunov(bad, np.eye(2)),
        lambda: solve_lyapunov(-np.eye(2), bad),
        lambda: solve_newton_lyapunov(bad, np.eye(2), np.eye(2)),
        lambda: solve_newton_lyapunov(np.eye(2), bad, np.eye(2)),
        lambda: solve_newton_lyapunov(np.eye(2), np.eye(2), bad),
    ):
        with pytest.raises(MatrixEquationError, match="expected finite data"):
            call()


def test_message_names_the_eigenvalues_in_the_units_of_the_user():
    with pytest.raises(MatrixEquationError) as info:
        lyapunov(1e6 * OSCILLATOR, np.eye(2))
    assert "1e+06j" in str(info.value)
    assert "\n" not in str(info.value)
    with pytest.raises(MatrixEquationError, match="eigenvalues 3 and -3 of A"):
        lyapunov(np.diag([3.0, -3.0, 7.0]), np.eye(3))
    with pytest.raises(MatrixEquationError, match="eigenvalues 2 and -2 of the pencil"):
        generalized_lyapunov(np.diag([20.0, -20.0]), np.eye(2), 10.0 * np.eye(2))


def critical_riccati_problems():
    rng = np.random.default_rng(13)
    yield "no actuator", OSCILLATOR, np.zeros((2, 1)), np.eye(2)
    yield "no cost", OSCILLATOR, np.eye(2), np.zeros((2, 2))
    yield "nothing at all", np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1))
    yield "unseen integrator", np.diag([0.0, -1.0]), np.eye(2), np.diag([0.0, 1.0])
    yield "unstable, no actuator", np.diag([1.0, -1.0]), [[0.0], [1.0]], np.eye(2)
    yield "cost too negative", np.array([[-1.0]]), np.eye(1), np.array([[-2.0]])
    for d in (4, 12):
        T = np.linalg.qr(rng.standard_normal((d, d)))[0]
        A, B = rng.standard_normal((d, d)), np.zeros((d, d - 2))
        A[:2], B[2:] = 0.0, np.eye(d - 2)
        A[:2, :2] = OSCILLATOR
        yield f"oscillator out of reach {d}", T @ A @ T.T, T @ B, np.eye(d)
        A = A.copy()
        A[2:, :2], Q = 0.0, np.zeros((d, d))
        Q[2:, 2:] = np.eye(d - 2)
        yield f"oscillator out of sight {d}", T @ A @ T.T, np.eye(d), T @ Q @ T.T
        A[:2, :2] += np.eye(2)
        yield f"unstable part out of reach {d}", T @ A @ T.T, T @ B, np.eye(d)


@both
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("name", "A", "B", "Q"), list(critical_riccati_problems()))
def test_riccati_without_stabilising_solution_is_refused(method, scale, name, A, B, Q):
    with pytest.raises(MatrixEquationError, match="no stabilising solution"):
        riccati(scale * A, B, scale**2 * Q, method=method)


@both
def test_bernoulli_refuses_what_is_not_positive_definite(method):
    A = np.diag([1.0, 2.0])
    for G in (np.eye(2), np.diag([-1.0, 1.0]), np.zeros((2, 2)), np.diag([-1.0, 0.0])):
        with pytest.raises(MatrixEquationError, match="no solution S > 0"):
            bernoulli(A, G, method=method)


@both
def test_no_warning_escapes(method):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _, A in singular_matrices():
            d = len(A)
            for call in (lyapunov, generalized_lyapunov):
                with pytest.raises(MatrixEquationError):
                    call(
                        A, np.eye(d), *([np.eye(d)] if call is not lyapunov else []), method=method
                    )
        for _, A, B, Q in critical_riccati_problems():
            with pytest.raises(MatrixEquationError):
                riccati(A, B, Q, method=method)
    assert caught == []


# Right sides that are zero


@both
def test_zero_right_side(method):
    A = np.diag([-1.0, -2.0])
    result = lyapunov(A, np.zeros((2, 2)), method=method)
    assert not result.solution.any()
    assert result.residual == 0.0
    assert not generalized_lyapunov(A, np.zeros((2, 2)), np.eye(2), method=method).solution.any()
    result = riccati(-A, np.eye(2), np.zeros((2, 2)), method=method)
    assert relative(result.solution, -2.0 * A) < 1e-14
    assert result.residual < 1e-14


# Inputs stay as they are


@both
@pytest.mark.parametrize("order", ["C", "F"])
def test_inputs_are_never_mutated(method, order):
    rng = np.random.default_rng(17)
    d = 4
    arrays = {
        "A": stable(rng, d),
        "E": np.eye(d) + 0.1 * rng.standard_normal((d, d)),
        "B": rng.standard_normal((d, 2)),
        "Q": symmetric(rng, d),
        "P": np.eye(d),
        "R": np.eye(2),
    }
    arrays = {name: np.array(value, order=order) for name, value in arrays.items()}
    kept = {name: value.copy() for name, value in arrays.items()}
    A, E, B, Q, P, R = arrays.values()
    lyapunov(A, Q, method=method)
    lyapunov(A.T, Q, method=method)
    generalized_lyapunov(A, Q, E, method=method)
    generalized_lyapunov(A.T, Q, E.T, method=method)
    riccati(A, B, P, R, method=method)
    bernoulli(A, P, method=method)
    solve_lyapunov(A, Q)
    solve_newton_lyapunov(A, E, Q)
    solve_newton_lyapunov(A.T, E.T, Q)
    for name, value in arrays.items():
        assert np.array_equal(value, kept[name]), name


# python-control as oracle


@pytest.mark.parametrize("d", [1, 3, 7])
def test_against_python_control_equations(d):
    rng = np.random.default_rng(19 + d)
    A, Q = stable(rng, d), symmetric(rng, d)
    assert relative(lyapunov(A, Q).solution, ct.lyap(A, Q, method="scipy")) < 1e-11
    E = np.eye(d) + 0.2 * rng.standard_normal((d, d)) / np.sqrt(d)
    expected = ct.lyap(A @ E, Q, None, E)
    assert relative(generalized_lyapunov(A @ E, Q, E).solution, expected) < 1e-10
    m = max(1, d - 1)
    B, R = rng.standard_normal((d, m)), 2.0 * np.eye(m)
    X, poles, gain = ct.care(A, B, np.eye(d), R, method="scipy")
    result = riccati(A, B, np.eye(d), R)
    assert relative(result.solution, X) < 1e-10
    assert relative(result.gain, gain) < 1e-10
    assert relative(np.sort(result.poles.real), np.sort(poles.real)) < 1e-8


# Bad input


@both
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], ParameterError),
        ([[1.0, np.inf], [0.0, 1.0]], ParameterError),
        ([[1.0, 1j], [0.0, 1.0]], ParameterError),
        ([[True, False], [False, True]], ParameterError),
        ([["a", "b"], ["c", "d"]], ParameterError),
        ([[1.0, 2.0]], ShapeError),
        ([1.0, 2.0], ShapeError),
        ([[1.0], [2.0, 3.0]], ShapeError),
        (np.zeros((0, 0)), ShapeError),
    ],
)
def test_bad_matrices(method, kind, expected):
    I = np.eye(2)
    for call in (
        lambda: lyapunov(kind, I, method=method),
        lambda: lyapunov(I, kind, method=method),
        lambda: generalized_lyapunov(kind, I, I, method=method),
        lambda: generalized_lyapunov(I, kind, I, method=method),
        lambda: generalized_lyapunov(I, I, kind, method=method),
        lambda: riccati(kind, I, I, method=method),
        lambda: riccati(I, I, kind, method=method),
        lambda: riccati(I, I, I, kind, method=method),
        lambda: bernoulli(kind, I, method=method),
        lambda: bernoulli(I, kind, method=method),
    ):
        with pytest.raises(expected, match="expected"):
            call()


@both
def test_asymmetric_right_sides_are_refused_by_name(method):
    Q = np.array([[1.0, 1.0], [0.0, 1.0]])
    I = np.eye(2)
    with pytest.raises(ParameterError, match="Q: expected a symmetric matrix"):
        lyapunov(-I, Q, method=method)
    with pytest.raises(ParameterError, match="Q: expected a symmetric matrix"):
        generalized_lyapunov(-I, Q, I, method=method)
    with pytest.raises(ParameterError, match="Q: expected a symmetric matrix"):
        riccati(I, I, Q, method=method)
    with pytest.raises(ParameterError, match="R: expected a symmetric matrix"):
        riccati(I, I, I, Q, method=method)
    with pytest.raises(ParameterError, match="G: expected a symmetric matrix"):
        bernoulli(I, Q, method=method)
    # one ulp is rounding, not asymmetry
    Q = np.array([[1.0, 0.1], [np.nextafter(0.1, 1.0), 1.0]])
    assert lyapunov(-I, Q, method=method).residual < 1e-15


def test_other_bad_arguments():
    I = np.eye(2)
    for R in (np.zeros((2, 2)), np.diag([1.0, 0.0])):
        with pytest.raises(ParameterError, match="R: expected a nonsingular matrix"):
            riccati(I, I, I, R)
    with pytest.raises(ShapeError, match="B: expected a 2 x any matrix"):
        riccati(I, np.eye(3), I)
    with pytest.raises(ShapeError, match="E"):
        generalized_lyapunov(I, I, np.eye(3))
    for method in ("slicot", None, "SCIPY"):
        with pytest.raises(ParameterError, match="method: expected 'slycot' or 'scipy'"):
            lyapunov(-I, I, method=method)
    with pytest.raises(TypeError):
        lyapunov(-I, I, "scipy")


def test_scalars_and_integers_are_accepted():
    assert lyapunov(-1, 2).solution == pytest.approx(1.0)
    assert lyapunov([[-1, 0], [0, -2]], [[2, 0], [0, 4]]).solution.dtype == float
    assert bernoulli(1, -2).solution == pytest.approx(1.0)
    assert riccati(0, 1, 1).solution == pytest.approx(1.0)


# Results


def test_results_are_frozen_and_print_a_report():
    result = riccati(OSCILLATOR, [[0.0], [1.0]], np.eye(2))
    with pytest.raises(AttributeError):
        result.residual = 0.0
    report = str(result)
    for word in ("Riccati equation", "slycot", "2 x 2", "residual", "separation", "abscissa"):
        assert word in report
    report = str(lyapunov(-np.eye(3), np.eye(3), method="scipy"))
    assert "Lyapunov equation A X + X A^T + Q = 0, solved by scipy" in report
    assert "3 x 3" in report
    assert issubclass(MatrixEquationError, GausscontrolError)
