"""The flow of (1) in closed form where every value matrix is a multiple of I (Theory 3.2).

    V_h = v_h I,   B_v = sum_h v_h B_h,   G = B_v + B_v^T
    Sigma' = A Sigma + Sigma A^T + Sigma G Sigma
    Sigma(t) = e^{At} L (I - L^T W(t) L)^-1 L^T e^{A^T t},   W(t) = int_0^t e^{A^T s} G e^{As} ds

restarted after short steps, since e^{At} overflows for antistable A. One block exponential gives
e^{Ah} and W(h). A step is taken only if lambda_max(L^T W_+(h) L) <= 1/2, with W_+ the same
integral over the positive part of G: that rules out an escape inside the step even where W is not
monotone. The mean obeys a linear equation with known Sigma(t), mu' = (A + v I + Sigma B_v) mu +
Sigma kappa + b, solved by Gauss collocation of order 16 on the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.polynomial import legendre

from gausscontrol.errors import IntegrationError
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.moments import MomentField

__all__ = ["ClosedForm", "ScalarValueModel", "closed_form_flow", "mean_moves"]

# lambda_max(L^T W_+ L) allowed in one step; 1 is where Sigma might escape.
GUARD = 0.5
# Step length times the norm of the matrix of the mean equation, at most.
STRIDE = 1.0
# Condition number of e^{Ah} up to which a step keeps its digits.
CONDITION = 1e2
STAGES = 8
# The escape is reached once the step is below this share of the depth travelled, and it counts
# as one if the depth then left is below the second share.
RESOLUTION, REMAINDER = 1e-13, 1e-10
MAX_STEPS = 20_000
# States beyond this are about to overflow.
OVERFLOW = 1e140


@dataclass(frozen=True)
class ScalarValueModel:
    """The data of the Riccati case: A, B_v, v = sum_h v_h, kappa = sum_h v_h k_h and b."""

    A: np.ndarray
    Bv: np.ndarray
    v: float
    kappa: np.ndarray
    b: np.ndarray

    @classmethod
    def of(cls, field: MomentField) -> ScalarValueModel | None:
        """Return the data of a field, or None if some V_h is not a multiple of I."""
        values = field.heads.scalar_values()
        if values is None or field.dt:
            return None
        Bv = np.tensordot(values, field.heads.B, axes=1)
        return cls(field.A, Bv, float(values.sum()), values @ field.k, field.b)

    def strides(self, duration: float) -> float:
        """Return how many steps the mean equation needs at least."""
        return duration * (float(np.linalg.norm(self.A, 2)) + abs(self.v)) / STRIDE

    @cached_property
    def gain(self) -> np.ndarray:
        """G = B_v + B_v^T."""
        return self.Bv + self.Bv.T

    @cached_property
    def positive_gain(self) -> np.ndarray:
        """The positive semidefinite part of G."""
        values, vectors = np.linalg.eigh(self.gain)
        if values[0] >= 0:
            return self.gain
        return (vectors * np.maximum(values, 0)) @ vectors.T


@dataclass(frozen=True)
class ClosedForm:
    """Samples of the flow, and the depth of its escape if there is one."""

    mean: np.ndarray  # (d, N)
    factor: np.ndarray  # (d, r, N)
    blow_up_time: float | None
    blow_up_error: float | None


def closed_form_flow(
    model: ScalarValueModel, mean: np.ndarray, L: np.ndarray, times: np.ndarray
) -> ClosedForm:
    """Evaluate the flow on a grid.

    Parameters
    ----------
    model : ScalarValueModel
    mean : (d,) ndarray
        At times[0]. [x]
    L : (d, r) ndarray
        Factor of the covariance at times[0]. [x]
    times : (N,) ndarray
        Increasing. [t]

    Returns
    -------
    ClosedForm
        Sampled at the first points of the grid that precede an escape.

    Raises
    ------
    IntegrationError
        If the steps run out.
    """
    walker = _Walker(model, mean, L, times[0])
    means, factors = [mean], [L]
    for target in times[1:]:
        if not walker.advance(target):
            remaining = walker.remaining
            time = walker.t + remaining
            error = remaining + 64 * np.spacing(abs(time))
            return ClosedForm(_stack(means), _stack(factors), float(time), float(error))
        means.append(walker.mean)
        factors.append(walker.L)
    return ClosedForm(_stack(means), _stack(factors), None, None)


def mean_moves(model: ScalarValueModel, mean: np.ndarray) -> bool:
    """Tell whether the mean is anything but zero for ever."""
    return bool(mean.any() or model.b.any() or model.kappa.any())


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    return np.stack(arrays, axis=-1)


class _Walker:
    # The current point, moved by steps whose exponentials are cached by length.

    def __init__(self, model: ScalarValueModel, mean, L, start: float) -> None:
        self.model, self.mean, self.L, self.t = model, mean, L, start
        self._start = start
        self._steps: dict[float, _Step] = {}
        self._gaps: list[float] = []
        self._count = 0
        self._moves = mean_moves(model, mean)
        self._pace = np.linalg.norm(model.A, 2) + abs(model.v)

    @property
    def remaining(self) -> float:
        """First-order estimate of the depth left before the escape."""
        growth = np.linalg.eigvalsh(symmetrise(self.L.T @ self.model.gain @ self.L))[-1]
        if not growth * (self.t - self._start) * REMAINDER > 1:
            raise IntegrationError(
                f"initial: the covariance is so large at depth {self.t:.6g} that steps vanish "
                "without an escape; scale the start down"
            )
        return 1 / growth

    def advance(self, target: float) -> bool:
        """Move to a depth; False if the covariance escapes before it."""
        gap = self._shared_gap(target)
        done, level = 0.0, 0
        while done < 1:
            # Steps are gap / 2^level, aligned so that equal gaps share their exponentials.
            while level > 0 and done * 2 ** (level - 1) % 1 == 0 and self._fits(gap, level - 1):
                level -= 1
            while not self._fits(gap, level):
                level += 1
                if gap / 2**level < RESOLUTION * max(self.t - self._start, gap / 2**40):
                    return False
            self._take(self._step(gap / 2**level))
            done += 2.0**-level
            self.t = target - gap * (1 - done)
        self.t = target
        return True

    def _shared_gap(self, target: float) -> float:
        # Gaps of a uniform grid differ by rounding of its points; one set of exponentials serves.
        gap = target - self.t
        for known in self._gaps:
            if abs(gap - known) <= 4 * np.spacing(abs(target)):
                return known
        self._gaps.append(gap)
        return gap

    def _fits(self, gap: float, level: int) -> bool:
        h = gap / 2**level
        if self._moves:
            attention = np.linalg.norm(self.L.T @ (self.model.Bv @ self.L))
            if h * max(self._pace, attention) > STRIDE:
                return False
        elif h * self._pace > STRIDE and not self._step(h).condition <= CONDITION:
            return False
        L = self.L
        if not L.size:
            return True
        positive = symmetrise(L.T @ self._step(h).positive @ L)
        return bool(np.linalg.eigvalsh(positive)[-1] <= GUARD)

    def _step(self, h: float) -> _Step:
        if h not in self._steps:
            self._steps[h] = _Step(self.model, h)
        return self._steps[h]

    def _take(self, step: _Step) -> None:
        self._count += 1
        if self._count > MAX_STEPS:
            raise IntegrationError(
                f"timepts: the closed form used up {MAX_STEPS} steps at depth {self.t:.6g}; "
                "shorten the grid"
            )
        with np.errstate(all="ignore"):
            if self._moves:
                self.mean = _collocate(self.model, step, self.mean, self.L)
            self.L = _move(step.end, self.L)
        if not max(np.abs(self.mean).max(), np.abs(self.L).max(initial=0)) < OVERFLOW:
            raise IntegrationError(
                f"timepts: the state exceeds {OVERFLOW:g}, by growth that is not a finite escape, "
                f"at depth {self.t:.6g}; end the grid before that depth"
            )


class _Step:
    # e^{As} and W(s) at the end of a step and, when asked for, at its collocation nodes.

    def __init__(self, model: ScalarValueModel, h: float) -> None:
        self.h, self._model = h, model
        self.end = _exponential(model.A, model.gain, h)

    @cached_property
    def condition(self) -> float:
        """Condition number of e^{Ah}, in the Frobenius norm."""
        with np.errstate(all="ignore"):
            back = scipy.linalg.expm(-self.h * self._model.A)
            return float(np.linalg.norm(self.end[0]) * np.linalg.norm(back))

    @cached_property
    def positive(self) -> np.ndarray:
        """W_+(h), the integral over the positive part of G."""
        G_plus = self._model.positive_gain
        if not G_plus.any():
            return np.zeros_like(self._model.A)
        if G_plus is self._model.gain:
            return self.end[1]
        return _exponential(self._model.A, G_plus, self.h)[1]

    @cached_property
    def nodes(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [_exponential(self._model.A, self._model.gain, self.h * c) for c in GAUSS.c]


def _exponential(A: np.ndarray, G: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Return e^{Ah} and int_0^h e^{A^T s} G e^{As} ds from one block exponential (Van Loan)."""
    dim = len(A)
    block = np.block([[-A.T, G], [np.zeros_like(A), A]])
    # Too long a step overflows here and is then refused for its condition number.
    with np.errstate(all="ignore"):
        exponential = scipy.linalg.expm(h * block)
        E = exponential[dim:, dim:]
        return E, symmetrise(E.T @ exponential[:dim, dim:])


