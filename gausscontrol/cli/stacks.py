"""What `analyze` finds out about a stack of layers, in words and as JSON (Theory 1.4).

    each layer by itself, as if it acted for ever;   start -> the whole stack -> observation

A stack acts once, so it has no equilibrium of its own: what is certified is said of its layers.

The JSON object has these keys; what does not exist is null:

file, version; stack (dim, layers, depth); layers, a list (index, start, stop, trace_after, which
is observed, and the keys model to not_certified of the report of one layer); regime, the weakest
of the layers'; observations, plots, plots_missing and requirement, as in that report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol import plots
from gausscontrol._version import __version__
from gausscontrol.certificates.classify import GLOBAL, REGIMES
from gausscontrol.cli.findings import Findings, draw_all, settle
from gausscontrol.cli.observation import Observation, follow, natural_start, stack_depths
from gausscontrol.cli.report import (
    layer_json,
    observations_json,
    observed_words,
    plain,
    plot_words,
    wrapped,
)
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["StackFindings", "draw_stack", "investigate_stack", "stack_as_json", "stack_in_words"]


@dataclass
class StackFindings:
    """Everything the report on a stack tells."""

    file: Path
    stack: LayerStack
    layers: list[Findings]
    observations: list[Observation]
    plots: list[Path] = field(default_factory=list)
    plots_missing: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What to call the stack."""
        return self.file.stem

    @property
    def traces(self) -> list[float | None]:
        """Tr Sigma after each layer of the trajectory, None past an escape. [x]^2."""
        response = self.observations[0].response
        after: list[float | None] = [None] * len(self.layers)
        if response is not None:
            ends = self.stack.boundaries[1:]
            seen = np.flatnonzero(ends <= response.t[-1] * (1 + 1e-9))
            columns = [int(np.abs(response.t - ends[i]).argmin()) for i in seen]
            after[: len(columns)] = [float(np.trace(response.covariance[..., n])) for n in columns]
        return after

    @property
    def regime(self) -> str:
        """The weakest among the layers."""
        return max((layer.regime for layer in self.layers), key=REGIMES.index)

    def failing(self, regime: str) -> list[int]:
        """Layers for which this regime is not certified."""
        return [i for i, layer in enumerate(self.layers) if not layer.satisfies(regime)]

    def satisfies(self, regime: str) -> bool:
        """Whether it is certified for every layer."""
        return not self.failing(regime)

    def why_not(self, regime: str) -> str:
        """Say which layers fall short, and why the first of them does."""
        failing = self.failing(regime)
        first = self.layers[failing[0]]
        more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        return f"layer {failing[0]}{more}: {first.why_not(regime)}"


def investigate_stack(file: Path, stack: LayerStack) -> StackFindings:
    """Find and certify what each layer tends to, and follow a trajectory through all of them.

    Parameters
    ----------
    file : Path
        Where the stack comes from, for the report.
    stack : LayerStack

    Returns
    -------
    StackFindings
    """
    known: dict[GaussianTransformer, Findings] = {}
    for layer in stack:
        if layer not in known:
            known[layer] = settle(file, layer)
    layers = [known[layer] for layer in stack]
    where, start = natural_start(stack[0], layers[0].point)
    if layers[0].equilibrium is not None:
        where = f"{where} (* of layer 0)"
    seen = follow(stack, where, start, stack_depths(stack), layers[-1].point)
    return StackFindings(file, stack, layers, [seen])


def draw_stack(found: StackFindings, folder: Path) -> None:
    """Write the pictures of the trajectory, and note that a stack has no spectrum.

    Parameters
    ----------
    found : StackFindings
        Gets the paths written and the reasons for those missing.
    folder : Path
        An existing folder, in which nothing else is touched.
    """
    [seen] = found.observations
    common = {"equilibrium": found.layers[-1].point, "title": found.title}
    no_poles = "a stack acts once and has no equilibrium to linearise at; analyze a single layer"
    tasks = (
        (plots.moment_plot, seen.response, common, seen.text),
        (plots.ellipse_plot, seen.response, common, seen.text),
        (plots.spectrum_plot, None, {}, no_poles),
    )
    found.plots, found.plots_missing = draw_all(folder, tasks)


# -- words ----------------------------------------------------------------------------------------


def stack_in_words(found: StackFindings) -> str:
    """Return the report for a terminal.

    Parameters
    ----------
    found : StackFindings

    Returns
    -------
    str
    """
    stack = found.stack
    heading = (
        f"{found.title}: stack of {len(stack)} layers, d = {stack.dim}, depth {stack.depth:.6g} "
        f"({found.file})"
    )
    seen = observed_words(found.observations)
    traces = ["-" if trace is None else f"{trace:.4g}" for trace in found.traces]
    seen.append(f"  tr Sigma after each layer: {', '.join(traces)} [x]^2")
    parts = [[heading], _table(found), seen, plot_words(found)]
    return "\n\n".join("\n".join(wrapped(lines)) for lines in parts if lines)


def _table(found: StackFindings) -> list[str]:
    ends = found.stack.boundaries
    rows = [("layer", "depth", "step", "equilibrium", "regime", "rate", "linear")]
    for i, layer in enumerate(found.layers):
        depth = f"{ends[i]:.4g} to {ends[i + 1]:.4g}"
        rows.append((str(i), depth, "layer" if layer.model.dt else "flow", *_cells(layer)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["Each layer by itself, as if it acted for ever; rates per unit depth:"]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {'  '.join(cells).rstrip()}")
    lines += [
        "  rate: certified; linear: of the linearisation, of the covariance",
        *_reasons(found.layers),
    ]
    return lines


def _cells(layer: Findings) -> tuple[str, str, str, str]:
    point = layer.point
    if point is None:
        return "none", layer.regime, "-", "-"
    kind = f"rank {point.rank}, {point.method}"
    rate = "-" if layer.rate is None else f"{layer.rate:.4g}"
    return kind, layer.regime, rate, f"{-point.covariance_abscissa:.4g}"


def _reasons(layers: list[Findings]) -> list[str]:
    """Say for each layer that is not globally stable why, once for each reason."""
    reasons: dict[str, list[int]] = {}
    for i, layer in enumerate(layers):
        if not layer.satisfies(GLOBAL):
            limit = layer.singular_limit
            singular = f"; singular limit of rank {limit.rank}, not certified" if limit else ""
            reasons.setdefault(f"{layer.why_not(GLOBAL)}{singular}", []).append(i)
    return [
        f"  Layer{'s' if len(which) > 1 else ''} {', '.join(map(str, which))} not globally "
        f"stable: {why}."
        for why, which in reasons.items()
    ]


# -- JSON -----------------------------------------------------------------------------------------


def stack_as_json(found: StackFindings) -> dict[str, Any]:
    """Return the report as plain numbers, strings, lists and dicts.

    Parameters
    ----------
    found : StackFindings

    Returns
    -------
    dict
        With the keys listed above.
    """
    stack, ends = found.stack, found.stack.boundaries
    report = {
        "file": str(found.file),
        "version": __version__,
        "stack": {"dim": stack.dim, "layers": len(stack), "depth": stack.depth},
        "layers": [
            {
                "index": i,
                "start": ends[i],
                "stop": ends[i + 1],
                "trace_after": trace,
                **layer_json(layer),
            }
            for i, (layer, trace) in enumerate(zip(found.layers, found.traces, strict=True))
        ],
        "regime": found.regime,
        "observations": observations_json(found.observations),
        "plots": [str(path) for path in found.plots],
        "plots_missing": found.plots_missing,
    }
    return plain(report)
