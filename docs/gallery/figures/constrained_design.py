"""Figure of constrained_design.py: entries of A and V under one requirement after the other."""

import numpy as np
from matplotlib.figure import Figure

import gausscontrol as gct


def draw(example):
    asked = {"B": example.B, "free": ("A", "V"), "decay_rate": example.RATE}
    designs = {
        "smallest norms": gct.design(example.TARGET, **asked),
        "neighbours only": gct.design(example.TARGET, **asked, constraints=example.neighbours),
    }
    figure = Figure(figsize=(6.4, 5.0), layout="constrained")
    grid = figure.subplots(2, 2)
    for row, (title, des) in zip(grid, designs.items(), strict=True):
        for axes, letter, M in zip(row, "AV", (des.model.A, des.model.V[0]), strict=True):
            shown = np.where(np.abs(M) > 1e-6, M, np.nan)
            image = axes.imshow(shown, cmap="RdBu_r", vmin=-0.45, vmax=0.45)
            axes.set(title=f"{letter}, {title}", xticks=[], yticks=[])
            axes.title.set_fontsize("medium")
    figure.colorbar(image, ax=grid, label="entry; blank: zero")
    return figure
