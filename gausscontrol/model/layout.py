"""The keys of a model file: which there are, what each means and how it is laid out.

    dense     A, B, V                        b, k, dt, name                             (system (1))
    factored  W_Q, W_K, W_V, W_O             b_Q, b_V, b_O, A, b, k, scale, dt, name    (Theory 1.3)
    stack     layers, one of these each      durations                                  (Theory 1.4)

The policy is that of `files`. Values arrive from `formats` as they were written; here they become
the arguments of `GaussianTransformer`, `from_weights` and `LayerStack`, which validate them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, real_matrix
from gausscontrol.model.entries import Entry, listed
from gausscontrol.model.heads import FactoredHeads
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["KEYS", "LAYERS", "decoded", "encoded", "fault", "overlooked"]


# How a value is decoded, given its key and the values decoded before it.

Decoder = Callable[[Any, str, dict[str, Any]], Any]


@dataclass(frozen=True)
class Key:
    """How one value is laid out: decoders, and the way to MATLAB's layout.

    Parameters
    ----------
    decode, decode_matlab : callable
        (value, key, values decoded before) -> argument of the constructor.
    to_matlab : callable, optional
        attribute of the object -> value in a .mat file.
    """

    decode: Decoder
    decode_matlab: Decoder
    to_matlab: Callable[[Any], Any] = lambda value: value


def _matrix(value: Any, key: str, _done: dict[str, Any]) -> np.ndarray:
    return real_matrix(value, key)


def _array(value: Any, key: str, _done: dict[str, Any]) -> np.ndarray:
    return real_array(value, key)


def _array_or_none(value: Any, key: str, _done: dict[str, Any]) -> np.ndarray | None:
    # None is JSON's null, "not given", which only an optional argument may be.
    return None if value is None else real_array(value, key)


def _number(value: Any, key: str, _done: dict[str, Any]) -> float:
    array = real_array(value, key)
    if array.size != 1:
        raise ShapeError(f"{key}: expected one number, found shape {array.shape}; store a scalar")
    return float(array.reshape(()))


def _number_or_none(value: Any, key: str, done: dict[str, Any]) -> float | None:
    return None if value is None else _number(value, key, done)


def _text(value: Any, key: str, _done: dict[str, Any]) -> str | None:
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind != "U" or array.size > 1:
        raise fault(
            key,
            "one row of text",
            f"an array of shape {array.shape} and type {array.dtype}",
            "store a single string, or leave it out",
        )
    return "".join(array.ravel().tolist())


def _heads_from_pages(value: Any, key: str, done: dict[str, Any]) -> np.ndarray:
    array, dim = real_array(value, key), len(done["A"])
    shape = array.shape
    if dim == 1 and array.ndim == 2 and 1 in shape:
        array = array.reshape(1, 1, -1)
    elif array.ndim == 2:
        array = array[:, :, None]  # MATLAB drops trailing axes of length one.
    if array.ndim != 3 or array.shape[:2] != (dim, dim) or array.size == 0:
        raise ShapeError(
            f"{key}: expected {dim} x {dim} or {dim} x {dim} x h to agree with A, found "
            f"{_size(shape)}; put heads on the last axis in .mat files"
        )
    return np.moveaxis(array, -1, 0)


def _weights_from_pages(value: Any, key: str, done: dict[str, Any]) -> np.ndarray:
    array = real_array(value, key)
    shape = array.shape
    if array.ndim == 2:
        array = array[:, :, None]
    wanted = _weight_size(key, done)
    if (
        array.ndim != 3
        or array.size == 0
        or any(n not in (have, str(n)) for n, have in zip(wanted, array.shape, strict=True))
    ):
        raise ShapeError(
            f"{key}: expected {_size(wanted)}, found {_size(shape)}; put heads on the last axis in "
            ".mat files: W_Q and W_K are dk x d x h, W_V is dv x d x h, W_O is d x dv x h"
        )
    return np.moveaxis(array, -1, 0)


def _weight_size(key: str, done: dict[str, Any]) -> tuple[int | str, ...]:
    # A letter stands for a size that this weight decides.
    if key == "W_Q":
        return "dk", "d", "h"
    heads, width, dim = done["W_Q"].shape
    if key == "W_K":
        return width, dim, heads
    return ("dv", dim, heads) if key == "W_V" else (dim, done["W_V"].shape[1], heads)


def _pages_from_heads(value: np.ndarray) -> np.ndarray:
    return value[0] if len(value) == 1 else np.moveaxis(value, 0, -1)


def _tilts_from_columns(value: Any, key: str, done: dict[str, Any]) -> np.ndarray:
    array = real_array(value, key)
    heads, width = _tilt_size(key, done)
    wanted, shape = (width, heads), array.shape
    if 1 in wanted and shape == (heads, width):
        array = array.reshape(wanted)  # A vector, whose orientation carries no information.
    if array.shape != wanted:
        raise ShapeError(
            f"{key}: expected {_size(wanted)}, one column a head, found {_size(shape)}; "
            "put heads on the last axis in .mat files"
        )
    return array.T


def _tilt_size(key: str, done: dict[str, Any]) -> tuple[int, int]:
    if "W_Q" not in done:
        return len(done["B"]), len(done["A"])
    heads, width, dim = done["W_Q"].shape
    return heads, {"k": dim, "b_Q": width, "b_V": done["W_V"].shape[1]}[key]


def _column(value: np.ndarray) -> np.ndarray:
    return value[:, None]


# In decoding order, since the layout of a later key depends on the sizes of the earlier ones.
PAGES = Key(_array, _heads_from_pages, _pages_from_heads)
WEIGHT = Key(_array, _weights_from_pages, _pages_from_heads)
VECTOR = Key(_array_or_none, _array, _column)
COLUMNS = Key(_array_or_none, _tilts_from_columns, np.transpose)
LABELS = {"dt": Key(_number, _number), "name": Key(_text, _text)}

DENSE = {"A": Key(_matrix, _matrix), "B": PAGES, "V": PAGES, "b": VECTOR, "k": COLUMNS} | LABELS
WEIGHTS = dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), WEIGHT)
BIASES = {"b_Q": COLUMNS, "b_V": COLUMNS, "b_O": VECTOR}
FACTORED = WEIGHTS | BIASES | {"A": Key(_array_or_none, _array), "b": VECTOR, "k": COLUMNS}
FACTORED |= {"scale": Key(_number_or_none, _number)} | LABELS
LAYERS = "layers"
STACK = {"durations": Key(_array_or_none, _array, lambda durations: durations[None, :])}

KEYS = frozenset({*DENSE, *FACTORED, *STACK, LAYERS})
ONLY_DENSE, ONLY_FACTORED = ("B", "V"), (*WEIGHTS, *BIASES)


def decoded(entries: list[Entry], matlab: bool) -> GaussianTransformer | LayerStack:
    """Return what the values of a file amount to.

    Parameters
    ----------
    entries : list of Entry
        From `formats.read_entries`, asked for `KEYS` with `LAYERS` as the series.
    matlab : bool
        Whether arrays have MATLAB's layout, among other variables.

    Returns
    -------
    GaussianTransformer or LayerStack

    Raises
    ------
    ParameterError, ShapeError
        If keys are missing, unknown, repeated or mixed, or a value is not what is expected.
    """
    if _is_stack(entries):
        return _stack(entries, matlab)
    return _model(entries, matlab, strict=not matlab)


def encoded(model: GaussianTransformer | LayerStack, matlab: bool) -> dict[str, Any]:
    """Return the values to write: arrays, numbers, text, and one such dict for each layer.

    Parameters
    ----------
    model : GaussianTransformer or LayerStack
        What to write.
    matlab : bool
        Whether arrays get MATLAB's layout.

    Returns
    -------
    dict
        Without the keys whose value is None.
    """
    if isinstance(model, LayerStack):
        own = [layer.dt for layer in model]
        needed = not np.array_equal(own, model.durations)
        values = _laid_out({"durations": model.durations if needed else None}, STACK, matlab)
        return {LAYERS: [encoded(layer, matlab) for layer in model]} | values
    if isinstance(model.heads, FactoredHeads):
        O, U, K, Q = model.heads.arrays
        values = {"W_Q": Q, "W_K": K, "W_V": U, "W_O": O, "scale": 1.0}  # Q holds the scale.
        return _laid_out(values | _attributes(model, "A", "b", "k", "dt", "name"), FACTORED, matlab)
    return _laid_out(_attributes(model, *DENSE), DENSE, matlab)


def overlooked(entries: list[Entry]) -> list[tuple[str, list[str]]]:
    """Return absent optional keys, each with the names in the file that differ only by case.

    Parameters
    ----------
    entries : list of Entry
        Of a file that `decoded` accepts.

    Returns
    -------
    list of (str, list of str)
    """
    names = [entry.name for entry in entries]
    table = STACK if _is_stack(entries) else _table(names)
    others = [name for name in names if name not in table]
    absent = [key for key in table if key not in names]
    return [(key, twins) for key in absent if (twins := _twins(key, others))]


def fault(key: str, expected: str, found: str, advice: str) -> ParameterError:
    """Return the error that says key, expected, found and what to do."""
    return ParameterError(f"{key}: expected {expected}, found {found}; {advice}")


# One model.


def _table(names: list[str]) -> dict[str, Key]:
    dense = [name for name in names if name in ONLY_DENSE]
    factored = [name for name in names if name in ONLY_FACTORED]
    if dense and factored:
        raise fault(
            "keys",
            f"either A, B, V or {listed(WEIGHTS)}",
            listed(dense + factored),
            "keep the one set that is meant",
        )
    misspelt = {key.lower() for key in WEIGHTS} & {name.lower() for name in names}
    return FACTORED if factored or (misspelt and not dense) else DENSE


def _model(entries: list[Entry], matlab: bool, strict: bool) -> GaussianTransformer:
    names = [entry.name for entry in entries]
    table = _table(names)
    _refuse_repeated(names, table)
    missing = [key for key in _required(table) if key not in names]
    if missing:
        raise _missing(missing, table, entries)
    if strict:
        _refuse_unknown(names, table)
    values = _values(entries, table, matlab)
    return GaussianTransformer(**values) if table is DENSE else _factored(values)


def _factored(values: dict[str, Any]) -> GaussianTransformer:
    values = {key: value for key, value in values.items() if value is not None}
    if {"k", "b_Q"} <= set(values):
        raise fault("k", "k or b_Q", "both", "keep one, for k = scale W_K^T b_Q")
    # What is not to be added to anything is set, so that it keeps every bit.
    direct = {"k"} if {"b_V", "b_O"} & set(values) else {"k", "b"}
    kept = {key: values.pop(key) for key in direct & set(values)}
    model = GaussianTransformer.from_weights(**values)
    return model.replace(**kept) if kept else model


def _values(entries: list[Entry], table: dict[str, Key], matlab: bool) -> dict[str, Any]:
    by_name = {entry.name: entry for entry in entries}
    done: dict[str, Any] = {}
    for key, rule in table.items():
        if key not in by_name:
            continue
        entry = by_name[key]
        if entry.refusal:
            expected = "text" if rule.decode is _text else "real numbers"
            raise fault(key, expected, entry.refusal, entry.advice)
        done[key] = (rule.decode_matlab if matlab else rule.decode)(entry.value, key, done)
    return done


def _attributes(model: GaussianTransformer, *keys: str) -> dict[str, Any]:
    return {key: getattr(model, key) for key in keys}


def _laid_out(values: dict[str, Any], table: dict[str, Key], matlab: bool) -> dict[str, Any]:
    kept = {key: values[key] for key in table if values.get(key) is not None}
    return {key: table[key].to_matlab(v) for key, v in kept.items()} if matlab else kept


# A stack.


def _is_stack(entries: list[Entry]) -> bool:
    series = [entry for entry in entries if entry.name == LAYERS]
    if any(entry.records is not None for entry in series):
        return True
    # In a workspace, layers may be anything, such as their number.
    names = {entry.name for entry in entries}
    return bool(series) and not names & {*ONLY_DENSE, *ONLY_FACTORED}


def _stack(entries: list[Entry], matlab: bool) -> LayerStack:
    names = [entry.name for entry in entries]
    known = [LAYERS, *STACK]
    _refuse_repeated(names, known)
    mixed = [name for name in names if name in ONLY_DENSE + ONLY_FACTORED]
    if mixed:
        advice = "store the stack and the single model in files of their own"
        raise fault("keys", f"only {listed(known)}", f"{listed(mixed)} beside them", advice)
    if not matlab:
        _refuse_unknown(names, known)
    series = entries[names.index(LAYERS)]
    if series.refusal:
        raise fault(LAYERS, "one model for each layer", series.refusal, series.advice)
    if not series.records:
        raise fault(LAYERS, "at least one layer", "none", "store the values of each layer")
    layers: list[GaussianTransformer] = []
    for record in series.records:
        try:
            layers.append(_model(record.entries, matlab, strict=True))
        except (ParameterError, ShapeError) as error:
            raise type(error)(f"{record.place}: {error}") from error
        if layers[-1].dim != layers[0].dim:
            raise ShapeError(
                f"{record.place}: A: expected d = {layers[0].dim} as in the first layer, found "
                f"{layers[-1].dim}; all layers act on the same tokens"
            )
    durations = _values(entries, STACK, matlab).get("durations")
    held = [r.place for r, layer in zip(series.records, layers, strict=True) if not layer.dt]
    if durations is None and held:
        expected = f"one for each layer since {held[0]} has dt = 0"
        raise fault("durations", expected, "none", "store how long each layer acts")
    return LayerStack(layers, durations)


# Names.


def _required(table: dict[str, Key]) -> list[str]:
    return list(WEIGHTS) if table is FACTORED else ["A", "B", "V"]


def _refuse_repeated(names: list[str], known: Iterable[str]) -> None:
    for key in known:
        if names.count(key) > 1:
            raise fault(key, "one value", f"{names.count(key)} of this name", "keep one of them")


def _refuse_unknown(names: list[str], known: Iterable[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise fault("keys", f"only {listed(known, 20)}", listed(unknown), "rename or remove these")


def _missing(missing: list[str], table: dict[str, Key], entries: list[Entry]) -> ParameterError:
    names = [entry.name for entry in entries]
    twins = [t for key in [*missing, LAYERS] for t in _twins(key, names) if t not in table]
    twin_of_b = "b" in names and "B" in missing  # b is a key too
    structs = [entry for entry in entries if entry.refusal and entry.refusal.endswith("struct")]
    if twins:
        advice = f"names are case-sensitive, rename {listed(twins)}"
        advice += ", and b if it is B" if twin_of_b else ""
    elif twin_of_b and table is DENSE:
        advice = "names are case-sensitive, rename b if it is B"
    elif structs:
        advice = structs[0].advice
    elif len(missing) == 3 and table is DENSE:
        advice = f"store each under its own name, or {listed(WEIGHTS)}, or layers"
    else:
        advice = "store each matrix under its own name"
    found = listed(names) if names else "nothing"
    return fault(listed(missing), f"{listed(_required(table))} together", found, advice)


def _twins(key: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name != key and name.lower() == key.lower()]


def _size(shape: Iterable[int | str]) -> str:
    return " x ".join(map(str, shape))
