"""Polynomials and Gram matrices against plain evaluation at points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg import polynomials, sos
from gausscontrol.linalg.symmetric import smat, svec

law = settings(derandomize=True, deadline=None, max_examples=20)
shapes = st.tuples(st.integers(1, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))


def random_polynomial(rng, variables, degree):
    count = polynomials.monomial_count(variables, degree)
    return polynomials.Polynomial(variables, rng.standard_normal(count))


def random_gram(rng, size):
    X = rng.standard_normal((size, size))
    return X + X.T


@given(shapes)
@law
def test_monomials_are_all_there_in_graded_order(shape):
    variables, degree, _ = shape
    basis = polynomials.monomials(variables, 0, degree)
    assert_allclose(basis.position, np.arange(polynomials.monomial_count(variables, degree)))
    assert (np.diff(basis.exponents.sum(axis=1)) >= 0).all()
    assert len({tuple(row) for row in basis.exponents}) == len(basis)
    part = polynomials.monomials(variables, degree // 2, degree)
    assert_allclose(basis.exponents[part.position], part.exponents)


def test_degree_one_keeps_the_order_of_the_variables():
    assert_allclose(polynomials.monomials(5, 1, 1).exponents, np.eye(5))


@given(shapes)
@law
def test_scaled_monomials_have_the_norm_of_the_point(shape):
    variables, degree, seed = shape
    points = np.random.default_rng(seed).standard_normal((variables, 3))
    z = polynomials.monomials(variables, degree, degree)(points)
    assert_allclose((z**2).sum(axis=0), (points**2).sum(axis=0) ** degree)
    assert_allclose(polynomials.monomials(variables, degree, degree)(points[:, 0]), z[:, 0])


@given(shapes)
@law
def test_arithmetic_agrees_with_values(shape):
    variables, degree, seed = shape
    rng = np.random.default_rng(seed)
    p, q = random_polynomial(rng, variables, degree), random_polynomial(rng, variables, 2)
    points = rng.standard_normal((variables, 4))
    assert_allclose((p * q)(points), p(points) * q(points), atol=1e-9)
    assert_allclose((p + q)(points), p(points) + q(points), atol=1e-10)
    assert_allclose((2.0 * p - q)(points), 2 * p(points) - q(points), atol=1e-10)
    step = 1e-6 * np.eye(variables)
    for i in range(variables):
        slope = (p(points + step[:, i : i + 1]) - p(points - step[:, i : i + 1])) / 2e-6
        assert_allclose(p.derivative(i)(points), slope, rtol=1e-5, atol=1e-4)


@given(shapes)
@law
def test_directional_map_is_the_derivative_along_a_field(shape):
    variables, degree, seed = shape
    rng = np.random.default_rng(seed)
    degree += 1
    p = random_polynomial(rng, variables, degree)
    field = [random_polynomial(rng, variables, 2) for _ in range(variables)]
    image = polynomials.directional_map(field, degree) @ p.coefficients
    plain = p.derivative(0) * field[0]
    for i in range(1, variables):
        plain = plain + p.derivative(i) * field[i]
    assert_allclose(image, plain.coefficients, atol=1e-10)


@given(shapes)
@law
def test_gram_map_is_the_quadratic_form_of_the_monomials(shape):
    variables, degree, seed = shape
    rng = np.random.default_rng(seed)
    basis = polynomials.monomials(variables, min(1, degree), degree)
    G = random_gram(rng, len(basis))
    points = rng.standard_normal((variables, 4))
    p = polynomials.Polynomial(variables, sos.gram_map(basis) @ svec(G))
    z = basis(points)
    assert_allclose(p(points), np.einsum("ak,ab,bk->k", z, G, z), atol=1e-8)


@pytest.mark.parametrize("variables", [1, 3, 6])
def test_rows_of_a_gram_map_are_orthonormal_within_one_degree(variables):
    basis = polynomials.monomials(variables, 2, 2)
    identity = sos.Identity(variables, [sos.gram_map(basis)])
    square = (identity.matrix @ identity.matrix.T).toarray()
    assert_allclose(square, np.eye(len(square)), atol=1e-14)


@pytest.mark.parametrize(("dim", "high"), [(1, 2), (2, 1), (2, 2), (3, 1)])
def test_matrix_gram_map_is_the_trace_of_a_product(dim, high):
    rng = np.random.default_rng(dim + high)
    n = dim * (dim + 1) // 2
    basis = polynomials.monomials(n, 1, high)
    G = random_gram(rng, dim * len(basis))
    Y = sos.shifted_symmetric(dim)
    p = polynomials.Polynomial(n, sos.matrix_gram_map(basis, Y) @ svec(G))
    for e in rng.standard_normal((4, n)):
        lift = np.kron(basis(e)[:, None], np.eye(dim))
        S = lift.T @ G @ lift
        assert_allclose(p(e), np.trace(S @ (np.eye(dim) + smat(e))), rtol=1e-10)
        values = np.array([[entry(e) for entry in row] for row in Y])
        assert_allclose(values, np.eye(dim) + smat(e), atol=1e-15)


@pytest.mark.parametrize(("dim", "high"), [(2, 1), (2, 2), (3, 1)])
def test_the_top_degree_of_a_matrix_gram_map_has_orthonormal_rows(dim, high):
    n = dim * (dim + 1) // 2
    basis = polynomials.monomials(n, high, high)
    identity = sos.Identity(n, [sos.matrix_gram_map(basis, sos.shifted_symmetric(dim))])
    top = identity.positions >= polynomials.monomial_count(n, 2 * high)
    rows = identity.matrix[np.flatnonzero(top)]
    assert_allclose((rows @ rows.T).toarray(), np.eye(top.sum()), atol=1e-14)


@given(shapes)
@law
def test_norms_do_not_change_under_rotation_and_bound_products(shape):
    variables, degree, seed = shape
    rng = np.random.default_rng(seed)
    p = random_polynomial(rng, variables, degree)
    q = random_polynomial(rng, variables, 1)
    homogeneous = polynomials.Polynomial(variables, p.coefficients.copy())
    homogeneous.coefficients[: polynomials.monomial_count(variables, degree - 1)] = 0
    slope = polynomials.Polynomial.linear(q.coefficients[1:])
    bound = homogeneous.norms()[-1] * slope.norms()[-1]
    assert (homogeneous * slope).norms()[-1] <= bound * (1 + 1e-12)
    Q = random_gram(rng, variables)
    assert_allclose(polynomials.Polynomial.quadratic(Q).norms()[-1], np.linalg.norm(Q))
    U = np.linalg.qr(rng.standard_normal((variables, variables)))[0]
    # The rotated polynomial, interpolated: p(U e) at as many points as there are monomials.
    basis = polynomials.monomials(variables, 0, degree)
    points = rng.standard_normal((variables, 3 * len(basis)))
    scaled = np.linalg.lstsq(basis(points).T, p(U @ points), rcond=None)[0]
    rotated = polynomials.Polynomial(variables, scaled * basis.weight)
    assert_allclose(rotated.norms(), p.norms(), rtol=1e-5, atol=1e-7)


def test_an_identity_is_corrected_to_rounding():
    rng = np.random.default_rng(3)
    basis = polynomials.monomials(3, 1, 2)
    G = random_gram(rng, len(basis))
    known = polynomials.Polynomial(3, sos.gram_map(basis) @ svec(G))
    number = polynomials.Polynomial.quadratic(np.eye(3)).coefficients
    identity = sos.Identity(3, [sos.gram_map(basis), number], known)
    x = np.concatenate([svec(G), [0.0]])
    rough = x + 1e-6 * rng.standard_normal(x.size)
    fine = identity.correct(rough)
    assert np.abs(identity.residual(rough)).max() > 1e-7
    assert (np.abs(identity.residual(fine)) <= identity.rounding(fine)).all()
    assert np.linalg.norm(fine - rough) < 1e-5
    kept = identity.correct(rough, keep=[1])
    assert kept[-1] == rough[-1]
    assert (np.abs(identity.residual(kept)) <= identity.rounding(kept)).all()
    gram, level = identity.split(kept)
    assert gram.size == svec(G).size
    assert level.size == 1


def test_what_no_unknown_reaches_is_refused():
    with pytest.raises(ParameterError, match="target"):
        sos.Identity(
            2,
            [sos.gram_map(polynomials.monomials(2, 1, 1))],
            polynomials.Polynomial.constant(2, 1.0),
        )
    with pytest.raises(ShapeError, match=r"coefficients: .* found 4"):
        polynomials.Polynomial(2, np.zeros(4))
    with pytest.raises(ParameterError, match="low = 2"):
        polynomials.monomials(2, 2, 1)
