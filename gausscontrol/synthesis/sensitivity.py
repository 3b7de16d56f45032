"""How exactly a plan satisfies (1), and what its open loop makes of errors (Theory 2.1, 6e).

    E' = J(t) E,   Phi(t, s) the transition matrix of the linearisation along the plan
    amplification = max over s of |D(T) Phi(T, s) D(s)^-1|_2

with D(t) measuring errors of the mean over the size of a token's deviation, sqrt(tr Sigma), and
those of the covariance over tr Sigma. On a path of rank r < d only errors that keep the rank, to
first order, are counted: a factor form makes no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import expm

from gausscontrol.linalg.operators import symmetric_operator
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.model.moments import MomentField

if TYPE_CHECKING:
    from gausscontrol.synthesis.paths import PathPoint
    from gausscontrol.synthesis.plan import SteeringPlan

__all__ = ["amplification", "residual"]

STEPS = 100


def residual(plan: SteeringPlan, t: float) -> float:
    """Return the relative error of the right side of (1) at a depth of a plan."""
    point, field = plan.path.point(t), MomentField.of(plan.parameters(t))
    S = point.covariance
    wanted = point.covariance_rate
    gap = np.linalg.norm(field.covariance_rate(S) - wanted)
    size = np.linalg.norm(wanted) + np.linalg.norm(S) / plan.duration
    mean_gap = np.linalg.norm(field.mean_rate(point.mean, S, field.drift(S)) - point.mean_rate)
    token = np.sqrt(np.trace(S)) + np.linalg.norm(point.mean)
    mean_size = np.linalg.norm(point.mean_rate) + token / plan.duration
    return float(max(gap / (size or 1.0), mean_gap / (mean_size or 1.0)))


def amplification(plan: SteeringPlan) -> float:
    """Return the largest growth of a relative error up to the end of a plan."""
    depths = np.union1d(np.linspace(0, plan.duration, STEPS + 1), plan.knots)
    end = plan.path.point(plan.duration)
    carried = np.diag(_weights(end, plan.dim))
    largest = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for start, stop in zip(depths[-2::-1], depths[:0:-1], strict=True):
            middle = (start + stop) / 2
            state = _packed(plan.path.point(middle))
            jacobian = MomentField.of(plan.parameters(middle)).jacobian(state)
            carried = carried @ expm((stop - start) * jacobian)
            if not np.isfinite(carried).all():
                return np.inf
            point = plan.path.point(start)
            largest = max(largest, np.linalg.norm(_relative(carried, point, plan), 2))
    return float(largest)


def _relative(carried: np.ndarray, point: PathPoint, plan: SteeringPlan) -> np.ndarray:
    if plan.rank < plan.dim:
        carried = carried @ _rank_keeping(point.factor)
    return carried / _weights(point, plan.dim)


def _packed(point: PathPoint) -> np.ndarray:
    index = vech_index(point.mean.size)
    return np.concatenate([point.mean, point.covariance[index.rows, index.columns]])


def _weights(point: PathPoint, dim: int) -> np.ndarray:
    # Of the entries of (mu, vech Sigma) in the norm of relative errors.
    trace = float(np.sum(point.factor**2))
    size = np.sqrt(trace) or float(np.linalg.norm(point.mean)) or 1.0
    return np.concatenate([np.full(dim, 1 / size), vech_index(dim).weight / size**2])


def _rank_keeping(L: np.ndarray) -> np.ndarray:
    """Return the projection E -> E - P E P on packed states, P = I - L L^+."""
    dim = len(L)
    U = np.linalg.svd(L, full_matrices=False)[0]
    P = np.eye(dim) - U @ U.T
    out = np.eye(dim + dim * (dim + 1) // 2)
    out[dim:, dim:] -= symmetric_operator(P[None] / 2, P[None])
    return out
