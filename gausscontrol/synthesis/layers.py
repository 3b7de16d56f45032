"""Finite layers that follow a path exactly, at any rank (Theory 6f).

    D L_k = L_(k+1),    D = I + (L_(k+1) - L_k) L_k^+

    residual   I + dt M = D                         dt A = (L_(k+1) - L_k) L_k^+  and its like
    hold       exp(dt A) = D                        dt A = (L_(k+1) - L_k) f(G) L_k^+

with L_(k+1) aligned to L_k, G = L_k^+ (L_(k+1) - L_k) and f(x) = log(1 + x) / x. As
L_k^T L_(k+1) > 0, I + G is similar to a symmetric positive definite matrix, whose eigenvalues give
f(G) exactly; tokens off the range of L_k move along with it, and D is invertible. Where attention
acts during a held layer, (1) is not linear and the constant parameters are found by shooting.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.integrate import DOP853, solve_ivp
from scipy.linalg import expm

from gausscontrol.errors import BlowUpWarning, ParameterError
from gausscontrol.linalg.bures import align
from gausscontrol.model.moments import MomentField
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.arguments import choice
from gausscontrol.systems.response import moment_response

if TYPE_CHECKING:
    from gausscontrol.synthesis.plan import SteeringPlan

__all__ = ["KINDS", "stack_of"]

KINDS = ("residual", "hold")
# Below this, tokens turn by nearly a right angle within one layer and no flow holds still for it.
SMALLEST_COSINE = 1e-8
# Shooting: relative error at the end of a layer, and how many trajectories may be tried.
HITS = 1e-13
NEAR_HIT = 1e-11
SHOTS = 60
# Evaluations of the right side that the search for one layer may use; a few thousand are usual.
BUDGET = 60_000
# A step of the search is halved while it makes the distance this many times larger.
WORSE = 2.0
HALVINGS = 5
# Trajectories that grow beyond this multiple of both ends are given up.
ASTRAY = 100.0
# How far the end of a stack may miss the goal, relative, when the stack is replayed.
EXACT = 1e-8


def stack_of(plan: SteeringPlan, n: int, kind: str) -> LayerStack:
    """Return n layers along a plan."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ParameterError(
            f"n: expected a positive number of layers, found {n!r}; pass 1, 2, ..."
        )
    choice(kind, "kind", KINDS)
    step = plan.duration / n
    make = _residual_layer if kind == "residual" else _held_layer
    point = plan.path.point(0.0)
    mean, L, models = point.mean, point.factor, []
    for k in range(n):
        following = plan.path.point(plan.duration * (k + 1) / n)
        target = align(L, following.factor)
        models.append(make(plan, step, (mean, L), (following.mean, target), k))
        mean, L = following.mean, target
    stack = LayerStack(models, np.full(n, step))
    _check_replay(plan, stack)
    return stack


def _check_replay(plan: SteeringPlan, stack: LayerStack) -> None:
    # A stack is an open loop: each layer is exact, but rounding in one is amplified by the next.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlowUpWarning)  # told in the error below
        end = moment_response(stack, [0.0, stack.depth], plan.start, rtol=1e-11)
    mean, covariance = plan.goal
    size = np.linalg.norm(covariance)
    miss = np.linalg.norm(end.covariance[:, :, -1] - covariance) / (size or 1.0)
    token = np.sqrt(np.trace(covariance)) + np.linalg.norm(mean) + np.linalg.norm(plan.start[0])
    miss = max(miss, np.linalg.norm(end.mean[:, -1] - mean) / (token or 1.0))
    if end.blow_up_time is not None:
        miss = np.inf
    if not miss <= EXACT:
        raise ParameterError(
            f"n: the {len(stack)} layers amplify rounding until the end misses the goal by "
            f"{miss:.1g}, relative; use fewer layers, or feedforward, which amplifies little"
        )


def _residual_layer(plan, step, start, target, _) -> GaussianTransformer:
    (mean, L), (next_mean, next_factor) = start, target
    rates = (next_mean - mean) / step, (next_factor - L) / step
    offsets = plan.actuation.offsets(mean, L, *rates, gauge=False)
    return plan.actuation.shifted(offsets).replace(dt=step)


def _held_layer(plan, step, start, target, k) -> GaussianTransformer:
    model = plan.model
    acts = (model.B.any() or model.k.any()) and model.V.any()
    if plan.actuators == "feedforward" and not acts:
        return _exponential_layer(plan, step, start, target, k)
    return _Shooting(plan, step, start, target, k).solve()


def _exponential_layer(plan, step, start, target, k) -> GaussianTransformer:
    (mean, L), (next_mean, next_factor) = start, target
    A = _logarithm(L, next_factor, k) / step
    dim = plan.dim
    # exp of the augmented matrix holds e^N and (e^N - I) / N.
    block = np.zeros((2 * dim, 2 * dim))
    block[:dim, :dim], block[:dim, dim:] = step * (A + plan.model.heads.total), np.eye(dim)
    flow = expm(block)
    forced, wanted = flow[:dim, dim:], (next_mean - flow[:dim, :dim] @ mean) / step
    b = np.linalg.lstsq(forced, wanted, rcond=None)[0]
    if np.linalg.norm(forced @ b - wanted) > NEAR_HIT * (np.linalg.norm(wanted) or 1.0):
        raise ParameterError(
            f"n: no constant b moves the mean as wanted during layer {k}; use more layers"
        )
    return plan.model.replace(A=A, b=b)


