"""The result of a design: parameters, certificate and report (Theory 7a, 9.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.newton import scaled_residual
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.local import LocalStability
from gausscontrol.display import Report
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "RATE_TOLERANCE",
    "RESIDUAL",
    "WRITTEN_DOWN",
    "Design",
    "contraction",
    "mean_rate",
]

# Relative residual of the equilibrium equation up to which a design counts as one.
RESIDUAL = 1e-9
# A given rate is met up to this, relative, where it is the optimum itself.
RATE_TOLERANCE = 1e-6
# Status of heads that needed no solver.
WRITTEN_DOWN = "explicit"


@dataclass(frozen=True, eq=False)
class Design(Report):
    """Parameters certified to attract every Gaussian to a target.

    Attributes
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium
        At the target.
    certificate : GlobalStability
        For dt > 0 a SemiglobalStability of the set that holds 4 Sigma*, or where dt is too large
        for that a LocalStability.
    decay_rate : float
        Certified exponential decay rate of |Sigma - Sigma*| near the target, in whitened
        Frobenius norm. [1/t]
    mean_decay_rate : float
        Rate at which the mean contracts in whitened norm (Theory 2.4), gamma of
        sym(Vbar) <= -gamma I. [1/t]
    status : str
        What the solver said, "explicit" if none was needed.
    problem : cvxpy.Problem or None
        The problem that was solved last.
    free : tuple of str
    optimal_rate : float
        The largest decay rate that any heads can have for this A, 2 tr A / d in continuous
        depth. [1/t]
    mean_heads : int
        How many heads at the end are V = -g I, B = 0, which move the mean only.
    bounds : dict
        The norm bounds, in whitened coordinates if they are the default ones.
    largest_step : float or None
        For dt > 0: the same parameters are locally stable for every dt below this. [t]
    """

    model: GaussianTransformer
    equilibrium: Equilibrium
    certificate: Certificate
    decay_rate: float
    mean_decay_rate: float
    status: str
    problem: Any = field(repr=False)
    free: tuple[str, ...]
    optimal_rate: float
    mean_heads: int
    bounds: dict[str, float]
    largest_step: float | None

    @property
    def norms(self) -> dict[str, float]:
        """Largest spectral norms of A, V_h and B_h.

        In original coordinates: [1/t], [1/t] and [1/x^2].
        """
        return {
            name: float(np.linalg.norm(getattr(self.model, name), 2, axis=(-2, -1)).max())
            for name in ("A", "V", "B")
        }

    def verify(self, rigorous: bool = False) -> bool:
        """Check again that the target attracts.

        Parameters
        ----------
        rigorous : bool, optional
            Repeat the certificate in ball arithmetic, where True is a proof that every Gaussian
            it speaks of is attracted by an exact equilibrium at the target to rounding; needs
            the extra "rigorous".

        Returns
        -------
        bool
            Whether the target is an equilibrium, its certificate holds, and the mean contracts.

        Raises
        ------
        GausscontrolError
            If `rigorous` and python-flint is not installed.

        Notes
        -----
        Theory 9.1, 9.3.
        """
        model, Sigma = self.model, self.equilibrium.covariance
        residual = scaled_residual(model.whiten(Sigma))[1]
        return bool(
            residual <= RESIDUAL
            and self.certificate.verify(rigorous=rigorous)
            and self.certificate.mean_stable
            and mean_rate(model, Sigma) >= (1 - RATE_TOLERANCE) * self.mean_decay_rate
        )

    def __str__(self) -> str:
        model, dim = self.model, self.model.dim
        heads = f"{model.n_heads} head{'s' if model.n_heads > 1 else ''}"
        extra = f", the last {self.mean_heads} for the mean" if self.mean_heads else ""
        share = self.decay_rate / self.optimal_rate
        formula = "" if model.dt else ", 2 tr A/d"
        decay = f"{self.decay_rate:.6g} per unit depth, {share:.2%} of the optimum"
        lines = [
            f"Design, d = {dim}, {' and '.join(self.free)} free, {heads}{extra}",
            f"  target     residual {self.equilibrium.residual:.1e} relative",
            f"  decay      {decay} {self.optimal_rate:.6g}{formula}",
            f"  mean       {self.mean_decay_rate:.6g} per unit depth",
            f"  norms      {', '.join(self._norm_words())}",
        ]
        if self.largest_step is not None:
            lines.append(f"  layers     dt = {model.dt:g}, stable below {self.largest_step:.6g}")
        lines.append(f"  certified  {self.certificate.statement}")
        if isinstance(self.certificate, LocalStability):
            held = "whitened, holds an exact equilibrium"
            lines.append(f"  radius     {self.certificate.radius:.1e} ({held})")
        lines.append(f"  scope      {self.certificate.scope}, margin {self.certificate.margin:.3g}")
        # Whatever the solver says of its point, the certificate was computed apart from it.
        checked = "" if self.status == WRITTEN_DOWN else ", its point verified apart from it"
        lines.append(f"  solver     {self.status}{checked}")
        return "\n".join(lines)

    def _norm_words(self) -> list[str]:
        units = {"A": "[1/t]", "V": "[1/t]", "B": "[1/x^2]"}
        return [f"|{name}| = {norm:.4g} {units[name]}" for name, norm in self.norms.items()]


def contraction(total: np.ndarray, dt: float) -> float:
    """Return gamma of sym(Vbar) <= -gamma I, or of |I + dt Vbar| <= 1 - dt gamma.

    Parameters
    ----------
    total : (d, d) ndarray
        Vbar, whitened.
    dt : float

    Returns
    -------
    float
        [1/t]
    """
    if dt:
        return float(1 - np.linalg.norm(np.eye(len(total)) + dt * total, 2)) / dt
    return -float(np.linalg.eigvalsh((total + total.T) / 2)[-1])


def mean_rate(model: GaussianTransformer, Sigma: np.ndarray) -> float:
    """Return the rate at which the mean contracts in the norm whitened at Sigma. [1/t]."""
    gamma = contraction(model.whiten(Sigma).heads.total, model.dt)
    return -float(np.log1p(-model.dt * gamma)) / model.dt if model.dt else gamma
