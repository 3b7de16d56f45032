"""Times of boundedness, collapse and blow-up certificates: `python -m benchmarks.regimes`."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

import gausscontrol as gct
from gausscontrol.certificates.regime import (
    certify_blow_up,
    certify_boundedness,
    certify_collapse,
)

SIZES = (2, 3, 4, 6, 8)


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


def seconds(certify: Callable[..., object], model: gct.GaussianTransformer) -> tuple[float, str]:
    """Return the median of three runs after one that compiles, and the method or "refused"."""
    times, method = [], "refused"
    for _ in range(4):
        started = time.perf_counter()
        try:
            method = certify(model).method
        except gct.NotCertified:
            method = "refused"
        times.append(time.perf_counter() - started)
    return float(np.median(times[1:])), method


def main() -> None:
    """Print one line per certificate, model and size."""
    cases = (
        ("boundedness, one key", certify_boundedness, shared_key, -1.0),
        ("blow-up, one key", certify_blow_up, shared_key, 1.0),
        ("boundedness, two heads", certify_boundedness, two_heads, -1.0),
        ("collapse, two heads", certify_collapse, two_heads, -1.0),
        ("blow-up, two heads", certify_blow_up, two_heads, 1.0),
    )
    with threadpool_limits(limits=1):
        for work, certify, build, sign in cases:
            for dim in SIZES:
                took, method = seconds(certify, build(dim, sign))
                print(f"{work:<26} d={dim:<3} {took * 1e3:10.2f} ms  {method}", flush=True)


if __name__ == "__main__":
    main()
