"""Models to measure on: one head, stable equilibrium known, any dimension."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np

from gausscontrol import GaussianTransformer

__all__ = ["fresh", "loosest", "products", "settling_model"]

_numbers = count()


def fresh(model: GaussianTransformer) -> GaussianTransformer:
    """Return the model under a name of its own, so that nothing remembered of it is used."""
    return model.replace(name=f"run-{next(_numbers)}")


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


def products(model: GaussianTransformer, Sigma: np.ndarray) -> Callable[[], np.ndarray]:
    """Return the bare matrix products (A + V Sigma B) Sigma of a right side, to be timed."""
    A, B, V, S = (np.array(X) for X in (model.A, model.B[0], model.V[0], Sigma))
    return lambda: (A + (V @ S) @ B) @ S


def loosest(error: Callable[[float], float], target: float) -> float:
    """Return the loosest tolerance, in steps of a quarter decade, at which the error is small."""
    start = np.log10(target) + 3
    for power in np.arange(start, start - 6, -0.25):
        if error(10.0**power) <= target:
            return float(10.0**power)
    raise RuntimeError(f"no tolerance from 1e{start:.0f} on brings the error down to {target:g}")
