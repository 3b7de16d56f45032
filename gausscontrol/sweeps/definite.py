"""Moments of many models whose covariances stay well conditioned (Theory 1.6).

    mu_i' = (M_i + Vbar_i) mu_i + b_i,    Sigma_i' = M_i Sigma_i + Sigma_i M_i^T

on (mu, vech Sigma), which comes to rest where the model does: a factor with L' = M L turns on and
on, and needs several times the steps. Whatever grows, flattens or does not get to the end is left
to the factor form, from its start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.sweeps.arrival import cholesky
from gausscontrol.sweeps.batch import Field, Stack, chosen, mul
from gausscontrol.sweeps.flow import DORMAND_PRINCE, Stepper
from gausscontrol.systems.escape import GROWTH_WATCH

__all__ = ["CovarianceFlows", "Definite", "follow_definite"]

# Numbers in one array of matrices: more no longer fit into a core's cache beside their products.
CACHED = 16_000


class Definite(NamedTuple):
    """Samples of the moments, and which trajectories came to the end with a condition to trust.

    `mean` is (N, d, T), `covariance` (N, d, d, T), `done` (N,).
    """

    mean: np.ndarray
    covariance: np.ndarray
    done: np.ndarray


class CovarianceFlows:
    """Right sides of (mu, vech Sigma), (n, N).

    Parameters
    ----------
    field : Field
    b : (d, N) ndarray
    """

    def __init__(self, field: Field, b: np.ndarray) -> None:
        self._field, self._b, self._dim = field, b, len(b)
        self._total = field.V.sum(axis=0)
        index = vech_index(self._dim)
        self._rows, self._columns = index.rows, index.columns
        self._full = self._dim + index.full.reshape(self._dim, self._dim)

    def keep(self, kept: np.ndarray) -> None:
        """Go on with some of the trajectories."""
        self._field, self._b = self._field.keep(kept), chosen(self._b, kept)
        self._total = chosen(self._total, kept)

    def rate(self, y: np.ndarray) -> np.ndarray:
        """Return y'."""
        S, out = self.covariance(y), np.empty_like(y)
        M = self._field.attention(S)
        M += self._field.A
        product = mul(M, S)
        np.add(
            product[self._rows, self._columns],
            product[self._columns, self._rows],
            out=out[self._dim :],
        )
        M += self._total
        out[: self._dim] = np.einsum("ijn,jn->in", M, y[: self._dim])
        out[: self._dim] += self._b
        return out

    def covariance(self, y: np.ndarray) -> np.ndarray:
        """Return Sigma, (d, d, N)."""
        return y[self._full]

    def trace(self, y: np.ndarray) -> np.ndarray:
        """Return tr Sigma, (N,)."""
        return y[self._full.diagonal()].sum(axis=0)


def follow_definite(
    models: Stack,
    start: tuple[np.ndarray, np.ndarray],
    depths: np.ndarray,
    *,
    rtol: float,
    atol: tuple[np.ndarray, np.ndarray],
    ratio: float,
    most: int,
) -> Definite:
    """Follow trajectories for as long as they neither grow nor flatten.

    Parameters
    ----------
    models : Stack
    start : tuple of (N, d) and (N, d, d) ndarray
        Means and covariances.
    depths : (T,) ndarray
        Increasing, the first of them zero.
    rtol : float
        Local.
    atol : tuple of (N,) ndarray
        Local, of means and of covariances.
    ratio : float
        Least ratio of the eigenvalues of every sample.
    most : int
        Attempted steps after which a trajectory is left to others.

    Returns
    -------
    Definite
    """
    (count, dim), index = start[0].shape, vech_index(start[0].shape[1])
    state = np.concatenate([start[0], start[1][:, index.rows, index.columns]], axis=1).T
    floor = np.repeat(np.stack(atol), [dim, index.rows.size], axis=0)
    samples = np.repeat(state[..., None], depths.size, axis=2)
    done = np.zeros(count, dtype=bool)
    parts = max(1, -(-count * dim**2 // CACHED))
    with np.errstate(all="ignore"):
        for some in np.array_split(np.arange(count), parts):
            part = models.take(some)
            flow = CovarianceFlows(part.field(), np.ascontiguousarray(part.b.T))
            samples[:, some], done[some] = _march(
                flow, state[:, some], depths, rtol, floor[:, some], most
            )
        full = index.full.reshape(dim, dim) + dim
        covariance = samples[full]
        finished = np.flatnonzero(done)
        done[finished] = _well_conditioned(covariance[:, :, finished], ratio)
    return Definite(
        np.ascontiguousarray(np.moveaxis(samples[:dim], 0, 1)),
        np.ascontiguousarray(np.moveaxis(covariance, 2, 0)),
        done,
    )


def _march(
    flow: CovarianceFlows,
    state: np.ndarray,
    depths: np.ndarray,
    rtol: float,
    atol: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return samples (n, N, T), and which trajectories came to the end."""
    count, last = state.shape[1], depths.size - 1
    samples = np.repeat(state[..., None], depths.size, axis=2)
    active, reached = np.arange(count), np.ones(count, dtype=int)
    done = np.zeros(count, dtype=bool)
    stepper = Stepper(
        DORMAND_PRINCE,
        lambda y: flow.rate(y),
        state,
        rtol=rtol,
        atol=atol,
        bound=np.full(count, depths[1]),
    )
    least = flow.trace(state)
    for _ in range(most):
        stepper.attempt()
        trace = flow.trace(stepper.y)
        least = np.fmin(least, trace)
        lost = stepper.failed | ~(trace <= GROWTH_WATCH * least)
        arrived = np.flatnonzero(stepper.t >= stepper.bound)
        if arrived.size:
            index = active[arrived]
            samples[:, index, reached[index]] = stepper.y[:, arrived]
            reached[index] += 1
            stepper.bound[arrived] = depths[np.minimum(reached[index], last)]
        ended = reached[active] > last
        if (lost | ended).any():
            done[active[ended & ~lost]] = True
            kept = np.flatnonzero(~(lost | ended))
            active, least = active[kept], least[kept]
            if not active.size:
                break
            flow.keep(kept)
            stepper.keep(kept)
    return samples, done


def _well_conditioned(S: np.ndarray, ratio: float) -> np.ndarray:
    """Tell which covariances (d, d, N, T) have no eigenvalue below a share of the largest."""
    dim, _, count, times = S.shape
    shifted = S.reshape(dim, dim, -1).copy()
    axes = np.arange(dim)
    # The trace is at least the largest eigenvalue.
    shifted[axes, axes] -= ratio * np.einsum("iin->n", shifted)
    return cholesky(shifted)[1].reshape(count, times).all(axis=1)
