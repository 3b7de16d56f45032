"""The report of `analyze`, in words of at most 80 columns and as JSON.

The JSON object has these keys; what does not exist or is not finite is null:

file, version; model (name, dim, heads, dt); regime ("globally stable", "locally stable",
"undecided") and scope ("covariance and mean", "covariance"); equilibrium and other_equilibria
(mean, covariance, rank, method, residual, existence_radius, covariance_abscissa, mean_abscissa,
covariance_is_stable, mean_is_stable, is_isolated, mean_is_unique); no_equilibrium (the reason);
rate, optimal_rate; certificate (kind, statement, scope, margin); not_certified (kind, reason and
margin of each attempt that failed); analysis (poles as [re, im], abscissas, time_constants,
margins, norms, and reasons for what is null); no_analysis (the reason); observations (start, depth,
outcome, text, escape_depth); plots (paths), plots_missing (reasons by name); requirement (regime,
met).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from gausscontrol._version import __version__
from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis
from gausscontrol.cli.findings import Findings, reason

__all__ = ["as_json", "in_words"]

COLUMNS = 80


def in_words(found: Findings) -> str:
    """Return the report for a terminal.

    Parameters
    ----------
    found : Findings

    Returns
    -------
    str
    """
    parts = [
        _heading(found),
        _equilibrium_words(found),
        _certificate_words(found),
        _observation_words(found),
        _analysis_words(found),
        _plot_words(found),
    ]
    return "\n\n".join("\n".join(_wrapped(lines)) for lines in parts if lines)


def as_json(found: Findings) -> dict[str, Any]:
    """Return the report as plain numbers, strings, lists and dicts.

    Parameters
    ----------
    found : Findings

    Returns
    -------
    dict
        With the keys listed above.
    """
    model, certificate = found.model, found.certificate
    report = {
        "file": str(found.file),
        "version": __version__,
        "model": {
            "name": model.name,
            "dim": model.dim,
            "heads": model.n_heads,
            "dt": model.dt,
        },
        "regime": found.regime,
        "scope": None if certificate is None else certificate.scope,
        "equilibrium": found.equilibrium and _equilibrium_json(found.equilibrium),
        "other_equilibria": [_equilibrium_json(other) for other in found.equilibria[1:]],
        "no_equilibrium": found.no_equilibrium,
        "rate": found.rate,
        "optimal_rate": found.optimal_rate,
        "certificate": certificate
        and {
            "kind": found.regime,
            "statement": certificate.statement,
            "scope": certificate.scope,
            "margin": certificate.margin,
        },
        "not_certified": [
            {"kind": regime, "reason": reason(error), "margin": error.margin}
            for regime, error in found.refused
        ],
        "analysis": found.analysis and _analysis_json(found.analysis),
        "no_analysis": found.no_analysis,
        "observations": [
            {
                "start": seen.start,
                "depth": seen.depth,
                "outcome": seen.outcome,
                "text": seen.text,
                "escape_depth": None if seen.response is None else seen.response.blow_up_time,
            }
            for seen in found.observations
        ],
        "plots": [str(path) for path in found.plots],
        "plots_missing": found.plots_missing,
    }
    return _plain(report)


# -- the report in words --------------------------------------------------------------------------


def _heading(found: Findings) -> list[str]:
    model = found.model
    heads = f"{model.n_heads} head{'s' if model.n_heads > 1 else ''}"
    depth = f"layers of depth {model.dt:g}" if model.dt else "continuous depth"
    return [f"{found.title}: d = {model.dim}, {heads}, {depth} ({found.file})"]


def _equilibrium_words(found: Findings) -> list[str]:
    if found.equilibrium is None:
        return [f"{found.no_equilibrium[0].upper()}{found.no_equilibrium[1:]}."]
    lines = str(found.equilibrium).splitlines()
    for other in found.equilibria[1:]:
        low, high = np.linalg.eigvalsh(other.covariance)[[0, -1]]
        stable = "stable" if other.is_stable else "not stable"
        lines.append(
            f"  another equilibrium  covariance spectrum {low:.6g} to {high:.6g} [x]^2, {stable}, "
            f"covariance abscissa {other.covariance_abscissa:.4g} per unit depth"
        )
    return lines


def _certificate_words(found: Findings) -> list[str]:
    if found.equilibrium is None:
        return ["Certificate: none, for there is no equilibrium to certify."]
    certificate, lines = found.certificate, []
    if certificate is not None:
        lines.append(f"{found.regime.capitalize()}, certified: {certificate.statement}.")
        lines.append(f"  rate    {_rate_words(found)}")
        lines.append(f"  scope   {_scope_words(certificate.scope)}")
        lines.append(f"  margin  {certificate.margin:.4g}")
    else:
        lines.append("No certificate of stability.")
        lines.append(f"  rate    {_rate_words(found)}")
    for regime, error in found.refused:
        short = "" if error.margin is None else f" It falls short by {max(-error.margin, 0):.4g}."
        lines.append(f"Not certified as {regime}: {reason(error)}.{short}")
    return lines


def _rate_words(found: Findings) -> str:
    optimum = f"optimum {found.optimal_rate:.6g} (2 tr A/d)"
    if found.rate is not None:
        return f"{found.rate:.6g} per unit depth, {optimum}"
    linear = -found.equilibrium.covariance_abscissa
    verb = "decays" if linear > 0 else "grows"
    return (
        f"none certified globally, {optimum}; by the linearisation a small deviation of the "
        f"covariance {verb} at {abs(linear):.6g} per unit depth"
    )


def _scope_words(scope: str) -> str:
    if scope == "covariance":
        return "covariance; not the mean, since M + Vbar is not verified to be Hurwitz"
    return scope


def _observation_words(found: Findings) -> list[str]:
    lines = ["Observed along trajectories, not certified:"]
    return lines + [f"  from {seen.start}: {seen.text}" for seen in found.observations]


def _analysis_words(found: Findings) -> list[str]:
    if found.analysis is not None:
        return str(found.analysis).splitlines()
    return [f"Linear analysis: none, {found.no_analysis}."] if found.no_analysis else []


def _plot_words(found: Findings) -> list[str]:
    lines = [f"Wrote {path}" for path in found.plots]
    return lines + [f"Not drawn: {name}, {why}" for name, why in found.plots_missing.items()]


def _wrapped(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if len(line) <= COLUMNS:
            yield line
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        yield from textwrap.wrap(
            line,
            COLUMNS,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )


# -- the report as JSON ---------------------------------------------------------------------------


def _equilibrium_json(equilibrium: Equilibrium) -> dict[str, Any]:
    names = (
        "mean",
        "covariance",
        "rank",
        "method",
        "residual",
        "existence_radius",
        "covariance_abscissa",
        "mean_abscissa",
        "covariance_is_stable",
        "mean_is_stable",
        "is_isolated",
        "mean_is_unique",
    )
    return {name: getattr(equilibrium, name) for name in names}


def _analysis_json(analysis: EquilibriumAnalysis) -> dict[str, Any]:
    names = (
        "abscissa",
        "covariance_abscissa",
        "mean_abscissa",
        "time_constants",
        "attention_form_margin",
        "optimal_form_margin",
        "stability_radius",
        "hinf_norm",
        "h2_norm",
        "hankel_singular_values",
    )
    figures = {name: getattr(analysis, name) for name in names}
    return {
        "poles": [[pole.real, pole.imag] for pole in analysis.poles],
        **figures,
        "lyapunov_margin": None if analysis.lyapunov is None else analysis.lyapunov.margin,
        "inputs": list(analysis.inputs),
        "reasons": dict(analysis.reasons),
    }


def _plain(value: Any) -> Any:
    """Return what `json` takes: plain numbers and lists, None for what is not finite."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