def _logarithm(L: np.ndarray, target: np.ndarray, k: int) -> np.ndarray:
    """Return log(D) for D = I + (target - L) L^+, given L^T target > 0."""
    if L.shape[1] == 0:
        return np.zeros((len(L), len(L)))
    U, s, Zt = np.linalg.svd(L, full_matrices=False)
    cosine = np.linalg.svd(U.T @ np.linalg.svd(target, full_matrices=False)[0], compute_uv=False)
    ratio = U.T @ target @ (Zt.T / s)
    values, vectors = np.linalg.eigh((ratio + ratio.T) / 2)
    if cosine[-1] < SMALLEST_COSINE or values[0] <= 0:
        raise ParameterError(
            f"n: a held layer cannot turn tokens by a right angle, found cosine {cosine[-1]:.1g} "
            f"in layer {k}; use more layers, or kind='residual'"
        )
    x = values - 1
    f = np.where(np.abs(x) > 1e-300, np.log1p(x) / np.where(x == 0, 1.0, x), 1.0)
    return (target - L) @ (Zt.T / s) @ (vectors * f) @ vectors.T @ U.T


class _Shooting:
    """Constant parameters whose flow over one layer hits the next factor and mean.

    The unknown is the rate (m', L') that the parameters would give at the start; the map from it to
    the mean rate over the layer is near the identity, which is where Broyden's method begins.
    """

    def __init__(self, plan: SteeringPlan, step: float, start: Any, target: Any, k: int) -> None:
        self._plan, self._step, self._index, self._evaluations = plan, step, k, 0
        self._mean, self._factor = start
        self._start, self._target = (
            np.concatenate([mean, L.reshape(-1)]) for mean, L in (start, target)
        )

    def solve(self) -> GaussianTransformer:
        rate = self._middle_rate()
        error, inverse = self._error(rate), np.eye(rate.size)
        if not np.isfinite(error).all():
            raise self._failure()
        for _ in range(SHOTS):
            best = self._miss(error)
            if best <= HITS:
                break
            move, following = self._shortened(rate, -inverse @ error, best)
            if best <= NEAR_HIT and not self._miss(following) < best:
                break  # what is left is rounding
            change = following - error
            along = inverse @ change
            inverse += np.outer(move - along, move @ inverse) / (move @ along)
            rate, error = rate + move, following
        if not self._miss(error) <= NEAR_HIT:
            raise self._failure()
        return self._model(rate)

    def _middle_rate(self) -> np.ndarray:
        # Parameters that give the right rate halfway give the right increment to second order.
        halfway = (self._start + self._target) / 2
        rate, dim = (self._target - self._start) / self._step, self._plan.dim
        shape = self._factor.shape
        offsets = self._plan.actuation.offsets(
            halfway[:dim],
            halfway[dim:].reshape(shape),
            rate[:dim],
            rate[dim:].reshape(shape),
            gauge=False,
        )
        field = MomentField.of(self._plan.actuation.shifted(offsets))
        return field.factor_form(self._start)

    def _shortened(
        self, rate: np.ndarray, move: np.ndarray, best: float
    ) -> tuple[np.ndarray, np.ndarray]:
        for _ in range(HALVINGS):
            error = self._error(rate + move)
            if self._miss(error) <= WORSE * best or best <= NEAR_HIT:
                return move, error
            move = move / 2
        raise self._failure()

    def _miss(self, error: np.ndarray) -> float:
        """Return the distance from the target, relative, of the mean and of the factor."""
        dim, parts = self._plan.dim, []
        for part in (slice(None, dim), slice(dim, None)):
            size = max(np.linalg.norm(self._target[part]), np.linalg.norm(self._start[part]))
            parts.append(self._step * np.linalg.norm(error[part]) / (size or 1.0))
        return float(max(parts))

    def _failure(self) -> ParameterError:
        return ParameterError(
            f"n: found no constant parameters for held layer {self._index}, whose depth is "
            f"{self._step:.3g}, and there may be none while attention acts; use kind='residual', "
            "or more layers"
        )

    def _model(self, rate: np.ndarray) -> GaussianTransformer:
        plan, dim = self._plan, self._plan.dim
        factor_rate = rate[dim:].reshape(self._factor.shape)
        offsets = plan.actuation.offsets(
            self._mean, self._factor, rate[:dim], factor_rate, gauge=False
        )
        return plan.actuation.shifted(offsets)

    def _error(self, rate: np.ndarray) -> np.ndarray:
        field = MomentField.of(self._model(rate))
        size = max(np.linalg.norm(self._start), np.linalg.norm(self._target)) or 1.0

        def flow(t: float, y: np.ndarray) -> np.ndarray:
            self._evaluations += 1
            if self._evaluations > BUDGET:
                raise self._failure()
            # NaN makes the solver shorten its step until it gives up.
            astray = not np.linalg.norm(y) < ASTRAY * size
            return np.full(y.size, np.nan) if astray else field.factor_form(y)

        span = (0.0, self._step)
        with np.errstate(all="ignore"):
            run = solve_ivp(flow, span, self._start, method=DOP853, rtol=3e-14, atol=1e-15 * size)
        if not run.success:
            return np.full(rate.size, np.nan)
        return (run.y[:, -1] - self._target) / self._step
