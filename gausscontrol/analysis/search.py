"""Where to look for positive definite equilibria: starts, and the factor flow (Theory 3.3).

Following (1) forward finds stable equilibria and following the reversed model (A, V) -> (-A, -V)
finds unstable thresholds; both only have to come near, since Newton finishes. Distances are
measured in coordinates whitened at the current point, so units do not matter. Thin factors of large
models never form Sigma: T(L L^T) L = sum_h V_h L (L^T B_h L) costs O(h d^2 r).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.integrate import RK23

from gausscontrol.linalg.symmetric import is_positive_definite, symmetrise, vech_index
from gausscontrol.model.heads import FactoredHeads, Heads
from gausscontrol.model.moments import MomentField
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.forms import CovarianceFlow, FactorFlow

__all__ = ["Arrival", "balanced_covariance", "default_starts", "flow_rtol", "follow_flow"]

# Local error, and the share of the tolerance that it must not exceed: its noise is what a flow
# settles to.
FLOW_RTOL, NOISE = 1e-3, 0.1
FLOW_STEPS = 500
# Ratio of singular values of L at which a trajectory counts as heading for a singular limit.
SINGULAR_RATIO = 1e-5
# Share of attention in the drift below which Sigma is on its way to zero.
COLLAPSED = 1e-12
# Ratio of the diagonal of a Cholesky factor below which the factor flow takes over.
DEGENERATE = 1e-2
# Steps of the covariance flow between two looks at where it is, which cost as much as a step.
LOOK, LARGE_LOOK = 3, 6
# Beyond this size looks are rarer, steps fewer and factors keep rotating: their gauge costs more.
LARGE_DIM, LARGE_STEPS = 64, 150
# Growth of L beyond which a trajectory counts as escaping: in any case, and while attention outdoes
# A by a factor and the volume grows.
ESCAPED, ESCAPING = 1e6, 1e2
OUTDONE = 1e6
SPREAD = 1.0
# Beyond this size a factor of rank up to a share of d is thin.
DENSE_DIM = 32
THIN = 0.25


@dataclass(frozen=True)
class Arrival:
    """Where a flow came to: a factor, and whether it settled there."""

    factor: np.ndarray
    settled: bool
    reason: str  # "settled", "escape", "singular", "unsettled"; within this module "degenerate"


def balanced_covariance(model: GaussianTransformer) -> np.ndarray | None:
    """Return -V^-1 A B^-1 for one invertible head, symmetric or not, or None.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    (d, d) ndarray or None
        Solves M(Sigma) = 0; an equilibrium where it is symmetric positive definite (Theory 3.1).
    """
    if model.n_heads != 1:
        return None
    V, B = model.V[0], model.B[0]
    if not (np.linalg.cond(V) < 1e12 and np.linalg.cond(B) < 1e12):
        return None
    return -np.linalg.solve(B.T, np.linalg.solve(V, model.A).T).T


def default_starts(model: GaussianTransformer, count: int, seed: int) -> Iterator[np.ndarray]:
    """Yield positive definite starts at the natural scale of the model.

    Parameters
    ----------
    model : GaussianTransformer
    count : int
        How many random starts follow the deterministic ones.
    seed : int

    Yields
    ------
    (d, d) ndarray
    """
    scale, dim = _natural_scale(model), model.dim
    balanced = balanced_covariance(model)
    if balanced is not None and is_positive_definite(symmetrise(balanced)):
        yield symmetrise(balanced)
    # The scalar part of every head; head gauge leaves it.
    key = symmetrise(np.tensordot(np.trace(model.V, axis1=1, axis2=2), model.B, axes=1))
    if np.linalg.norm(key) > 0 and np.linalg.cond(key) < 1e8:
        # Attention acts through B, so B^-1 carries the unit of a covariance.
        values, vectors = np.linalg.eigh(key)
        shape = (vectors / np.abs(values)) @ vectors.T
        yield _rescaled(model, symmetrise(shape))
    yield scale * np.eye(dim)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        Z = rng.normal(size=(dim, 2 * dim))
        yield scale * 10 ** rng.uniform(-SPREAD, SPREAD) * symmetrise(Z @ Z.T) / (2 * dim)


def flow_rtol(tolerance: float) -> float:
    """Return the local error at which a flow can settle to a tolerance.

    Parameters
    ----------
    tolerance : float
        0 for a flow that never settles.

    Returns
    -------
    float
    """
    return min(FLOW_RTOL, NOISE * tolerance) if tolerance else FLOW_RTOL


def _natural_scale(model: GaussianTransformer) -> float:
    return float(np.trace(_rescaled(model, np.eye(model.dim)))) / model.dim


def _rescaled(model: GaussianTransformer, shape: np.ndarray) -> np.ndarray:
    # The multiple s at which tr(A + s T(shape)) = 0, or else |A| = s |T(shape)|.
    attention = model.heads.attention(shape)
    balance = -np.trace(model.A) / np.trace(attention) if np.trace(attention) else 0.0
    if balance > 0 and np.isfinite(balance):
        return balance * shape
    norm = np.linalg.norm(attention)
    drift = np.linalg.norm(model.A)
    return drift / norm * shape if norm > 0 and drift > 0 else shape


def follow_flow(
    model: GaussianTransformer, factor: np.ndarray, tolerance: float, steps: int = FLOW_STEPS
) -> Arrival:
    """Follow the factor flow until it settles, escapes or becomes singular.

    Parameters
    ----------
    model : GaussianTransformer
    factor : (d, r) ndarray
        Start L of full column rank.
    tolerance : float
        Settled once |sym(L^+ M L)| is below this share of |L^+ A L| + |L^+ T L|; 0 for never.
    steps : int, optional
        Steps after which the flow counts as unsettled; at most 150 beyond d = 64.

    Returns
    -------
    Arrival
    """
    if model.dt:
        return _iterate_map(model, factor, tolerance, steps)
    dim, rank = factor.shape
    steps = steps if dim <= LARGE_DIM else min(steps, LARGE_STEPS)
    if rank < dim:
        return _follow_factor(_still(model), factor, tolerance, steps)
    # In coordinates whitened at the start tolerances mean the same in every direction.
    white = _still(model.in_coordinates(np.linalg.inv(factor), factor))
    arrival = _follow_covariance(white, tolerance, steps)
    if arrival.reason == "degenerate":
        arrival = _follow_factor(white, arrival.factor, tolerance, steps)
    return Arrival(factor @ arrival.factor, arrival.settled, arrival.reason)


def _still(model: GaussianTransformer) -> MomentField:
    # Without b and k the mean stays at zero, and does not steer the steps.
    dim = model.dim
    return MomentField(model.A, model.heads, np.zeros(dim), np.zeros((model.n_heads, dim)))


def _follow_covariance(field: MomentField, tolerance: float, steps: int) -> Arrival:
    # From I, as long as Sigma is well conditioned: cheaper steps than those of a factor.
    dim = field.dim
    flow, L = CovarianceFlow(lambda t: field, dim, constant=True), np.eye(dim)
    index = vech_index(dim)
    state = np.concatenate([np.zeros(dim), L[index.rows, index.columns]])
    with np.errstate(all="ignore"):
        solver = RK23(flow.rate, 0.0, state, np.inf, rtol=flow_rtol(tolerance), atol=1e-9)
        for step in range(1, steps + 1):
            solver.step()
            if solver.status == "failed" or not np.abs(solver.y).max() < ESCAPED**2:
                return Arrival(L, False, "escape")
            if step % _look(dim):
                continue
            try:
                following = np.linalg.cholesky(flow.covariance(solver.y))
            except np.linalg.LinAlgError:
                return Arrival(L, False, "degenerate")
            diagonal = following.diagonal()
            if not diagonal.min() > DEGENERATE * diagonal.max():
                return Arrival(L, False, "degenerate")
            L = following
            verdict = _verdict(field, L, tolerance, 1.0)
            if verdict:
                return Arrival(L, verdict == "settled", verdict)
    return Arrival(L, False, "unsettled")


class _ThinFlow(FactorFlow):
    """The factor flow of a still field without Sigma."""

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return y'."""
        field, L = self.field_at(t), self.factor(y)
        product = field.A @ L + _attention_on(field.heads, L)
        return np.concatenate([np.zeros(self.dim), self._gauged(product, L).reshape(-1)])

    def _gauged(self, product: np.ndarray, L: np.ndarray) -> np.ndarray:
        # _factor_rate asks for M with M L = product; any such matrix serves.
        if not self._gauge:
            return product
        return self._factor_rate(product @ np.linalg.pinv(L), L)


