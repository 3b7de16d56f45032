"""What the tests of matrix equations and measures share: random matrices and comparisons."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

METHODS = ("slycot", "scipy")
LAWS = settings(derandomize=True, deadline=None, max_examples=25)
OSCILLATOR = np.array([[0.0, 1.0], [-1.0, 0.0]])

dims = st.integers(1, 6)
seeds = st.integers(0, 10**6)


def relative(X, Y):
    return np.linalg.norm(X - Y) / max(np.linalg.norm(Y), 1e-300)


def symmetric(rng, d):
    Z = rng.standard_normal((d, d))
    return Z + Z.T


def stable(rng, d, margin=0.2):
    A = rng.standard_normal((d, d))
    return A - (np.linalg.eigvals(A).real.max() + margin) * np.eye(d)


def well_posed(rng, d):
    """A general matrix of both signs whose Lyapunov operator is safely nonsingular."""
    T = np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)
    values = rng.uniform(1.0, 1.8, d) * np.where(rng.random(d) < 0.5, 1.0, -0.4)
    return T @ np.diag(values) @ np.linalg.inv(T)
