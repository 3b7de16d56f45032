"""Rows about spectra: abscissa and attention form, matrix-free beside dense; memory at d = 256."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.memory import peak_megabytes
from benchmarks.problems import fresh, products, settling_model
from benchmarks.table import Row
from benchmarks.timing import counting, once, seconds
from gausscontrol.analysis.form import attention_form, form_maximum
from gausscontrol.analysis.spectra import covariance_abscissa, dense_operator, matrix_abscissa
from gausscontrol.model.heads import DenseHeads

__all__ = ["SPECTRUM_ROWS"]

DIM, LARGE_DIM = 64, 256
# Times as fast as dense at d = 64; largest relative difference from it that counts as equal.
ABSCISSA_GOAL, FORM_GOAL, AGREEMENT = 20.0, 6.0, 1e-8
MEGABYTES = 300.0


def spectra() -> Iterator[Row]:
    """Both spectra at d = 64 against dense, and at d = 256, where dense no longer fits."""
    works = (
        ("abscissa of L", covariance_abscissa, _dense_abscissa, ABSCISSA_GOAL),
        ("attention form", form_maximum, _dense_form, FORM_GOAL),
    )
    for dim in (DIM, LARGE_DIM):
        model, Sigma = settling_model(dim)
        white = model.whiten(Sigma)
        product = seconds(products(white, np.eye(dim)), 15)
        for work, ours, dense, goal in works:
            with counting(DenseHeads, "attention") as attention:
                value, took = once(lambda: ours(white))
            if dim == DIM:
                took = seconds(lambda: ours(fresh(white)), 3)
            floor = attention.calls * product
            note = f"{attention.calls} products T(E)"
            if dim == LARGE_DIM:
                yield Row(work, dim, took, None, "", "", True, note, floor)
                continue
            truth, theirs = once(lambda: dense(white))
            equal = abs(value - truth) <= AGREEMENT * abs(truth)
            yield Row(
                work, dim, took, theirs, "dense", f">={goal:g}x", equal and theirs >= goal * took,
                f"{note}, {'equal' if equal else 'NOT EQUAL'} to dense", floor,
            )  # fmt: skip


def memory() -> Iterator[Row]:
    """Peak memory at d = 256, of a process of its own, beside one dense linearisation."""
    states = LARGE_DIM * (LARGE_DIM + 1) // 2
    dense = states**2 * 8 / 1e6
    start = peak_megabytes("import gausscontrol")
    for work, statements, goal in (
        ("memory: both spectra", SPECTRA, MEGABYTES),
        ("memory: equilibrium", EQUILIBRIUM, None),
    ):
        peak = peak_megabytes(statements)
        yield Row(
            work, LARGE_DIM, peak, dense, "for a dense L", "" if goal is None else f"<{goal:g} MB",
            goal is None or peak < goal, f"{start:.0f} MB of it on import", unit="MB",
        )  # fmt: skip


SPECTRA = f"""
from benchmarks.problems import settling_model
from gausscontrol.analysis.form import form_maximum
from gausscontrol.analysis.spectra import covariance_abscissa
model, Sigma = settling_model({LARGE_DIM})
white = model.whiten(Sigma)
covariance_abscissa(white), form_maximum(white)
"""
EQUILIBRIUM = f"""
from benchmarks.problems import settling_model
from gausscontrol import find_equilibrium
find_equilibrium(settling_model({LARGE_DIM})[0])
"""


def _dense_abscissa(white) -> float:
    return matrix_abscissa(dense_operator(white))


def _dense_form(white) -> float:
    return float(np.linalg.eigvalsh(attention_form(white.heads))[-1])


SPECTRUM_ROWS: dict[str, Callable[[], Iterator[Row]]] = {"spectra": spectra, "memory": memory}
