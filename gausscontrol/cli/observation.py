"""What a trajectory does, told in one line: an observation, never a verdict (Theory 9.1).

    start -> moment_response -> where it ends: at an equilibrium, at zero, at infinity, elsewhere

Starts and depths are chosen from the scales of the model, so that the same layer in other units
gives the same picture.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.cli.streams import one_line
from gausscontrol.errors import BlowUpWarning, IntegrationError
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.response import MomentResponse, moment_response

__all__ = ["Observation", "follow", "natural_start", "observe", "stack_depths"]

POINTS = 300
# A trajectory is followed for this many slowest time constants, but no longer than this many times
# the fastest scale |A| + |Vbar|.
TIME_CONSTANTS, LONGEST = 5.0, 200.0
# Where there is no equilibrium, for this many time constants of A, or of the attention.
TIME_CONSTANTS_WITHOUT = 20.0
OBSERVED_RTOL = 1e-6
# A grid must pass the depth of an escape for the escape to be seen.
ESCAPE = 1.01
# Factors by which tr Sigma changes to be called decay or growth; the relative change over the last
# tenth of a trajectory below which it is at rest; and the eigenvalue ratio called singular.
DECAY, GROWTH, REST, SINGULAR = 1e-3, 1e3, 1e-3, 1e-6


@dataclass(frozen=True)
class Observation:
    """What one trajectory did; no verdict."""

    start: str
    depth: float
    outcome: str
    text: str
    response: MomentResponse | None


def observe(
    model: GaussianTransformer, equilibrium: Equilibrium | None, *, thorough: bool
) -> list[Observation]:
    """Follow trajectories of one layer acting again and again.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium or None
        What the trajectories are compared with.
    thorough : bool
        Also start at a hundredth of a positive definite equilibrium and at a hundred times it.

    Returns
    -------
    list of Observation
        The first one from the natural start.
    """
    where, start = natural_start(model, equilibrium)
    depth = _natural_depth(model, equilibrium)
    seen = [follow(model, where, start, _depths(model, depth), equilibrium)]
    if equilibrium is None or not thorough or equilibrium.rank < model.dim:
        return seen
    middle, centre = _centre(model, equilibrium)
    for factor in (0.01, 100):
        where = f"{middle}, Sigma = {factor:g} Sigma*"
        start = (centre, factor * equilibrium.covariance)
        depths = _depths(model, depth)
        seen.append(follow(model, where, start, depths, equilibrium, rtol=OBSERVED_RTOL))
    return seen


def natural_start(
    model: GaussianTransformer, equilibrium: Equilibrium | None
) -> tuple[str, tuple[np.ndarray, np.ndarray]]:
    """Return a round Gaussian of the model's own size, and how to call it.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium or None

    Returns
    -------
    name : str
    (mean, covariance) : tuple of (d,) and (d, d) ndarray
        Of a quarter of the size of a positive definite equilibrium and one standard deviation
        away in each coordinate; otherwise centred, of the size at which T(Sigma) matches A.
    """
    identity = np.eye(model.dim)
    if equilibrium is None or equilibrium.rank < model.dim:
        gain, pull = _gain(model), np.linalg.norm(model.A, 2)
        scale = pull / gain if pull and gain else 1.0
        return f"mu = 0, Sigma = {_times(scale)}", (np.zeros(model.dim), scale * identity)
    Sigma = equilibrium.covariance
    middle, centre = _centre(model, equilibrium)
    size = np.exp(np.log(np.linalg.eigvalsh(Sigma)).mean()) / 4
    where = f"{middle} + one standard deviation, Sigma = {_times(size)}"
    return where, (centre + np.sqrt(np.diag(Sigma)), size * identity)


def stack_depths(stack: LayerStack, points: int = POINTS) -> np.ndarray:
    """Return the depths at which a trajectory through a stack is shown.

    Parameters
    ----------
    stack : LayerStack
    points : int, optional
        About how many, if all depth is continuous.

    Returns
    -------
    (N,) ndarray
        Every boundary, and points inside the layers of continuous depth. [t]
    """
    pieces = [np.zeros(1)]
    ends = stack.boundaries
    for layer, start, stop in zip(stack, ends[:-1], ends[1:], strict=True):
        inside = 1 if layer.dt else max(2, round(points * (stop - start) / stack.depth))
        pieces.append(np.linspace(start, stop, inside + 1)[1:])
    return np.concatenate(pieces)


def follow(
    system: GaussianTransformer | LayerStack,
    where: str,
    start: tuple,
    depths: np.ndarray,
    equilibrium: Equilibrium | None,
    *,
    rtol: float = 1e-8,
) -> Observation:
    """Compute one trajectory and say what it does.

    Parameters
    ----------
    system : GaussianTransformer or LayerStack
    where : str
        What to call the start.
    start : tuple
        (mean, covariance).
    depths : (N,) ndarray
        [t]
    equilibrium : Equilibrium or None
        That of the (last) layer.
    rtol : float, optional
        Relative tolerance.

    Returns
    -------
    Observation
    """
    continuous = isinstance(system, GaussianTransformer) and not system.dt
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlowUpWarning)  # the observation says it
            response = moment_response(system, depths, start, rtol=rtol)
            if response.blow_up_time is not None and continuous:
                # Again, with all points before the escape.
                shorter = depths / depths[-1] * ESCAPE * response.blow_up_time
                response = moment_response(system, shorter, start, rtol=rtol)
    except IntegrationError as error:
        return Observation(where, 0.0, "not integrated", one_line(error), None)
    outcome, text = _outcome(response, equilibrium)
    return Observation(where, float(response.t[-1]), outcome, text, response)


# -- scales ---------------------------------------------------------------------------------------


def _gain(model: GaussianTransformer) -> float:
    return float(np.linalg.norm(model.attention(np.eye(model.dim)), 2))


def _natural_depth(model: GaussianTransformer, equilibrium: Equilibrium | None) -> float:
    pull = np.linalg.norm(model.A, 2)
    if equilibrium is None or equilibrium.rank < model.dim:
        return TIME_CONSTANTS_WITHOUT / (pull or _gain(model) or 1.0)
    speed = pull + np.linalg.norm(model.heads.total, 2) or 1.0
    slowest = max(equilibrium.covariance_abscissa, equilibrium.mean_abscissa)
    return min(TIME_CONSTANTS / abs(slowest) if slowest else np.inf, LONGEST / speed)


def _depths(model: GaussianTransformer, depth: float) -> np.ndarray:
    if not model.dt:
        return np.linspace(0, depth, POINTS + 1)
    stride = max(1, round(depth / (POINTS * model.dt)))
    layers = max(2, int(np.ceil(depth / (stride * model.dt))) + 1)
    return model.dt * stride * np.arange(layers)


def _centre(model: GaussianTransformer, equilibrium: Equilibrium) -> tuple[str, np.ndarray]:
    if equilibrium.mean is None:
        return "mu = 0", np.zeros(model.dim)
    return "mu = mu*", equilibrium.mean


# -- words ----------------------------------------------------------------------------------------


def _times(scale: float) -> str:
    return "I" if scale == 1 else f"{scale:.3g} I"


def _outcome(response: MomentResponse, equilibrium: Equilibrium | None) -> tuple[str, str]:
    end = f"at depth {response.t[-1]:.4g}"
    if response.blow_up_time is not None:
        error = f"estimated error {response.blow_up_error:.1g}"
        return "escapes", f"escapes to infinity at depth {response.blow_up_time:.6g} ({error})"
    first, last = response.covariance[:, :, 0], response.covariance[:, :, -1]
    if equilibrium is not None and equilibrium.rank:
        near, far = (_distance(Sigma, equilibrium) for Sigma in (last, first))
        if near < far / 10:
            whole = equilibrium.rank == len(first)
            measure = "whitened distance" if whole else "distance"
            return "approaches", (
                f"approaches the equilibrium{'' if whole else f' of rank {equilibrium.rank}'}: the "
                f"{measure} of Sigma from it falls from {far:.3g} to {near:.3g} {end}"
            )
    before, after = np.trace(first), np.trace(last)
    change = f"tr Sigma goes from {before:.4g} to {after:.4g} [x]^2 {end}"
    if after < DECAY * before:
        return "decays", f"decays: {change}"
    if after > GROWTH * before:
        return "grows", f"grows without escape so far: {change}"
    recent = response.covariance[:, :, -1 - max(1, response.t.size // 10)]
    if np.linalg.norm(last - recent) > REST * np.linalg.norm(last):
        return "moves", f"is still {'growing' if after > before else 'shrinking'}: {change}"
    low, high = np.linalg.eigvalsh(last)[[0, -1]]
    if low < SINGULAR * high:
        return "flattens", f"comes to rest at a covariance that is singular or nearly so: {change}"
    return (
        "settles",
        f"settles at a covariance with eigenvalues {low:.4g} to {high:.4g} [x]^2 {end}",
    )


def _distance(Sigma: np.ndarray, equilibrium: Equilibrium) -> float:
    """Whitened Frobenius distance, or the plain one [x]^2 from a singular equilibrium."""
    gap = Sigma - equilibrium.covariance
    if equilibrium.rank < len(Sigma):
        return float(np.linalg.norm(gap))
    values, vectors = np.linalg.eigh(equilibrium.covariance)
    R = vectors / np.sqrt(values)
    return float(np.linalg.norm(R.T @ gap @ R))
