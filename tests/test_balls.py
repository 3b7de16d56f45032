"""Ball arithmetic: exact entry, enclosures, definiteness, Hurwitz, nothing from NaN."""

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg import ball_forms, balls
from gausscontrol.linalg.operators import symmetric_operator

FEW = settings(derandomize=True, deadline=None, max_examples=20)
SEEDS = st.integers(0, 10_000)


@pytest.fixture(autouse=True)
def _bits():
    with balls.precision():
        yield


def floats(X):
    return np.array([[float(x) for x in row] for row in X.table()])


def hilbert(size):
    """Return the Hilbert matrix, condition about e^(3.5 size), in exact rationals inside balls."""
    one = balls.exact(1.0)
    rows = [[one / (i + j + 1) for j in range(size)] for i in range(size)]
    return type(balls.identity(1))(rows)


def test_floats_enter_without_rounding():
    values = np.array([[0.1, -5e-324], [1.7e308, 1 / 3]])
    ball = balls.exact_matrix(values)
    assert all(x.is_exact() for x in ball.entries())
    assert np.array_equal(floats(ball), values)
    rational = balls.rational_matrix(values)
    assert [Fraction(int(x.p), int(x.q)) for x in rational.entries()] == [
        Fraction(v) for v in values.flat
    ]


def test_precision_is_restored_and_never_lowered():
    third = balls.exact(1.0) / 3
    with balls.precision(20):
        assert (balls.exact(1.0) / 3).rad() <= third.rad()
    with balls.precision(2000):
        assert (balls.exact(1.0) / 3).rad() < third.rad()
    assert (balls.exact(1.0) / 3).rad() == third.rad()


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(GausscontrolError, match=r"gausscontrol\[rigorous\]"), balls.precision():
        pass


@FEW
@given(SEEDS, st.integers(1, 4), st.integers(1, 3))
def test_operations_enclose_numpy(seed, dim, terms):
    rng = np.random.default_rng(seed)
    P, R = rng.standard_normal((2, terms, dim, dim))
    operator = ball_forms.symmetric_map(
        [balls.exact_matrix(x) for x in P], [balls.exact_matrix(x) for x in R]
    )
    assert np.allclose(floats(operator), symmetric_operator(P, R), atol=1e-13)
    E = rng.standard_normal((dim, dim))
    E = E + E.T
    ball = balls.exact_matrix(E)
    assert np.array_equal(floats(ball_forms.unvech(ball_forms.vech(ball), dim)), E)
    vector = ball_forms.vech(ball)
    value = (vector.transpose() * ball_forms.form_matrix(operator) * vector)[0, 0]
    image = sum(P @ E @ R)
    assert np.isclose(float(value), np.sum(E * (image + image.T)), atol=1e-12)
    assert np.isclose(float(balls.frobenius(ball)), np.linalg.norm(E))
    assert not balls.frobenius(ball) ** 2 < (ball * ball).trace()
    left, right = balls.exact_matrix(P[0]), balls.exact_matrix(R[0])
    assert np.allclose(floats(balls.kronecker(left, right)), np.kron(P[0], R[0]))
    assert np.allclose(
        floats(balls.block_matrix([[left, right], [right, left]])),
        np.block([[P[0], R[0]], [R[0], P[0]]]),
    )


@FEW
@given(SEEDS, st.integers(1, 20))
def test_definiteness_is_decided_to_the_last_float(seed, size):
    # L L^T is singular once a row of L is zero; one ulp either way decides.
    rng = np.random.default_rng(seed)
    L = balls.exact_matrix(np.tril(rng.standard_normal((size, size)), -1) + np.eye(size))
    D = np.ones(size)
    for last, wanted in ((1e-60, True), (0.0, False), (-1e-60, False)):
        D[-1] = last
        X = balls.congruence(L, balls.exact_matrix(np.diag(D)))
        assert balls.is_positive_definite(X) is wanted


def test_hilbert_matrix_is_positive_definite_where_floats_fail():
    X = hilbert(24)
    assert np.linalg.eigvalsh(floats(X))[0] < 0
    assert balls.is_positive_definite(X)


def test_definiteness_holds_for_the_whole_ball():
    X = balls.exact_matrix(np.diag([1.0, 2.0, 3.0]))
    assert balls.is_positive_definite(balls.widened(X, balls.exact(0.3)))
    assert not balls.is_positive_definite(balls.widened(X, balls.exact(1.1)))
    assert not balls.is_positive_definite(X * balls.exact(-1.0))


def test_only_the_lower_triangle_counts():
    X = np.eye(8)
    X[0, 7] = 100.0
    assert balls.is_positive_definite(balls.exact_matrix(X))
    assert not balls.is_positive_definite(balls.exact_matrix(X.T))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_nothing_is_proved_of_nan_or_infinity(bad, size):
    for sign in (1.0, -1.0):
        X = sign * np.eye(size)
        X[-1, -1] = sign * bad
        ball = balls.exact_matrix(X)
        assert not balls.is_positive_definite(ball)
        assert not balls.is_hurwitz(ball)
        assert not balls.is_schur(ball)


@FEW
@given(SEEDS, st.integers(1, 9))
def test_hurwitz_and_schur_agree_with_eigenvalues(seed, size):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((size, size))
    values = np.linalg.eigvals(X)
    for gap in (1e-9, -1e-9):
        shifted = balls.exact_matrix(X - (values.real.max() + gap) * np.eye(size))
        assert balls.is_hurwitz(shifted) is (gap > 0)
        scaled = balls.exact_matrix(X / (np.abs(values).max() * (1 + gap)))
        assert balls.is_schur(scaled) is (gap > 0)


def test_hurwitz_is_strict_and_free_of_coordinates():
    rotation = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert not balls.is_hurwitz(balls.exact_matrix(rotation))
    assert balls.is_hurwitz(balls.exact_matrix(rotation - 2.0**-1000 * np.eye(2)))
    assert not balls.is_schur(balls.exact_matrix(rotation))
    assert not balls.is_schur(balls.exact_matrix(-np.eye(2)))
    jordan = -np.eye(6) + 1e12 * np.eye(6, k=1)
    assert balls.is_hurwitz(balls.exact_matrix(jordan))
    wide = balls.widened(balls.exact_matrix(-np.eye(2)), balls.exact(0.2))
    assert balls.is_hurwitz(wide)
    assert not balls.is_hurwitz(balls.widened(wide, balls.exact(0.7)))


def test_semidefiniteness_is_decided_exactly():
    rng = np.random.default_rng(3)
    tall = rng.integers(-3, 4, (5, 2)).astype(float)
    assert balls.alternates(balls.rational_matrix(tall @ tall.T))
    assert balls.alternates(balls.rational_matrix(np.zeros((3, 3))))
    assert not balls.alternates(balls.rational_matrix(tall @ tall.T - 2.0**-40 * np.eye(5)))
    assert not balls.alternates(balls.rational_matrix(np.diag([1.0, -5e-324])))
    assert not balls.alternates(balls.rational_matrix(np.array([[0.0, 1.0], [1.0, 0.0]])))


def test_singular_matrices_have_no_inverse():
    X = balls.exact_matrix(np.array([[1.0, 2.0], [2.0, 4.0]]))
    assert balls.inverse(X) is None
    assert balls.solve(X, balls.exact_matrix(np.ones((2, 1)))) is None
    Y = balls.inverse(hilbert(12))
    product = Y * hilbert(12) - balls.identity(12)
    assert all(x.contains(0) for x in product.entries())
    assert balls.frobenius(product) < 1e-40
