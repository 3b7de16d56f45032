"""Figure of quantisation.py: shifts of the equilibrium and the bounds on them."""

import numpy as np
from matplotlib.figure import Figure

import gausscontrol as gct


def draw(example):
    model = gct.load_model(example.HEAD)
    equilibrium = gct.find_equilibrium(model)
    robust = gct.robustness_radius(model, equilibrium)
    size = np.linalg.norm(equilibrium.covariance)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for k, quantise in enumerate(example.FORMATS.values()):
        copy = model.replace(V=quantise(model.V), B=quantise(model.B))
        _, shift = example.globally_stable(copy, equilibrium.covariance)
        axes.bar(k - 0.2, shift, 0.4, color="C0", label="found" if k == 0 else None)
        if robust.covers(copy):
            bound = robust.displacement_of(copy)
            axes.bar(k + 0.2, bound, 0.4, color="C1", label="bound" if k == 0 else None)
        else:
            axes.text(k + 0.2, 0.02, "beyond the\nradius", ha="center", rotation=90, color="C1")
    names = [name.replace(", ", ",\n") for name in example.FORMATS]
    axes.set_xticks(range(len(names)), names, fontsize="small")
    axes.set(
        yscale="log",
        ylabel=r"shift of $\Sigma_*$, Frobenius [x]$^2$",
        title=f"Weights in fewer digits; |$\\Sigma_*$| = {size:.1f}",
    )
    axes.legend()
    return figure
