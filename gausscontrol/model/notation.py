r"""The system in symbols, for notebooks: equation (1) with the matrices of one model (Theory 1.1).

    mu' = (A + V + V Sigma B) mu + b,    Sigma' = A Sigma + Sigma A^T + V Sigma B Sigma + Sigma B^T
    Sigma V^T;   several heads are summed, and residual layers are written with D = I + dt M(Sigma)

Matrices that are small are written out, others by their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.display import (
    LARGEST,
    Markup,
    html_matrix,
    html_table,
    latex_matrix,
    latex_table,
)

if TYPE_CHECKING:
    from gausscontrol.model.stack import LayerStack
    from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "UNITS",
    "equations_html",
    "model_html",
    "model_latex",
    "size_rows",
    "stack_html",
    "stack_latex",
]

# More heads than this are counted, not written out; more layers than this are left out.
HEADS, LAYERS = 3, 12
UNITS = {"A": "1/t", "B": "1/x^2", "V": "1/t", "b": "x/t", "k": "1/x"}
MU, SIGMA, SUM = "&mu;", "&Sigma;", "&sum;<sub>h</sub> "


def model_html(model: GaussianTransformer) -> str:
    """Return a model as HTML: the system, and its parameters.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    str
    """
    rows: list[tuple[str | None, str]] = [("system", Markup("<br>".join(equations_html(model))))]
    for name, head, value in _parameters(model):
        label = f"{name} of head {head}" if head is not None else name
        cell = (
            html_matrix(value) if max(value.shape) <= LARGEST else Markup(_size(value, "&times;"))
        )
        rows.append((f"{label} [{UNITS[name]}]", cell))
    return html_table(_heading(model), rows + size_rows(model))


def equations_html(model: GaussianTransformer) -> list[str]:
    """Return the lines of equation (1), as HTML.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    list of str
    """
    h, total = ("<sub>h</sub>", SUM) if model.n_heads > 1 else ("", "")
    tilt = f" + {total}V{h} {SIGMA} k{h}" if model.k.any() else ""
    mean = f"(M + {total}V{h}) {MU}{tilt} + b"
    drift = f"M = A + {total}V{h} {SIGMA} B{h}"
    if model.dt:
        return [
            f"{MU}<sup>+</sup> = {MU} + dt [{mean}]",
            f"{SIGMA}<sup>+</sup> = D {SIGMA} D<sup>T</sup>, D = I + dt M",
            drift,
        ]
    return [f"{MU}' = {mean}", f"{SIGMA}' = M {SIGMA} + {SIGMA} M<sup>T</sup>", drift]


def size_rows(model: GaussianTransformer) -> list[tuple[str | None, str]]:
    """Return rows that tell how large the parameters are, and where their spectra end.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    list of (str, str)
        Spectral norms, of several heads the largest; the abscissae of A and of A + sum_h V_h, which
        moves the mean of a point, in [1/t], or the spectral radii of their layers.
    """
    keys = ["A", "V", "B", *(key for key in ("b", "k") if getattr(model, key).any())]
    norms = ", ".join(
        f"|{key}| = {_norm(getattr(model, key), key):.3g} [{UNITS[key]}]" for key in keys
    )
    most = " of the largest head" if model.n_heads > 1 else ""
    drifts = {
        "A": model.A,
        "A + V" if model.n_heads == 1 else "A + sum V": model.A + model.V.sum(0),
    }
    spectra = {name: np.linalg.eigvals(M) for name, M in drifts.items()}
    if model.dt:
        ends = {name: np.abs(1 + model.dt * values).max() for name, values in spectra.items()}
        label, text = (
            "spectral radii",
            [
                f"I + dt {name if name == 'A' else f'({name})'}: {end:.4g}"
                for name, end in ends.items()
            ],
        )
    else:
        label = "abscissae"
        text = [f"{name}: {values.real.max():.4g} [1/t]" for name, values in spectra.items()]
    return [(f"norms{most}", norms), (label, ", ".join(text))]


def model_latex(model: GaussianTransformer) -> str:
    """Return a model as LaTeX: equation (1), and its matrices where they are small.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    str
        A displayed formula.
    """
    many = model.n_heads > 1
    h, total = ("_h", r"\sum_h ") if many else ("", "")
    tilt = rf" + {total}V{h} \Sigma k{h}" if model.k.any() else ""
    head = rf"V{h} \Sigma B{h}"
    mean = rf"\left(A + {total}V{h} + {total}{head}\right) \mu{tilt} + b"
    if model.dt:
        step = rf"D = I + \Delta t \left(A + {total}{head}\right), \quad \Delta t = {model.dt:g}"
        lines = [
            rf"\mu^+ &= \mu + \Delta t \left[{mean}\right]",
            rf"\Sigma^+ &= D \Sigma D^\top, \quad {step}",
        ]
    else:
        pull = rf"{head} \Sigma + \Sigma B{h}^\top \Sigma V{h}^\top"
        pull = rf"{total}\left({pull}\right)" if many else pull
        lines = [
            rf"\dot\mu &= {mean}",
            rf"\dot\Sigma &= A \Sigma + \Sigma A^\top + {pull}",
        ]
    terms = [
        f"{name}{'' if head is None else f'_{head}'} {_latex_value(value)}"
        for name, head, value in _parameters(model)
    ]
    lines.append("& " + r", \quad ".join(terms))
    body = " \\\\\n".join(lines)
    return f"$\\displaystyle\\begin{{aligned}}\n{body}\n\\end{{aligned}}$"


def stack_html(stack: LayerStack) -> str:
    """Return a stack as HTML: a row for each layer.

    Parameters
    ----------
    stack : LayerStack

    Returns
    -------
    str
    """
    return html_table(repr(stack).strip("<>"), _layer_rows(stack))


def stack_latex(stack: LayerStack) -> str:
    """Return a stack as LaTeX: a row for each layer.

    Parameters
    ----------
    stack : LayerStack

    Returns
    -------
    str
    """
    return latex_table(repr(stack).strip("<>"), _layer_rows(stack))


# -- pieces ---------------------------------------------------------------------------------------


def _heading(model: GaussianTransformer) -> str:
    name = f" {model.name}" if model.name else ""
    heads = "1 head" if model.n_heads == 1 else f"{model.n_heads} heads"
    depth = f"layers of depth {model.dt:g} [t]" if model.dt else "continuous depth"
    return f"GaussianTransformer{name}: d = {model.dim}, {heads}, {depth}"


def _parameters(model: GaussianTransformer) -> Iterator[tuple[str, int | None, np.ndarray]]:
    """Name, head where there are several and few enough, and value; zero offsets are left out."""
    single, few = model.n_heads == 1, model.n_heads <= HEADS
    written = few and model.dim <= LARGEST
    yield "A", None, model.A
    for name in ("B", "V", "k") if model.k.any() else ("B", "V"):
        value = getattr(model, name)
        if single:
            yield name, None, value[0]
        elif written:
            yield from ((name, head, value[head]) for head in range(model.n_heads))
        else:
            yield name, None, value
    if model.b.any():
        yield "b", None, model.b


def _norm(value: np.ndarray, key: str) -> float:
    """Return the spectral norm, of several heads the largest; of vectors the Euclidean one."""
    axis = -1 if key in ("b", "k") else (-2, -1)
    return float(np.linalg.norm(value, 2, axis=axis).max())


def _size(value: np.ndarray, times: str) -> str:
    return f" {times} ".join(map(str, value.shape))


def _latex_value(value: np.ndarray) -> str:
    if max(value.shape) <= LARGEST and value.ndim <= 2:
        return f"= {latex_matrix(value)}"
    return rf"\in \mathbb{{R}}^{{{_size(value, chr(92) + 'times')}}}"


def _layer_rows(stack: LayerStack) -> list[tuple[str | None, str]]:
    rows: list[tuple[str | None, str]] = []
    for i, layer in enumerate(stack.models[:LAYERS]):
        start, stop = stack.boundaries[i : i + 2]
        kind = "residual layer" if layer.dt else "held parameters"
        heads = "1 head" if layer.n_heads == 1 else f"{layer.n_heads} heads"
        name = f", {layer.name}" if layer.name else ""
        rows.append((f"layer {i}", f"{start:.4g} to {stop:.4g} [t], {kind}, {heads}{name}"))
    if len(stack) > LAYERS:
        rows.append((None, f"and {len(stack) - LAYERS} more"))
    return rows
