"""MATLAB files of version 4 to 7: the variables of a workspace, read one at a time.

    version 4:       file = variables;    variable = type, dimensions, name, numbers
    version 5 to 7:  file = header of 128 bytes, then elements;  element = type, size, bytes
                     variable = element of elements: flags, dimensions, name, data ...

A reader of its own, since a general one may not be trusted with whatever a workspace holds: SciPy
1.17 ends the process on some damaged files, cannot list a file with a MATLAB string or table in it,
and gives logical arrays back as integers. Here every size and type is checked before use, and only
the variables asked for are decoded: real full arrays, sparse matrices and rows of characters.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse

__all__ = ["Variable", "read_variables"]

HEADER_BYTES = 128
# Enough for flags, dimensions and names, which come first.
PREVIEW_BYTES = 4096
# A sparse matrix that would fill more than 1 GiB is damage, not a layer.
DENSE_LIMIT = 2**27

MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
NUMBERS |= {12: "i8", 13: "u8"}
TEXTS = {1: "utf-8", 2: "utf-8", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
CLASSES = ("unknown", "cell", "struct", "object", "char", "sparse", "double", "single", "int8")
CLASSES += ("uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "function_handle")
OPAQUE = 17
LOGICAL_FLAG, COMPLEX_FLAG = 0x200, 0x800
DECODED = set(CLASSES) - {"unknown", "cell", "struct", "object", "function_handle"}


@dataclass(frozen=True)
class Variable:
    """One variable of a workspace.

    Parameters
    ----------
    name : str
        Its name.
    kind : str
        Its MATLAB class; "logical" and "complex" stand for every class they qualify.
    value : ndarray or str, optional
        Numbers in the shape MATLAB gave them, or text; None if not asked for or not decoded.
    """

    name: str
    kind: str
    value: Any = None

    @property
    def is_decodable(self) -> bool:
        """Whether variables of this class can have a value here."""
        return self.kind in DECODED


def read_variables(stream: BinaryIO, wanted: Collection[str]) -> Iterator[Variable]:
    """Yield the variables of a file in order.

    Parameters
    ----------
    stream : binary file
        Open and at its start.
    wanted : collection of str
        The names whose values are decoded.

    Yields
    ------
    Variable

    Raises
    ------
    ValueError, struct.error, zlib.error
        If the file is damaged or no MATLAB file of version 4 to 7.
    """
    length = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if 0 in stream.peek(4)[:4]:  # Version 5 starts with text.
        yield from _read_version_4(stream, length, wanted)
        return
    header = stream.read(HEADER_BYTES)
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    if order is None or struct.unpack(order + "H", header[124:126]) != (0x100,):
        raise ValueError("no version 5 header")
    while stream.tell() < length:
        kind, size = struct.unpack(order + "II", stream.read(8))
        data = _take(stream, size, length)
        if kind == COMPRESSED:
            variable = _compressed(data, order, wanted)
        elif kind == MATRIX:
            variable = _variable(data, order, wanted)
        else:
            raise ValueError(f"element of type {kind} where a variable was due")
        if variable.name:  # MATLAB keeps the inner workings of objects under no name.
            yield variable


def _take(stream: BinaryIO, size: int, length: int) -> bytes:
    # Checked beforehand: a damaged size may ask for more memory than there is.
    if not 0 <= size <= length - stream.tell():
        raise ValueError("a variable is cut off")
    return stream.read(size)


def _compressed(data: bytes, order: str, wanted: Collection[str]) -> Variable:
    # The preview spares inflating the large variables that nobody asks for.
    preview = zlib.decompressobj().decompress(data, PREVIEW_BYTES)
    variable = _variable(preview[8:], order, ())
    if variable.name not in wanted:
        return variable
    [(kind, matrix)] = _elements(zlib.decompress(data), order)
    if kind != MATRIX:
        raise ValueError(f"compressed element of type {kind} where a variable was due")
    return _variable(matrix, order, wanted)


def _variable(data: bytes, order: str, wanted: Collection[str]) -> Variable:
    parts = _elements(data, order)
    (_, flags), (_, second) = islice(parts, 2)
    (word,) = struct.unpack_from(order + "I", flags)
    if word & 0xFF == OPAQUE:  # No dimensions: name, system, class.
        _, (_, third) = islice(parts, 2)
        return Variable(_identifier(second), _identifier(third))
    shape = tuple(np.frombuffer(second, order + "i4").tolist())
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"dimensions {shape}")
    [(_, third)] = islice(parts, 1)
    variable = Variable(_identifier(third), _class(word))
    if variable.name not in wanted or not variable.is_decodable:
        return variable
    read = {"char": _text, "sparse": _sparse}.get(variable.kind, _full)
    return Variable(variable.name, variable.kind, read(list(parts), shape, order))


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        (word,) = struct.unpack_from(order + "I", data, position)
        if word >> 16:  # A small element has size and type in one word, and its bytes in the next.
            kind, size, start, end = word & 0xFFFF, word >> 16, position + 4, position + 8
            if size > 4:
                raise ValueError(f"small element of {size} bytes")
        else:
            kind, size = struct.unpack_from(order + "II", data, position)
            start = position + 8
            end = start + size + -size % 8
        if start + size > len(data):
            raise ValueError("an element is cut off")
        yield kind, data[start : start + size]
        position = end


def _class(word: int) -> str:
    if word & LOGICAL_FLAG:
        return "logical"
    if word & COMPLEX_FLAG:
        return "complex"
    number = word & 0xFF
    return CLASSES[number] if number < len(CLASSES) else "unknown"


def _identifier(data: bytes) -> str:
    return data.decode("ascii", "replace")


def _numbers(part: tuple[int, bytes], order: str) -> np.ndarray:
    kind, data = part
    if kind not in NUMBERS:
        raise ValueError(f"numbers of type {kind}")
    return np.frombuffer(data, order + NUMBERS[kind])


def _full(parts: list[tuple[int, bytes]], shape: tuple[int, ...], order: str) -> np.ndarray:
    [part] = parts
    return _numbers(part, order).reshape(shape, order="F")


def _sparse(parts: list[tuple[int, bytes]], shape: tuple[int, ...], order: str) -> np.ndarray:
    rows, columns = (_numbers(part, order).astype(np.int64) for part in parts[:2])
    [entries] = (_numbers(part, order).astype(float) for part in parts[2:])
    used = columns[-1]  # MATLAB may have reserved room for more.
    matrix = scipy.sparse.csc_array((entries[:used], rows[:used], columns), shape=shape)
    matrix.check_format(full_check=True)
    return _dense(matrix)


def _dense(matrix: scipy.sparse.sparray) -> np.ndarray:
    if matrix.shape[0] * matrix.shape[1] > DENSE_LIMIT:
        raise ValueError(f"sparse matrix of shape {matrix.shape}")
    return matrix.toarray()


def _text(parts: list[tuple[int, bytes]], shape: tuple[int, ...], order: str) -> str | np.ndarray:
    if 0 in shape:
        return ""
    [(kind, data)] = parts
    if kind not in TEXTS:
        raise ValueError(f"characters of type {kind}")
    coding = TEXTS[kind]
    if coding != "utf-8":
        coding += {"<": "-le", ">": "-be"}[order]
    return _rows(data.decode(coding), shape[0])


def _rows(text: str, rows: int) -> str | np.ndarray:
    if rows > len(text):
        raise ValueError(f"{rows} rows of {len(text)} characters")
    return text if rows == 1 else np.array([text[row::rows] for row in range(rows)])


def _read_version_4(stream: BinaryIO, length: int, wanted: Collection[str]) -> Iterator[Variable]:
    while stream.tell() < length:
        head = _take(stream, 20, length)
        order = "<" if struct.unpack("<i", head[:4])[0] in range(VERSION_4_TYPES) else ">"
        kind, rows, columns, is_complex, name_size = struct.unpack(order + "5i", head)
        machine, kind = divmod(kind, 1000)
        number, matrix = divmod(kind, 10)
        if machine != (order == ">") or number not in range(6) or matrix not in range(3):
            raise ValueError(f"variable of type {head[:4].hex()}")
        if min(rows, columns) < 0:
            raise ValueError(f"dimensions {(rows, columns)}")
        name = _identifier(_take(stream, name_size, length)).rstrip("\0")
        dtype = np.dtype(order + VERSION_4_NUMBERS[number])
        size = rows * columns * dtype.itemsize
        data = _take(stream, size, length)
        # A sparse matrix lists row, column and entry, or real and imaginary part, of each entry.
        is_complex = columns == 4 if matrix == 2 else is_complex == 1
        if is_complex:
            _take(stream, 0 if matrix == 2 else size, length)
            yield Variable(name, "complex")
        elif name in wanted:
            array = np.frombuffer(data, dtype).reshape((rows, columns), order="F")
            yield Variable(name, VERSION_4_CLASSES[matrix], VERSION_4_DECODERS[matrix](array))
        else:
            yield Variable(name, VERSION_4_CLASSES[matrix])


def _text_of_codes(codes: np.ndarray) -> str | np.ndarray:
    if codes.size == 0:
        return ""
    return _rows("".join(map(chr, codes.ravel(order="F").astype(int).tolist())), codes.shape[0])


def _sparse_of_triples(triples: np.ndarray) -> np.ndarray:
    *_, (rows, columns, _) = triples.tolist()  # The last line holds the dimensions.
    row, column = triples[:-1, :2].T.astype(np.int64) - 1
    shape = (int(rows), int(columns))
    return _dense(scipy.sparse.coo_array((triples[:-1, 2].astype(float), (row, column)), shape))


VERSION_4_TYPES = 53  # Little-endian types are 10 times the number type plus the matrix type.
VERSION_4_NUMBERS = ("f8", "f4", "i4", "i2", "u2", "u1")
VERSION_4_CLASSES = ("double", "char", "sparse")
VERSION_4_DECODERS = (lambda array: array, _text_of_codes, _sparse_of_triples)
