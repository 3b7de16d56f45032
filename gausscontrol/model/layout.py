"""What a model file must hold, and what its keys amount to.

    dense     A, B, V                        b, k, dt, name                             (system (1))
    factored  W_Q, W_K, W_V, W_O             b_Q, b_V, b_O, A, b, k, scale, dt, name    (Theory 1.3)
              n_heads, for heads that stand side by side
    stack     layers, one of these each      durations                                  (Theory 1.4)

The policy is that of `files`. Values arrive from `formats` as they were written and are laid out as
`keys` says; here it is decided which set of keys is meant, and whether it is whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.model.entries import Entry, Record, fault, listed
from gausscontrol.model.fused import separated
from gausscontrol.model.heads import FactoredHeads
from gausscontrol.model.keys import BIASES, DENSE, FACTORED, LAYERS, STACK, WEIGHTS, Key
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["decoded", "encoded", "overlooked"]

# What MATLAB calls a sample time.
ALIASES = {"dt": "Ts"}
ONLY_DENSE, ONLY_FACTORED = ("B", "V"), (*WEIGHTS, *BIASES)


def decoded(entries: list[Entry], matlab: bool) -> GaussianTransformer | LayerStack:
    """Return what the values of a file amount to.

    Parameters
    ----------
    entries : list of Entry
        From `formats.read_entries`, asked for `keys.KEYS` with `keys.LAYERS` as the series.
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
        values = dict(zip(model.heads.parts, model.heads.arrays, strict=True))
        values["scale"] = 1.0  # W_Q holds it
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


# -- one model -------------------------------------------------------------------------------------


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
    misspelt = set(map(_squashed, WEIGHTS)) & set(map(_squashed, names))
    return FACTORED if factored or (misspelt and not dense) else DENSE


def _model(entries: list[Entry], matlab: bool, strict: bool) -> GaussianTransformer:
    if not matlab:
        entries = separated(entries)
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
    values.pop("n_heads", None)  # It has told the heads apart.
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
            raise fault(key, rule.holds, entry.refusal, entry.advice)
        done[key] = (rule.decode_matlab if matlab else rule.decode)(entry.value, key, done)
    return done


def _attributes(model: GaussianTransformer, *keys: str) -> dict[str, Any]:
    return {key: getattr(model, key) for key in keys}


def _laid_out(values: dict[str, Any], table: dict[str, Key], matlab: bool) -> dict[str, Any]:
    kept = {key: values[key] for key in table if values.get(key) is not None}
    return {key: table[key].to_matlab(v) for key, v in kept.items()} if matlab else kept


# -- a stack ---------------------------------------------------------------------------------------


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
    layers = _layers(series.records, matlab)
    durations = _values(entries, STACK, matlab).get("durations")
    held = [r.place for r, layer in zip(series.records, layers, strict=True) if not layer.dt]
    if durations is None and held:
        expected = f"one for each layer since {held[0]} has dt = 0"
        raise fault("durations", expected, "none", "store how long each layer acts")
    return LayerStack(layers, durations)


def _layers(records: Iterable[Record], matlab: bool) -> list[GaussianTransformer]:
    layers: list[GaussianTransformer] = []
    for record in records:
        try:
            layers.append(_model(record.entries, matlab, strict=True))
        except (ParameterError, ShapeError) as error:
            raise type(error)(f"{record.place}: {error}") from error
        if layers[-1].dim != layers[0].dim:
            raise ShapeError(
                f"{record.place}: A: expected d = {layers[0].dim} as in the first layer, found "
                f"{layers[-1].dim}; all layers act on the same tokens"
            )
    return layers


# -- names -----------------------------------------------------------------------------------------


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
    twins = [(t, key) for key in [*missing, LAYERS] for t in _twins(key, names) if t not in table]
    # b is a key too, and K has a better claim to be B.
    twin_of_b = "b" in names and "B" in missing and "K" not in names
    structs = [entry for entry in entries if entry.refusal and entry.refusal.endswith("struct")]
    if twins:
        by_case = all(name.lower() == key.lower() for name, key in twins)
        advice = "names are case-sensitive" if by_case else "names must be exact"
        advice += f", rename {listed(f'{name} to {key}' for name, key in twins)}"
        advice += ", and b if it is B" if twin_of_b else ""
    elif missing == ["B"] and "K" in names:
        advice = "rename K to B if it is the key-query matrix"
        if "Q" in names:
            advice = "store B = W_K^T W_Q / sqrt(dk), or all of W_Q, W_K, W_V, W_O"
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
    other = ALIASES.get(key)
    return [
        name
        for name in names
        if name != key and (name == other or _squashed(name) == _squashed(key))
    ]


def _squashed(name: str) -> str:
    return name.replace("_", "").lower()