def _is_thin(L: np.ndarray) -> bool:
    dim, rank = L.shape
    return dim > DENSE_DIM and rank <= THIN * dim


def _attention_on(heads: Heads, L: np.ndarray) -> np.ndarray:
    """Return T(L L^T) L."""
    if isinstance(heads, FactoredHeads):
        O, U, K, Q = heads.arrays
        inner = (K @ L).transpose(0, 2, 1) @ (Q @ L)
        return (O @ ((U @ L) @ inner)).sum(axis=0)
    return ((heads.V @ L) @ (L.T @ heads.B @ L)).sum(axis=0)


def _follow_factor(field: MomentField, L: np.ndarray, tolerance: float, steps: int) -> Arrival:
    dim, rank = L.shape
    kind = _ThinFlow if _is_thin(L) else FactorFlow
    gauge = dim <= LARGE_DIM or _is_thin(L)
    flow, size = kind(lambda t: field, dim, rank, gauge=gauge), np.abs(L).max()
    state = np.concatenate([np.zeros(dim), L.reshape(-1)])
    with np.errstate(all="ignore"):
        rtol = flow_rtol(tolerance)
        solver = RK23(flow.rate, 0.0, state, np.inf, rtol=rtol, atol=1e-9 * size)
        for step in range(1, steps + 1):
            solver.step()
            if solver.status == "failed" or not np.abs(solver.y).max() < ESCAPED * size:
                return Arrival(L, False, "escape")
            L = flow.factor(solver.y)
            if step % _look(dim):
                continue
            verdict = _verdict(field, L, tolerance, size)
            if verdict:
                return Arrival(L, verdict == "settled", verdict)
    return Arrival(L, False, "unsettled")


