"""The input vector of a moment system: offsets of parameters, one after the other (Theory 2.2).

    u = (u_b, u_A, u_V, u_B, u_k)

Only those that are inputs, in the order in which they were chosen; each row by row, heads first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.arguments import INPUTS, listed

__all__ = ["InputLayout"]


class InputLayout:
    """Where each parameter stands in the input vector.

    Parameters
    ----------
    model : GaussianTransformer
        Whose parameters say the shapes.
    channels : tuple of str
        Parameters that are inputs, in input order.
    """

    def __init__(self, model: GaussianTransformer, channels: tuple[str, ...]) -> None:
        self._dim = model.dim
        self._shapes = {key: getattr(model, key).shape for key in channels}
        sizes = [int(np.prod(shape)) for shape in self._shapes.values()]
        self.size = sum(sizes)
        stops = np.cumsum(sizes).tolist()
        self._slices = {
            key: slice(stop - size, stop)
            for key, size, stop in zip(channels, sizes, stops, strict=True)
        }

    def labels(self) -> Iterator[str]:
        """Yield the names of the inputs."""
        for key, place in self._slices.items():
            yield from (f"{key}[{i}]" for i in range(place.stop - place.start))

    def split(self, u: np.ndarray) -> dict[str, np.ndarray]:
        """Return the offsets that an input vector (size,) stands for, shaped as the parameters."""
        return {key: u[place].reshape(self._shapes[key]) for key, place in self._slices.items()}

    def vector(self, offsets: Mapping[str, ArrayLike]) -> np.ndarray:
        """Return the input of given offsets, zero elsewhere; see `MomentSystem.input_vector`."""
        for key in offsets:
            self._check_name(key)
        parts = {key: self._flat(key, value) for key, value in offsets.items()}
        lengths = {part.shape[1:] for part in parts.values()} - {()}
        if len(lengths) > 1:
            raise ShapeError(
                f"offsets: expected one number of time points, found {sorted(lengths)}; "
                "sample all offsets on the same grid"
            )
        tail = lengths.pop() if lengths else ()
        u = np.zeros((self.size, *tail))
        for key, part in parts.items():
            u[self._slices[key]] = part if part.ndim == 1 + len(tail) else part[:, None]
        return u

    def _check_name(self, key: str) -> None:
        if key not in INPUTS:
            raise TypeError(f"unrecognized keyword: {key}; input_vector takes {listed(INPUTS)}")
        if key not in self._shapes:
            raise ParameterError(
                f"{key}: expected one of this system's inputs, {listed(tuple(self._shapes))}; "
                "name it in moment_system(..., inputs=...)"
            )

    def _flat(self, key: str, value: ArrayLike) -> np.ndarray:
        array, shape = real_array(value, key), self._shapes[key]
        shapes = [shape] + ([shape[1:]] if key in "VBk" and shape[0] == 1 else [])
        if self._dim == 1 and array.ndim == 0:
            array = array.reshape(shape)
        for wanted in shapes:
            if array.shape[: len(wanted)] == wanted and array.ndim - len(wanted) <= 1:
                return array.reshape(int(np.prod(shape)), *array.shape[len(wanted) :])
        raise ShapeError(
            f"{key}: expected an offset of shape {shape}, with or without a last time axis, "
            f"found {array.shape}; shape it like the model's {key}"
        )
