"""Models to measure on: one head, stable equilibrium known, any dimension."""

from __future__ import annotations

import numpy as np

from gausscontrol import GaussianTransformer

__all__ = ["settling_model"]


def settling_model(
    dim: int, kappa: float = 1.0, seed: int = 0
) -> tuple[GaussianTransformer, np.ndarray]:
    """Return a model with a negative attention form, and its equilibrium covariance.

    V = -(P P^T/d + 0.2 I), B = Q Q^T/d + 0.2 I and A = K - V B in whitened coordinates, with K
    skew of size kappa, carried to a covariance of condition number about 25.
    """
    rng = np.random.default_rng([seed, dim])
    P, Q, Z = rng.normal(size=(3, dim, dim))
    V = -(P @ P.T / dim + 0.2 * np.eye(dim))
    B = Q @ Q.T / dim + 0.2 * np.eye(dim)
    K = kappa * (Z - Z.T) / (2 * np.sqrt(dim))
    white = GaussianTransformer(K - V @ B, B, V, b=rng.normal(size=dim))
    root = np.linalg.qr(rng.normal(size=(dim, dim)))[0] * np.linspace(1, 5, dim)
    return white.transform(root), root @ root.T
