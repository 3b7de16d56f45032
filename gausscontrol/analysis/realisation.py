"""Linear systems in continuous form, on which slycot works (Theory 1.4, 2.3).

    z = (1 + s)/(1 - s)        carries x+ = A x + B u to x' = A' x + B' u

with the same Gramians and the same H-infinity norm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Realisation", "bilinear"]


class Realisation(NamedTuple):
    """Matrices of x' = A x + B u, y = C x + D u."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray


def bilinear(A: np.ndarray, B: np.ndarray, C: np.ndarray, D: np.ndarray) -> Realisation:
    """Return the continuous form of x+ = A x + B u, y = C x + D u.

    Parameters
    ----------
    A, B, C, D : (n, n), (n, m), (p, n) and (p, m) ndarray
        -1 is no eigenvalue of A.

    Returns
    -------
    Realisation
    """
    inverse = np.linalg.inv(A + np.eye(len(A)))
    # The factor sqrt(2) makes the Gramians those of the discrete system.
    return Realisation(
        (A - np.eye(len(A))) @ inverse,
        np.sqrt(2) * inverse @ B,
        np.sqrt(2) * C @ inverse,
        D - C @ inverse @ B,
    )
