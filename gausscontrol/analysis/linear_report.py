"""What a linear analysis says of an equilibrium, as a table with units (Theory 1.2, 2.3).

    quantity   value [unit], or "none" and why

Figures are computed as they are asked for, so that printing a report computes all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.analysis.reduced import state_count

if TYPE_CHECKING:
    from gausscontrol.analysis.linear import EquilibriumAnalysis

__all__ = ["analysis_text"]


def analysis_text(an: EquilibriumAnalysis) -> str:
    """Return the report of an analysis.

    Parameters
    ----------
    an : EquilibriumAnalysis

    Returns
    -------
    str
    """
    model, rows = an.model, _rows(an)
    width = max(len(label) for label, _ in rows)
    title = f"Linear analysis of {model.name or 'the model'}: d = {model.dim}, " + (
        f"layers of depth {model.dt:g}" if model.dt else "continuous depth"
    )
    lines = [title]
    if an.matrix_free:
        lines.append(
            f"  matrix-free: n = {state_count(model):,} covariance states, only the rightmost of "
            "their poles; norms are those of the mean block, exact"
        )
    lines += [f"  {label:<{width}}  {text}" for label, text in rows]
    if not an.covariance_is_controllable:
        lines.append(
            f"  Sigma does not depend on {', '.join(an.inputs)}: the covariance is uncontrollable "
            "from the inputs, and norms are those of the mean."
        )
    return "\n".join(lines)


def _rows(an: EquilibriumAnalysis) -> list[tuple[str, str]]:
    eq, rate = an.equilibrium, "per unit depth"
    return [
        ("equilibrium", f"{eq.method}, residual {eq.residual:.1e} relative"),
        ("existence radius", _shown(eq.existence_radius, "[x]^2, proven", "not proven")),
        ("mean", f"norm {np.linalg.norm(eq.mean):.6g} [x]"),
        ("covariance", "eigenvalues {:.6g} to {:.6g} [x]^2".format(*_extremes(eq.covariance))),
        ("abscissa, covariance", f"{an.covariance_abscissa:.6g} {rate}"),
        ("abscissa, mean", f"{an.mean_abscissa:.6g} {rate}"),
        ("slowest time constant", _slowest(an)),
        ("least damping ratio", f"{an.damping[:, 2].real.min():.4g}"),
        (
            "attention form margin",
            _shown(an.attention_form_margin, _form_unit(an), an.reasons, "attention_form_margin"),
        ),
        ("Lyapunov margin", _shown(an.lyapunov and an.lyapunov.margin, "", an.reasons, "lyapunov")),
        ("stability radius", _shown(an.stability_radius, rate, an.reasons, "stability_radius")),
        (
            f"H-infinity norm from {', '.join(an.inputs)}",
            _shown(an.hinf_norm, "", an.reasons, "hinf_norm"),
        ),
        (f"H2 norm from {', '.join(an.inputs)}", _shown(an.h2_norm, "", an.reasons, "h2_norm")),
    ]


def _extremes(covariance: np.ndarray) -> tuple[float, float]:
    values = np.linalg.eigvalsh(covariance)
    return max(values[0], 0.0), max(values[-1], 0.0)


def _slowest(an: EquilibriumAnalysis) -> str:
    if an.abscissa < 0:
        return f"{-1 / an.abscissa:.6g} [t]"
    return "none: the equilibrium is not stable"


def _form_unit(an: EquilibriumAnalysis) -> str:
    # The bound tr A / d rests on sym M(Sigma*) = 0, which holds at continuous depth.
    bound = "" if an.model.dt else f" (at most {an.optimal_form_margin:.6g})"
    return f"per unit depth{bound}"


def _shown(value: float | None, unit: str, why: dict[str, str] | str, name: str = "") -> str:
    if value is not None:
        return f"{value:.6g} {unit}".rstrip()
    return f"none: {why[name]}" if isinstance(why, dict) else why
