"""Heads that share one key matrix, as one effective head (V, B) with B = B^T > 0 (Theory 3.7).

    T(S) = sum_h V_h S B_h = V S B + rest,    B_h = c_h B + D_h,   V = sum_h c_h V_h

The rest is bounded, since proportionality and symmetry are read from rounded numbers: it is exactly
zero for one symmetric head, and for heads whose B_h are equal up to powers of two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.certificates.comparison import EPS, eigenvalue_rounding
from gausscontrol.model.structure import common_key
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["SharedKey", "shared_key"]


class SharedKey(NamedTuple):
    """One effective head, and how far the model is from it.

    `error` bounds the rounding of V in the spectral norm; `rest` bounds |T(S) - V S B|_2 / |S|_2
    for the V that was meant; `lowest` and `highest` bound the eigenvalues of B.
    """

    B: np.ndarray
    V: np.ndarray
    error: float
    rest: float
    lowest: float
    highest: float

    @property
    def condition(self) -> float:
        """Bound on |B| |B^-1|."""
        return self.highest / self.lowest


def shared_key(model: GaussianTransformer) -> SharedKey | None:
    """Return the effective head of a balanced model, or None if there is none.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    SharedKey or None
        None also where B is not verified to be positive definite.
    """
    head = common_key(model)
    if head is None:
        return None
    B, _ = head
    values = np.linalg.eigvalsh(B)
    rounding = eigenvalue_rounding(len(B)) * float(np.linalg.norm(B))
    lowest, highest = float(values[0]) - rounding, float(values[-1]) + rounding
    if not lowest > 0:
        return None
    at = np.unravel_index(int(np.abs(B).argmax()), B.shape)
    weights = model.B[:, at[0], at[1]] / B[at]
    V = np.tensordot(weights, model.V, axes=1)
    sizes = np.linalg.norm(model.V, 2, axis=(1, 2))
    rounded = np.abs(np.frexp(weights)[0]) != 0.5
    rest = error = 0.0
    if model.n_heads > 1 or rounded.any():
        error = (model.n_heads + 1) * EPS * float(np.abs(weights) @ sizes) * np.sqrt(len(B))
    for size, weight, rough, key in zip(sizes, weights, rounded, model.B, strict=True):
        # Weights that are powers of two multiply exactly.
        apart = np.linalg.norm(key - weight * B) * (1 + len(B) * EPS)
        apart += 2 * EPS * abs(weight) * np.linalg.norm(B) if rough else 0.0
        rest += float(size * apart)
    return SharedKey(B, V, error, rest * (1 + 1e-12), lowest, highest)
