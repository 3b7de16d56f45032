"""Which function a file of results belongs to: its name, and what else decides its values.

    found under its own name     the name alone, as pickle has it
    partial, method, closure,    the name, and a record of what it holds: fixed arguments, the
    lambda, callable dataclass   object it is bound to, enclosing variables, defaults, body

Whatever holds something that has no exact record has no identity, and is refused.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from pathlib import PurePath
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from gausscontrol.errors import ParameterError
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.sweeps.storage import encode

__all__ = ["function_name", "held"]

ADVICE = "use a function of a module, or functools.partial of one, or leave resume out"


def function_name(function: Any) -> str:
    """Return the module and qualified name of a function, or of what a partial one fixes.

    Parameters
    ----------
    function : callable

    Returns
    -------
    str
    """
    if isinstance(function, partial):
        return f"partial of {function_name(function.func)}"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    named = function if isinstance(name, str) else type(function)
    module = getattr(named, "__module__", None) or "unknown"
    return f"{module}.{name if named is function else named.__qualname__}"


def held(function: Any) -> Any:
    """Return what a function holds beyond its name, as `encode` stores it.

    Parameters
    ----------
    function : callable

    Returns
    -------
    None, bool, int, float, str, list or dict
        None if its name says which function it is.

    Raises
    ------
    ParameterError
        If it holds what has no exact record.
    """
    return _held(function, ())


def _held(function: Any, within: tuple) -> Any:
    if isinstance(function, partial):
        parts = [_record(part, within) for part in (function.args, function.keywords)]
        return [*parts, _held(function.func, within)]
    if _is_found(function):
        return None
    if any(function is outer for outer in within):
        return "itself"
    within = (*within, function)
    if isinstance(function, MethodType):
        owner = _record(function.__self__, within)
        return [owner, _named(function.__func__, within)]
    if isinstance(function, BuiltinMethodType):
        return [_record(function.__self__, within)]
    if isinstance(function, FunctionType):
        cells = [_cell(cell, within) for cell in function.__closure__ or ()]
        defaults = [function.__defaults__, function.__kwdefaults__]
        return [cells, _record(defaults, within), _body(function.__code__)]
    if dataclasses.is_dataclass(function) and not isinstance(function, type):
        return _record(function, within)
    raise ParameterError(
        f"expected a function that its name identifies, found a {type(function).__qualname__}, "
        f"whose state is unknown; {ADVICE}"
    )


def _is_found(function: Any) -> bool:
    """Whether the name of a function leads to it and to nothing else."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    place = sys.modules.get(getattr(function, "__module__", None) or "builtins")
    if not isinstance(name, str) or place is None:
        # Methods of C types have no module; ufuncs of older releases have no qualified name.
        return False
    for part in name.split("."):
        place = getattr(place, part, None)
    return place is function or (
        isinstance(function, MethodType)
        and isinstance(place, MethodType)
        and place.__self__ is function.__self__
        and isinstance(function.__self__, type)
    )


def _record(value: Any, within: tuple) -> Any:
    """Return a record of anything that a function holds."""
    if isinstance(value, ModuleType):
        return {"module": value.__name__}
    if isinstance(value, PurePath):
        return {"path": str(value)}
    if type(value) in (list, tuple):
        return [type(value).__name__, [_record(part, within) for part in value]]
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: _record(part, within) for key, part in value.items()}}
    if isinstance(value, (GaussianTransformer, LayerStack)):
        return encode(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _record(getattr(value, f.name), within) for f in dataclasses.fields(value)}
        return [function_name(type(value)), parts]
    if callable(value):
        return _named(value, within)
    try:
        return encode(value)
    except ParameterError as error:
        raise ParameterError(
            f"expected functions that hold numbers, text, arrays, models and functions, found "
            f"one with {type(value).__qualname__}; {ADVICE}"
        ) from error


def _named(function: Any, within: tuple) -> list:
    return [function_name(function), _held(function, within)]


def _cell(cell: Any, within: tuple) -> Any:
    try:
        content = cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return "empty"
    return _record(content, within)


def _body(code: CodeType) -> list:
    """Return what a function does, without where it stands in its file."""
    return [code.co_code.hex(), list(code.co_names), list(map(_constant, code.co_consts))]


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _body(value)
    # The order of a set of text is another one in every process.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
