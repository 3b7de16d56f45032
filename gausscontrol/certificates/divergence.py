"""The Lyapunov function of global stability (Theory 4.1).

    W(Sigma) = tr(X Sigma) - log det(X Sigma) - d,   X the inverse of Sigma*

twice the Kullback-Leibler divergence of N(0, Sigma) from N(0, Sigma*): zero at Sigma* only, with
sublevel sets that are compact in the positive definite cone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gausscontrol.linalg.symmetric import covariance_matrix, symmetrise, whitening

__all__ = ["divergence"]


def divergence(Sigma: np.ndarray, other: Any) -> float:
    """Return W(other) = tr(X other) - log det(X other) - d, X the inverse of Sigma."""
    other = covariance_matrix(other, "Sigma", len(Sigma))
    whitening(other, "Sigma")
    R, _ = whitening(Sigma)
    values = np.linalg.eigvalsh(symmetrise(R @ other @ R))
    # log1p keeps digits near the equilibrium, where the terms cancel.
    return float(np.sum((values - 1) - np.log1p(values - 1)))
