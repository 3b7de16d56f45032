"""What `analyze` finds out about a stack of layers, in words and as JSON (Theory 1.4).

    each layer by itself, as if it acted for ever;   start -> the whole stack -> observation

A stack acts once, so it has no equilibrium of its own: what is certified is said of its layers.

The keys of the JSON object are described in `schema`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol import plots
from gausscontrol.certificates.classify import GLOBAL, REGIMES
from gausscontrol.cli.findings import Findings, draw_all, settle
from gausscontrol.cli.observation import Observation, follow, natural_start, stack_depths
from gausscontrol.cli.report import (
    layer_json,
    observations_json,
    observed_words,
    plot_words,
    wrapped,
)
from gausscontrol.cli.streams import working
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["StackFindings", "draw_stack", "investigate_stack", "stack_as_json", "stack_in_words"]

# Traces shown, and rows of the table; JSON has them all.
LISTED, ROWS = 12, 40
# A number in a reason: layers whose reasons differ by figures only are drawn together.
FIGURE = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


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


def investigate_stack(
    file: Path, stack: LayerStack, *, quick: bool = False, followed: bool = True
) -> StackFindings:
    """Find and certify what each layer tends to, and follow a trajectory through all of them.

    Parameters
    ----------
    file : Path
        Where the stack comes from, for the report.
    stack : LayerStack
    quick : bool, optional
        Whether to do without semidefinite programmes and with short searches.
    followed : bool, optional
        No matter: a stack is as deep as it is, so its trajectory is followed in any case.

    Returns
    -------
    StackFindings
    """
    known: dict[GaussianTransformer, Findings] = {}
    with working("looking for equilibria and certificates") as say:
        for i, layer in enumerate(stack):
            say(f"looking for equilibria and certificates, layer {i + 1} of {len(stack)}")
            if layer not in known:
                known[layer] = settle(file, layer, quick=quick)
        layers = [known[layer] for layer in stack]
        where, start = natural_start(stack[0], layers[0].point)
        if layers[0].equilibrium is not None:
            where = f"{where} (* of layer 0)"
        say("following a trajectory")
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
        f"{_named(found.title, len(stack))}, d = {stack.dim}, depth {stack.depth:.6g} "
        f"({found.file})"
    )
    seen = observed_words(found.observations)
    seen.append(f"  tr Sigma after each layer: {_shortened(found.traces)} [x]^2")
    seen.append("  A stack acts once. Where it takes a Gaussian of your own:")
    seen.append(f"    gausscontrol simulate {found.file} --initial START")
    parts = [[heading], _table(found), seen, plot_words(found)]
    return "\n\n".join("\n".join(wrapped(lines)) for lines in parts if lines)


def _named(title: str, layers: int) -> str:
    many = "1 layer" if layers == 1 else f"{layers} layers"
    return f"{title}: {many}" if "stack" in title.lower() else f"{title}: stack of {many}"


def _shortened(traces: list[float | None]) -> str:
    words = ["-" if trace is None else f"{trace:.4g}" for trace in traces]
    if len(words) > LISTED:
        words[LISTED // 2 : -LISTED // 2] = ["..."]
    return ", ".join(words)


def _table(found: StackFindings) -> list[str]:
    rows = [("layer", "depth", "step", "equilibrium", "regime", "rate", "linear")]
    runs = _runs(found.layers)
    ends = found.stack.boundaries
    for first, last in runs[:ROWS]:
        which = str(first) if first == last else f"{first} to {last}"
        depth = f"{ends[first]:.4g} to {ends[last + 1]:.4g}"
        rows.append((which, depth, *_cells(found.layers[first])))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["Each layer by itself, as if it acted for ever; rates per unit depth:"]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {'  '.join(cells).rstrip()}")
    if len(runs) > ROWS:
        lines.append(f"  and {len(runs) - ROWS} more; --json has them all")
    lines += [
        "  rate: certified; linear: of the linearisation, of the covariance",
        *_reasons(found.layers),
    ]
    return lines


def _runs(layers: list[Findings]) -> list[tuple[int, int]]:
    """First and last of layers in a row of which the table says the same."""
    runs: list[tuple[int, int]] = []
    for i, layer in enumerate(layers):
        if runs and _cells(layers[runs[-1][0]]) == _cells(layer):
            runs[-1] = (runs[-1][0], i)
        else:
            runs.append((i, i))
    return runs


def _cells(layer: Findings) -> tuple[str, str, str, str, str]:
    step, point = "layer" if layer.model.dt else "flow", layer.point
    if point is None:
        return step, "none", layer.regime, "-", "-"
    kind = f"rank {point.rank}, {point.method}"
    rate = "-" if layer.rate is None else f"{layer.rate:.4g}"
    return step, kind, layer.regime, rate, f"{-point.covariance_abscissa:.4g}"


def _reasons(layers: list[Findings]) -> list[str]:
    """Say for the layers that are not globally stable why, once for each kind of reason."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for i, layer in enumerate(layers):
        if not layer.satisfies(GLOBAL):
            limit = layer.singular_limit
            singular = f"; singular limit of rank {limit.rank}, not certified" if limit else ""
            why = f"{layer.why_not(GLOBAL)}{singular}"
            groups.setdefault(FIGURE.sub("#", why), []).append((i, why))
    lines = []
    for members in groups.values():
        which, (_, why) = [i for i, _ in members], members[0]
        same = all(other == why for _, other in members)
        figures = "" if same else f" (figures of layer {which[0]})"
        layer = "Layers" if len(which) > 1 else "Layer"
        lines.append(f"  {layer} {_spans(which)} not globally stable: {why}{figures}.")
    return lines


def _spans(numbers: list[int]) -> str:
    """Return increasing numbers with those in a row drawn together, as "0 to 3, 7"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = (str(a) if a == b else f"{a}{' to ' if b > a + 1 else ', '}{b}" for a, b in spans)
    return ", ".join(texts)


# -- JSON -----------------------------------------------------------------------------------------


def stack_as_json(found: StackFindings) -> dict[str, Any]:
    """Return the report as numbers, strings, arrays, lists and dicts.

    Parameters
    ----------
    found : StackFindings

    Returns
    -------
    dict
        All keys of `schema` but the first three and "requirement".
    """
    stack, ends = found.stack, found.stack.boundaries
    return {
        "file": str(found.file),
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
