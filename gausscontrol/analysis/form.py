"""The attention form of a layer, whose sign decides what attracts globally (Theory 4).

    q(E) = <E, T(E)>,    T(E) = sum_h V_h E B_h,    E symmetric, in coordinates where Sigma* = I

Its matrix is formed up to d = 32; beyond that its largest eigenvalue comes from Lanczos.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse.linalg import eigsh

from gausscontrol.analysis.krylov import DENSE_DIM, PAIR_TOLERANCE, extreme_eigenvalues, on_svec
from gausscontrol.linalg.operators import symmetric_operator, to_svec_basis
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.heads import FactoredHeads, Heads
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["attention_form", "form_is_degenerate", "form_maximum", "form_tolerance"]

# Beyond this size eigenvalues crowd at the edge of the form, and this is what they may be off by,
# relative to the form.
LARGE_DIM, LARGE_FORM_TOLERANCE = 64, 1e-3


def attention_form(heads: Heads) -> np.ndarray:
    """Return the matrix of the attention form q(E) = <E, T(E)> in svec coordinates.

    Parameters
    ----------
    heads : Heads
        In whitened coordinates.

    Returns
    -------
    (n, n) ndarray
        Symmetric; q(E) = svec(E)^T Q svec(E).

    Notes
    -----
    Theory 4: the equilibrium is globally attracting if this matrix is negative definite.
    """
    return symmetrise(to_svec_basis(symmetric_operator(heads.V / 2, heads.B)))


def form_maximum(white: GaussianTransformer) -> float:
    """Return the largest eigenvalue of the attention form, -alpha of Theory 4.2.

    Parameters
    ----------
    white : GaussianTransformer
        The model whitened at its equilibrium.

    Returns
    -------
    float
        Per unit depth; negative means that the equilibrium attracts globally. [1/t]

    Raises
    ------
    GausscontrolError
        If ARPACK does not converge.
    """
    if white.dim <= DENSE_DIM:
        return float(np.linalg.eigvalsh(attention_form(white.heads))[-1])
    return _large_form_maximum(white)


def form_tolerance(dim: int) -> float:
    """Return what an eigenvalue of the form may be off by, d > 32, relative to |T|."""
    return PAIR_TOLERANCE if dim <= LARGE_DIM else LARGE_FORM_TOLERANCE


def form_is_degenerate(heads: Heads) -> bool:
    """Tell whether heads are so narrow that the attention form has a kernel, beyond d = 32.

    T(E) depends on E through the blocks U_h E K_h^T alone, so that the form has at most twice as
    many eigenvalues that are not zero as these blocks have entries.

    Parameters
    ----------
    heads : Heads

    Returns
    -------
    bool
        True means that its largest eigenvalue is at least zero.
    """
    if heads.dim <= DENSE_DIM or not isinstance(heads, FactoredHeads):
        return False
    _, U, K, _ = heads.arrays
    return 2 * heads.n_heads * U.shape[1] * K.shape[1] < heads.dim * (heads.dim + 1) // 2


@lru_cache(maxsize=8)
def _large_form_maximum(white: GaussianTransformer) -> float:
    heads = white.heads
    adjoint = heads.adjoint()

    def apply(E: np.ndarray) -> np.ndarray:
        # Half of T and half of its adjoint E -> sum_h V_h^T E B_h^T, on symmetric matrices.
        image = heads.attention(E) + adjoint.attention(E)
        return (image + image.T) / 4

    operator = on_svec(apply, white.dim)
    tolerance = form_tolerance(white.dim)
    return float(extreme_eigenvalues(eigsh, operator, "LA", tolerance=tolerance).max())
