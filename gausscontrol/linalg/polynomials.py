"""Polynomials in n variables as vectors of coefficients, and linear maps between them.

    p(e) = sum_m c_m e^m,     m in graded order: 1, e_1 ... e_n, then degree 2, and so on

so that a polynomial of low degree is the beginning of one of high degree. Monomials also come
scaled, z_m = w_m e^m, where w_m^2 is the multinomial coefficient |m|! / m!. Those of degree k then
have |z(e)|^2 = |e|^(2k), and sum_m (c_m / w_m)^2 of a homogeneous polynomial is the squared
Frobenius norm of its symmetric tensor: it does not change under rotations of e, and
|f g| <= |f| |g|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import scipy.sparse

from gausscontrol.errors import ParameterError, ShapeError

__all__ = [
    "Monomials",
    "Polynomial",
    "derivative_map",
    "directional_map",
    "graded_position",
    "monomial_count",
    "monomials",
    "polynomial_degree",
    "product_map",
]


@dataclass(frozen=True, eq=False)
class Monomials:
    """Monomials of degrees low..high in graded order.

    Attributes
    ----------
    variables, low, high : int
    exponents : (N, n) ndarray
    position : (N,) ndarray
        Where each stands among all monomials, 1 being the first.
    weight : (N,) ndarray
        Square roots of the multinomial coefficients, w_a.
    """

    variables: int
    low: int
    high: int
    exponents: np.ndarray
    position: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        """Return how many there are, the size of a Gram matrix on them."""
        return len(self.position)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return z = w_a e^a at points (n,) or (n, K): shape (N,) or (N, K)."""
        points = np.asarray(points, dtype=float)
        columns = points.reshape(self.variables, -1)
        z = (columns[None] ** self.exponents[:, :, None]).prod(axis=1) * self.weight[:, None]
        return z.reshape(len(self), *points.shape[1:])


def monomial_count(variables: int, degree: int) -> int:
    """Return the number of monomials of degree at most `degree`; 0 for negative degrees."""
    return comb(variables + degree, variables) if degree >= 0 else 0


