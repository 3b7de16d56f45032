"""The enclosure of an exact equilibrium against exact rational arithmetic and direct search."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, relative, seeds
from problems import plain_attention_form, planted_problem, random_covariance, random_model

import gausscontrol as gct
from gausscontrol.analysis.enclosure import WhitenedPoint, form_evidence, inverse_norm
from gausscontrol.analysis.spectra import dense_operator


def exact(matrix):
    return [[Fraction(float(x)) for x in row] for row in matrix]


def product(X, Y):
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*Y, strict=True)]
        for row in X
    ]


def inverse(X):
    """Gauss and Jordan in rationals."""
    n = len(X)
    rows = [list(row) + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(X)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i], strict=True)]
    return [row[n:] for row in rows]


def gap(X, matrix):
    return float(
        np.linalg.norm(
            [
                [float(x - Fraction(float(y))) for x, y in zip(r, q, strict=True)]
                for r, q in zip(X, matrix, strict=True)
            ]
        )
    )


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_whitening_errors_bound_what_rationals_show(dim, condition):
    rng = np.random.default_rng(dim)
    model = random_model(rng, dim, 2)
    S = random_covariance(rng, dim, condition=condition**2)
    point = WhitenedPoint(model, S)
    R = exact(point._R)
    back = inverse(R)
    transposed = [list(row) for row in zip(*back, strict=True)]
    A = product(product(R, exact(model.A)), back)
    V = [product(product(R, exact(V)), back) for V in model.V]
    B = [product(product(transposed, exact(B)), back) for B in model.B]
    M = A
    for v, b in zip(V, B, strict=True):
        M = [
            [x + y for x, y in zip(r, q, strict=True)]
            for r, q in zip(M, product(v, b), strict=True)
        ]
    total = [[sum(v[i][j] for v in V) for j in range(dim)] for i in range(dim)]
    assert gap(M, point.drift) <= point.drift_error
    assert gap(total, point.white.V.sum(axis=0)) <= point.total_error
    for v, b in zip(V, B, strict=True):  # T on matrices E with one entry
        assert np.isfinite(gap(v, point.white.V[0]) + gap(b, point.white.B[0]))
    E = np.ones((dim, dim)) / dim
    T = [[Fraction(0)] * dim for _ in range(dim)]
    for v, b in zip(V, B, strict=True):
        image = product(product(v, exact(E)), b)
        T = [[x + y for x, y in zip(r, q, strict=True)] for r, q in zip(T, image, strict=True)]
    assert gap(T, point.white.attention(E)) <= point.attention_error * np.linalg.norm(E) * 1.01
    offset = product(product(R, exact(S)), R)
    assert gap(offset, np.eye(dim)) <= point.offset


@LAWS
@given(dims, seeds)
def test_a_wrong_point_lies_as_far_as_it_is_said(dim, seed):
    rng = np.random.default_rng(seed)
    model, S = planted_problem(rng, dim, 2, 1.0)
    exact_point = gct.find_equilibrium(model, S)
    E = random_covariance(rng, dim)
    moved = exact_point.covariance + 1e-5 * np.linalg.eigvalsh(S)[0] * E / np.linalg.norm(E)
    point = WhitenedPoint(model, moved)
    if np.isfinite(point.radius):
        distance = np.linalg.norm(exact_point.covariance - moved)
        assert distance <= point.distance(point.radius) + exact_point.existence_radius


@LAWS
@given(dims, seeds)
def test_inverse_norm_is_a_bound(dim, seed):
    model, S = planted_problem(np.random.default_rng(seed), dim, 2, 1.0)
    point = WhitenedPoint(model, S)
    J = dense_operator(point.white)
    exact_norm = np.linalg.norm(np.linalg.inv(J), 2)
    assert exact_norm <= inverse_norm(point, J) < np.inf
    assert inverse_norm(point, 0 * J) == np.inf


@LAWS
@given(dims, seeds)
def test_form_evidence(dim, seed):
    model, S = planted_problem(np.random.default_rng(seed), dim, 2, 1.0)
    point = WhitenedPoint(model, S)
    form = form_evidence(point)
    alpha = -np.linalg.eigvalsh(plain_attention_form(point.white.V, point.white.B))[-1]
    assert form.alpha == pytest.approx(alpha, rel=1e-9)
    assert 0 < form.margin < form.alpha
    assert form.margin == pytest.approx(form.alpha, rel=1e-3)
    assert 0 < form.rounding < 1e-8


def test_no_equilibrium_no_radius():
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    for S in (3 * np.eye(2), np.diag([1.0, 2.0])):
        assert form_evidence(WhitenedPoint(model, S)).radius == np.inf
        assert form_evidence(WhitenedPoint(model, S)).margin <= 0
    assert WhitenedPoint(model.replace(dt=0.1), np.eye(2)).radius == np.inf
    still = gct.GaussianTransformer(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2)))
    assert WhitenedPoint(still, np.eye(2)).radius == np.inf


def test_factored_heads_are_enclosed_too():
    rng = np.random.default_rng(0)
    W_Q, W_K, W_V = rng.standard_normal((3, 2, 3, 4))
    W_O = rng.standard_normal((2, 4, 3))
    factored = gct.GaussianTransformer.from_weights(W_Q, W_K, W_V, W_O)
    dense = gct.GaussianTransformer(factored.A, factored.B, factored.V)
    S = random_covariance(rng, 4)
    one, two = WhitenedPoint(factored, S), WhitenedPoint(dense, S)
    assert relative(one.drift, two.drift) < 1e-12
    assert np.linalg.norm(one.drift - two.drift) <= one.drift_error + two.drift_error
