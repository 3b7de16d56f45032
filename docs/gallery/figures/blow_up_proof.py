"""Figure of blow_up_proof.py: escapes, and the depths before which they are certified."""

import warnings

import numpy as np
from matplotlib.figure import Figure

import gausscontrol as gct


def draw(example):
    V = np.array([[0.6, 3.0, 0.0], [0.0, -1.0, 2.0], [0.0, -2.0, -1.0]])
    model = gct.GaussianTransformer(-0.5 * np.eye(3), np.diag([1.0, 2.0, 0.5]), V)
    certificate = gct.certify_blow_up(model)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for k, (name, Sigma) in enumerate(example.starts().items()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gct.BlowUpWarning)
            response = gct.moment_response(model, np.linspace(0, 1, 1001), (np.zeros(3), Sigma))
        axes.semilogy(response.time, np.trace(response.covariance), color=f"C{k}", label=name)
        bound = certificate.time_bound(Sigma)
        if np.isfinite(bound):
            axes.axvline(bound, color=f"C{k}", ls="--")
    axes.set(
        xlabel="depth t",
        ylabel=r"tr $\Sigma$ [x]$^2$",
        ylim=(0.05, 1e4),
        title="Escapes, and the depths (dashed) before which they are certified",
    )
    axes.grid(alpha=0.3)
    axes.legend(title="start")
    return figure