@lru_cache(maxsize=64)
def monomials(variables: int, low: int, high: int) -> Monomials:
    """Return the monomials of degrees low..high in n variables.

    Parameters
    ----------
    variables : int
        n.
    low, high : int
        0 <= low <= high.

    Returns
    -------
    Monomials

    Raises
    ------
    ParameterError
        If the degrees are not in order.

    Examples
    --------
    >>> monomials(2, 0, 2).exponents.tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """
    if not (variables >= 1 and 0 <= low <= high):
        raise ParameterError(
            f"degrees: expected n >= 1 and 0 <= low <= high, found n = {variables}, "
            f"low = {low}, high = {high}; pass degrees in order"
        )
    rows = []
    for degree in range(low, high + 1):
        chosen = np.array(list(combinations_with_replacement(range(variables), degree)), dtype=int)
        table = np.zeros((len(chosen), variables), dtype=np.int64)
        np.add.at(table, (np.arange(len(chosen))[:, None], chosen.reshape(len(chosen), degree)), 1)
        rows.append(table)
    exponents = np.concatenate(rows)
    position = graded_position(exponents)
    order = np.argsort(position)
    found = Monomials(
        variables, low, high, exponents[order], position[order], _weights(exponents[order])
    )
    for array in (found.exponents, found.position, found.weight):
        array.flags.writeable = False
    return found


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A polynomial in n variables with known coefficients.

    Attributes
    ----------
    variables : int
        n.
    coefficients : (monomial_count(n, degree),) ndarray
        In graded order, of plain (not scaled) monomials.

    Raises
    ------
    ShapeError
        If the number of coefficients belongs to no degree.

    Examples
    --------
    >>> import numpy as np
    >>> p = Polynomial.quadratic(np.array([[1.0, 2.0], [2.0, 5.0]]))
    >>> bool(np.isclose(p(np.array([1.0, -1.0])), 2.0)), (p * p).degree
    (True, 4)
    """

    variables: int
    coefficients: np.ndarray

    def __post_init__(self) -> None:
        polynomial_degree(self.variables, len(self.coefficients))

    @property
    def degree(self) -> int:
        """The degree up to which coefficients are kept; leading ones may be zero."""
        return polynomial_degree(self.variables, len(self.coefficients))

    @classmethod
    def constant(cls, variables: int, value: float) -> Polynomial:
        """Return a constant."""
        return cls(variables, np.array([float(value)]))

    @classmethod
    def linear(cls, slope: np.ndarray, value: float = 0.0) -> Polynomial:
        """Return value + slope^T e."""
        return cls(len(slope), np.concatenate([[float(value)], slope]))

    @classmethod
    def quadratic(cls, Q: np.ndarray) -> Polynomial:
        """Return e^T Q e."""
        n = len(Q)
        coefficients = np.zeros(monomial_count(n, 2))
        np.add.at(coefficients, _product_positions(n, 1, 1)[1:, 1:], Q)
        return cls(n, coefficients)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return values at points (n,) or (n, K)."""
        basis = monomials(self.variables, 0, self.degree)
        return (self.coefficients / basis.weight) @ basis(points)

    def __add__(self, other: Polynomial) -> Polynomial:
        """Return the sum."""
        size = max(len(self.coefficients), len(other.coefficients))
        total = np.zeros(size)
        total[: len(self.coefficients)] += self.coefficients
        total[: len(other.coefficients)] += other.coefficients
        return Polynomial(self.variables, total)

    def __neg__(self) -> Polynomial:
        """Return the negative."""
        return Polynomial(self.variables, -self.coefficients)

    def __sub__(self, other: Polynomial) -> Polynomial:
        """Return the difference."""
        return self + -other

    def __mul__(self, other: Polynomial | float) -> Polynomial:
        """Return the product with a number or a polynomial."""
        if not isinstance(other, Polynomial):
            return Polynomial(self.variables, float(other) * self.coefficients)
        return Polynomial(self.variables, product_map(self, other.degree) @ other.coefficients)

    __rmul__ = __mul__

    def derivative(self, variable: int) -> Polynomial:
        """Return the partial derivative with respect to one variable."""
        image = derivative_map(self.variables, self.degree, variable) @ self.coefficients
        return Polynomial(self.variables, image)

    def norms(self) -> np.ndarray:
        """Return the rotation-invariant norm of each homogeneous part, degree 0 first.

        Returns
        -------
        (degree + 1,) ndarray
            The Frobenius norms of the symmetric tensors.
        """
        basis = monomials(self.variables, 0, self.degree)
        scaled = (self.coefficients / basis.weight) ** 2
        ends = [monomial_count(self.variables, k) for k in range(-1, self.degree)]
        return np.sqrt(np.add.reduceat(scaled, ends))


@lru_cache(maxsize=256)
def polynomial_degree(variables: int, count: int) -> int:
    """Return the degree up to which a number of coefficients reaches, or raise ShapeError."""
    degree = 0
    while monomial_count(variables, degree) < count:
        degree += 1
    if monomial_count(variables, degree) != count:
        raise ShapeError(
            f"coefficients: expected as many as there are monomials up to some degree in "
            f"{variables} variables, found {count}; pad with zeros"
        )
    return degree


def graded_position(exponents: np.ndarray) -> np.ndarray:
    """Return the position of monomials in graded order (the combinatorial number system)."""
    count, n = exponents.shape
    if not count:
        return np.zeros(0, dtype=np.int64)
    tails = np.cumsum(exponents[:, ::-1], axis=1)[:, ::-1]  # sums of the exponents from i on
    table = _multichoose(n, int(tails[:, 0].max()))
    return table[tails, n - np.arange(n)].sum(axis=1)


