"""What `analyze` finds out about a model: certified, or merely observed (Theory 9.1).

    model -> equilibria -> certificates and linear analysis;   start -> trajectory -> observation

Certificates are what decides the regime, and they concern the first positive definite equilibrium.
A stable singular one takes its place where there is none, by its linearisation. A trajectory is
an observation and decides nothing, but one that escapes shows that a missing certificate is not
for want of effort.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from gausscontrol import plots
from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis, analyze
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.classify import GLOBAL, Classification, classify
from gausscontrol.certificates.stability import GlobalStability
from gausscontrol.cli.kept import finished
from gausscontrol.cli.observation import Observation, observe
from gausscontrol.cli.streams import one_line, working
from gausscontrol.errors import NotCertified
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Findings", "draw", "draw_all", "investigate", "reason", "settle"]

# The linearisation is dense; beyond this many states it is left out.
LARGEST_ANALYSIS = 1500
# The same for a quick look: the cost grows with the cube of the states.
LARGEST_QUICK_ANALYSIS = 350


@dataclass
class Findings:
    """Everything the report tells, filled step by step."""

    file: Path
    model: GaussianTransformer
    classification: Classification
    quick: bool = False
    analysis: EquilibriumAnalysis | None = None
    no_analysis: str | None = None
    observations: list[Observation] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)
    plots_missing: dict[str, str] = field(default_factory=dict)

    @property
    def equilibria(self) -> list[Equilibrium]:
        """As found, stable ones first."""
        return self.classification.equilibria

    @property
    def certificates(self) -> dict[str, Certificate]:
        """By regime."""
        return self.classification.certificates

    @property
    def refused(self) -> dict[str, NotCertified]:
        """What was tried and not certified, by regime."""
        return self.classification.refused

    @property
    def no_equilibrium(self) -> str | None:
        """Why there is no positive definite equilibrium."""
        why = self.classification.no_equilibrium
        return None if why is None else reason(why)

    @property
    def equilibrium(self) -> Equilibrium | None:
        """The first positive definite one, a stable one if there is any."""
        return self.classification.equilibrium

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
        """The one behind the regime."""
        return self.classification.certificate

    @property
    def regime(self) -> str:
        """What the layer does to covariances; certified, but for a singular limit."""
        return self.classification.regime

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
        if regime in self.refused:
            return reason(self.refused[regime])
        if self.no_equilibrium is not None:
            return self.no_equilibrium
        if GLOBAL in self.refused:
            return reason(self.refused[GLOBAL])
        return f"it is {self.regime}"

    def satisfies(self, regime: str) -> bool:
        """Whether this regime, or one that implies it, is certified."""
        return self.classification.satisfies(regime)


def investigate(
    file: Path, model: GaussianTransformer, *, quick: bool = False, followed: bool = True
) -> Findings:
    """Find, certify and analyse the equilibria of a model and follow some trajectories.

    Parameters
    ----------
    file : Path
        Where the model comes from, for the report.
    model : GaussianTransformer
    quick : bool, optional
        Whether to do without semidefinite programmes, the linear analysis of many states, and all
        trajectories but one.
    followed : bool, optional
        Whether trajectories are followed at all.

    Returns
    -------
    Findings
    """
    with working("looking for equilibria and certificates") as say:
        found = settle(file, model, quick=quick)
        if found.point is not None:
            say(f"{found.regime}; analysing the linearisation")
            _analyse(found)
        if followed:
            say(f"{found.regime}; following trajectories")
            thorough = found.rate is None and not quick
            found.observations = observe(model, found.point, thorough=thorough)
    return found


def settle(file: Path, model: GaussianTransformer, *, quick: bool = False) -> Findings:
    """Find the equilibria of a model, and certify what can be certified.

    Parameters
    ----------
    file : Path
        Where the model comes from, for the report.
    model : GaussianTransformer
    quick : bool, optional
        Whether to do without semidefinite programmes and with a short search.

    Returns
    -------
    Findings
        Without linear analysis and observations.
    """
    return Findings(file, model, classify(model, sdp=not quick), quick)


def _analyse(found: Findings) -> None:
    dim = found.model.dim
    states = dim + dim * (dim + 1) // 2
    largest = LARGEST_QUICK_ANALYSIS if found.quick else LARGEST_ANALYSIS
    if found.point.mean is None:
        found.no_analysis = (
            "the mean equation has no solution, so there is no point to linearise at"
        )
    elif states > largest:
        limit = f"{largest}{' with --quick' if found.quick else ''}"
        found.no_analysis = f"the linearisation has {states} states, more than {limit}"
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
            finished(path)
            drawn.append(path)
    return drawn, missing


# -- words ----------------------------------------------------------------------------------------


def reason(error: Exception | str) -> str:
    """Return a message without the argument's name and without advice to a Python caller."""
    text = one_line(error)
    for prefix in (
        "equilibrium: ",
        "model: ",
        "dt: ",
        "not certified as globally stable: ",
        "not certified as bounded: ",
        "not certified to collapse: ",
    ):
        text = text.removeprefix(prefix)
    return text.rpartition("; ")[0] or text
