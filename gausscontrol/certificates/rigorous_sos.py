"""Proofs from sums of squares, in ball arithmetic (Theory 4.8, 9.3).

    V' + decay + z^T Q z + tr(S(E) Sigma) = 0,    S = (z (x) I)^T G (z (x) I),   Q > 0,  G > 0

The Gram matrices that a solver returned meet this identity up to rounding. Here the coefficients
are balls that hold those of the exact model at its exact equilibrium, and whatever is left of each
monomial is moved into the entries of a Gram matrix that produce it: the top degree, which is odd,
into G, the others into Q. So for the exact coefficients there are Gram matrices inside the
corrected balls with which the identity holds exactly, and every matrix in those balls is shown to
be positive definite.

Coordinates are R x, R the floating-point Sigma^(-1/2) taken as exact, in which the exact
equilibrium is within rounding of the identity; it need not be equal to it. Polynomials are in the
plain entries x of the lower triangle of E = Sigma - Sigma*, as dictionaries from monomials (sorted
tuples of variables) to balls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.exact_model import ExactModel, working
from gausscontrol.certificates.rigorous import enclosed_equilibrium, mean_is_stable
from gausscontrol.linalg.ball_forms import form_matrix, symmetric_map
from gausscontrol.linalg.balls import (
    congruence,
    exact,
    exact_matrix,
    inverse,
    is_positive_definite,
)
from gausscontrol.linalg.polynomials import monomials
from gausscontrol.linalg.symmetric import vech_index, whitening
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.certificates.extended_identity import ExtendedWitness
    from gausscontrol.linalg.balls import Ball, BallMatrix

    Terms = dict[tuple[int, ...], Ball]

__all__ = [
    "GramBasis",
    "accumulate",
    "added",
    "along",
    "field_terms",
    "multiplied",
    "prove_extended",
    "quadratic_terms",
]


def prove_extended(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    witness: ExtendedWitness,
    radius: float,
    *,
    rate: float | None = None,
    mean: bool = False,
) -> bool:
    """Prove that an exact equilibrium attracts every Sigma > 0, by V = eta W + p.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Computed equilibrium.
    witness : ExtendedWitness
        In coordinates whitened at Sigma.
    radius : float
        How far the exact equilibrium may lie, in Frobenius norm whitened at Sigma.
    rate : float, optional
        Decay rate near the equilibrium that is to be proved, positive; by default the alpha of the
        witness serves instead.
    mean : bool, optional
        Whether M + Vbar is to be proved Hurwitz too.

    Returns
    -------
    bool

    Notes
    -----
    Theory 4.8 at the exact equilibrium S, X its inverse: W = tr(X Sigma) - log det(X Sigma) - d
    has W' = 2 q(E), p >= 0 is a sum of squares, so V is proper, and V' < 0 off S. With H the second
    derivative of V at S, V' <= -rate <E, H E> gives |E| the decay rate.
    """
    if model.dt or not witness.eta > 0:
        return False
    floor = witness.alpha if rate is None else rate
    if not floor > 0 or not _is_well_formed(model.dim, witness):
        return False
    with working(model.dim):
        original = ExactModel.of(model)
        ball = enclosed_equilibrium(original, Sigma, radius)
        R = exact_matrix(whitening(Sigma)[0])
        back = inverse(R)
        if ball is None or back is None or (mean and not mean_is_stable(original, ball)):
            return False
        white, S = original.transformed(R, back), congruence(R, ball)
        X = inverse(S)
        return X is not None and _identity_holds(white, S, X, witness, rate)


def _is_well_formed(dim: int, witness: ExtendedWitness) -> bool:
    if witness.degree < 2 or witness.degree % 2:
        return False
    count = len(monomials(dim * (dim + 1) // 2, 1, witness.degree // 2))
    shapes = [(count, count)] * 2 + [(count * dim, count * dim)]
    matrices = (witness.Phi, witness.Q, witness.G)
    return all(
        M.shape == shape and bool(np.isfinite(M).all())
        for M, shape in zip(matrices, shapes, strict=True)
    )


def _identity_holds(
    model: ExactModel, S: BallMatrix, X: BallMatrix, witness: ExtendedWitness, rate: float | None
) -> bool:
    """Correct the multipliers and prove them positive definite, at every S in a ball."""
    basis = GramBasis.of_entries(model.dim, witness.degree // 2)
    Phi, Q, G = (exact_matrix(matrix) for matrix in (witness.Phi, witness.Q, witness.G))
    eta = exact(witness.eta)
    p = basis.square(Phi, exact(0.5))
    form = form_matrix(symmetric_map([X * V for V in model.V], model.B)) * eta
    total = added(along(p, field_terms(model, S)), quadratic_terms(form))
    if rate is None:
        weight = vech_index(model.dim).weight
        decay = exact_matrix(np.diag(np.rint(weight**2))) * exact(witness.alpha)
        total = added(total, quadratic_terms(decay))
    else:
        # <E, H E> is eta tr(X E X E) and twice the part of p of degree 2.
        hessian = form_matrix(symmetric_map([X], [X])) * eta * exact(0.5)
        second = {key: 2 * value for key, value in p.items() if len(key) == 2}
        second = added(quadratic_terms(hessian), second)
        total = added(total, {key: exact(rate) * value for key, value in second.items()})
    G = basis.balance_cone(total, G)
    if G is None:
        return False
    # With that G the top degree vanishes identically, whatever its ball looks like.
    total = added(total, basis.cone(G, S))
    Q = basis.balance({k: v for k, v in total.items() if len(k) <= witness.degree}, Q)
    return Q is not None and all(is_positive_definite(matrix) for matrix in (Phi, Q, G))


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
                accumulate(total, _joined(key, other), value * slope)
        return total

    def balance_cone(self, total: Terms, G: BallMatrix) -> BallMatrix | None:
        """Return the G near the given one with which degree 2k + 1 of total + cone vanishes.

        Every entry of E(x) must be one variable; None if no G reaches a monomial.
        """
        top = 2 * self.degree + 1
        entries = [
            (row, column, _joined(key, other), scale)
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

    def _pairs(self) -> Iterator[tuple[int, int, tuple[int, ...], Ball]]:
        """Yield i >= j, the monomial of z_i z_j, and the factor of Q_ij in it."""
        for i, a in enumerate(self.keys):
            for j, b in enumerate(self.keys[: i + 1]):
                yield i, j, _joined(a, b), self._factor(i, j, i == j)

    def _blocks(self) -> Iterator[tuple[int, int, tuple[int, ...], Ball, tuple[int, int]]]:
        """Yield rows >= columns (a, j), (b, k) of G, the monomial of z_a z_b, its factor, j, k."""
        for row in range(len(self.keys) * self.dim):
            a, j = divmod(row, self.dim)
            for column in range(row + 1):
                b, k = divmod(column, self.dim)
                key = _joined(self.keys[a], self.keys[b])
                yield row, column, key, self._factor(a, b, row == column), (j, k)

    def _factor(self, a: int, b: int, once: bool) -> Ball:
        return self.scales[a] * self.scales[b] * (1 if once else 2)


def field_terms(model: ExactModel, S: BallMatrix) -> list[Terms]:
    """Return vech of F(S + E) = L(E) + N(E) as polynomials, for an equilibrium S."""
    J = model.linearisation(S).table()
    field = [{(j,): value for j, value in enumerate(row)} for row in J]
    index, dim = vech_index(model.dim), model.dim
    entry = index.full.reshape(dim, dim).tolist()
    zeros = np.zeros((dim, dim))
    for m, (p, q) in enumerate(_subscripts(dim)):
        E = zeros.copy()
        E[p, q] = E[q, p] = 1.0
        T = model.attention(exact_matrix(E)).table()
        for l, (r, c) in enumerate(_subscripts(dim)):
            key = (min(m, l), max(m, l))
            # Column c of T E is column r of T, and the other way round.
            for here, there in {(r, c), (c, r)}:
                for i in range(dim):
                    value = T[i][here] * (2 if i == there else 1)
                    accumulate(field[entry[i][there]], key, value)
    return field


def _subscripts(dim: int) -> list[tuple[int, int]]:
    index = vech_index(dim)
    return list(zip(index.rows.tolist(), index.columns.tolist(), strict=True))


def along(p: Terms, field: list[Terms]) -> Terms:
    """Return Dp . field."""
    total: Terms = {}
    for key, value in p.items():
        for variable in set(key):
            at = key.index(variable)
            rest, slope = key[:at] + key[at + 1 :], value * key.count(variable)
            for other, factor in field[variable].items():
                accumulate(total, _joined(rest, other), slope * factor)
    return total


def quadratic_terms(Q: BallMatrix) -> Terms:
    """Return x^T Q x for a symmetric matrix, read from its lower triangle."""
    size = Q.nrows()
    return {(j, i): Q[i, j] * (1 if i == j else 2) for i in range(size) for j in range(i + 1)}


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
            accumulate(total, _joined(key, other), value * factor)
    return total


def _spread(
    Q: BallMatrix, entries: Iterable[tuple[int, int, tuple[int, ...], Ball]], gap: Terms
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


def _joined(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(a + b))


def accumulate(total: Terms, key: tuple[int, ...], value: Ball) -> None:
    """Add a term to a polynomial, in place."""
    known = total.get(key)
    total[key] = value if known is None else known + value
