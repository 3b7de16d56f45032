"""The tests' own integrator: many covariances of (1) at once, in factor form.

    L' = (A + sum_h V_h L L^T B_h) L

by Dormand and Prince's pair with a step for each trajectory. What is left after BUDGET steps, being
stiff or oscillating, goes on one by one, as a covariance with LSODA; if rounding takes that out of
the cone, where nothing is claimed, as a factor again. Nothing is shared with the package.
"""

from typing import NamedTuple

import numpy as np
from scipy.integrate import LSODA

NODES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
RTOL = 1e-6
LEAST_STEP = 1e-12
# Size of |L|, in units in which 1 is natural or the start's own, beyond which a trajectory has
# escaped, and the size below which it has vanished.
FAR, GONE = 1e7, 1e-100
# Near saddles convergence is slow, so that nothing is called false before this depth.
DEPTH = 5_000.0
# Explicit steps after which a trajectory is stiff.
BUDGET = 4_000
# Steps of LSODA after which it counts as not arriving.
MOST = 300_000
# Negative eigenvalue, over the largest, at which a covariance has left the cone.
OUTSIDE = -1e-9
NEAR = 1e-3


class Flow(NamedTuple):
    """Where trajectories ended: depth, factor, and whether they stopped, escaped or went deep.

    `late_trace` is the largest trace seen beyond half of the depth.
    """

    t: np.ndarray
    L: np.ndarray
    stopped: np.ndarray
    escaped: np.ndarray
    late_trace: np.ndarray


def rate(A, V, B, L):
    S = L @ L.swapaxes(-1, -2)
    return (A + (V @ S[:, None] @ B).sum(axis=1)) @ L


def distances(L):
    return np.linalg.norm(L @ L.swapaxes(-1, -2) - np.eye(L.shape[-2]), axis=(1, 2))


def integrate(A, V, B, L, depth=DEPTH, stop=None, rtol=RTOL, budget=np.inf):
    """Follow factors (N, d, r) until `stop(L)` (N,) holds, they escape, or a depth (N,)."""
    count = len(L)
    depth = np.broadcast_to(np.asarray(depth, dtype=float), count).copy()
    size = np.linalg.norm(L, axis=(1, 2))
    result = Flow(
        np.zeros(count),
        np.array(L, dtype=float),
        np.zeros(count, dtype=bool),
        np.zeros(count, dtype=bool),
        np.zeros(count),
    )
    active, t = np.arange(count), np.zeros(count)
    step = np.full(count, 1e-6) / np.linalg.norm(rate(A, V, B, L), axis=(1, 2)).clip(1e-300)
    step = np.minimum(step * size, 1e-3 * np.minimum(depth, DEPTH))
    steps = 0
    while active.size and steps < budget:
        steps += 1
        h = np.minimum(step, depth - t)[:, None, None]
        with np.errstate(all="ignore"):
            slopes = [rate(A, V, B, L)]
            for row in NODES:
                new = L + h * sum(c * k for c, k in zip(row, slopes, strict=True))
                slopes.append(rate(A, V, B, new))
            gap = h * sum(c * k for c, k in zip(ERROR, slopes, strict=True))
            scale = rtol * np.linalg.norm(L, axis=(1, 2))
            error = np.nan_to_num(np.linalg.norm(gap, axis=(1, 2)) / scale, nan=1e9, posinf=1e9)
        good = error <= 1
        L = np.where(good[:, None, None], new, L)
        t = t + np.where(good, h[:, 0, 0], 0)
        step = h[:, 0, 0] * np.clip(0.9 * np.maximum(error, 1e-10) ** -0.2, 0.2, 5.0)
        norms = np.linalg.norm(L, axis=(1, 2))
        stopped = stop(L) if stop else np.zeros(active.size, dtype=bool)
        vanished = norms < GONE
        escaped = (norms > FAR * np.maximum(size, 1.0)) | (
            step < LEAST_STEP * np.maximum(t, np.minimum(depth, DEPTH) * 1e-6)
        )
        escaped &= ~vanished
        late = t > depth / 2
        result.late_trace[active[late]] = np.maximum(
            result.late_trace[active[late]], norms[late] ** 2
        )
        done = stopped | escaped | vanished | (t >= depth * (1 - 1e-12))
        gone = active[done]
        result.t[gone], result.L[gone] = t[done], L[done]
        result.stopped[gone], result.escaped[gone] = stopped[done], (escaped & ~stopped)[done]
        if done.any():
            keep = ~done
            A, V, B, L, t, step, active, depth, size = (
                x[keep] for x in (A, V, B, L, t, step, active, depth, size)
            )
    for n, i in enumerate(active):
        finish(result, i, A[n], V[n], B[n], L[n], t[n], depth[n], stop, rtol)
    return result


def finish(result, i, A, V, B, L, start, depth, stop, rtol):
    """Go on with trajectory i as Sigma' = M Sigma + Sigma M^T, by LSODA."""
    dim, unit = len(A), max(np.linalg.norm(L), 1.0)

    def flow(t, state):
        S = state.reshape(dim, dim)
        rates = (A + (V @ S @ B).sum(axis=0)) @ S
        return (rates + rates.T).reshape(-1)

    factor, state = L, (L @ L.T).reshape(-1)
    with np.errstate(all="ignore"):
        solver = LSODA(flow, start, state, depth, rtol=rtol, atol=rtol * 1e-3)
        for _ in range(MOST):
            solver.step()
            S = solver.y.reshape(dim, dim)
            values, axes = np.linalg.eigh((S + S.T) / 2)
            if values[0] < OUTSIDE * values[-1]:
                rest = integrate(A[None], V[None], B[None], factor[None], depth - start, stop, rtol)
                result.stopped[i], result.escaped[i] = rest.stopped[0], rest.escaped[0]
                result.late_trace[i] = max(result.late_trace[i], rest.late_trace[0])
                result.t[i], result.L[i] = start + rest.t[0], rest.L[0]
                return
            L = axes * np.sqrt(values.clip(0))
            size = np.linalg.norm(L)
            if solver.t > depth / 2:
                result.late_trace[i] = max(result.late_trace[i], size**2)
            result.stopped[i] = stop is not None and bool(stop(L[None])[0])
            result.escaped[i] = not result.stopped[i] and not size < FAR * unit
            if result.stopped[i] or result.escaped[i] or size < GONE or solver.status != "running":
                break
    result.escaped[i] |= solver.status == "failed" and not result.stopped[i]
    result.t[i], result.L[i] = solver.t, L[:, -L.shape[1] :]


def converge(A, V, B, L, depth=DEPTH, near=NEAR, rtol=RTOL, budget=BUDGET):
    """Tell which factors reach the identity within a depth; those that blow up do not."""
    return integrate(A, V, B, L, depth, lambda L: distances(L) < near, rtol, budget).stopped
