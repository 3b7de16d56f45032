"""What `analyze` finds out about a model: certified, or merely observed (Theory 9.1).

    model -> equilibria -> certificate and linear analysis;   start -> trajectory -> observation

A certificate is what decides the regime. A trajectory is an observation and decides nothing, but
one that escapes shows that a missing certificate is not for want of effort.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from gausscontrol import plots
from gausscontrol.analysis.equilibrium import Equilibrium, find_equilibria, find_equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis, analyze
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.stability import (
    GlobalStability,
    certify_global_stability,
    certify_local_stability,
)
from gausscontrol.errors import BlowUpWarning, EquilibriumNotFound, IntegrationError, NotCertified
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.response import MomentResponse, moment_response

__all__ = ["REGIMES", "Findings", "Observation", "draw", "investigate", "one_line", "reason"]

# From the strongest to the weakest; each implies those after it.
REGIMES = ("globally stable", "locally stable")
UNDECIDED = "undecided"
# The linearisation is dense; beyond this many states it is left out.
LARGEST_ANALYSIS = 1500
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


@dataclass
class Findings:
    """Everything the report tells, filled step by step."""

    file: Path
    model: GaussianTransformer
    equilibria: list[Equilibrium]
    no_equilibrium: str | None = None
    analysis: EquilibriumAnalysis | None = None
    no_analysis: str | None = None
    certificate: Certificate | None = None
    refused: list[tuple[str, NotCertified]] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)
    plots_missing: dict[str, str] = field(default_factory=dict)

    @property
    def equilibrium(self) -> Equilibrium | None:
        """The first that was found, a stable one if there is any."""
        return self.equilibria[0] if self.equilibria else None

    @property
    def title(self) -> str:
        """What to call the model."""
        return self.model.name or self.file.stem

    @property
    def regime(self) -> str:
        """The strongest that is certified; it concerns the covariance."""
        if self.certificate is None:
            return UNDECIDED
        return REGIMES[0] if isinstance(self.certificate, GlobalStability) else REGIMES[1]

    @property
    def rate(self) -> float | None:
        """Certified decay rate near the equilibrium [1/t]."""
        return self.certificate.rate if isinstance(self.certificate, GlobalStability) else None

    @property
    def optimal_rate(self) -> float:
        """2 tr A / d, the best that the attention form can certify [1/t]."""
        return 2 * float(np.trace(self.model.A)) / self.model.dim

    def why_not(self, regime: str) -> str:
        """Say why a regime is not certified."""
        return self.no_equilibrium or reason(dict(self.refused)[regime])

    def satisfies(self, regime: str) -> bool:
        """Whether this regime, or one that implies it, is certified."""
        return self.regime in REGIMES[: REGIMES.index(regime) + 1]


def investigate(file: Path, model: GaussianTransformer) -> Findings:
    """Find, certify and analyse the equilibria of a model and follow some trajectories.

    Parameters
    ----------
    file : Path
        Where the model comes from, for the report.
    model : GaussianTransformer

    Returns
    -------
    Findings
    """
    try:
        find_equilibrium(model)  # stops at the first, and says why there is none
    except EquilibriumNotFound as error:
        found = Findings(file, model, [], no_equilibrium=reason(error))
    else:
        found = Findings(file, model, find_equilibria(model))
        _certify(found)
        _analyse(found)
    _observe(found)
    return found


def _certify(found: Findings) -> None:
    attempts = (certify_global_stability, certify_local_stability)
    for regime, certify in zip(REGIMES, attempts, strict=True):
        try:
            found.certificate = certify(found.model, found.equilibrium)
            return
        except NotCertified as error:
            found.refused.append((regime, error))


def _analyse(found: Findings) -> None:
    dim = found.model.dim
    states = dim + dim * (dim + 1) // 2
    if found.equilibrium.mean is None:
        found.no_analysis = (
            "the mean equation has no solution, so there is no point to linearise at"
        )
    elif states > LARGEST_ANALYSIS:
        found.no_analysis = f"the linearisation has {states} states, more than {LARGEST_ANALYSIS}"
    else:
        found.analysis = analyze(found.model, found.equilibrium)


# -- trajectories ---------------------------------------------------------------------------------


def _observe(found: Findings) -> None:
    model, equilibrium = found.model, found.equilibrium
    speed = np.linalg.norm(model.A, 2) + np.linalg.norm(model.heads.total, 2) or 1.0
    if equilibrium is None:
        gain = np.linalg.norm(model.attention(np.eye(model.dim)), 2)
        pull = np.linalg.norm(model.A, 2)
        scale = pull / gain if pull and gain else 1.0
        depth = TIME_CONSTANTS_WITHOUT / (pull or gain or 1.0)
        start = (np.zeros(model.dim), scale * np.eye(model.dim))
        where = f"mu = 0, Sigma = {scale:.3g} I"
        found.observations.append(_follow(found, where, start, depth))
        return
    slowest = max(equilibrium.covariance_abscissa, equilibrium.mean_abscissa)
    depth = min(TIME_CONSTANTS / abs(slowest) if slowest else np.inf, LONGEST / speed)
    Sigma = equilibrium.covariance
    centre = np.zeros(model.dim) if equilibrium.mean is None else equilibrium.mean
    # A round Gaussian of a quarter of the size, one standard deviation away in each coordinate.
    size = np.exp(np.log(np.linalg.eigvalsh(Sigma)).mean()) / 4
    start = (centre + np.sqrt(np.diag(Sigma)), size * np.eye(model.dim))
    middle = "0" if equilibrium.mean is None else "mu*"
    where = f"mu = {middle} + one standard deviation, Sigma = {size:.3g} I"
    found.observations.append(_follow(found, where, start, depth))
    if found.rate is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlowUpWarning)  # the observation says it
            for factor in (0.01, 100):
                where = f"mu = {middle}, Sigma = {factor:g} Sigma*"
                start = (centre, factor * Sigma)
                found.observations.append(_follow(found, where, start, depth, OBSERVED_RTOL))


def _follow(
    found: Findings, where: str, start: tuple, depth: float, rtol: float = 1e-8
) -> Observation:
    model = found.model
    depths = np.linspace(0, depth, POINTS + 1)
    if model.dt:
        stride = max(1, round(depth / (POINTS * model.dt)))
        layers = max(2, int(np.ceil(depth / (stride * model.dt))) + 1)
        depths = model.dt * stride * np.arange(layers)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlowUpWarning)
            response = moment_response(model, depths, start, rtol=rtol)
        if response.blow_up_time is not None:
            # Again, with all points before the escape; it is this run that may warn.
            shorter = depths if model.dt else depths / depths[-1] * ESCAPE * response.blow_up_time
            response = moment_response(model, shorter, start, rtol=rtol)
    except IntegrationError as error:
        return Observation(where, 0.0, "not integrated", one_line(error), None)
    outcome, text = _outcome(response, found.equilibrium)
    return Observation(where, float(response.t[-1]), outcome, text, response)


def _outcome(response: MomentResponse, equilibrium: Equilibrium | None) -> tuple[str, str]:
    end = f"at depth {response.t[-1]:.4g}"
    if response.blow_up_time is not None:
        error = f"estimated error {response.blow_up_error:.1g}"
        return "escapes", f"escapes to infinity at depth {response.blow_up_time:.6g} ({error})"
    first, last = response.covariance[:, :, 0], response.covariance[:, :, -1]
    if equilibrium is not None:
        near, far = (_distance(Sigma, equilibrium) for Sigma in (last, first))
        if near < far / 10:
            return "approaches", (
                f"approaches the equilibrium: the whitened distance of Sigma from it falls "
                f"from {far:.3g} to {near:.3g} {end}"
            )
    before, after = np.trace(first), np.trace(last)
    change = f"tr Sigma goes from {before:.4g} to {after:.4g} [x]^2 {end}"
    if after < DECAY * before:
        return "decays", f"decays: {change}"
    if after > GROWTH * before:
        return "grows", f"grows without escape so far: {change}"
    recent = response.covariance[:, :, -1 - response.t.size // 10]
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
    values, vectors = np.linalg.eigh(equilibrium.covariance)
    R = vectors / np.sqrt(values)
    return float(np.linalg.norm(R.T @ (Sigma - equilibrium.covariance) @ R))


# -- pictures -------------------------------------------------------------------------------------


def draw(found: Findings, folder: Path) -> None:
    """Write the pictures of `plots.PICTURES`, and note those that cannot be drawn.

    Parameters
    ----------
    found : Findings
        Gets the paths written and the reasons for those missing.
    folder : Path
        An existing folder, in which nothing else is touched.

    Raises
    ------
    OSError
        If a file cannot be written or replaced.
    """
    trajectory = found.observations[0]
    certificate = found.certificate if isinstance(found.certificate, GlobalStability) else None
    common = {"equilibrium": found.equilibrium, "title": found.title}
    poles = {"certificate": certificate, "title": found.title}
    no_point = found.no_analysis or "there is no equilibrium to linearise at"
    tasks = (
        (plots.moment_plot, trajectory.response, common, trajectory.text),
        (plots.ellipse_plot, trajectory.response, common, trajectory.text),
        (plots.spectrum_plot, found.analysis, poles, no_point),
    )
    for name, (plot, what, keywords, missing) in zip(plots.PICTURES, tasks, strict=True):
        path = folder / name
        if what is None:
            path.unlink(missing_ok=True)  # an earlier run's would be of another layer
            found.plots_missing[name] = missing
        else:
            plots.save_picture(path, partial(plot, what, **keywords))
            found.plots.append(path)


# -- words ----------------------------------------------------------------------------------------


def reason(error: Exception) -> str:
    """Return a message without the argument's name and without advice to a Python caller."""
    text = one_line(error)
    for prefix in ("equilibrium: ", "model: ", "dt: ", "not certified as globally stable: "):
        text = text.removeprefix(prefix)
    return text.rpartition("; ")[0] or text


def one_line(error: BaseException) -> str:
    """Return the message of an exception or warning on one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
