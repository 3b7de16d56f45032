"""The same batch of trajectories as a user of diffrax writes it; optional, from the extra `bench`.

`jax.vmap` over `diffeqsolve` with Dopri5 and a PID controller, double precision, compiled once and
timed warm. XLA is asked for one thread, as BLAS is.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

import numpy as np

__all__ = ["AVAILABLE", "solver"]

AVAILABLE = all(importlib.util.find_spec(name) for name in ("jax", "diffrax"))
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def solver(batch, times: np.ndarray) -> Callable[[float], np.ndarray]:
    """Return what solves a batch at an rtol: covariances (N, d, d, T), compiled at the first."""
    # Read by XLA when jax is first imported.
    os.environ.setdefault("XLA_FLAGS", ONE_THREAD)
    import diffrax
    import jax

    jax.config.update("jax_enable_x64", True)

    def rate(t, state, parameters):
        A, B, V, b = parameters
        mean, Sigma = state
        M = A + V @ Sigma @ B
        product = M @ Sigma
        return (M + V) @ mean + b, product + product.T

    def solve(rtol, A, B, V, b, mean, covariance):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(rate),
            diffrax.Dopri5(),
            t0=times[0],
            t1=times[-1],
            dt0=None,
            y0=(mean, covariance),
            args=(A, B, V, b),
            saveat=diffrax.SaveAt(ts=jax.numpy.asarray(times)),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol * 1e-2),
        ).ys[1]

    compiled = jax.jit(jax.vmap(solve, in_axes=(None, *[0] * len(batch))))
    arrays = [jax.numpy.asarray(array) for array in batch]
    return lambda rtol: np.moveaxis(np.asarray(compiled(rtol, *arrays)), 1, -1)
