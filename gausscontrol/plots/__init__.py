"""Pictures of responses, spectra and phase planes (Theory 1.6, 2.3, 4.2).

Every function takes `ax=` and `title=` and returns a `ct.ControlPlot`. matplotlib is imported in
this folder only.
"""

from gausscontrol.plots.design import design_plot
from gausscontrol.plots.ellipses import ellipse_plot
from gausscontrol.plots.figures import save_picture
from gausscontrol.plots.moments import moment_plot
from gausscontrol.plots.phase import phase_plot
from gausscontrol.plots.regime_map import regime_map
from gausscontrol.plots.region import region_plot
from gausscontrol.plots.spectrum import spectrum_plot
from gausscontrol.plots.steering import steering_plot
from gausscontrol.plots.tokens import token_plot

__all__ = [
    "PICTURES",
    "design_plot",
    "ellipse_plot",
    "moment_plot",
    "phase_plot",
    "regime_map",
    "region_plot",
    "save_picture",
    "spectrum_plot",
    "steering_plot",
    "token_plot",
]

# What the command line writes.
PICTURES = ("moments.png", "ellipses.png", "spectrum.png")
