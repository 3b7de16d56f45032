"""What a moment system shows in a notebook: its signals with units, form and model (Theory 1.2).

    inputs   offsets of parameters       states   mu and vech Sigma, or mu and L       outputs

Runs of labels are told by their ends, so that a system of a thousand states is read at a glance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gausscontrol.display import Markup, html_table, html_text
from gausscontrol.model.notation import UNITS, equations_html, size_rows

if TYPE_CHECKING:
    from gausscontrol.systems.iosys import MomentSystem

__all__ = ["system_html"]

STATE_UNITS = {"mu": "x", "Sigma": "x^2", "L": "x"}
# Up to this many labels are written out.
SHORT = 3


def system_html(system: MomentSystem, outputs: Sequence[str]) -> str:
    """Return a moment system as HTML.

    Parameters
    ----------
    system : MomentSystem
    outputs : sequence of str
        Which of "mu" and "Sigma" are outputs.

    Returns
    -------
    str
    """
    model, dim = system.model, system.dim
    packed = dim * (dim + 1) // 2
    inputs = [(key, getattr(model, key).size) for key in system.channels]
    factor = system.form == "factor"
    states = [("mu", dim), ("L", dim * system.rank) if factor else ("Sigma", packed)]
    read = [(key, dim if key == "mu" else packed) for key in outputs]
    depth = f"layers of depth {system.dt:g} [t]" if system.dt else "continuous depth"
    form = f"L of {system.rank} columns, Sigma = L L^T" if factor else "covariance"
    rows = [
        (f"inputs ({system.ninputs})", _signals(system.input_labels, inputs, UNITS, "offset of ")),
        (f"states ({system.nstates})", _signals(system.state_labels, states, STATE_UNITS)),
        (f"outputs ({system.noutputs})", _signals(system.output_labels, read, STATE_UNITS)),
        ("form", form),
        ("dynamics", Markup("<br>".join(equations_html(model)))),
        ("model", repr(model).strip("<>").partition(";")[0]),
        *size_rows(model),
    ]
    return html_table(f"MomentSystem {system.name}: d = {dim}, {depth}", rows)


def _signals(
    labels: Sequence[str], groups: Iterable[tuple[str, int]], units: dict[str, str], what: str = ""
) -> Markup:
    """Return a line for each group of consecutive labels."""
    lines, start = [], 0
    for key, count in groups:
        names = list(labels[start : start + count])
        if count > SHORT:
            names = [names[0], "...", names[-1]]
        told = f"{what}{key} " if what else ""
        lines.append(html_text(f"{', '.join(names)}: {told}[{units[key]}]"))
        start += count
    return Markup("<br>".join(lines) or "none")
