"""Steering one Gaussian to another by depth-varying parameters: making the plan (Theory 6a).

    rank Sigma0 = rank Sigma1    <=>    some parameters steer one to the other over any depth

The plan follows the Bures-Wasserstein geodesic, waypoints or a path of the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError, UnreachableError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.bures import ranked_factor
from gausscontrol.model.stack import check_single_model
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.synthesis.actuators import ACTUATORS, Actuation
from gausscontrol.synthesis.curves import UserPath
from gausscontrol.synthesis.paths import Geodesic, Path, PiecewiseGeodesic, chain
from gausscontrol.synthesis.plan import SteeringPlan
from gausscontrol.synthesis.reach import Ends, of_rank, read_ends, read_gaussian
from gausscontrol.systems.arguments import choice

__all__ = ["SteeringPlan", "steer"]


def steer(
    start: ArrayLike | tuple,
    goal: ArrayLike | tuple,
    duration: float,
    *,
    actuators: str = "feedforward",
    model: GaussianTransformer | None = None,
    rank: int | None = None,
    path: Callable[[float], tuple] | Sequence | None = None,
    derivative: Callable[[float], tuple] | None = None,
    gauge: bool = True,
) -> SteeringPlan:
    """Plan depth-varying parameters from one Gaussian to another.

    Possible over any duration if and only if both covariances have the same rank.

    Parameters
    ----------
    start, goal : tuple or (d, d) array_like
        (mean [x], covariance [x]^2), an `Equilibrium`, a packed state, or a covariance alone, with
        mean zero.
    duration : float
        Depth that the plan takes, positive. [t]
    actuators : {"feedforward", "attention", "keys"}, optional
        What varies besides b: A; all V_h; or all B_h. Attention needs L^T B L nonsingular along
        the path, which B + B^T > 0 ensures; keys need invertible V and full rank, or several
        heads that reach every direction.
    model : GaussianTransformer, optional
        Nominal parameters, at continuous depth; the others keep these values, and offsets from
        them are kept small. By default all are zero, except B = I rank / tr Sigma(0) for attention
        and V = I / duration for keys.
    rank : int, optional
        Rank at which both covariances count, where counting eigenvalues of the correlation matrix
        above 1e-13 of the largest would be wrong.
    path : callable or sequence, optional
        t -> (mean, covariance) on [0, duration], or (mean, factor) with r < d columns; or Gaussians
        to pass through, start and goal not among them. By default the Bures-Wasserstein geodesic.
    derivative : callable, optional
        t -> (mean', covariance') of a callable path; by default it comes from a Chebyshev
        interpolant, for which the path must be smooth.
    gauge : bool, optional
        Use the freedom A -> A + K Sigma^-1, K skew, and its like to shrink the offsets.

    Returns
    -------
    SteeringPlan

    Raises
    ------
    UnreachableError
        If the ranks differ; it names both, the singular values and the tolerance.
    ShapeError, ParameterError
        If an argument is invalid, the path leaves the covariances of its rank or misses an end,
        or the actuators are singular along it.

    Notes
    -----
    Theory 6a to 6d. Waypoints are joined by geodesics at constant speed; there the parameters jump.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> start, goal = (np.zeros(2), np.eye(2)), (np.ones(2), np.diag([4.0, 0.25]))
    >>> plan = gct.steer(start, goal, 2.0)
    >>> bool(np.isclose(plan.energy, gct.bures_wasserstein(start, goal) ** 2 / 2))
    True
    >>> gct.steer(np.eye(2), np.diag([1.0, 0.0]), 1.0)
    Traceback (most recent call last):
    ...
    gausscontrol.errors.UnreachableError: goal: rank 2 cannot become rank 1: ...
    """
    duration = _read_duration(duration)
    choice(actuators, "actuators", tuple(ACTUATORS))
    ends = read_ends(start, goal, rank)
    nominal = _nominal(model, actuators, ends, duration)
    actuation = Actuation(nominal, actuators, bool(gauge))
    with np.errstate(over="ignore", invalid="ignore"):  # told in the error of _check_energy
        route = _route(path, derivative, ends, duration)
        _check_energy(route, ends)
    plan = SteeringPlan(
        start=(ends.mean0, of_rank(read_gaussian(start, "start")[1], ends.L0)),
        goal=(ends.mean1, of_rank(read_gaussian(goal, "goal")[1], ends.L1)),
        duration=duration,
        actuators=actuators,
        model=actuation.model,
        rank=ends.L0.shape[1],
        path=route,
        actuation=actuation,
    )
    actuation.check(lambda t: route.point(t).factor, plan.samples)
    return plan


def _check_energy(route: Path, ends: Ends) -> None:
    energy = route.energy
    if not np.isfinite(energy) or (energy == 0 and Geodesic(ends, 1.0).energy > 0):
        side = "long" if energy == 0 else "short"
        raise ParameterError(
            f"duration: expected a depth over which the energy is a positive number, found "
            f"{route.duration:.3g}, so {side} that it is {energy:.3g}; change the unit of depth"
        )


# -- arguments ------------------------------------------------------------------------------------


def _read_duration(value: Any) -> float:
    duration = real_array(value, "duration")
    if duration.ndim or not duration > 0:
        raise ParameterError(f"duration: expected a positive depth, found {value!r}; pass a number")
    return float(duration)


def _nominal(model: Any, actuators: str, ends: Ends, duration: float) -> GaussianTransformer:
    dim, rank = ends.L0.shape
    if model is None:
        zero, one = np.zeros((dim, dim)), np.eye(dim)
        # In units of the problem, so that the plan scales with them.
        B = one * (rank / np.sum(ends.L0**2) if rank else 1.0) if actuators == "attention" else zero
        V = one / duration if actuators == "keys" else zero
        return GaussianTransformer(zero, B, V)
    check_single_model(model)
    if model.dim != dim:
        raise ShapeError(
            f"model: expected dimension {dim} as in start, found {model.dim}; "
            "steer the tokens that the model acts on"
        )
    if model.dt:
        raise ParameterError(
            f"model: expected continuous depth, found dt = {model.dt:g}; pass "
            "model.replace(dt=0), and ask the plan for layers(n)"
        )
    return model


def _route(path: Any, derivative: Any, ends: Ends, duration: float) -> Path:
    if derivative is not None and not callable(path):
        raise ParameterError(
            "derivative: expected only beside a callable path; drop it, or pass path= too"
        )
    if path is None:
        return Geodesic(ends, duration)
    if callable(path):
        if derivative is not None and not callable(derivative):
            raise ParameterError(
                f"derivative: expected a function of depth, found {type(derivative).__name__}; "
                "pass t -> (mean', covariance')"
            )
        return UserPath(path, derivative, ends, duration)
    if _is_one_pair(path, ends):
        raise ParameterError(
            "path: expected a list of Gaussians, found one pair (mean, covariance); wrap it in a "
            "list, [(mean, covariance)]"
        )
    if not isinstance(path, (list, tuple)):
        raise ParameterError(
            f"path: expected a function of depth or a list of Gaussians, found "
            f"{type(path).__name__}; pass [(mean, covariance), ...]"
        )
    (dim, rank), gaussians = ends.L0.shape, [(ends.mean0, ends.L0)]
    for i, waypoint in enumerate(path):
        gaussians.append(_waypoint(waypoint, f"path[{i}]", dim, rank))
    return PiecewiseGeodesic(chain([*gaussians, (ends.mean1, ends.L1)]), duration)


def _is_one_pair(path: Any, ends: Ends) -> bool:
    if not isinstance(path, (list, tuple)) or len(path) != 2:
        return False
    try:
        shapes = np.shape(path[0]), np.shape(path[1])
    except ValueError:  # two pairs (mean, covariance), ragged as arrays
        return False
    d = ends.mean0.size
    return shapes == ((d,), (d, d)) or (d == 1 and shapes == ((), (1, 1)))


def _waypoint(value: Any, name: str, dim: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    mean, covariance = read_gaussian(value, name, dim)
    found = ranked_factor(covariance).shape[1]
    if found != rank:
        raise UnreachableError(
            f"{name}: expected rank {rank} as in start and goal, found rank {found}; rank is "
            "invariant along (1)"
        )
    return mean, ranked_factor(covariance, rank)
