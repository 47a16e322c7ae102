"""Columns in the forms that the kernels read: the values in memory, or their texts.

    int64 ──BINARY──> LONG, the address of the values       decimal128 ──TEXT──> TEXT64, bytes and their offsets

A kernel gets addresses. `Cells` keeps the memory that they point to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from psoup.kernels.postgres import texts as kernels
from psoup.kernels.postgres.messages import (
    ADDED,
    BIT,
    FIELDS,
    FIRST,
    INT,
    KIND,
    LONG,
    SHORT,
    TEXT,
    TEXT32,
    TEXT64,
    VALID,
    VALID_FIRST,
    VALUES,
)
from psoup_service.pg.contract import BINARY
from psoup_service.pg.contract import TEXT as PLAIN
from psoup_service.pg.values import types
from psoup_service.pg.values.binary import DAYS_TO_2000, MICROS_TO_2000, before, binary_of
from psoup_service.pg.values.float_digits import shortest_texts
from psoup_service.pg.values.plain import plain_values
from psoup_service.pg.values.texts import text_of
from psoup_service.pg.values.zones import Zone

Array = npt.NDArray[Any]

_FORMS = {
    types.BOOL: pa.bool_(),
    types.INT2: pa.int16(),
    types.INT4: pa.int32(),
    types.INT8: pa.int64(),
    types.OID: pa.uint32(),
    types.FLOAT4: pa.float32(),
    types.FLOAT8: pa.float64(),
    types.DATE: pa.date32(),
    types.TIMESTAMP: pa.timestamp("us"),
    types.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    types.BYTEA: pa.binary(),
}
"""The type in Arrow that the kernels read. Other types are texts, or are converted one value at a time."""

_FIXED = {
    types.INT2: (SHORT, 2, 0),
    types.INT4: (INT, 4, 0),
    types.INT8: (LONG, 8, 0),
    types.OID: (INT, 4, 0),
    types.FLOAT4: (INT, 4, 0),
    types.FLOAT8: (LONG, 8, 0),
    types.DATE: (INT, 4, -DAYS_TO_2000),
    types.TIMESTAMP: (LONG, 8, -MICROS_TO_2000),
    types.TIMESTAMPTZ: (LONG, 8, -MICROS_TO_2000),
}
"""The kind of a type in binary format, the bytes of a value, and the number that is added."""

_TIMES = {types.DATE: kernels.DATES, types.TIMESTAMP: kernels.LOCAL, types.TIMESTAMPTZ: kernels.ZONED}
_WHOLE = (types.INT2, types.INT4, types.INT8, types.OID)
_TEXTS = (types.TEXT_OID, types.VARCHAR, types.BPCHAR, types.NAME, types.JSON, types.CHAR, types.UNKNOWN)
_EXPONENTS = {types.FLOAT4: 6, types.FLOAT8: 15}
"""The digits of a whole number from which on its text has an exponent."""
_FALSE, _TRUE = ord("f"), ord("t")
_NONE = np.frombuffer(b"", np.uint8)


@dataclass(slots=True)
class Cells:
    """A column for the kernels of messages. `row`: int64[FIELDS]. `size`: the bytes of all values together."""

    row: Array
    size: int
    memory: list[Any] = field(default_factory=list)
    """The memory at the addresses."""


def cells_of(column: pa.Array, oid: int, form: int, zone: Zone) -> Cells:
    """The values of a column in a format. Raises OutOfRange for a time that the binary format cannot hold. O(n)."""
    column = _formed(column, oid)
    if oid in _FIXED and form == BINARY:
        kind, width, added = _FIXED[oid]
        if added:
            _check_first(column, oid, added)
        return _cells(column, kind, width * len(column), width * column.offset, added=added)
    if oid == types.BOOL and form == BINARY:
        return _cells(column, BIT, len(column), 0, first=column.offset)
    if pa.types.is_decimal128(column.type) and oid == types.NUMERIC:
        return _decimals(column, form)
    if form == BINARY or oid in _TEXTS:
        return _strings(column, oid, form, zone)
    return _textual(column, oid, zone)


def _formed(column: pa.Array, oid: int) -> pa.Array:
    """The column in the form that the kernels read for a type."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if oid == types.NUMERIC and (pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type)):
        return column.cast(pa.decimal128(column.type.precision, column.type.scale))
    wanted = _FORMS.get(oid)
    if wanted is None or column.type == wanted:
        return column
    return column.cast(wanted, safe=not pa.types.is_timestamp(wanted))


def _textual(column: pa.Array, oid: int, zone: Zone) -> Cells:
    """The texts of a column by the kernel of its type. Types without a kernel go one value at a time."""
    if oid in _WHOLE:
        whole = column.cast(pa.int64())
        return _made(column, kernels.MOST_INTEGER, lambda ends, out: kernels.integer_texts(_numbers(whole), ends, out))
    if oid in _TIMES:
        days = oid == types.DATE
        numbers = _numbers(column.cast(pa.int32()).cast(pa.int64()) if days else column.cast(pa.int64()))
        offsets = frozen(zone.offsets(numbers) if oid == types.TIMESTAMPTZ else np.zeros(len(numbers), np.int64))
        write = kernels.time_texts
        return _made(column, kernels.MOST_TIME, lambda ends, out: write(numbers, offsets, _TIMES[oid], ends, out))
    if oid in _EXPONENTS:
        return _written(column, shortest_texts(column), kernels.MOST_FLOAT, kernels.float_texts, _EXPONENTS[oid])
    if oid == types.BOOL:
        letters = np.where(column.fill_null(False).to_numpy(zero_copy_only=False), _TRUE, _FALSE).astype(np.uint8)
        return _from_arrays(column, np.arange(len(column) + 1, dtype=np.int64), letters)
    return _strings(column, oid, PLAIN, zone)


