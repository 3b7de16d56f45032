"""What `analyze` finds out about a model: certified, or merely observed (Theory 9.1).

    model -> equilibria -> certificates and linear analysis;   start -> trajectory -> observation

Certificates are what decides the regime, and they concern the first positive definite equilibrium.
A stable singular one takes its place where there is none, by its linearisation. A trajectory is
an observation and decides nothing, but one that escapes shows that a missing certificate is not
for want of effort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from gausscontrol import plots
from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.finding import ALL_RANKS_DIM, find_equilibria, find_equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis, analyze
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.discrete import certify_semiglobal_stability
from gausscontrol.certificates.stability import (
    GlobalStability,
    certify_global_stability,
    certify_local_stability,
)
from gausscontrol.cli.observation import Observation, observe, one_line
from gausscontrol.errors import EquilibriumNotFound, NotCertified
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["REGIMES", "Findings", "draw", "draw_all", "investigate", "reason", "settle"]

GLOBAL, SEMIGLOBAL, LOCAL = "globally stable", "semiglobally stable", "locally stable"
# From the strongest to the weakest; each implies those after it.
REGIMES = (GLOBAL, SEMIGLOBAL, LOCAL)
UNDECIDED = "undecided"
# The set of a semiglobal certificate is the one that holds this multiple of Sigma*.
START_FACTOR = 4.0
# The linearisation is dense; beyond this many states it is left out.
LARGEST_ANALYSIS = 1500


@dataclass
class Findings:
    """Everything the report tells, filled step by step."""

    file: Path
    model: GaussianTransformer
    equilibria: list[Equilibrium]
    no_equilibrium: str | None = None
    analysis: EquilibriumAnalysis | None = None
    no_analysis: str | None = None
    certificates: dict[str, Certificate] = field(default_factory=dict)
    refused: dict[str, NotCertified] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)
    plots_missing: dict[str, str] = field(default_factory=dict)

    @property
    def equilibrium(self) -> Equilibrium | None:
        """The first positive definite one, a stable one if there is any."""
        return next((e for e in self.equilibria if e.rank == self.model.dim), None)

    @property
    def singular_limit(self) -> Equilibrium | None:
        """The first stable singular one where none is positive definite."""
        if self.equilibrium is not None:
            return None
        return next((e for e in self.equilibria if e.covariance_is_stable), None)

    @property
    def point(self) -> Equilibrium | None:
        """What the linear analysis and the pictures refer to."""
        return self.equilibrium or self.singular_limit

    @property
    def others(self) -> list[Equilibrium]:
        """The equilibria beside it."""
        return [other for other in self.equilibria if other is not self.point]

    @property
    def title(self) -> str:
        """What to call the model."""
        return self.model.name or self.file.stem

    @property
    def certificate(self) -> Certificate | None:
        """The strongest."""
        return next(iter(self.certificates.values()), None)

    @property
    def regime(self) -> str:
        """The strongest that is certified; it concerns the covariance."""
        return next(iter(self.certificates), UNDECIDED)

    @property
    def rate(self) -> float | None:
        """Certified decay rate near the equilibrium [1/t]."""
        return self.certificate.rate if isinstance(self.certificate, GlobalStability) else None

    @property
    def optimal_rate(self) -> float | None:
        """2 tr A / d, the best that the attention form can certify, if it is used [1/t]."""
        if isinstance(self.certificate, GlobalStability):
            return self.certificate.optimal_rate
        if self.equilibrium is None or self.model.dt:
            return None
        return 2 * float(np.trace(self.model.A)) / self.model.dim

    def why_not(self, regime: str) -> str:
        """Say why a regime is not certified."""
        if self.no_equilibrium is not None:
            return self.no_equilibrium
        return reason(self.refused[regime] if regime in self.refused else self.refused[GLOBAL])

    def satisfies(self, regime: str) -> bool:
        """Whether this regime, or one that implies it, is certified."""
        return any(name in self.certificates for name in REGIMES[: REGIMES.index(regime) + 1])


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
    found = settle(file, model)
    if found.point is not None:
        _analyse(found)
    found.observations = observe(model, found.point, thorough=found.rate is None)
    return found


def settle(file: Path, model: GaussianTransformer) -> Findings:
    """Find the equilibria of a model and certify the first positive definite one.

    Parameters
    ----------
    file : Path
        Where the model comes from, for the report.
    model : GaussianTransformer

    Returns
    -------
    Findings
        Without linear analysis and observations.
    """
    try:
        find_equilibrium(model)  # stops at the first, and says why there is none
    except EquilibriumNotFound as error:
        # The search among positive definite ones is over; it need not be repeated.
        ranks = range(model.dim) if model.dim <= ALL_RANKS_DIM else (0, 1)
        singular = [e for rank in reversed(ranks) for e in find_equilibria(model, rank=rank)]
        return Findings(
            file,
            model,
            sorted(singular, key=lambda e: not e.covariance_is_stable),
            no_equilibrium=reason(error),
        )
    found = Findings(file, model, find_equilibria(model))
    for regime, certify in _attempts(found):
        try:
            found.certificates[regime] = certify(model, found.equilibrium)
        except NotCertified as error:
            found.refused[regime] = error
        else:
            if regime == GLOBAL:
                break
    return found


def _attempts(found: Findings) -> list[tuple[str, Callable[..., Certificate]]]:
    attempts = [(GLOBAL, certify_global_stability), (LOCAL, certify_local_stability)]
    if found.model.dt:
        start = START_FACTOR * found.equilibrium.covariance
        attempts.insert(1, (SEMIGLOBAL, partial(certify_semiglobal_stability, Sigma0=start)))
    return attempts


def _analyse(found: Findings) -> None:
    dim = found.model.dim
    states = dim + dim * (dim + 1) // 2
    if found.point.mean is None:
        found.no_analysis = (
            "the mean equation has no solution, so there is no point to linearise at"
        )
    elif states > LARGEST_ANALYSIS:
        found.no_analysis = f"the linearisation has {states} states, more than {LARGEST_ANALYSIS}"
    else:
        found.analysis = analyze(found.model, found.point)


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
    common = {"equilibrium": found.point, "title": found.title}
    poles = {"certificate": certificate, "title": found.title}
    no_point = found.no_analysis or "there is no equilibrium to linearise at"
    tasks = (
        (plots.moment_plot, trajectory.response, common, trajectory.text),
        (plots.ellipse_plot, trajectory.response, common, trajectory.text),
        (plots.spectrum_plot, found.analysis, poles, no_point),
    )
    found.plots, found.plots_missing = draw_all(folder, tasks)


def draw_all(folder: Path, tasks: tuple) -> tuple[list[Path], dict[str, str]]:
    """Write one picture for each name in `plots.PICTURES`.

    Parameters
    ----------
    folder : Path
    tasks : tuple of (function, what to draw or None, keywords, why it is missing)

    Returns
    -------
    drawn : list of Path
    missing : dict
        Reasons by name.
    """
    drawn, missing = [], {}
    for name, (plot, what, keywords, why) in zip(plots.PICTURES, tasks, strict=True):
        path = folder / name
        if what is None:
            path.unlink(missing_ok=True)  # an earlier run's would be of another layer
            missing[name] = why
        else:
            plots.save_picture(path, partial(plot, what, **keywords))
            drawn.append(path)
    return drawn, missing


# -- words ----------------------------------------------------------------------------------------


def reason(error: Exception) -> str:
    """Return a message without the argument's name and without advice to a Python caller."""
    text = one_line(error)
    for prefix in ("equilibrium: ", "model: ", "dt: ", "not certified as globally stable: "):
        text = text.removeprefix(prefix)
    return text.rpartition("; ")[0] or text
