"""Heads that share a key, as one effective head, in ball arithmetic (Theory 3.7, 5.6, 9.3).

    B_h = c_h B + E_h,   V = sum_h c_h V_h,   e = sum_h |V_h| |E_h|   in the coordinates B^(1/2) x

A unit eigenvector u of the largest eigenvalue l = |S| has |u^T V_h S E_h u| <= l |V_h| |E_h|, so
that e bounds what separates T from the effective head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gausscontrol.certificates.rigorous.exact_model import ExactModel, lyapunov_form, matrix_sum
from gausscontrol.linalg.balls import (
    alternates,
    exact,
    exact_matrix,
    inverse,
    is_positive_definite,
    rational_matrix,
)
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = ["CommonKey", "common_key_of", "is_exactly_dissipative"]


class CommonKey(NamedTuple):
    """One effective head V S B, and a bound e on the rest in the coordinates B^(1/2) x."""

    B: BallMatrix
    V: BallMatrix
    rest: Ball

    @property
    def is_exact(self) -> bool:
        """Whether every B_h is exactly a multiple of B."""
        return bool(self.rest == 0)


def common_key_of(model: ExactModel, key: np.ndarray) -> CommonKey | None:
    """Return the effective head for a key B > 0, or None if B is not proved positive definite.

    Parameters
    ----------
    model : ExactModel
    key : (d, d) ndarray
        Symmetric.

    Returns
    -------
    CommonKey or None

    Notes
    -----
    c_h is the ratio of the largest entries, as a ball; |X|^2 = tr(B X B^-1 X^T) for V_h in the
    coordinates B^(1/2) x, and tr(B^-1 X B^-1 X^T) for B_h.
    """
    B = exact_matrix(key)
    X = inverse(B) if is_positive_definite(B) else None
    if X is None:
        return None
    i, j = np.unravel_index(int(np.abs(key).argmax()), key.shape)
    at = int(i), int(j)
    weights = [matrix[at] / B[at] for matrix in model.B]
    rest = exact(0)
    for V, matrix, weight in zip(model.V, model.B, weights, strict=True):
        E = matrix - B * weight
        if _is_proportional(matrix, B, at):
            continue
        sizes = (B * V * X * V.transpose()).trace(), (X * E * X * E.transpose()).trace()
        rest += (sizes[0].abs_upper() * sizes[1].abs_upper()).sqrt().abs_upper()
    return CommonKey(B, matrix_sum([V * w for V, w in zip(model.V, weights, strict=True)]), rest)


def is_exactly_dissipative(model: GaussianTransformer, key: np.ndarray) -> bool:
    """Decide B V + V^T B <= 0 in rationals, for keys that are exact multiples of B."""
    rational, B = ExactModel.of(model, rational_matrix), rational_matrix(key)
    i, j = np.unravel_index(int(np.abs(key).argmax()), key.shape)
    at = int(i), int(j)
    V = matrix_sum([V * (K[at] / B[at]) for V, K in zip(rational.V, rational.B, strict=True)])
    return alternates(-lyapunov_form(B, V))


def _is_proportional(matrix: BallMatrix, B: BallMatrix, at: tuple[int, int]) -> bool:
    """Tell whether two exact matrices are multiples of each other, decided without rounding."""
    entries = matrix.entries() + B.entries()
    if not all(x.is_exact() for x in entries):
        return False
    pairs = zip(matrix.entries(), B.entries(), strict=True)
    top, bottom = matrix[at].fmpq(), B[at].fmpq()
    return all(x.fmpq() * bottom == top * y.fmpq() for x, y in pairs)
