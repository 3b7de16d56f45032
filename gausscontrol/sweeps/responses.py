"""Means and covariances of many models along the depth (Theory 1.6).

    mu_i' = (M_i + Vbar_i) mu_i + b_i,    L_i' = M_i L_i,    Sigma_i = L_i L_i^T

by Dormand and Prince's pair, every trajectory with its own step. Factors keep rank and positive
semidefiniteness. Trajectories that this pair does not get to the end, because they are stiff, are
handed to `moment_response`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import BlowUpWarning, IntegrationError, ParameterError, ShapeError
from gausscontrol.linalg.arrays import SYMMETRY_TOLERANCE, real_array
from gausscontrol.linalg.symmetric import PSD_TOLERANCE, RANK_TOLERANCE
from gausscontrol.sweeps.batch import Stack, read_stack, transposed
from gausscontrol.sweeps.escapes import FactorFlows, follow_escapes
from gausscontrol.sweeps.flow import DORMAND_PRINCE, Stepper
from gausscontrol.systems.arguments import depth_grid
from gausscontrol.systems.escape import GROWTH_STEP, GROWTH_WATCH
from gausscontrol.systems.response import moment_response
from gausscontrol.systems.trajectory import ABSOLUTE_SHARE, LANDED, TIGHTEST

__all__ = ["BatchResponse", "moment_response_batch"]

# Attempts after which a trajectory is handed to the single path, beside some for every sample.
MAX_ATTEMPTS, ATTEMPTS_PER_SAMPLE = 10_000, 20
# Size of a state that is about to overflow.
OVERFLOW = 1e140


@dataclass(frozen=True, eq=False)
class BatchResponse:
    """Moments of many models along the depth.

    Every number is finite: from the escape of a trajectory on, its arrays repeat the last sample
    before it, and `valid` is False.

    Attributes
    ----------
    t : (T,) ndarray
        Depths. [t]
    mean : (N, d, T) ndarray
        [x]
    covariance : (N, d, d, T) ndarray
        [x]^2
    valid : (N, T) ndarray of bool
        Samples that lie before the escape of their trajectory.
    blow_up : (N,) ndarray of bool
        Trajectories that escape on the grid.
    blow_up_time, blow_up_error : (N,) ndarray
        Depths of the escapes and their estimated errors; infinite and zero where there is none. [t]
    single : (N,) ndarray of bool
        Trajectories that were handed to `moment_response` one by one.
    stopped : (N,) ndarray of bool
        Those among them that it could not follow to the end either, though they do not escape.
    """

    t: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    valid: np.ndarray
    blow_up: np.ndarray
    blow_up_time: np.ndarray
    blow_up_error: np.ndarray
    single: np.ndarray
    stopped: np.ndarray

    def __len__(self) -> int:
        return len(self.mean)

    def __str__(self) -> str:
        grid = f"{self.t.size} depths from {self.t[0]:.6g} to {self.t[-1]:.6g}"
        head = f"{len(self)} responses, d = {self.mean.shape[1]}, {grid}"
        lines = [f"{head}, {int(self.single.sum())} followed one by one"]
        escaped = self.blow_up_time[self.blow_up]
        if escaped.size:
            lines.append(
                f"  blow-up      {escaped.size:8d}, at depths from {escaped.min():.6g} to "
                f"{escaped.max():.6g}"
            )
        if self.stopped.any():
            lines.append(f"  not followed {int(self.stopped.sum()):8d}")
        return "\n".join(lines)


def moment_response_batch(
    A: ArrayLike,
    B: ArrayLike,
    V: ArrayLike,
    initial: tuple[ArrayLike, ArrayLike],
    timepts: ArrayLike,
    b: ArrayLike | None = None,
    *,
    rtol: float = 1e-8,
    atol: float | None = None,
) -> BatchResponse:
    """Compute the moments of many models along the depth.

    Parameters
    ----------
    A : (N, d, d) array_like
        Feed-forward matrices. [1/t]
    B, V : (N, d, d) or (N, h, d, d) array_like
        Key-query matrices [1/x^2] and value matrices [1/t].
    initial : tuple
        (mean, covariance): (d,) or (N, d) [x], and (d, d) or (N, d, d) [x]^2.
    timepts : (T,) array_like
        Increasing depths, one grid for all. [t]
    b : (N, d) array_like, optional
        Biases, zero by default. [x/t]
    rtol : float, optional
        Relative tolerance on the moments, as in `moment_response`.
    atol : float, optional
        Absolute tolerance in the unit of a token coordinate; 1e-3 rtol times the size of the
        start by default. [x]

    Returns
    -------
    BatchResponse

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ParameterError
        If an entry is not a finite real number, a covariance is none, or a tolerance is invalid.

    Warns
    -----
    BlowUpWarning
        Once, if covariances escape to infinity on the grid.

    Notes
    -----
    Theory 1.1, 1.6. Continuous depth and zero tilts.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> a, one = np.array([0.5, 1.0]), np.ones((2, 1, 1))
    >>> found = gct.moment_response_batch(
    ...     a[:, None, None], one, -0.25 * one, ([0.0], [[0.1]]), [0, 40]
    ... )
    >>> bool(np.allclose(found.covariance[:, 0, 0, -1], [2, 4]))
    True
    """
    models = read_stack(A, B, V, b)
    times = depth_grid(timepts, 0)
    mean, L = _read_initial(initial, models)
    size = np.maximum(_norms(L), np.linalg.norm(mean, axis=1))
    if not 0 < rtol < 1:
        raise ParameterError(f"rtol: expected a number between 0 and 1, found {rtol!r}")
    if atol is not None and not 0 < atol < np.inf:
        raise ParameterError(f"atol: expected a positive number, found {atol!r}")
    floor = ABSOLUTE_SHARE * rtol * np.where(size > 0, size, 1.0)
    run = _Run(models, mean, L, times - times[0], rtol, floor if atol is None else size * 0 + atol)
    run.go()
    result = run.result(times)
    left = np.flatnonzero(run.stuck)
    for i in left:
        _follow_one(result, models, mean, L, i, {"rtol": rtol, "atol": atol})
    result.single[left] = True
    if result.blow_up.any():
        warnings.warn(_message(result), BlowUpWarning, stacklevel=2)
    return result


class _Run:
    """All trajectories, from the start to the end of the grid or to their escapes."""

    def __init__(
        self,
        models: Stack,
        mean: np.ndarray,
        L: np.ndarray,
        depths: np.ndarray,
        rtol: float,
        floor: np.ndarray,
    ) -> None:
        self._models, self._start, self._depths = models, (mean, L), depths
        self._rtol, self._floor = rtol, floor
        count, dim = models.count, models.dim
        state = np.concatenate([mean, L.reshape(count, -1)], axis=1).T
        self.t, self.state, self.step = np.zeros(count), state, np.full(count, np.nan)
        self.samples = np.repeat(state[..., None], depths.size, axis=2)
        self.reached, self.wanted = np.ones(count, dtype=int), np.full(count, depths.size)
        self.escape = np.full((2, count), np.nan)
        self.stuck = np.zeros(count, dtype=bool)
        self._least, self._threshold = np.full(count, np.inf), np.zeros(count)
        self._dim, self._attempts = dim, 0

    def go(self) -> None:
        """Run: march, look at what grows, and march on."""
        waiting = np.arange(self._models.count)
        with np.errstate(all="ignore"):
            while waiting.size:
                parked = self._march(waiting)
                self._look(parked)
                waiting = parked[(self.reached < self.wanted)[parked] & ~self.stuck[parked]]

    def _march(self, active: np.ndarray) -> np.ndarray:
        """Go on with some trajectories; return those that stopped where they grow."""
        depths, last, parked = self._depths, self._depths.size - 1, []
        flow = self._flow(active)
        stepper = Stepper(
            DORMAND_PRINCE,
            lambda y: flow.rate(y),
            self.state[:, active],
            rtol=max(LANDED * self._rtol, TIGHTEST),
            atol=LANDED * self._floor[active],
            bound=depths[self.reached[active]] - self.t[active],
        )
        stepper.bound += self.t[active]
        stepper.t = self.t[active]
        going = ~np.isnan(self.step[active])
        stepper.h[going] = self.step[active[going]]
        most = MAX_ATTEMPTS + ATTEMPTS_PER_SAMPLE * depths.size
        while active.size:
            advanced, self._attempts = stepper.attempt(), self._attempts + 1
            arrived = np.flatnonzero(advanced & (stepper.t >= stepper.bound))
            index = active[arrived]
            self.samples[:, index, self.reached[index]] = stepper.y[:, arrived]
            self.reached[index] += 1
            stepper.bound[arrived] = depths[np.minimum(self.reached[index], last)]
            done = self.reached[active] >= self.wanted[active]
            park = self._suspects(active, flow.trace(stepper.y), advanced) | stepper.failed
            park &= ~done & np.isnan(self.escape[0, active])
            large = ~(np.abs(stepper.y).max(axis=0) < OVERFLOW)
            lost = ~done & ~park & (stepper.failed | large | (self._attempts > most))
            self.stuck[active[lost]] = True
            if (done | lost | park).any():
                gone, index = np.flatnonzero(park), active[park]
                self.t[index], self.step[index] = stepper.t[gone], stepper.h[gone]
                self.state[:, index] = stepper.y[:, gone]
                # What cannot take a step and does not escape is stuck.
                self.stuck[active[stepper.failed & park]] = True
                parked.append(index)
                kept = np.flatnonzero(~(done | lost | park))
                active = active[kept]
                flow.keep(kept)
                stepper.keep(kept)
        return np.concatenate(parked) if parked else active

    def _suspects(self, active: np.ndarray, trace: np.ndarray, advanced: np.ndarray) -> np.ndarray:
        """Take note of the traces, and tell which have grown enough to be looked at."""
        least = np.fmin(self._least[active], trace)
        grown = advanced & (trace > np.maximum(GROWTH_WATCH * least, self._threshold[active]))
        self._least[active] = least
        self._threshold[active] = np.where(grown, GROWTH_STEP * trace, self._threshold[active])
        return grown

    def _look(self, some: np.ndarray) -> None:
        """Follow trajectories that grow to their escapes, if they make one."""
        if not some.size:
            return
        y = self.state[:, some]
        atol = np.broadcast_to(LANDED * self._floor[some], y.shape)
        local = max(LANDED * self._rtol, TIGHTEST)
        end = self._depths[-1]
        found = follow_escapes(self._flow(some), self.t[some], y, atol, end, local)
        hit = ~np.isnan(found[0])
        some, found = some[hit], found[:, hit]
        self.escape[:, some], self.stuck[some] = found, False
        self.wanted[some] = np.searchsorted(self._depths, found[0] - found[1])

    def _flow(self, index: np.ndarray) -> FactorFlows:
        models = self._models.take(index)
        return FactorFlows(models.field(), np.ascontiguousarray(models.b.T))

    def result(self, times: np.ndarray) -> BatchResponse:
        """Return what was found, with errors of the escapes from a rougher run."""
        count, dim, depths = self._models.count, self._dim, self._depths
        escaped = ~np.isnan(self.escape[0])
        reached = np.where(escaped, np.searchsorted(depths, self.escape[0]), self.reached)
        reached = np.minimum(reached, self.reached)
        position = np.minimum(np.arange(depths.size), reached[:, None] - 1)
        samples = self.samples[:, np.arange(count)[:, None], position]
        mean = np.ascontiguousarray(np.moveaxis(samples[:dim], 0, 1))
        L = samples[dim:].reshape(dim, -1, count, depths.size)
        time, error = np.full(count, np.inf), np.zeros(count)
        some = np.flatnonzero(escaped)
        if some.size:
            time[some] = times[0] + self.escape[0, some]
            error[some] = self._errors(some) + 10 * np.spacing(np.abs(time[some]))
        return BatchResponse(
            t=times,
            mean=mean,
            covariance=np.einsum("irnt,jrnt->nijt", L, L, optimize=True),
            valid=np.arange(depths.size) < reached[:, None],
            blow_up=escaped,
            blow_up_time=time,
            blow_up_error=error,
            single=np.zeros(count, dtype=bool),
            stopped=np.zeros(count, dtype=bool),
        )

    def _errors(self, some: np.ndarray) -> np.ndarray:
        # A run at ten times the tolerance errs more than this one.
        mean, L = (x[some] for x in self._start)
        ends = self._depths[[0, -1]]
        rough = _Run(
            self._models.take(some), mean, L, ends, 10 * self._rtol, self._floor[some] * 10
        )
        rough.go()
        depth = np.where(np.isnan(rough.escape[0]), ends[-1], rough.escape[0])
        return np.abs(depth - self.escape[0, some]) + self.escape[1, some]


def _follow_one(
    result: BatchResponse,
    models: Stack,
    mean: np.ndarray,
    L: np.ndarray,
    index: int,
    tolerances: dict[str, float | None],
) -> None:
    """Replace one response by that of the single path, which knows stiff solvers."""
    start = (mean[index], L[index] @ L[index].T)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlowUpWarning)
            found = moment_response(models.model(index), result.t, start, **tolerances)
    except IntegrationError:
        result.stopped[index] = True
        return
    count, total = found.t.size, result.t.size
    position = np.minimum(np.arange(total), count - 1)
    result.mean[index] = found.mean[:, position]
    result.covariance[index] = found.covariance[:, :, position]
    result.valid[index] = np.arange(total) < count
    if found.blow_up_time is not None:
        result.blow_up[index] = True
        result.blow_up_time[index] = found.blow_up_time
        result.blow_up_error[index] = found.blow_up_error


def _read_initial(initial, models: Stack) -> tuple[np.ndarray, np.ndarray]:
    """Return means (N, d) and factors (N, d, r) of the covariances."""
    if not isinstance(initial, tuple | list) or len(initial) != 2:
        raise ParameterError(
            f"initial: expected (mean, covariance), found {type(initial).__name__}; pass a pair"
        )
    count, dim = models.count, models.dim
    mean = _broadcast(initial[0], "initial mean", (count, dim))
    S = _broadcast(initial[1], "initial covariance", (count, dim, dim))
    gap = np.abs(S - transposed(S)).max(axis=(1, 2))
    wrong = np.flatnonzero(gap > SYMMETRY_TOLERANCE * np.abs(S).max(axis=(1, 2)))
    if wrong.size:
        raise ParameterError(
            f"initial covariance: expected symmetric matrices, found |X - X^T| = "
            f"{gap[wrong[0]]:.2g} for model {wrong[0]}; pass (X + X.T) / 2 if that is rounding"
        )
    values, vectors = np.linalg.eigh((S + transposed(S)) / 2)
    largest = np.maximum(values[:, -1], 0.0)
    wrong = np.flatnonzero((values[:, 0] < -PSD_TOLERANCE * largest) | (values[:, -1] < 0))
    if wrong.size:
        raise ParameterError(
            f"initial covariance: expected positive semidefinite matrices, found smallest "
            f"eigenvalue {values[wrong[0], 0]:.4g} for model {wrong[0]}; pass covariances"
        )
    values = np.where(values > RANK_TOLERANCE * values[:, -1:], values, 0.0)
    rank = max(int((values > 0).sum(axis=1).max()), 1)
    L = (vectors * np.sqrt(values)[:, None])[..., ::-1]
    return mean, np.ascontiguousarray(L[..., :rank])


def _broadcast(value: ArrayLike, name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = real_array(value, name)
    if array.shape not in (shape, shape[1:]):
        raise ShapeError(
            f"{name}: expected shape {shape[1:]} or {shape} to agree with A, found {array.shape}; "
            "put models on the first axis"
        )
    return np.array(np.broadcast_to(array, shape))


def _norms(L: np.ndarray) -> np.ndarray:
    return np.linalg.norm(L, axis=(1, 2))


def _message(result: BatchResponse) -> str:
    first = int(np.argmin(result.blow_up_time))
    return (
        f"{int(result.blow_up.sum())} of {len(result)} covariances escape to infinity, the first "
        f"at depth {result.blow_up_time[first]:.6g} (model {first}); see blow_up_time and valid"
    )
