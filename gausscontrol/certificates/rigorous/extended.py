"""Proof of the extended certificate, in ball arithmetic (Theory 4.8, 9.3).

    V' + decay + z^T Q z + tr(S(E) Sigma) = 0,    S = (z (x) I)^T G (z (x) I),   Q > 0,  G > 0

The coefficients are balls that hold those of the exact model at its exact equilibrium. What the
Gram matrices of the witness leave of each monomial is moved into them, the top degree, which is
odd, into G and the others into Q (see `gram`), and every matrix in the corrected balls is shown to
be positive definite.

Coordinates are R x, R the floating-point Sigma^(-1/2) taken as exact, in which the exact
equilibrium is within rounding of the identity; it need not be equal to it. Polynomials are in the
plain entries x of the lower triangle of E = Sigma - Sigma*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.rigorous.equilibrium import enclosed_equilibrium, mean_is_stable
from gausscontrol.certificates.rigorous.exact_model import ExactModel, working
from gausscontrol.certificates.rigorous.gram import GramBasis
from gausscontrol.certificates.rigorous.terms import accumulate, added, along, quadratic_terms
from gausscontrol.linalg.ball_forms import form_matrix, symmetric_map
from gausscontrol.linalg.balls import (
    congruence,
    exact,
    exact_matrix,
    inverse,
    is_positive_definite,
)
from gausscontrol.linalg.symmetric import vech_index, whitening
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.certificates.extended_identity import ExtendedWitness
    from gausscontrol.certificates.rigorous.terms import Terms
    from gausscontrol.linalg.balls import BallMatrix

__all__ = ["field_terms", "prove_extended"]


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
    if not floor > 0 or not witness.fits(model.dim):
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


def _subscripts(dim: int) -> list[tuple[int, int]]:
    index = vech_index(dim)
    return list(zip(index.rows.tolist(), index.columns.tolist(), strict=True))
