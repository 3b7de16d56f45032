"""Semidefinite programmes with few equations and large blocks, by an interior-point method.

    minimise <c, x>   subject to   A x = b,   x = (svec X_1, svec X_2, ...),   X_k >= 0
    maximise <b, y>   subject to   Z = smat(c - A^T y) >= 0

Identities between polynomials look like this: one equation for every monomial, and many more
entries in their Gram matrices. A solver that factors a system in the entries takes minutes where
one that factors the m x m Schur complement M_ij = tr(A_i X A_j Z^-1) takes seconds. The method is
the textbook's: infeasible start, the direction of Helmberg, Rendl, Vanderbei and Wolkowicz and of
Kojima, Shindoh and Hara, and Mehrotra's predictor and corrector. A has full row rank. What comes
back is a point for the caller to correct and check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse

from gausscontrol.errors import SolverError
from gausscontrol.linalg.symmetric import smat, svec, symmetrise, vech_index

__all__ = ["solve_blocks"]

ITERATIONS = 80
# Share of the way to the boundary that a step goes.
DAMPING = 0.95
# Steps shorter than this do not lead anywhere; what was reached will do if it is this good.
SHORTEST = 1e-6
ACCEPTABLE = 1e-5
# A dual objective so large beside its own residual shows that there is no feasible point.
UNBOUNDED = 1e8
# Neighbouring blocks are treated as one block-diagonal matrix up to this size: fewer calls.
MERGED = 24
# Up to this many entries the constraint matrices of a block are kept dense.
DENSE = 300_000
# Entries of the products X A_i Z^-1 that are held at once.
CHUNK = 4_000_000


def solve_blocks(
    matrix: scipy.sparse.csr_array,
    target: np.ndarray,
    cost: np.ndarray,
    sizes: Sequence[int],
    *,
    tolerance: float = 1e-8,
) -> np.ndarray:
    """Solve a semidefinite programme in stacked svecs.

    Parameters
    ----------
    matrix : (m, N) sparse array
        A, of full row rank.
    target : (m,) ndarray
        b.
    cost : (N,) ndarray
        c.
    sizes : sequence of int
        Of the blocks; size 1 is a number that is not negative.
    tolerance : float, optional
        On the relative gap and the relative residuals; where rounding stops the method earlier,
        1e-5 will do.

    Returns
    -------
    (N,) ndarray
        x with positive definite blocks.

    Raises
    ------
    SolverError
        If there is no feasible point (status "infeasible"), or if the method stalls ("failed"), as
        it may for problems without interior points.

    Examples
    --------
    The smallest trace of X >= 0 with X_11 = 1 and X_12 = 2:

    >>> import numpy as np, scipy.sparse
    >>> A = scipy.sparse.csr_array(np.diag([1.0, np.sqrt(0.5), 0.0])[:2])
    >>> x = solve_blocks(A, np.array([1.0, 2.0]), np.array([1.0, 0.0, 1.0]), [2])
    >>> bool(np.allclose(smat(x), [[1, 2], [2, 4]], atol=1e-6))
    True
    """
    groups, positions = _merge(sizes)
    full = sum(size * (size + 1) // 2 for size in groups)
    A = scipy.sparse.csc_array(matrix)
    columns = np.full(full, -1)
    columns[positions] = np.arange(len(positions))
    c = np.zeros(full)
    c[positions] = cost
    blocks = [
        _Block(A[:, piece[piece >= 0]], piece, size) for piece, size in _pieces(columns, groups)
    ]
    iterate = _start(blocks, target, np.split(c, np.cumsum([b.entries for b in blocks])[:-1]))
    x = _follow(blocks, target, iterate, tolerance)
    return x[positions]


class _Block:
    """What the Schur complement needs of the constraint matrices A_i of one block."""

    def __init__(self, columns: scipy.sparse.csc_array, piece: np.ndarray, size: int) -> None:
        self.size, self.rows = size, columns.shape[0]
        self.entries = len(piece)
        index = vech_index(size)
        part = columns.tocoo()
        column = np.flatnonzero(piece >= 0)[part.col]
        off = index.rows[column] != index.columns[column]
        values = part.data / index.weight[column]
        row = np.concatenate([part.row, part.row[off]])
        place = np.concatenate([index.low[column], index.high[column][off]])
        values = np.concatenate([values, values[off]])
        # A_i as rows of length size^2, and one below the other.
        shape = (self.rows, size * size)
        self.flat = scipy.sparse.csr_array((values, (row, place)), shape)
        p, q = np.divmod(place, size)
        shape = (self.rows * size, size)
        self.tall = scipy.sparse.csr_array((values, (row * size + p, q)), shape)
        if self.rows * size * size <= DENSE:
            self.flat, self.tall = self.flat.toarray(), self.tall.toarray()

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return the numbers <A_i, X>."""
        return self.flat @ X.reshape(-1)

    def adjoint(self, y: np.ndarray) -> np.ndarray:
        """Return sum_i y_i A_i."""
        return (self.flat.T @ y).reshape(self.size, self.size)

    def schur(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the matrix of tr(A_i X A_j W)."""
        size = self.size
        M = np.empty((self.rows, self.rows))
        chunk = max(1, CHUNK // (size * size))
        for start in range(0, self.rows, chunk):
            stop = min(start + chunk, self.rows)
            products = (self.tall[start * size : stop * size] @ W).reshape(-1, size, size)
            M[:, start:stop] = self.flat @ (X @ products).reshape(stop - start, -1).T
        return M

    def norms(self) -> np.ndarray:
        """Return |A_i|_F."""
        square = self.flat * self.flat
        return np.sqrt(np.asarray(square.sum(axis=1)).reshape(-1))


class _Iterate(NamedTuple):
    X: list[np.ndarray]
    Z: list[np.ndarray]
    y: np.ndarray
    C: list[np.ndarray]


def _merge(sizes: Sequence[int]) -> tuple[list[int], np.ndarray]:
    """Return the sizes of merged blocks and where each entry of x stands among theirs."""
    groups: list[list[int]] = []
    for size in sizes:
        if groups and sum(groups[-1]) + size <= MERGED:
            groups[-1].append(size)
        else:
            groups.append([size])
    positions, start = [], 0
    for group in groups:
        total = sum(group)
        place = vech_index(total).full.reshape(total, total)
        corner = 0
        for size in group:
            index = vech_index(size)
            positions.append(start + place[corner + index.rows, corner + index.columns])
            corner += size
        start += total * (total + 1) // 2
    return [sum(group) for group in groups], np.concatenate(positions)


def _pieces(columns: np.ndarray, groups: Sequence[int]) -> list[tuple[np.ndarray, int]]:
    ends = np.cumsum([size * (size + 1) // 2 for size in groups])
    return list(zip(np.split(columns, ends[:-1]), groups, strict=True))


def _start(blocks: Sequence[_Block], target: np.ndarray, costs: Sequence[np.ndarray]) -> _Iterate:
    """Return multiples of the identity that are large against the data."""
    X, Z = [], []
    for block, cost in zip(blocks, costs, strict=True):
        norms, size = block.norms(), block.size
        primal = size * float(((1 + np.abs(target)) / (1 + norms)).max())
        dual = max(float(norms.max()), float(np.linalg.norm(cost)))
        X.append(max(10.0, np.sqrt(size), primal) * np.eye(size))
        Z.append(max(10.0, np.sqrt(size), dual) * np.eye(size))
    return _Iterate(X, Z, np.zeros(len(target)), [smat(cost) for cost in costs])


def _follow(
    blocks: Sequence[_Block], target: np.ndarray, point: _Iterate, tolerance: float
) -> np.ndarray:
    """Follow the central path until the gap and the residuals are small."""
    order = sum(block.size for block in blocks)
    scale_b = 1 + float(np.linalg.norm(target))
    scale_c = 1 + float(np.sqrt(sum((C**2).sum() for C in point.C)))
    errors = (np.inf, np.inf, np.inf)
    for _ in range(ITERATIONS):
        X, Z, y, C = point
        primal = target - sum(block.apply(U) for block, U in zip(blocks, X, strict=True))
        dual = [D - W - block.adjoint(y) for block, D, W in zip(blocks, C, Z, strict=True)]
        gap = _inner(X, Z)
        errors = (
            float(np.linalg.norm(primal)) / scale_b,
            float(np.sqrt(sum((D**2).sum() for D in dual))) / scale_c,
            gap / (1 + abs(_inner(C, X)) + abs(float(target @ y))),
        )
        if max(errors) < tolerance:
            return np.concatenate([svec(U) for U in X])
        # A^T y + Z, which Farkas' lemma wants to vanish beside <b, y> > 0.
        rest = [D - E for D, E in zip(C, dual, strict=True)]
        if float(target @ y) > UNBOUNDED * np.sqrt(_inner(rest, rest)):
            raise SolverError(
                "interior-point method: no point meets the equalities with positive semidefinite "
                f"blocks, as the dual objective grows to {float(target @ y):.2g}",
                status="infeasible",
            )
        try:
            system = _System(blocks, X, Z, primal, dual)
        except np.linalg.LinAlgError:
            break
        dX, dZ, _ = system.solve(0.0)
        a, e = system.lengths(dX, dZ, 1.0)
        left = _inner(_moved(X, dX, a), _moved(Z, dZ, e))
        centre = min(1.0, max(left / gap, 1e-4) ** 2)
        dX, dZ, dy = system.solve(
            centre * gap / order, [D @ G for D, G in zip(dX, dZ, strict=True)]
        )
        a, e = system.lengths(dX, dZ, DAMPING)
        if max(a, e) < SHORTEST:
            break
        point = _Iterate(_moved(X, dX, a), _moved(Z, dZ, e), y + e * dy, C)
    if max(errors) < ACCEPTABLE:
        return np.concatenate([svec(U) for U in point.X])
    raise SolverError(
        f"interior-point method: expected residuals and gap below {ACCEPTABLE:g}, found primal "
        f"{errors[0]:.2g}, dual {errors[1]:.2g}, gap {errors[2]:.2g} where it stalled; the problem "
        "may have no feasible point",
        status="failed",
    )


class _System:
    """The Newton system at one point: factored once, solved for predictor and corrector."""

    def __init__(
        self,
        blocks: Sequence[_Block],
        X: list[np.ndarray],
        Z: list[np.ndarray],
        primal: np.ndarray,
        dual: list[np.ndarray],
    ) -> None:
        self.blocks, self.X, self.primal, self.dual = blocks, X, primal, dual
        # Inverses of the Cholesky factors measure steps, and give Z^-1.
        self.halves_X = [np.linalg.inv(np.linalg.cholesky(U)) for U in X]
        self.halves_Z = [np.linalg.inv(np.linalg.cholesky(W)) for W in Z]
        self.inverses = [half.T @ half for half in self.halves_Z]
        M = sum(block.schur(U, W) for block, U, W in zip(blocks, X, self.inverses, strict=True))
        self.factor = scipy.linalg.cho_factor(symmetrise(M), lower=True, check_finite=False)

    def solve(
        self, mu: float, second: list[np.ndarray] | None = None
    ) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
        """Return dX, dZ, dy towards X Z = mu I, less a second-order term dX dZ."""
        fixed = []
        for k, (U, W) in enumerate(zip(self.X, self.inverses, strict=True)):
            change = U @ self.dual[k] if second is None else U @ self.dual[k] + second[k]
            fixed.append(mu * W - U - symmetrise(change @ W))
        right = self.primal - sum(b.apply(T) for b, T in zip(self.blocks, fixed, strict=True))
        dy = scipy.linalg.cho_solve(self.factor, right, check_finite=False)
        images = [block.adjoint(dy) for block in self.blocks]
        dZ = [D - image for D, image in zip(self.dual, images, strict=True)]
        dX = [
            T + symmetrise(U @ image @ W)
            for T, U, image, W in zip(fixed, self.X, images, self.inverses, strict=True)
        ]
        return dX, dZ, dy

    def lengths(
        self, dX: list[np.ndarray], dZ: list[np.ndarray], damping: float
    ) -> tuple[float, float]:
        """Return how far X and Z may go, at most 1."""
        return _length(self.halves_X, dX, damping), _length(self.halves_Z, dZ, damping)


def _length(halves: list[np.ndarray], steps: list[np.ndarray], damping: float) -> float:
    lowest = min(
        float(np.linalg.eigvalsh(half @ D @ half.T)[0])
        for half, D in zip(halves, steps, strict=True)
    )
    return min(1.0, -damping / lowest) if lowest < 0 else 1.0


def _inner(X: list[np.ndarray], Z: list[np.ndarray]) -> float:
    return float(sum(np.vdot(U, W) for U, W in zip(X, Z, strict=True)))


def _moved(X: list[np.ndarray], dX: list[np.ndarray], length: float) -> list[np.ndarray]:
    return [symmetrise(U + length * D) for U, D in zip(X, dX, strict=True)]
