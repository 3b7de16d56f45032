"""When an equation counts as solved: exact scaling, rounding level, residual, refusals."""

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, OSCILLATOR, dims, seeds, symmetric, well_posed

from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.verdict import (
    EPS,
    LyapunovOperator,
    checked,
    exponent,
    rounding_level,
    scaled,
    unscaled,
)

I = np.eye(2)


@LAWS
@given(d=dims, seed=seeds)
def test_scaling_is_exact(d, seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((d, d)) * 10.0 ** rng.uniform(-250.0, 250.0)
    for step in (1, 2):
        small, k = scaled(M, step)
        assert 0.5**step <= np.abs(small).max() < 1.0
        assert k % step == 0
        assert np.array_equal(unscaled("equation", small, k), M)
    assert scaled(M)[1] == exponent(M)


def test_zero_is_left_alone_and_overflow_is_refused():
    assert exponent(np.zeros((2, 2))) == exponent(np.zeros((0, 0))) == 0
    with pytest.raises(MatrixEquationError, match=r"equation: .* range of double precision"):
        unscaled("equation", I, 2000)


def test_rounding_level():
    assert rounding_level(I) == pytest.approx(32.0 * EPS * np.sqrt(2.0))
    assert rounding_level(I, 3.0 * I) == pytest.approx(192.0 * EPS)


def test_residuals_are_relative_to_the_first_term():
    Y = np.array([[1.0, 2e-7], [0.0, 1.0]])
    X, residual = checked("equation", Y, lambda X: (2.0 * I, -2.0 * X))
    assert np.array_equal(X, [[1.0, 1e-7], [1e-7, 1.0]])
    assert residual == pytest.approx(1e-7)


def test_an_answer_that_misses_is_refused():
    def terms(X):
        return 1e-3 * I, X, -(1.0 + 1e-8) * X - 1e-3 * I

    with pytest.raises(MatrixEquationError, match=r"misses the right side by 1e-05 of it"):
        checked("equation", I, terms)
    assert checked("equation", I, terms, against_largest_term=True)[1] == pytest.approx(1e-5)
    zero = np.zeros((2, 2))
    assert checked("equation", zero, lambda X: (zero, X, X)) == (pytest.approx(zero), 0.0)


@LAWS
@given(d=dims, seed=seeds)
def test_operator_terms_add_up_to_the_operator(d, seed):
    rng = np.random.default_rng(seed)
    A, E, X = well_posed(rng, d), well_posed(rng, d), symmetric(rng, d)
    for second, F in ((None, np.eye(d)), (E, E)):
        terms = LyapunovOperator("equation", "A", A, second, 0, 0).terms(X)
        assert np.allclose(sum(terms), A @ X @ F.T + F @ X @ A.T)


def test_every_failure_of_a_backend_is_one_refusal():
    def gives_up(A, Q):
        raise np.linalg.LinAlgError

    operator = LyapunovOperator("equation", "A", OSCILLATOR, None, 3, 3)
    for backend in (
        gives_up,
        lambda A, Q: (np.full((2, 2), np.nan), 1.0),
        lambda A, Q: (I, 1e-16),
        lambda A, Q: (I, np.nan),
    ):
        with pytest.raises(MatrixEquationError, match=r"eigenvalues 0\+8j and 0-8j of A add up"):
            operator.solve(backend, I)
    X, separation = operator.solve(lambda A, Q: (Q, 0.5), I)
    assert np.array_equal(X, I)
    assert separation == 0.5
