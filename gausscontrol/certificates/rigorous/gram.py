"""Gram matrices that meet an identity exactly, found near those that meet it up to rounding.

    z^T Q z = -total(x)
    tr(S(x) Sigma(x)) = -(top degree of total),     S = (z (x) I)^T G (z (x) I)

What is left of each monomial is moved into the entries of the Gram matrix that produce it, by least
squares in ball arithmetic: for the exact coefficients there is a Gram matrix inside the corrected
ball with which the identity holds exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.rigorous.terms import accumulate, added, joined
from gausscontrol.linalg.balls import exact
from gausscontrol.linalg.polynomials import monomials
from gausscontrol.linalg.symmetric import vech_index

if TYPE_CHECKING:
    from gausscontrol.certificates.rigorous.terms import Monomial, Terms
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = ["GramBasis"]


class GramBasis:
    """The scaled monomials of degree 1..k, and an affine Sigma(x) = S + E(x) beside them.

    Parameters
    ----------
    degree : int
        k.
    squares : (n,) ndarray of int
        Squares of the factors s_v that carry plain entries x into the variables s_v x_v whose
        scaled monomials are meant: 2 off the diagonal and 1 on it for svec(E), x = vech(E).
    slopes : d x d nested list
        E(x) as linear polynomials; symmetric.
    """

    def __init__(self, degree: int, squares: np.ndarray, slopes: list[list[Terms]]) -> None:
        self.degree, self.dim, self.slopes = degree, len(slopes), slopes
        basis = monomials(len(squares), 1, degree)
        variables = range(len(squares))
        self.keys = [
            tuple(v for v in variables for _ in range(power[v])) for power in basis.exponents
        ]
        # The multinomial coefficient times the squares, an integer.
        factors = np.rint(basis.weight**2) * np.prod(squares**basis.exponents, axis=1)
        self.scales = [exact(square).sqrt() for square in factors]

    @classmethod
    def of_entries(cls, dim: int, degree: int) -> GramBasis:
        """Return the basis in x = vech(E)."""
        index = vech_index(dim)
        entry = index.full.reshape(dim, dim).tolist()
        slopes = [[{(at,): exact(1)} for at in row] for row in entry]
        return cls(degree, np.where(index.rows == index.columns, 1, 2), slopes)

    def square(self, Q: BallMatrix, factor: Ball) -> Terms:
        """Return factor z^T Q z."""
        total: Terms = {}
        for i, j, key, scale in self._pairs():
            accumulate(total, key, Q[i, j] * scale * factor)
        return total

    def balance(self, total: Terms, Q: BallMatrix) -> BallMatrix | None:
        """Return the Q near the given one with z^T Q z = -total; None if no Q reaches it."""
        known = self.square(Q, exact(1))
        if not total.keys() <= known.keys():
            return None
        return _spread(Q, self._pairs(), added(total, known))

    def cone(self, G: BallMatrix, S: BallMatrix) -> Terms:
        """Return tr(S(x) Sigma(x)) with S(x) = (z (x) I)^T G (z (x) I)."""
        total: Terms = {}
        for row, column, key, scale, (j, k) in self._blocks():
            value = G[row, column] * scale
            accumulate(total, key, value * S[max(j, k), min(j, k)])
            for other, slope in self.slopes[j][k].items():
                accumulate(total, joined(key, other), value * slope)
        return total

    def balance_cone(self, total: Terms, G: BallMatrix) -> BallMatrix | None:
        """Return the G near the given one with which degree 2k + 1 of total + cone vanishes.

        Every entry of E(x) must be one variable; None if no G reaches a monomial.
        """
        top = 2 * self.degree + 1
        entries = [
            (row, column, joined(key, other), scale)
            for row, column, key, scale, (j, k) in self._blocks()
            if len(key) == top - 1
            for other in self.slopes[j][k]
        ]
        known: Terms = {}
        for row, column, key, scale in entries:
            accumulate(known, key, G[row, column] * scale)
        wanted = {key: value for key, value in total.items() if len(key) == top}
        if not wanted.keys() <= known.keys():
            return None
        return _spread(G, entries, added(wanted, known))

    def _pairs(self) -> Iterator[tuple[int, int, Monomial, Ball]]:
        """Yield i >= j, the monomial of z_i z_j, and the factor of Q_ij in it."""
        for i, a in enumerate(self.keys):
            for j, b in enumerate(self.keys[: i + 1]):
                yield i, j, joined(a, b), self._factor(i, j, i == j)

    def _blocks(self) -> Iterator[tuple[int, int, Monomial, Ball, tuple[int, int]]]:
        """Yield rows >= columns (a, j), (b, k) of G, the monomial of z_a z_b, its factor, j, k."""
        for row in range(len(self.keys) * self.dim):
            a, j = divmod(row, self.dim)
            for column in range(row + 1):
                b, k = divmod(column, self.dim)
                key = joined(self.keys[a], self.keys[b])
                yield row, column, key, self._factor(a, b, row == column), (j, k)

    def _factor(self, a: int, b: int, once: bool) -> Ball:
        return self.scales[a] * self.scales[b] * (1 if once else 2)


def _spread(
    Q: BallMatrix, entries: Iterable[tuple[int, int, Monomial, Ball]], gap: Terms
) -> BallMatrix:
    """Return Q changed by least squares so that each monomial of the gap disappears.

    An entry (i, j) of Q with i >= j adds `factor` times itself to one monomial.
    """
    entries = list(entries)
    norms: Terms = {}
    for i, j, key, factor in entries:
        # Off the diagonal a change counts twice in the norm of Q, and the factor is doubled.
        accumulate(norms, key, factor * factor * (1 if i == j else exact(0.5)))
    rows = Q.table()
    for i, j, key, factor in entries:
        if key in gap:
            change = gap[key] * factor * (1 if i == j else exact(0.5)) / norms[key]
            rows[i][j] -= change
            if i != j:
                rows[j][i] -= change
    return type(Q)(rows)
