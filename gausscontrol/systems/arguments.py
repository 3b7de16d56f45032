"""Arguments of systems and responses, read as python-control reads its own.

Every function either returns what it was asked for or raises one line that names the argument;
nothing is padded, clipped or otherwise repaired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import control as ct
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
    "check_tolerances",
    "choice",
    "default_name",
    "depth_grid",
    "factor_rank",
    "input_signal",
    "listed",
    "point_of",
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


def check_tolerances(rtol: Any, atol: Any) -> None:
    """Refuse tolerances of an integration that are no numbers or out of range."""
    if not (isinstance(rtol, Real) and 0 < rtol < 1):
        raise ParameterError(
            f"rtol: expected a number between 0 and 1, found {rtol!r}; 1e-8 is the default"
        )
    if atol is not None and not (isinstance(atol, Real) and 0 < atol < np.inf):
        raise ParameterError(
            f"atol: expected a positive number, found {atol!r}; leave it out for the default"
        )


def choice(value: Any, argument: str, known: tuple[str, ...]) -> str:
    """Return a value that must be one of the known ones."""
    if value not in known:
        raise ParameterError(
            f"{argument}: expected one of {listed(known)}, found {value!r}; pass one of these"
        )
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
            f"params: expected a dict, found {type(params).__name__}; pass {{'A': ...}}"
        )
    unknown = [key for key in params or {} if key not in INPUTS]
    if unknown:
        raise ParameterError(
            f"params: expected keys among {listed(INPUTS)}, found {unknown[0]!r}; remove it"
        )


def default_name(model: GaussianTransformer) -> str | None:
    """Return the model's name with "_" for ".", which python-control reserves."""
    return model.name and model.name.replace(".", "_")


def point_of(x0: Any, u0: Any) -> tuple[Any, Any]:
    """Return state and input, those of an operating point where x0 is one; the input may be zero.

    Parameters
    ----------
    x0 : array_like or ct.OperatingPoint
        What the user passed.
    u0 : array_like or None
        Goes before the input of the operating point.

    Returns
    -------
    x0, u0
        To be read by `signal_vector`.

    Raises
    ------
    ParameterError
        If the operating point was not found.
    """
    if isinstance(x0, ct.OperatingPoint):
        u0 = x0.inputs if u0 is None else u0
        x0 = x0.states
        if x0 is None:
            raise ParameterError(
                "x0: expected an operating point with states, found none; "
                "ct.find_operating_point returns that when it does not converge"
            )
    return x0, 0.0 if u0 is None else u0


def signal_vector(
    value: ArrayLike, name: str, size: int | None, *, padded: bool = False
) -> np.ndarray:
    """Return a state or input vector.

    A number fills the vector and lists of arrays are joined, as in python-control; but a vector
    that is too short is not padded with zeros.

    Parameters
    ----------
    value : array_like
        What the user passed.
    name : str
        The argument's name, for the message.
    size : int or None
        Entries it must have; None for any number.
    padded : bool, optional
        Allow python-control's idiom for interconnections, [state of the plant, 0], in which a last
        0 stands for all that is left.

    Returns
    -------
    (size,) ndarray

    Raises
    ------
    ParameterError
        If an entry is not a finite real number.
    ShapeError
        If the number of entries is another.
    """
    may_be_short = False
    if isinstance(value, (list, tuple)):
        may_be_short = padded and len(value) > 1 and _is_zero(value[-1])
        value = np.concatenate([np.zeros(0), *_flat(value, name)])
    array = real_array(value, name)
    if size is None:
        return array.reshape(-1)
    vector = np.full(size, array) if array.ndim == 0 else array.reshape(-1)
    if may_be_short and vector.size < size:
        vector = np.concatenate([vector, np.zeros(size - vector.size)])
    if vector.size != size:
        entries = "1 entry" if size == 1 else f"{size} entries"
        raise ShapeError(
            f"{name}: expected {entries}, found {vector.size}; "
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


def _flat(value: list | tuple, name: str) -> Iterator[np.ndarray]:
    for item in value:
        if isinstance(item, (list, tuple)):
            yield from _flat(item, name)
        else:
            yield real_array(item, name).reshape(-1)


def _is_zero(item: Any) -> bool:
    return np.ndim(item) == 0 and item == 0
