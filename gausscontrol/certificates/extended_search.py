"""The search for an extended certificate: one semidefinite programme for each degree (4.8).

    maximise t  over  eta >= 1e-3,  Phi >= c t I,  Q >= t (I on degree 1, c I above),  G >= c t I
    subject to the identity on every monomial and eta + tr Phi / N = 1,    c = 1/100

with alpha |E|^2 a part of Q, in the unit of depth in which |L| = 1. A positive t means that every
Gram matrix has an interior in which what the solver left of the identity can be corrected. The
programme always has interior points, with t < -1, and a bounded solution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from gausscontrol.certificates.extended_identity import (
    ExtendedWitness,
    WhitenedField,
    deviation_monomials,
    gram_identity,
)
from gausscontrol.linalg.blocks import block_solution
from gausscontrol.linalg.sos import Identity
from gausscontrol.linalg.symmetric import smat, svec, symmetrise

__all__ = ["FloorProgramme", "find_witness"]

# Least eta beside tr Phi / N, which add up to one.
LEAST_ETA = 1e-3
# Margin of every other Gram matrix beside that of sigma0 on degree 1.
SHARE = 0.01
# A floor that every problem has room above.
LEAST_LEVEL = -4.0
# Share of the largest alpha that is claimed.
CLAIMED = 0.9


class FloorProgramme(NamedTuple):
    """The programme as `block_solution` takes it: unknowns t + 4, then what is above floors.

    With x the unknowns of the identity, x = lowest + (t + 4) floors + x', x' >= 0.
    """

    identity: Identity
    lowest: np.ndarray
    floors: np.ndarray
    matrix: scipy.sparse.csr_array
    target: np.ndarray
    cost: np.ndarray
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, field: WhitenedField, dim: int, degree: int) -> FloorProgramme:
        """Build it for a field in whose unit of depth |L| = 1."""
        identity = gram_identity(field, dim, degree)
        n, size = len(field.form), len(deviation_monomials(dim, degree))
        first = np.where(np.arange(size) < n, 1.0, SHARE)
        floors = _stacked(0.0, SHARE, first, SHARE, size, dim)
        lowest = LEAST_ETA * _stacked(1.0, 0.0, 0.0, 0.0, size, dim) + LEAST_LEVEL * floors
        norm = _stacked(1.0, 1 / size, 0.0, 0.0, size, dim)
        matrix = scipy.sparse.vstack([identity.matrix, norm[None]])
        target = np.concatenate([identity.target, [1.0]]) - matrix @ lowest
        matrix = scipy.sparse.hstack([(matrix @ floors)[:, None], matrix], format="csr")
        cost = np.zeros(matrix.shape[1])
        cost[0] = -1.0
        sizes = (1, 1, size, size, size * dim)
        return cls(identity, lowest, floors, matrix, target, cost, sizes)

    def solve(self) -> tuple[float, np.ndarray]:
        """Return t and the unknowns x of the identity, as the solver leaves them."""
        found = block_solution(self.matrix, self.target, self.cost, self.sizes)
        return LEAST_LEVEL + float(found[0]), self.lowest + found[0] * self.floors + found[1:]


def find_witness(field: WhitenedField, dim: int, degree: int) -> tuple[ExtendedWitness, float]:
    """Find a witness whose identity holds to rounding.

    Parameters
    ----------
    field : WhitenedField
    dim, degree : int

    Returns
    -------
    ExtendedWitness
        It proves something only if its Gram matrices are positive definite, which is for the
        check to say.
    float
        The t that the programme reached. [1/t]

    Raises
    ------
    SolverError
        If the solver returns no point.
    """
    scale = float(np.linalg.norm(field.linear, 2))
    programme = FloorProgramme.of(field.scaled(1 / scale), dim, degree)
    level, x = programme.solve()
    x = programme.identity.correct(x, keep=[0, 1])
    eta, Phi, Q, G = programme.identity.split(x)
    Q, G = scale * smat(Q), scale * smat(G)
    n = len(field.form)
    alpha = CLAIMED * _largest_alpha(Q, n)
    Q[np.arange(n), np.arange(n)] -= alpha
    return ExtendedWitness(degree, float(eta[0]), smat(Phi), Q, G, alpha), scale * level


def _stacked(
    eta: float, Phi: float, Q: float | np.ndarray, G: float, size: int, dim: int
) -> np.ndarray:
    """Return the unknowns of the identity for diagonal matrices."""
    diagonals = Phi * np.ones(size), Q * np.ones(size), G * np.ones(size * dim)
    return np.concatenate([[eta], *(svec(np.diag(diagonal)) for diagonal in diagonals)])


def _largest_alpha(Q: np.ndarray, n: int) -> float:
    """Return the largest alpha with Q - alpha (I on the first n) >= 0."""
    first = Q[:n, :n]
    if n < len(Q):
        first = first - Q[:n, n:] @ np.linalg.solve(Q[n:, n:], Q[n:, :n])
    return float(np.linalg.eigvalsh(symmetrise(first))[0])