def _look(dim: int) -> int:
    return LOOK if dim <= LARGE_DIM else LARGE_LOOK


def _verdict(field: MomentField, L: np.ndarray, tolerance: float, size: float) -> str:
    """Return "settled", "singular", "escape" or "" for a factor whose entries began below size."""
    U, values, Wt = _decomposed(L)
    if not values[-1] > SINGULAR_RATIO * values[0]:
        return "singular"
    # L^+ X L up to an orthogonal change: U^T X U scaled by the singular values.
    scale = values[None, :] / values[:, None]
    drift = (U.T @ field.A @ U) * scale
    if _is_thin(L):
        acting = _attention_on(field.heads, L) @ (Wt.T / values)
    else:
        acting = field.heads.attention(L @ L.T) @ U
    attention = (U.T @ acting) * scale
    total = drift + attention
    rate = total + total.T + field.dt * total @ total.T
    linear, nonlinear = np.linalg.norm(drift), np.linalg.norm(attention)
    if np.linalg.norm(rate) <= 2 * tolerance * (linear + nonlinear):
        return "settled"
    # Collapse as a whole: A alone drives, and it shrinks the volume.
    grows = np.trace(total) > 0
    if nonlinear < COLLAPSED * linear and not grows:
        return "singular"
    # No balance is near: attention alone drives, and the volume grows.
    outdone = np.linalg.norm(attention + attention.T) > OUTDONE * np.linalg.norm(drift + drift.T)
    return "escape" if outdone and grows and values[0] > ESCAPING * size else ""


def _decomposed(L: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the singular value decomposition; for large square L from an eigenvalue problem.

    That is several times faster, and accurate enough for singular values that are not negligible.
    """
    if len(L) <= DENSE_DIM or _is_thin(L):
        return np.linalg.svd(L, full_matrices=False)
    squares, U = np.linalg.eigh(L @ L.T)
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    return U[:, ::-1], values, np.empty((0, 0))


def _iterate_map(model, factor: np.ndarray, tolerance: float, steps: int) -> Arrival:
    field, L = MomentField.of(model), factor
    start = np.linalg.norm(factor)
    for _ in range(steps):
        L = L + model.dt * field.drift(L @ L.T) @ L
        if not np.linalg.norm(L) < ESCAPED * start:
            return Arrival(factor, False, "escape")
        verdict = _verdict(field, L, tolerance, start)
        if verdict:
            return Arrival(L, verdict == "settled", verdict)
    return Arrival(L, False, "unsettled")
