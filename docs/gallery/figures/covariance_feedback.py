"""Figure of covariance_feedback.py: an unstable equilibrium, left alone and held."""

import warnings

import control as ct
import numpy as np
from matplotlib.figure import Figure

import gausscontrol as gct


def draw(example):
    model = gct.GaussianTransformer(-np.eye(2), np.eye(2), 0.5 * np.eye(2))
    equilibrium = gct.find_equilibrium(model)
    closed, constant, _ = example.regulated(model, equilibrium)
    Sigma = equilibrium.covariance + np.array([[0.3, 0.1], [0.1, -0.2]])
    times = np.linspace(0, 2, 201)
    held = ct.input_output_response(
        closed, times, list(constant), gct.pack(np.zeros(2), Sigma), solve_ivp_kwargs=example.TIGHT
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gct.BlowUpWarning)
        alone = gct.moment_response(model, times, (np.zeros(2), Sigma))
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for k in range(3):
        label = gct.covariance_label(k, 2)
        axes.plot(times, held.outputs[k], color=f"C{k}", label=f"{label}, held")
        axes.plot(alone.time, alone.states[2 + k], color=f"C{k}", ls="--", label=f"{label}, alone")
    axes.set(
        xlabel="depth t",
        ylabel="entry [x]$^2$",
        ylim=(-0.5, 6),
        title="A regulator on A holds an unstable equilibrium",
    )
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, loc="upper right", fontsize="small")
    return figure
