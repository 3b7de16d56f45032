"""Linear maps behind the design problem, as matrices on row-major vectors (Theory 4.1, 7a, 7b).

    T(I) = sum_h V_h B_h,   <E_a, T(E_b)> = sum_h tr(E_a V_h E_b B_h)

linear in the V_h, in the B_h, and in Z = sum_h vec(V_h) vec(B_h)^T; E_a is an orthonormal basis of
the symmetric matrices in the order of svec.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.linalg.operators import symmetric_units
from gausscontrol.linalg.symmetric import vech_index

__all__ = [
    "attention_rows",
    "form_rows",
    "lifted_attention_rows",
    "lifted_form_rows",
    "symmetric_rows",
]


def attention_rows(given: np.ndarray, unknown: str) -> np.ndarray:
    """Return P (d^2, h d^2) with vec T(I) = P vec X, X the stacked unknown V_h or B_h."""
    identity = np.eye(given.shape[-1])
    if unknown == "V":
        return np.hstack([np.kron(identity, B.T) for B in given])
    return np.hstack([np.kron(V, identity) for V in given])


def form_rows(given: np.ndarray, unknown: str) -> np.ndarray:
    """Return G (n^2, h d^2): <E_a, T(E_b)> on an orthonormal basis of symmetric matrices."""
    units = symmetric_units(given.shape[-1])
    left = np.einsum("aij,hjk->haik", units, given)
    if unknown == "V":
        # tr(E_a V E_b B) = sum V_ij (E_b B E_a)_ji
        blocks = np.einsum("bjk,hkl,ali->habij", units, given, units, optimize=True)
    else:
        # tr(E_a V E_b B) = sum (E_a V E_b)_lk B_kl
        blocks = np.einsum("halj,bjk->habkl", left, units, optimize=True)
    h, n, _, d, _ = blocks.shape
    return blocks.transpose(1, 2, 0, 3, 4).reshape(n * n, h * d * d)


def lifted_attention_rows(dim: int) -> np.ndarray:
    """Return P (d^2, d^4) with vec T(I) = P vec Z: T(I)_il = sum_j Z[(i,j),(j,l)]."""
    identity = np.eye(dim)
    rows = np.einsum("ai,jk,lb->abijkl", identity, identity, identity)
    return rows.reshape(dim * dim, dim**4)


def lifted_form_rows(dim: int) -> np.ndarray:
    """Return G (n^2, d^4) with <E_a, T(E_b)> = G vec Z."""
    units = symmetric_units(dim)
    rows = np.einsum("ail,bjk->abijkl", units, units)
    return rows.reshape(len(units) ** 2, dim**4)


def symmetric_rows(rows: np.ndarray, dim: int) -> np.ndarray:
    """Return the rows of vech sym M, given those of vec M."""
    index = vech_index(dim)
    return (rows[index.low] + rows[index.high]) / 2
