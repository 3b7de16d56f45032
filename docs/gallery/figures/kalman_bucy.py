"""Figure of kalman_bucy.py: the filter's error variances and their steady state."""

import control as ct
import numpy as np
from matplotlib.figure import Figure

import gausscontrol as gct


def draw(example):
    rng = np.random.default_rng(1)  # the filter that the program takes
    A = np.eye(4) + 0.5 * rng.normal(size=(4, 4))
    C, R = rng.normal(size=(2, 4)), np.diag([1.0, 2.0])
    _, steady, _ = ct.lqe(A, np.eye(4), C, np.zeros((4, 4)), R)
    times = np.linspace(0, 6, 241)
    model = example.filter_model(A, C, R)
    response = gct.moment_response(model, times, (np.zeros(4), np.eye(4)))
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for i in range(4):
        axes.semilogy(times, response.covariance[i, i], label=f"state {i}")
        axes.axhline(steady[i, i], color=f"C{i}", ls=":")
    axes.set(
        xlabel="time t",
        ylabel="error variance [x]$^2$",
        title="Error variances of the filter; dotted: ct.lqe",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
