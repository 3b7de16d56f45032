"""Figure of exact_interconnection.py: poles by hand, exact, and by finite difference."""

import control as ct
import numpy as np
from matplotlib.figure import Figure

import gausscontrol as gct


def draw(example):
    system, state, inputs, by_hand = example.filtered()
    matrices = {
        ("by hand", "ko", 11): by_hand,
        ("exact_linearize", "C0o", 6): gct.exact_linearize(system, state, inputs).A,
        ("finite difference", "C1x", 8): ct.linearize(system, state, inputs).A,
    }
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(0, 6e-6, color="C3", alpha=0.1, label="unstable")
    for (label, style, size), A in matrices.items():
        poles = np.linalg.eigvals(A[2:, 2:])
        slow = poles[np.abs(poles) < 1e-2]
        axes.plot(slow.real, slow.imag, style, ms=size, label=label, fillstyle="none", mew=1.5)
    axes.axvline(0, color="0.5", lw=0.8)
    axes.set(
        xlabel="real part [1/t]",
        ylabel="imaginary part [1/t]",
        title="Slow poles of a nearly collapsed layer read through lags",
    )
    axes.ticklabel_format(style="sci", scilimits=(0, 0))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
