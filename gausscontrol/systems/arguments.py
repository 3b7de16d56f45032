"""Arguments of systems and responses, read as python-control reads its own.

Every function either returns what it was asked for or raises one line that names the argument;
nothing is padded, clipped or otherwise repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "FORMS",
    "INPUTS",
    "OUTPUTS",
    "check_parameters",
    "choice",
    "default_name",
    "depth_grid",
    "factor_rank",
    "input_signal",
    "listed",
    "replaced",
    "selection",
    "signal_vector",
]

INPUTS = ("b", "A", "V", "B", "k")
OUTPUTS = ("mu", "Sigma")
FORMS = ("covariance", "factor")


def selection(value: Any, argument: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return a name, or a tuple of distinct names, as a tuple; each must be known."""
    chosen = (value,) if isinstance(value, str) else value
    valid = isinstance(chosen, (tuple, list)) and all(item in known for item in chosen)
    if not valid or len(set(chosen)) != len(chosen):
        raise ParameterError(
            f"{argument}: expected distinct names among {listed(known)}, found {value!r}; "
            "rename signals afterwards with system.update_names(...)"
        )
    return tuple(chosen)


def choice(value: Any, argument: str, known: tuple[str, ...]) -> str:
    """Return a value that must be one of the known ones."""
    if value not in known:
        raise ParameterError(f"{argument}: expected one of {listed(known)}, found {value!r}")
    return value


def factor_rank(rank: int | None, form: str, dim: int) -> int:
    """Return the number of columns of L, which only the factor form may choose."""
    if rank is None:
        return dim
    if form != "factor":
        raise ParameterError(
            f"rank: goes with form='factor', found rank={rank!r} with form={form!r}; drop it"
        )
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 1 <= rank <= dim:
        raise ParameterError(
            f"rank: expected a whole number from 1 to {dim}, found {rank!r}; "
            "it is the number of columns of L"
        )
    return int(rank)


def listed(names: tuple[str, ...]) -> str:
    """Return names separated by commas."""
    return ", ".join(names)


def replaced(model: GaussianTransformer, values: Mapping[str, Any]) -> GaussianTransformer:
    """Return a model with new values of some parameters, of the same sizes."""
    for key, value in values.items():
        shape = getattr(model, key).shape
        if real_array(value, key).size != int(np.prod(shape)):
            raise ShapeError(
                f"params: expected {key} of shape {shape}, found {np.shape(value)}; "
                "a system keeps its dimension and number of heads"
            )
    return model.replace(**values) if values else model


def check_parameters(params: Mapping[str, Any] | None) -> None:
    """Raise ParameterError unless params is None or a dict of model parameters.

    Parameters
    ----------
    params : dict or None
        What the user passed.

    Raises
    ------
    ParameterError
        If it is neither, or has other keys than b, A, V, B, k.
    """
    if params is not None and not isinstance(params, Mapping):
        raise ParameterError(
            f"params: expected a dict such as {{'A': ...}}, found {type(params).__name__}"
        )
    unknown = [key for key in params or {} if key not in INPUTS]
    if unknown:
        raise ParameterError(
            f"params: expected keys among {listed(INPUTS)}, found {unknown[0]!r}; remove it"
        )


def default_name(model: GaussianTransformer) -> str | None:
    """Return the model's name with "_" for ".", which python-control reserves."""
    return model.name and model.name.replace(".", "_")


def signal_vector(value: ArrayLike, name: str, size: int) -> np.ndarray:
    """Return a state or input vector.

    A number fills the vector and lists of arrays are joined, as in python-control; but a vector
    that is too short is not padded with zeros.
    """
    if isinstance(value, (list, tuple)):
        value = np.concatenate([np.zeros(0), *map(np.ravel, value)])
    array = real_array(value, name)
    vector = np.full(size, array) if array.ndim == 0 else array.reshape(-1)
    if vector.size != size:
        raise ShapeError(
            f"{name}: expected {size} entries, found {vector.size}; "
            "see the system's state_labels and input_labels"
        )
    return vector


def depth_grid(timepts: ArrayLike, dt: float) -> np.ndarray:
    """Return increasing depths, a whole number of layers apart if dt > 0."""
    times = real_array(timepts, "timepts")
    if times.ndim != 1 or times.size < 2:
        raise ShapeError(
            f"timepts: expected at least two depths in a vector, found shape {times.shape}; "
            "use for example numpy.linspace(0, 10, 101)"
        )
    gaps = np.diff(times)
    if not (gaps > 0).all():
        raise ParameterError(
            f"timepts: expected increasing depths, found a step of {gaps.min():.6g}; sort them"
        )
    layers = gaps / dt if dt else None
    if dt and not np.allclose(layers, np.maximum(np.rint(layers), 1), rtol=0, atol=1e-4):
        raise ParameterError(
            f"timepts: expected depths a whole number of layers (dt = {dt:g}) apart, found a "
            f"step of {gaps[np.abs(layers - np.rint(layers)).argmax()]:.6g}; use "
            "dt * numpy.arange(n)"
        )
    return times


def input_signal(inputs: ArrayLike, ninputs: int, count: int) -> np.ndarray:
    """Return inputs on a grid, (ninputs, count), read as `ct.input_output_response` does.

    A number, one value per input, an array with time last, or a list whose elements are numbers,
    vectors of constants or time series of some of the inputs.
    """
    if isinstance(inputs, (list, tuple)) and len(inputs) != count:
        inputs = np.vstack([_input_block(block, count) for block in inputs] or [[]])
    array = real_array(inputs, "inputs")
    shape = (ninputs, count)
    if array.ndim == 1 and array.size == ninputs != 1:
        array = array[:, None]
    if array.ndim == 0 or array.shape in (shape, (ninputs, 1)):
        return np.array(np.broadcast_to(array, shape))
    if array.ndim == 1 and ninputs == 1 and array.size in (1, count):
        return np.array(np.broadcast_to(array, shape))
    raise ShapeError(
        f"inputs: expected a number, {ninputs} values, or shape {shape}, found "
        f"{array.shape}; put time on the last axis"
    )


def _input_block(block: ArrayLike, count: int) -> np.ndarray:
    array = real_array(block, "inputs")
    if array.ndim == 2 or (array.ndim == 1 and array.size == count):
        array = np.atleast_2d(array)
    else:
        array = array.reshape(-1, 1)
    if array.shape[1] not in (1, count):
        raise ShapeError(
            f"inputs: expected elements with {count} points of depth, found shape "
            f"{np.shape(block)}; sample every input on the grid"
        )
    return np.broadcast_to(array, (array.shape[0], count))
