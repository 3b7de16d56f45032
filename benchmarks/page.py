"""What the page on speed includes: the table, the machine it was measured on, a picture of cost."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_info

from benchmarks.scaling import Curve, curves
from benchmarks.table import HEADINGS, Row

__all__ = ["machine", "text", "write"]

DOCS = Path(__file__).resolve().parents[1] / "docs"
TITLES = {
    "right-side": "One model",
    "spectra": "Spectra and memory",
    "trajectories": "Many models",
    "scaling": "Cost against d",
    "certificates": "Certificates and design",
}
PACKAGES = ("gausscontrol", "control", "numpy", "scipy", "slycot", "cvxpy", "jax", "diffrax")


def write(
    tables: Mapping[str, Iterable[Row]], minutes: float, left_out: Sequence[str] = ()
) -> None:
    """Write the table and the picture where the documentation includes them."""
    (DOCS / "benchmarks_table.txt").write_text(text(tables, minutes, left_out))
    with mpl.rc_context({"svg.hashsalt": "gausscontrol", "svg.fonttype": "none"}):
        picture(curves()).savefig(DOCS / "_static" / "benchmarks_cost.svg", metadata={"Date": None})


def text(tables: Mapping[str, Iterable[Row]], minutes: float, left_out: Sequence[str] = ()) -> str:
    """Return the tables as reStructuredText, one under each of `TITLES`."""
    today = datetime.date.today().isoformat()
    parts = [f"Measured {today}, in a run of {minutes:.0f} minutes, on", ""]
    parts += [f"* {line}" for line in machine()]
    if left_out:
        parts += ["", f"Rows left out of this run: {', '.join(left_out)}."]
    for name, rows in tables.items():
        if name in TITLES:
            parts += ["", TITLES[name], "^" * len(TITLES[name]), "", *_header()]
        for row in rows:
            parts += _entry(row.cells)
    return "\n".join(parts) + "\n"


def machine() -> list[str]:
    """Say what the numbers were measured on."""
    names = [
        f"{pool['internal_api']} {pool['version']} in {library} ({_core(pool)})"
        for library in ("numpy", "scipy")
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and library in Path(pool["filepath"]).parent.name
    ]
    versions = [f"{name} {version}" for name in PACKAGES if (version := _version(name))]
    return [
        f"{_processor()}, {os.cpu_count()} logical cores, {platform.system()}",
        f"Python {platform.python_version()}, {', '.join(versions)}",
        ", ".join([*names, "one BLAS thread"]),
    ]


def picture(measured: Iterable[Curve]) -> Figure:
    """Draw seconds over d on logarithmic axes, with the fitted powers."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for curve in measured:
        label = f"{curve.work}, $d^{{{curve.exponent:.1f}}}$"
        (line,) = axes.loglog(curve.dims, curve.seconds, "o-", ms=4, label=label)
        tail = curve.dims[-curve.fitted :].astype(float)
        middle = np.exp(np.log(curve.seconds[-curve.fitted :] / tail**curve.exponent).mean())
        axes.loglog(tail, middle * tail**curve.exponent, "--", color=line.get_color(), lw=1)
    axes.set_xlabel("d")
    axes.set_ylabel("processor time [s]")
    axes.set_xscale("log", base=2)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def _header() -> list[str]:
    widths = "24 6 10 22 8 10 10 8 26"
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    return lines + _entry(HEADINGS)


def _entry(cells: Iterable[str]) -> list[str]:
    return [f"   {'* -' if i == 0 else '  -'} {_escaped(cell)}" for i, cell in enumerate(cells)]


def _escaped(cell: str) -> str:
    return re.sub(r"([\\*`_|])", r"\\\1", cell)


def _core(pool: dict) -> str:
    return pool.get("architecture", "unknown kernel")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        found = re.search(r"model name\s*:\s*(.+)", listing.read_text())
        if found:
            return found.group(1)
    return platform.processor() or platform.machine()
