"""Times of boundedness, collapse and blow-up certificates, beside an allowance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import gausscontrol as gct
from benchmarks.problems import fresh
from benchmarks.table import Row
from benchmarks.timing import seconds

__all__ = ["REGIME_ROWS"]

# Seconds allowed, by dimension.
ALLOWED = {2: 0.2, 3: 0.3, 4: 0.5, 6: 2.0, 8: 8.0}


def shared_key(dim: int, sign: float) -> gct.GaussianTransformer:
    """One head with B = I; V has an eigenvalue at +1, or none to the right of -1."""
    rng = np.random.default_rng(dim)
    T = np.triu(rng.normal(size=(dim, dim)), 1) - np.diag(rng.uniform(1, 3, dim))
    T[0, 0] = sign
    Q = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return gct.GaussianTransformer(-0.1 * np.eye(dim), np.eye(dim), Q @ T @ Q.T)


def two_heads(dim: int, sign: float) -> gct.GaussianTransformer:
    """Two heads, V_h of one sign and B_h > 0, neither symmetric: left to the programmes."""
    rng = np.random.default_rng(dim)
    X, Y = rng.normal(size=(2, 2, dim, dim))
    V = sign * (X @ X.swapaxes(1, 2) / dim + 0.5 * np.eye(dim))
    B = Y @ Y.swapaxes(1, 2) / dim + 0.5 * np.eye(dim)
    K, N = rng.normal(size=(2, 2, dim, dim)) / dim
    return gct.GaussianTransformer(-np.eye(dim), B + N - N.swapaxes(1, 2), V + 0.5 * K)


def regimes() -> Iterator[Row]:
    """Boundedness, collapse and blow-up, by the method that certifies."""
    cases = (
        ("boundedness, one key", gct.certify_boundedness, shared_key, -1.0),
        ("blow-up, one key", gct.certify_blow_up, shared_key, 1.0),
        ("boundedness, two heads", gct.certify_boundedness, two_heads, -1.0),
        ("collapse, two heads", gct.certify_collapse, two_heads, -1.0),
        ("blow-up, two heads", gct.certify_blow_up, two_heads, 1.0),
    )
    for work, certify, build, sign in cases:
        for dim, allowed in ALLOWED.items():
            model = build(dim, sign)
            took = seconds(partial(_method, certify, model), 3)
            method = _method(certify, model)
            yield Row(
                work, dim, took, allowed, "allowance", f"<={allowed:g} s", took <= allowed, method
            )


def _method(certify: Callable[..., object], model: gct.GaussianTransformer) -> str:
    try:
        return certify(fresh(model)).method
    except gct.NotCertified:
        return "refused"


REGIME_ROWS: dict[str, Callable[[], Iterator[Row]]] = {"regimes": regimes}