def product_map(known: Polynomial, degree: int) -> scipy.sparse.csr_array:
    """Return the map coefficients of f -> coefficients of (known polynomial) f.

    Parameters
    ----------
    known : Polynomial
    degree : int
        Degree of f.

    Returns
    -------
    (monomial_count(n, known.degree + degree), monomial_count(n, degree)) sparse array
    """
    n = known.variables
    positions = _product_positions(n, degree, known.degree)
    columns = np.repeat(np.arange(len(positions)), positions.shape[1])
    values = np.broadcast_to(known.coefficients, positions.shape).reshape(-1)
    keep = values != 0
    entries = (positions.reshape(-1)[keep], columns[keep])
    shape = (monomial_count(n, known.degree + degree), len(positions))
    return scipy.sparse.csr_array((values[keep], entries), shape)


@lru_cache(maxsize=256)
def derivative_map(variables: int, degree: int, variable: int) -> scipy.sparse.csr_array:
    """Return the map coefficients of f -> coefficients of its partial derivative.

    Parameters
    ----------
    variables, degree : int
        n, and the degree of f.
    variable : int
        Which of the n variables.

    Returns
    -------
    (monomial_count(n, degree - 1), monomial_count(n, degree)) sparse array
    """
    basis = monomials(variables, 0, degree)
    power = basis.exponents[:, variable]
    (here,) = np.nonzero(power)
    lowered = basis.exponents[here].copy()
    lowered[:, variable] -= 1
    shape = (monomial_count(variables, max(degree - 1, 0)), len(basis))
    entries = (graded_position(lowered), here)
    return scipy.sparse.csr_array((power[here].astype(float), entries), shape)


def directional_map(field: Sequence[Polynomial], degree: int) -> scipy.sparse.csr_array:
    """Return the map coefficients of f -> coefficients of Df(e) . field(e).

    Parameters
    ----------
    field : n polynomials of equal degree
    degree : int
        Degree of f, at least 1.

    Returns
    -------
    (monomial_count(n, degree - 1 + field degree), monomial_count(n, degree)) sparse array
        The derivative of f along the flow e' = field(e).
    """
    n = field[0].variables
    terms = np.array([polynomial.coefficients for polynomial in field])
    positions = _product_positions(n, degree - 1, field[0].degree)
    count = len(positions)
    values = np.broadcast_to(terms[:, None], (n, *positions.shape)).reshape(-1)
    rows = np.broadcast_to(positions, (n, *positions.shape)).reshape(-1)
    columns = np.repeat(np.arange(n * count), positions.shape[1])
    shape = (monomial_count(n, degree - 1 + field[0].degree), n * count)
    keep = values != 0
    products = scipy.sparse.csr_array((values[keep], (rows[keep], columns[keep])), shape)
    return products @ _gradient_map(n, degree)


@lru_cache(maxsize=64)
def _multichoose(variables: int, degree: int) -> np.ndarray:
    # Entry (t, j) = C(t + j - 1, j): how many monomials in j variables have a degree below t.
    below = [[monomial_count(j, t - 1) for j in range(variables + 1)] for t in range(degree + 1)]
    return np.array(below, dtype=np.int64)


def _weights(exponents: np.ndarray) -> np.ndarray:
    factorial = np.cumprod(np.concatenate([[1.0], np.arange(1.0, exponents.sum(axis=1).max() + 1)]))
    return np.sqrt(factorial[exponents.sum(axis=1)] / factorial[exponents].prod(axis=1))


@lru_cache(maxsize=64)
def _product_positions(variables: int, degree: int, other: int) -> np.ndarray:
    """Return where the product of the i-th and the j-th monomial stands."""
    first = monomials(variables, 0, degree).exponents
    second = monomials(variables, 0, other).exponents
    sums = first[:, None] + second[None]
    return graded_position(sums.reshape(-1, variables)).reshape(len(first), len(second))


@lru_cache(maxsize=64)
def _gradient_map(variables: int, degree: int) -> scipy.sparse.csr_array:
    maps = [derivative_map(variables, degree, i) for i in range(variables)]
    return scipy.sparse.csr_array(scipy.sparse.vstack(maps))
