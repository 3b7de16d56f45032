"""The poles of the linearisation (Theory 2.3, 4.2).

spec(M + Vbar) and spec(L);    certified: spec(L) in { Re z <= -rate }
"""

from __future__ import annotations

from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from gausscontrol.analysis.linear import EquilibriumAnalysis
from gausscontrol.certificates.stability import GlobalStability
from gausscontrol.errors import ParameterError
from gausscontrol.plots.figures import (
    ABOVE,
    alarm,
    finish,
    legend_of,
    open_axes,
    palette,
    set_title,
)

__all__ = ["spectrum_plot"]

# More poles than this are drawn small.
CROWD = 200


def spectrum_plot(
    analysis: EquilibriumAnalysis,
    *,
    certificate: GlobalStability | None = None,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    """Plot the poles of the linearisation in the complex plane.

    Covariance poles spec(L) as crosses, mean poles spec(M + Vbar) as circles, with the boundary
    of stability and the abscissa. Where the attention form is negative definite, all covariance
    poles lie in the shaded half-plane Re <= -rate.

    Parameters
    ----------
    analysis : EquilibriumAnalysis
        Poles [1/t], or without unit for dt > 0.
    certificate : GlobalStability, optional
        Its certified rate bounds the shaded half-plane; without it that of the attention form.
    ax : Axes or Figure, optional
        Where to draw.
    title : str, optional
        By default one that names the model, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines (covariance poles, then mean poles), axes (1, 1), figure, legend.

    Raises
    ------
    ParameterError, ShapeError
        If an argument is of the wrong type, or the certificate is one of another model.

    Notes
    -----
    Theory 2.3, 4.2. For dt > 0 the boundary is the unit circle and no half-plane is drawn.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> analysis = gct.analyze(gct.GaussianTransformer(0.5, 1, -0.25))
    >>> plot = gct.spectrum_plot(analysis)
    >>> [bool(np.allclose(line.get_xdata(), x)) for line, x in zip(plot.lines[0, 0], (-1, -0.25))]
    [True, True]
    >>> plt.close(plot.figure)
    """
    if not isinstance(analysis, EquilibriumAnalysis):
        raise ParameterError(
            f"analysis: expected an EquilibriumAnalysis, found {type(analysis).__name__}; "
            "make one with analyze(model)"
        )
    _check_certificate(certificate, analysis)
    figure, axes, own = open_axes(ax, 1)
    axis = axes[0, 0]
    poles = {
        "covariance poles": analysis.covariance_poles,
        "mean poles": analysis.mean_poles,
    }
    every = np.concatenate(list(poles.values()))
    size = 6.5 if every.size <= CROWD else 3.5
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = [
        axis.plot(values.real, values.imag, label=label, zorder=3, **style)[0]
        for (label, values), style in zip(poles.items(), _pole_styles(size), strict=True)
    ]
    if analysis.model.dt:
        _draw_circle(axis, analysis, every)
    else:
        _draw_half_planes(axis, analysis, certificate, every)
    finish(axis)
    legend = legend_of(axis, **(ABOVE if own else {}))
    set_title(figure, axis, own, title, f"Poles of {analysis.model.name or 'the linearisation'}")
    return ct.ControlPlot(lines, axes, figure, legend=legend)


# -- poles ----------------------------------------------------------------------------------------


def _pole_styles(size: float) -> tuple[dict[str, Any], dict[str, Any]]:
    colors = palette()
    common = {"linestyle": "none", "markersize": size, "markeredgewidth": size / 4.5}
    return (
        {**common, "marker": "x", "color": colors[0]},
        {**common, "marker": "o", "color": colors[1 % len(colors)], "markerfacecolor": "none"},
    )


def _draw_half_planes(
    axis: Axes,
    analysis: EquilibriumAnalysis,
    certificate: GlobalStability | None,
    poles: np.ndarray,
) -> None:
    rate = _form_rate(analysis) if certificate is None else certificate.rate
    shown = [0.0, *poles.real, *([-rate] if rate > 0 else [])]
    width = (max(shown) - min(shown)) or 1.0
    left, right = min(shown) - 0.12 * width, max(shown) + 0.12 * width
    height = max(1.25 * np.abs(poles.imag).max(), 0.1 * width)
    axis.set_xlim(left, right)
    axis.set_ylim(-height, height)
    axis.axvline(0, color=mpl.rcParams["axes.edgecolor"], linewidth=1.2, zorder=2)
    color = alarm() if analysis.abscissa >= 0 else mpl.rcParams["text.color"]
    stable = "" if analysis.is_stable else ", not stable"
    axis.axvline(
        analysis.abscissa,
        color=color,
        linestyle=":",
        linewidth=1.4,
        label=f"abscissa {analysis.abscissa:.4g}{stable}",
        zorder=2,
    )
    if rate > 0:
        word = "by the form" if certificate is None else "certified"
        green = palette()[2 % len(palette())]
        axis.axvspan(left, -rate, color=green, alpha=0.12, linewidth=0, zorder=0)
        axis.axvline(
            -rate,
            color=green,
            linestyle="--",
            linewidth=1.4,
            label=rf"covariance, {word}: $\leq$ {-rate:.4g}",
            zorder=2,
        )
    axis.set_xlabel("real part [1/t], per unit depth")
    axis.set_ylabel("imaginary part [1/t]")


def _form_rate(analysis: EquilibriumAnalysis) -> float:
    # At a singular covariance there is no form; then no half-plane is claimed.
    alpha = analysis.attention_form_margin
    return 0.0 if alpha is None else 2 * alpha


def _draw_circle(axis: Axes, analysis: EquilibriumAnalysis, poles: np.ndarray) -> None:
    angle = np.linspace(0, 2 * np.pi, 361)
    axis.plot(
        np.cos(angle), np.sin(angle), color=mpl.rcParams["axes.edgecolor"], linewidth=1.2, zorder=2
    )
    radius = np.abs(poles).max()
    stable = "" if analysis.is_stable else ", not stable"
    axis.plot(
        radius * np.cos(angle),
        radius * np.sin(angle),
        color=alarm() if radius >= 1 else mpl.rcParams["text.color"],
        linestyle=":",
        linewidth=1.4,
        label=f"spectral radius {radius:.4g}{stable}",
        zorder=2,
    )
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xlabel(f"real part, per layer of depth {analysis.model.dt:g}")
    axis.set_ylabel("imaginary part")


def _check_certificate(certificate: Any, analysis: EquilibriumAnalysis) -> None:
    if certificate is None:
        return
    if not isinstance(certificate, GlobalStability):
        raise ParameterError(
            f"certificate: expected a GlobalStability, found {type(certificate).__name__}; "
            "make one with certify_global_stability(model, equilibrium)"
        )
    if certificate.model != analysis.model:
        raise ParameterError(
            "certificate: expected one of the analysed model, found one of another; "
            "certify analysis.model"
        )