def _decimals(column: pa.Array, form: int) -> Cells:
    """Decimals: Arrow writes their scaled integers, and a kernel puts the point."""
    buffers, scale = column.buffers(), column.type.scale
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(column), buffers, offset=column.offset).cast(pa.string())
    if form == BINARY:
        return _written(column, whole, kernels.MOST_NUMERIC, kernels.numeric_values, scale)
    return _written(column, whole, kernels.MOST_DECIMAL, kernels.decimal_texts, scale)


def strings_of(column: pa.Array, oid: int, form: int, zone: Zone) -> pa.Array:
    """The texts of a column as they are; values of any other type one at a time."""
    if (oid in _TEXTS and _is_text(column.type)) or (oid == types.BYTEA and form == BINARY):
        return column
    write = binary_of(oid) if form == BINARY else text_of(oid)
    values = [None if value is None else write(value) for value in plain_values(column, oid, zone)]
    return pa.array(values, pa.binary())


def _strings(column: pa.Array, oid: int, form: int, zone: Zone) -> Cells:
    column = strings_of(column, oid, form, zone)
    wide = pa.types.is_large_string(column.type)
    size = 8 if wide else 4
    offsets = np.frombuffer(column.buffers()[1], np.int64 if wide else np.int32) if len(column) else _NONE
    total = int(offsets[column.offset + len(column)] - offsets[column.offset]) if len(column) else 0
    cells = _cells(column, TEXT64 if wide else TEXT32, total, size * column.offset)
    cells.row[TEXT] = _address(column.buffers()[2])
    return cells


def rewritten(column: pa.Array, oid: int, zone: Zone, write: Callable[..., int], *about: object) -> Cells:
    """The texts of a column as a kernel of `quotes` writes them."""
    column = strings_of(column, oid, PLAIN, zone)
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.string())
    offsets, data = text_arrays(column)
    ends = np.empty(len(column) + 1, np.int64)
    out = np.empty(2 * int(offsets[-1] - offsets[0]) + 2 * len(column), np.uint8)
    write(offsets, data, *about, ends, out)
    return _from_arrays(column, ends, out)


def has_kernel(column: pa.Array, oid: int) -> bool:
    """Whether the texts of a column are numbers, times or truth values, which need no quotes."""
    return (oid in _FORMS and oid != types.BYTEA) or (oid == types.NUMERIC and pa.types.is_decimal(column.type))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_first(column: pa.Array, oid: int, added: int) -> None:
    """Raise OutOfRange if a number is too small for one to be added."""
    width = 4 if oid == types.DATE else 8
    first = -(2 ** (8 * width - 1)) - added
    if not len(column):
        return
    values = np.frombuffer(column.buffers()[1], f"i{width}", len(column), width * column.offset)
    if values.min() >= first:  # a NULL has any value
        return
    minimum = pc.min(column.cast(pa.int32() if width == 4 else pa.int64())).as_py()
    if minimum is not None and minimum < first:
        raise before("the answer", oid)


def _written(column: pa.Array, source: pa.Array, limit: int, write: Callable[..., int], about: int) -> Cells:
    """The texts that a kernel writes from texts of Arrow."""
    offsets, data = text_arrays(source)
    return _made(column, limit, lambda ends, out: write(offsets, data, about, ends, out))


def text_arrays(source: pa.Array) -> tuple[Array, Array]:
    """The offsets of texts, int32[n + 1], and their bytes, uint8."""
    if not len(source):
        return frozen(np.zeros(1, np.int32)), _NONE
    _, offsets, data = source.buffers()
    ends = np.frombuffer(offsets, np.int32, len(source) + 1, 4 * source.offset)
    return frozen(ends), frozen(np.frombuffer(data, np.uint8)) if data is not None and data.size else _NONE


def frozen(array: Array) -> Array:
    """An array that cannot be written. Kernels are compiled for such arguments only."""
    array.flags.writeable = False
    return array


def _made(column: pa.Array, limit: int, write: Callable[[Array, Array], int]) -> Cells:
    """The texts that a kernel writes, of at most `limit` bytes each."""
    ends, out = np.empty(len(column) + 1, np.int64), np.empty(limit * len(column), np.uint8)
    write(ends, out)
    return _from_arrays(column, ends, out)


def _from_arrays(column: pa.Array, ends: Array, out: Array) -> Cells:
    cells = _cells(column, TEXT64, int(ends[-1]), 0)
    cells.row[VALUES], cells.row[TEXT] = ends.ctypes.data, out.ctypes.data
    cells.memory += [ends, out]
    return cells


def _cells(column: pa.Array, kind: int, size: int, start: int, *, added: int = 0, first: int = 0) -> Cells:
    """A column as it lies in memory. start: bytes before its first value."""
    buffers = column.buffers()
    row = np.zeros(FIELDS, np.int64)
    row[KIND], row[ADDED], row[FIRST] = kind, added, first
    row[VALUES] = _address(buffers[1]) + start
    if column.null_count:
        row[VALID], row[VALID_FIRST] = buffers[0].address, column.offset
    return Cells(row, size, [column])


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else int(buffer.address)


def _numbers(column: pa.Array) -> Array:
    """The values of an int64 column without a copy; a NULL has any value."""
    if not len(column):
        return frozen(np.zeros(0, np.int64))
    return frozen(np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset))
