"""Constants of an ONNX graph, read from the protocol-buffer bytes with NumPy alone.

    model -> graph (field 7) -> initialisers (field 5), nodes (field 1)

Each field is a key, field number times 8 plus wire type, and a value: a variable-length integer, 8
bytes, a length with that many bytes, or 4 bytes. Only floating-point initialisers whose values lie
in the file are kept, bfloat16 as float32. Exporters drop the name of the matrix of a linear map and
store it transposed, so that tokens multiply it from the left; the node that uses it still has the
name of the layer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["onnx_tensors"]

GRAPH, NODE, INITIALISER = 7, 1, 5
NODE_INPUT, NODE_NAME, NODE_KIND = 1, 3, 4
TENSOR_SHAPE, TENSOR_TYPE, TENSOR_NAME, TENSOR_DATA = 1, 2, 8, 9
# Where a tensor keeps its values if not as raw bytes: float_data and double_data.
TENSOR_VALUES = {4: 1, 10: 11}
BFLOAT16 = 16
FLOATS = {1: "<f4", 10: "<f2", 11: "<f8", BFLOAT16: "<u2"}


def onnx_tensors(data: np.ndarray) -> dict[str, np.ndarray]:
    """Return the floating-point constants of a graph by name.

    Parameters
    ----------
    data : (n,) ndarray of uint8
        The bytes of the file.

    Returns
    -------
    dict of ndarray

    Raises
    ------
    ValueError
        If the bytes are not a graph.
    """
    view = memoryview(data)
    graphs = [value for field, value in _fields(view) if field == GRAPH]
    if len(graphs) != 1 or not isinstance(graphs[0], memoryview):
        raise ValueError(f"{len(graphs)} graphs")
    tensors: dict[str, np.ndarray] = {}
    layers: dict[str, str] = {}
    for field, value in _fields(graphs[0]):
        if field == INITIALISER:
            name, array = _tensor(_bytes(value))
            if array is not None:
                if not name or name in tensors:
                    raise ValueError(f"a constant named {name!r} twice or not at all")
                tensors[name] = array
        elif field == NODE:
            layers.update(_matrix_of(_bytes(value)))
    for anonymous, layer in layers.items():
        if anonymous in tensors:
            name, array = f"{layer}.weight", tensors.pop(anonymous).T
            if name in tensors:
                raise ValueError(f"a constant named {name!r} twice")
            tensors[name] = array
    return tensors


def _tensor(message: memoryview) -> tuple[str, np.ndarray | None]:
    name, shape, kind, raw, values = "", [], 0, None, {}
    for field, value in _fields(message):
        if field == TENSOR_SHAPE:
            shape += [value] if isinstance(value, int) else _packed(value)
        elif field == TENSOR_TYPE:
            kind = value
        elif field == TENSOR_NAME:
            name = str(_bytes(value), "utf-8")
        elif field == TENSOR_DATA:
            raw = _bytes(value)
        elif field in TENSOR_VALUES:
            # Packed, or one value in each field.
            values.setdefault(TENSOR_VALUES[field], []).append(bytes(_bytes(value)))
    if raw is None and kind in values:
        raw = b"".join(values[kind])
    if raw is None or kind not in FLOATS:
        return name, None
    array = np.frombuffer(raw, FLOATS[kind]).reshape(shape)
    if kind == BFLOAT16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return name, array


def _matrix_of(message: memoryview) -> dict[str, str]:
    """Return {constant without a name: layer} for a node that multiplies by one."""
    inputs, name, kind = [], "", ""
    for field, value in _fields(message):
        if field == NODE_INPUT:
            inputs.append(str(_bytes(value), "utf-8"))
        elif field == NODE_NAME:
            name = str(_bytes(value), "utf-8")
        elif field == NODE_KIND:
            kind = str(_bytes(value), "utf-8")
    if kind == "MatMul" and len(inputs) == 2 and inputs[1].startswith("onnx::"):
        return {inputs[1]: name.removesuffix("/MatMul").strip("/").replace("/", ".")}
    return {}


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    position = 0
    while position < len(message):
        key, position = _integer(message, position)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _integer(message, position)
            yield field, value
            continue
        size = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            size, position = _integer(message, position)
        if size is None or position + size > len(message):
            raise ValueError(f"wire type {wire} at byte {position}, or a message cut short")
        yield field, message[position : position + size]
        position += size


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")
    return value


def _packed(message: memoryview) -> list[int]:
    values, position = [], 0
    while position < len(message):
        value, position = _integer(message, position)
        values.append(value)
    return values


def _integer(message: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = message[position]
        position += 1
        result |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return result, position
