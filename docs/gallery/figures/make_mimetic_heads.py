"""Figure of make_mimetic_heads.py: one head settles, the other escapes."""

import warnings

import numpy as np
from matplotlib.figure import Figure

import gausscontrol as gct


def draw(example):
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for filename, noise, seed, _ in example.HEADS:
        model = example.mimetic_head(noise, seed, filename)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gct.BlowUpWarning)
            response = gct.moment_response(
                model,
                np.linspace(0, 6, 241),
                (np.zeros(example.DIM), np.eye(example.DIM)),
                rtol=1e-6,
            )
        trace = np.trace(response.covariance)
        axes.semilogy(response.time, trace, label=f"{filename}, {noise:g} of the noise")
        if response.blow_up_time is not None:
            axes.axvline(response.blow_up_time, color="C1", ls=":", label="escape")
    axes.set(
        xlabel="depth t", ylabel=r"tr $\Sigma$ [x]$^2$", title=r"Two heads from $\Sigma(0) = I$"
    )
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
