"""Means and covariances of many models along the depth (Theory 1.6).

    mu_i' = (M_i + Vbar_i) mu_i + b_i,    L_i' = M_i L_i,    Sigma_i = L_i L_i^T

by Dormand and Prince's pair, every trajectory with its own step. Factors keep rank and positive
semidefiniteness; covariances that stay well conditioned, which is checked, are followed as they
are (`definite`). Trajectories that this pair does not get to the end, because they are stiff, are
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
from gausscontrol.sweeps.definite import follow_definite
from gausscontrol.sweeps.march import FactorRun, most_attempts
from gausscontrol.systems.arguments import check_tolerances, depth_grid
from gausscontrol.systems.response import moment_response
from gausscontrol.systems.trajectory import ABSOLUTE_SHARE, LANDED, TIGHTEST

__all__ = ["BatchResponse", "moment_response_batch"]

# Ratio of the eigenvalues of a start below which its factor is followed; of a sample, over rtol.
DEFINITE, ERRORS = 1e-4, 10.0


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
    check_tolerances(rtol, atol)
    floor = ABSOLUTE_SHARE * rtol * np.where(size > 0, size, 1.0)
    floor = floor if atol is None else np.full_like(size, atol)
    result, left = _follow(models, mean, L, times, rtol, floor)
    for i in left:
        _follow_one(result, models, mean, L, i, {"rtol": rtol, "atol": atol})
    result.single[left] = True
    if result.blow_up.any():
        warnings.warn(_message(result), BlowUpWarning, stacklevel=2)
    return result


def _follow(
    models: Stack,
    mean: np.ndarray,
    L: np.ndarray,
    times: np.ndarray,
    rtol: float,
    floor: np.ndarray,
) -> tuple[BatchResponse, np.ndarray]:
    """Follow covariances while well conditioned, factors of the rest; tell what is left."""
    depths, count = times - times[0], models.count
    result = BatchResponse(
        t=times,
        mean=np.repeat(mean[..., None], times.size, axis=2),
        covariance=np.repeat((L @ transposed(L))[..., None], times.size, axis=3),
        valid=np.ones((count, times.size), dtype=bool),
        blow_up=np.zeros(count, dtype=bool),
        blow_up_time=np.full(count, np.inf),
        blow_up_error=np.zeros(count),
        single=np.zeros(count, dtype=bool),
        stopped=np.zeros(count, dtype=bool),
    )
    some = np.flatnonzero(_is_definite(L, max(DEFINITE, ERRORS * rtol)))
    if some.size:
        S, size = result.covariance[some, ..., 0], _norms(L[some])
        found = follow_definite(
            models.take(some),
            (mean[some], S),
            depths,
            rtol=max(LANDED * rtol, TIGHTEST),
            atol=(LANDED * floor[some], LANDED * floor[some] * size),
            ratio=ERRORS * rtol,
            most=most_attempts(depths),
        )
        some = some[found.done]
        result.mean[some] = found.mean[found.done]
        result.covariance[some] = found.covariance[found.done]
    rest = np.setdiff1d(np.arange(count), some)
    if not rest.size:
        return result, rest
    run = FactorRun(models.take(rest), mean[rest], L[rest], depths, rtol, floor[rest])
    run.go()
    part = run.result(times)
    for name in part:
        getattr(result, name)[rest] = part[name]
    return result, rest[run.stuck]


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


def _is_definite(L: np.ndarray, ratio: float) -> np.ndarray:
    """Tell which factors with orthogonal columns, largest first, have well conditioned squares."""
    if L.shape[2] < L.shape[1]:
        return np.zeros(len(L), dtype=bool)
    squares = (L**2).sum(axis=1)
    return squares[:, -1] > ratio * squares[:, 0]


def _norms(L: np.ndarray) -> np.ndarray:
    return np.linalg.norm(L, axis=(1, 2))


def _message(result: BatchResponse) -> str:
    first = int(np.argmin(result.blow_up_time))
    return (
        f"{int(result.blow_up.sum())} of {len(result)} covariances escape to infinity, the first "
        f"at depth {result.blow_up_time[first]:.6g} (model {first}); see blow_up_time and valid"
    )
