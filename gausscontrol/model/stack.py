"""Depth-varying parameters: a sequence of layers, each acting for its own depth (Theory 1.4).

    layer i moves the moments from depth t_i to t_(i+1) = t_i + durations[i]

A residual layer (dt > 0) is one step of its map, so its duration is its dt; a continuous one
(dt = 0) holds its parameters for the duration it is given, a zero-order hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_vector
from gausscontrol.model import notation
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["LayerStack", "check_single_model"]


class LayerStack(Sequence):
    """A sequence of layers that act one after another.

    Parameters
    ----------
    models : iterable of GaussianTransformer
        At least one, all of the same dimension; the first acts first.
    durations : (n,) array_like, optional
        Depth for which each layer acts, positive; needed where dt = 0. For residual layers it is
        their dt, which is the default. [t]

    Attributes
    ----------
    models : tuple of GaussianTransformer
    durations : (n,) ndarray
        [t]
    boundaries : (n + 1,) ndarray
        Depths between layers, from 0. [t]

    Raises
    ------
    ParameterError
        If there is no layer, an entry is none, or a duration is missing or wrong.
    ShapeError
        If the dimensions differ.

    Notes
    -----
    Theory 1.4. `moment_response` takes a stack in place of a model.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> layer = gct.GaussianTransformer(0.5, 1, -0.25, dt=0.1)
    >>> stack = gct.LayerStack([layer, layer.replace(A=0.4)])
    >>> len(stack), float(stack.boundaries[-1])
    (2, 0.2)
    """

    def __init__(
        self, models: Iterable[GaussianTransformer], durations: ArrayLike | None = None
    ) -> None:
        if isinstance(models, GaussianTransformer):
            models = (models,)
        layers = tuple(models)
        for i, layer in enumerate(layers):
            if not isinstance(layer, GaussianTransformer):
                raise ParameterError(
                    f"models[{i}]: expected a GaussianTransformer, found {type(layer).__name__}; "
                    "make one with gausscontrol.GaussianTransformer(A, B, V)"
                )
            if layer.dim != layers[0].dim:
                raise ShapeError(
                    f"models[{i}]: expected d = {layers[0].dim} as in the first layer, found "
                    f"{layer.dim}; all layers act on the same tokens"
                )
        if not layers:
            raise ParameterError("models: expected at least one layer, found none; pass a list")
        held = _durations(layers, durations)
        boundaries = np.concatenate([[0.0], np.cumsum(held)])
        held.flags.writeable = boundaries.flags.writeable = False
        self.__dict__.update(models=layers, durations=held, boundaries=boundaries)

    def __setattr__(self, attribute: str, value: Any) -> None:
        raise AttributeError(f"{attribute}: a LayerStack is immutable; make a new one")

    def __reduce__(self):
        return LayerStack, (self.models, self.durations)

    @property
    def dim(self) -> int:
        """Token dimension d."""
        return self.models[0].dim

    @property
    def depth(self) -> float:
        """Total depth. [t]."""
        return float(self.boundaries[-1])

    def __len__(self) -> int:
        return len(self.models)

    def __iter__(self) -> Iterator[GaussianTransformer]:
        return iter(self.models)

    @overload
    def __getitem__(self, index: int) -> GaussianTransformer: ...
    @overload
    def __getitem__(self, index: slice) -> LayerStack: ...
    def __getitem__(self, index):
        if isinstance(index, slice):
            return LayerStack(self.models[index], self.durations[index])
        return self.models[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LayerStack):
            return NotImplemented
        return self.models == other.models and np.array_equal(self.durations, other.durations)

    def __hash__(self) -> int:
        return hash((self.models, self.durations.tobytes()))

    def __repr__(self) -> str:
        kinds = {"residual" if layer.dt else "continuous" for layer in self.models}
        kind = kinds.pop() if len(kinds) == 1 else "mixed"
        heads = sorted({layer.n_heads for layer in self.models})
        layers = "layer" if len(self) == 1 else "layers"
        return (
            f"<LayerStack of {len(self)} {kind} {layers}, d = {self.dim}, "
            f"{'/'.join(map(str, heads))} {'head' if heads == [1] else 'heads'}, "
            f"depth {self.depth:g}>"
        )

    def _repr_html_(self) -> str:
        return notation.stack_html(self)

    def _repr_latex_(self) -> str:
        return notation.stack_latex(self)


def check_single_model(value: Any, argument: str = "model") -> None:
    """Refuse anything but one model.

    Parameters
    ----------
    value : object
    argument : str, optional
        Its name, for the message.

    Raises
    ------
    ParameterError
        If it is no GaussianTransformer. Of a stack, which acts once and settles nowhere, the
        message says what can be done with it.
    """
    if isinstance(value, LayerStack):
        many = "1 layer" if len(value) == 1 else f"{len(value)} layers"
        raise ParameterError(
            f"{argument}: expected a GaussianTransformer, found LayerStack ({many}), which acts "
            "once; take a layer, stack[i], or follow all with moment_response(stack, ...)"
        )
    if not isinstance(value, GaussianTransformer):
        advice = "make one with gausscontrol.GaussianTransformer(A, B, V)"
        if isinstance(value, (str, PathLike)):
            advice = f"read one with gausscontrol.load_model({str(value)!r})"
        raise ParameterError(
            f"{argument}: expected a GaussianTransformer, found {type(value).__name__}; {advice}"
        )


def _durations(layers: tuple[GaussianTransformer, ...], durations) -> np.ndarray:
    own = np.array([layer.dt for layer in layers])
    if durations is None:
        if not own.all():
            raise ParameterError(
                f"durations: expected one for each layer, found none although layer "
                f"{int(np.argmin(own != 0))} has continuous depth; pass durations=[...]"
            )
        return own
    values = real_vector(durations, "durations", len(layers))
    if not (values > 0).all():
        raise ParameterError(
            f"durations: expected positive depths, found {values.min():g}; drop such layers"
        )
    wrong = np.flatnonzero((own > 0) & (np.abs(values - own) > 1e-12 * own))
    if wrong.size:
        i = int(wrong[0])
        raise ParameterError(
            f"durations: expected {own[i]:g}, the dt of residual layer {i}, found {values[i]:g}; "
            "a residual layer acts once"
        )
    return values
