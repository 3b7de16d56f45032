"""Polynomials with balls as coefficients.

    p(x) = sum of value * x_(i_1) ... x_(i_m),     stored as {(i_1 <= ... <= i_m): value}

A coefficient encloses what the same operations give on exact ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import Ball, BallMatrix

    Monomial = tuple[int, ...]
    Terms = dict[Monomial, Ball]

__all__ = ["accumulate", "added", "along", "joined", "multiplied", "quadratic_terms"]


def added(*polynomials: Terms) -> Terms:
    """Return the sum of polynomials."""
    total: Terms = {}
    for polynomial in polynomials:
        for key, value in polynomial.items():
            accumulate(total, key, value)
    return total


def multiplied(p: Terms, q: Terms) -> Terms:
    """Return the product of two polynomials."""
    total: Terms = {}
    for key, value in p.items():
        for other, factor in q.items():
            accumulate(total, joined(key, other), value * factor)
    return total


def along(p: Terms, field: list[Terms]) -> Terms:
    """Return Dp . field."""
    total: Terms = {}
    for key, value in p.items():
        for variable in set(key):
            at = key.index(variable)
            rest, slope = key[:at] + key[at + 1 :], value * key.count(variable)
            for other, factor in field[variable].items():
                accumulate(total, joined(rest, other), slope * factor)
    return total


def quadratic_terms(Q: BallMatrix) -> Terms:
    """Return x^T Q x for a symmetric matrix, read from its lower triangle."""
    size = Q.nrows()
    return {(j, i): Q[i, j] * (1 if i == j else 2) for i in range(size) for j in range(i + 1)}


def accumulate(total: Terms, key: Monomial, value: Ball) -> None:
    """Add a term to a polynomial, in place."""
    known = total.get(key)
    total[key] = value if known is None else known + value


def joined(a: Monomial, b: Monomial) -> Monomial:
    """Return the product of two monomials."""
    return tuple(sorted(a + b))