def _move(flow: tuple[np.ndarray, np.ndarray], L: np.ndarray) -> np.ndarray:
    """Return a factor of Sigma after a step, from one before it."""
    E, W = flow
    if not L.size:
        return L
    values, vectors = np.linalg.eigh(np.eye(L.shape[1]) - symmetrise(L.T @ W @ L))
    return E @ L @ (vectors / np.sqrt(values)) @ vectors.T


@dataclass(frozen=True)
class _Gauss:
    # Butcher tableau of Gauss-Legendre collocation.
    a: np.ndarray
    weights: np.ndarray
    c: np.ndarray

    @classmethod
    def of(cls, stages: int) -> _Gauss:
        # On [-1, 1] in the Legendre basis, where interpolation is well conditioned.
        nodes, weights = legendre.leggauss(stages)
        interpolation = np.linalg.inv(legendre.legvander(nodes, stages - 1))
        integrals = [_legendre_integral(degree, nodes) for degree in range(stages)]
        return cls(np.stack(integrals, axis=1) @ interpolation / 2, weights / 2, (nodes + 1) / 2)


def _legendre_integral(degree: int, nodes: np.ndarray) -> np.ndarray:
    """Return int_{-1}^x P_n at the nodes."""
    coefficients = np.zeros(degree + 1)
    coefficients[degree] = 1.0
    return legendre.legval(nodes, legendre.legint(coefficients, lbnd=-1))


GAUSS = _Gauss.of(STAGES)


def _collocate(model: ScalarValueModel, step: _Step, mean, L) -> np.ndarray:
    dim, h = len(mean), step.h
    matrices, forcing = [], []
    for S in _covariances(step, L):
        matrices.append(model.A + model.v * np.eye(dim) + S @ model.Bv)
        forcing.append(S @ model.kappa + model.b)
    # K_i = F_i (mu + h sum_j a_ij K_j) + g_i for all stages at once.
    F = np.stack(matrices)
    system = np.eye(STAGES * dim) - h * np.einsum("ipq,ij->ipjq", F, GAUSS.a).reshape(
        STAGES * dim, STAGES * dim
    )
    slopes = np.linalg.solve(system, (F @ mean + np.stack(forcing)).reshape(-1))
    return mean + h * GAUSS.weights @ slopes.reshape(STAGES, dim)


def _covariances(step: _Step, L: np.ndarray) -> Iterator[np.ndarray]:
    for flow in step.nodes:
        moved = _move(flow, L)
        yield moved @ moved.T
