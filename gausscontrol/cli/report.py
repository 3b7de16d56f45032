# -- the report in words --------------------------------------------------------------------------


def _in_words(found: _Findings) -> list[str]:
    model = found.model
    heads = f"{model.n_heads} head{'s' if model.n_heads > 1 else ''}"
    depth = f"layers of depth {model.dt:g}" if model.dt else "continuous depth"
    lines = [f"{found.title}: d = {model.dim}, {heads}, {depth} ({found.file})", ""]
    lines += _equilibrium_words(found)
    lines += ["", *_certificate_words(found), "", *_observation_words(found)]
    if found.analysis is not None:
        lines += ["", *str(found.analysis).splitlines()]
    elif found.no_analysis:
        lines += ["", f"Linear analysis: none: {found.no_analysis}."]
    if found.plots or found.plots_missing:
        lines += ["", *[f"Wrote {path}" for path in found.plots]]
        lines += [f"Not drawn: {name}: {why}" for name, why in found.plots_missing.items()]
    return lines


def _equilibrium_words(found: _Findings) -> list[str]:
    if found.equilibrium is None:
        return [f"No equilibrium: {found.no_equilibrium}."]
    lines = str(found.equilibrium).splitlines()
    for other in found.equilibria[1:]:
        low, high = np.linalg.eigvalsh(other.covariance)[[0, -1]]
        stable = "stable" if other.is_stable else "not stable"
        lines.append(
            f"  another equilibrium  covariance spectrum {low:.6g} to {high:.6g} [x]^2, {stable}, "
            f"covariance abscissa {other.covariance_abscissa:.4g} per unit depth"
        )
    return lines


def _certificate_words(found: _Findings) -> list[str]:
    if found.equilibrium is None:
        return ["Certificate: none, for there is no equilibrium to certify."]
    certificate, optimum = found.certificate, f"{found.optimal_rate:.6g} (2 tr A/d)"
    lines = []
    if certificate is not None:
        lines = [
            f"{found.regime.capitalize()}, certified: {certificate.statement}.",
            f"  scope   {certificate.scope}",
            f"  margin  {certificate.margin:.4g}",
        ]
    if found.rate is not None:
        lines.append(f"  rate    {found.rate:.6g} per unit depth, optimum {optimum}")
    else:
        lines.append(
            f"  rate    none certified; by the linearisation, covariance near the equilibrium: "
            f"{-found.equilibrium.covariance_abscissa:.6g} per unit depth; optimum {optimum}"
        )
    for regime, error in found.refused:
        short = "" if error.margin is None else f" Short by {max(-error.margin, 0):.4g}."
        lines.append(f"Not certified as {regime}: {_reason(error)}.{short}")
    return lines


def _observation_words(found: _Findings) -> list[str]:
    lines = ["Observed along trajectories, not certified:"]
    lines += [f"  from {seen.start}: {seen.text}" for seen in found.observations]
    return lines


def _reason(error: Exception) -> str:
    """Return the message without the argument's name and without advice to a Python caller."""
    text = _message(error)
    for prefix in ("equilibrium: ", "model: ", "dt: ", "not certified as globally stable: "):
        text = text.removeprefix(prefix)
    return text.rpartition("; ")[0] or text


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


def _as_json(found: _Findings) -> dict[str, Any]:
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
            {"kind": regime, "reason": _reason(error), "margin": error.margin}
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


