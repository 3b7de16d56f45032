"""The report of `analyze` on one layer, in words of at most 80 columns and as JSON.

The keys of the JSON object are described in `schema`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.classify import SINGULAR, START_FACTOR
from gausscontrol.certificates.discrete import SemiglobalStability
from gausscontrol.certificates.local import LocalStability
from gausscontrol.certificates.stability import GlobalStability
from gausscontrol.cli.findings import Findings, reason
from gausscontrol.cli.observation import Observation

__all__ = [
    "as_json",
    "in_words",
    "layer_json",
    "observations_json",
    "observed_words",
    "plot_words",
    "wrapped",
]

COLUMNS = 80
# More equilibria than this are counted, not listed.
LISTED = 12


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
        _other_words(found),
        _certificate_words(found),
        observed_words(found.observations) if found.observations else [],
        _analysis_words(found),
        plot_words(found),
    ]
    return "\n\n".join("\n".join(wrapped(lines)) for lines in parts if lines)


def as_json(found: Findings) -> dict[str, Any]:
    """Return the report as numbers, strings, arrays, lists and dicts.

    Parameters
    ----------
    found : Findings

    Returns
    -------
    dict
        All keys of `schema` but the first three and "requirement".
    """
    return {
        "file": str(found.file),
        **layer_json(found),
        "analysis": found.analysis and _analysis_json(found.analysis),
        "no_analysis": found.no_analysis,
        "observations": observations_json(found.observations),
        "plots": [str(path) for path in found.plots],
        "plots_missing": found.plots_missing,
    }


def layer_json(found: Findings) -> dict[str, Any]:
    """Return what is found of the equilibria of a layer, by the keys of `schema`.

    Parameters
    ----------
    found : Findings

    Returns
    -------
    dict
    """
    model, certificate = found.model, found.certificate
    return {
        "model": {
            "name": model.name,
            "dim": model.dim,
            "heads": model.n_heads,
            "dt": model.dt,
        },
        "regime": found.regime,
        "scope": None if certificate is None else certificate.scope,
        "equilibrium": found.equilibrium and _equilibrium_json(found.equilibrium),
        "singular_limit": found.singular_limit and _equilibrium_json(found.singular_limit),
        "other_equilibria": [_equilibrium_json(other) for other in found.others],
        "no_equilibrium": found.no_equilibrium,
        "rate": found.rate,
        "optimal_rate": found.optimal_rate,
        "certificate": certificate and _certificate_json(found.regime, certificate),
        "certificates": [_certificate_json(*item) for item in found.certificates.items()],
        "not_certified": [
            {"kind": regime, "reason": reason(error), "margin": error.margin}
            for regime, error in found.refused.items()
        ],
    }


# -- the report in words --------------------------------------------------------------------------


def _heading(found: Findings) -> list[str]:
    model = found.model
    heads = f"{model.n_heads} head{'s' if model.n_heads > 1 else ''}"
    depth = f"layers of depth dt = {model.dt:g}, from the file" if model.dt else "continuous depth"
    return [f"{found.title}: d = {model.dim}, {heads}, {depth} ({found.file})"]


def _equilibrium_words(found: Findings) -> list[str]:
    if found.equilibrium is not None:
        return str(found.equilibrium).splitlines()
    lines = [f"{found.no_equilibrium[0].upper()}{found.no_equilibrium[1:]}."]
    limit = found.singular_limit
    if limit is not None:
        which = f"rank {limit.rank}" if limit.rank else "rank 0, Sigma = 0"
        lines.append(
            f"Singular limit: {which}, attracts every covariance near it by the linearisation; "
            "not certified."
        )
        lines += str(limit).splitlines()[1:]
    return lines


def _other_words(found: Findings) -> list[str]:
    others = found.others
    if not others:
        return []
    title = "Other equilibria" if found.point else "Equilibria of lower rank"
    rows = [_other_row(other, found.model.dim) for other in others[:LISTED]]
    lines = [
        f"{title} (covariance only, abscissae per unit depth):",
        "  rank   tr Sigma   covariance   abscissa   on its leaf   across it",
        *rows,
    ]
    if len(others) > LISTED:
        lines.append(f"  and {len(others) - LISTED} more; --json has them all")
    return lines


def _other_row(equilibrium: Equilibrium, dim: int) -> str:
    words = {True: "stable", False: "not stable"}
    singular = equilibrium.rank < dim
    # On the leaf of the zero matrix there is nothing else.
    leaf = words[equilibrium.leaf_is_stable] if singular and equilibrium.rank else "-"
    across = f"{equilibrium.transverse_abscissa:.4g}" if singular else "-"
    note = "   continuum" if equilibrium.is_isolated is False else ""
    return (
        f"  {equilibrium.rank:>4}   {np.trace(equilibrium.covariance):>8.4g}"
        f"   {words[equilibrium.covariance_is_stable]:<10}"
        f"   {equilibrium.covariance_abscissa:>8.4g}   {leaf:<11}   {across:>9}{note}"
    )


def _certificate_words(found: Findings) -> list[str]:
    lines = []
    for regime, certificate in found.certificates.items():
        lines.append(f"{regime.capitalize()}, certified: {certificate.statement}.")
        if isinstance(certificate, SemiglobalStability):
            step = f"{certificate.largest_step:.6g}"
            lines += [
                f"  set     W <= {certificate.level:.6g}, which holds {START_FACTOR:g} Sigma*",
                "  W       tr(X Sigma) - log det(X Sigma) - d, X the inverse of Sigma*",
                f"  step    dt = {found.model.dt:g}; every dt below {step} serves this set",
            ]
        elif isinstance(certificate, GlobalStability | LocalStability):
            if isinstance(certificate, GlobalStability):
                lines.append(f"  method  {certificate.method}")
            lines += [
                f"  radius  {certificate.radius:.1e} (whitened), holds an exact equilibrium",
                f"  rate    {_rate_words(found)}",
            ]
        else:
            lines += certificate.details()
        lines.append(f"  scope   {_scope_words(certificate.scope)}")
        lines.append(f"  margin  {certificate.margin:.4g}")
    if not lines:
        lines.append("No certificate.")
        if found.equilibrium is not None:
            lines.append(f"  rate    {_rate_words(found)}")
    if found.regime == SINGULAR:
        lines.append("Estimated, not certified: covariances tend to a singular limit.")
    for regime, error in found.refused.items():
        lines.append(f"Not certified as {regime}{_which_set(regime)}: {reason(error)}.")
    if found.quick:
        lines.append("A quick look: without --quick more is tried.")
    return lines


def _which_set(regime: str) -> str:
    return f" from {START_FACTOR:g} Sigma*" if regime.startswith("semi") else ""


def _rate_words(found: Findings) -> str:
    best = found.optimal_rate
    optimum = "" if best is None else f", optimum {best:.6g} (2 tr A/d)"
    if found.rate is not None:
        return f"{found.rate:.6g} per unit depth{optimum}"
    linear = -found.equilibrium.covariance_abscissa
    verb = "decays" if linear > 0 else "grows"
    missing = "none certified" if found.model.dt else "none certified globally"
    return (
        f"{missing}{optimum}; by the linearisation a small deviation of the "
        f"covariance {verb} at {abs(linear):.6g} per unit depth"
    )


def _scope_words(scope: str) -> str:
    if scope == "covariance":
        return "covariance; not the mean, which is not verified to be stable"
    return scope


def observed_words(observations: list[Observation]) -> list[str]:
    """Return the lines that tell the observations."""
    lines = ["Observed along trajectories, not certified:"]
    return lines + [f"  from {seen.start}: {seen.text}" for seen in observations]


def _analysis_words(found: Findings) -> list[str]:
    if found.analysis is not None:
        return str(found.analysis).splitlines()
    return [f"Linear analysis: none, {found.no_analysis}."] if found.no_analysis else []


def plot_words(found: Any) -> list[str]:
    """Return the lines that tell which pictures were drawn, and why others were not."""
    lines = [f"Wrote {path}" for path in found.plots]
    return lines + [f"Not drawn: {name}, {why}" for name, why in found.plots_missing.items()]


def wrapped(lines: list[str]) -> Iterator[str]:
    """Break lines beyond 80 columns and indent what follows."""
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
        "leaf_is_stable",
        "transverse_abscissa",
        "is_isolated",
        "mean_is_unique",
    )
    return {name: getattr(equilibrium, name) for name in names}


def _certificate_json(regime: str, certificate: Certificate) -> dict[str, Any]:
    names = ("method", "radius", "rate", "level", "largest_step", "bound", "threshold")
    return {
        "kind": regime,
        "statement": certificate.statement,
        "scope": certificate.scope,
        "margin": certificate.margin,
        # Each kind of certificate has some of these.
        **{name: _number(getattr(certificate, name, None)) for name in names},
    }


def _number(value: Any) -> Any:
    """Return what is a number or a word; a method of the same name is neither."""
    return None if callable(value) else value


def observations_json(observations: list[Observation]) -> list[dict[str, Any]]:
    """Return the observations by the keys of `schema`."""
    return [
        {
            "start": seen.start,
            "depth": seen.depth,
            "outcome": seen.outcome,
            "text": seen.text,
            "escape_depth": None if seen.response is None else seen.response.blow_up_time,
        }
        for seen in observations
    ]


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
