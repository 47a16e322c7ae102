"""Columns of values, batches of tuples, and their conversion to Arrow. `psoup.values.from_arrow` is the opposite.

    column  price DECIMAL(6,2)     values 1050 990 0   valid 1 1 0
    column  sym TEXT               values 0 3 6 6      data IBMSUN          valid 1 1 0
    batch   columns of one length, and the times of the tuples

`psoup.values.kinds` has the form of each kind. A NULL has `valid` False and the value 0, or for TEXT an empty text. A
column is immutable, and a slice shares its memory. This module is independent of streams and queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from psoup.invariants import ensure
from psoup.kernels.rows.batch_body import take_texts
from psoup.model import DataType, Kind, Schema
from psoup.values.kinds import TYPES, arrow_type

Array = npt.NDArray[Any]

_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)


_LARGE = 8_192
"""The least number of elements for which an array gets its memory from Arrow. Arrow takes half a microsecond more."""
_LONG_TEXT = 4_096
"""The least mean size of texts, in bytes, for which `take` copies each text by one slice.

A copy byte by byte took 1 ms and more for a megabyte.
"""
_VAST = 1 << 19
"""The approximate number of elements from which NumPy requests large pages. It does so from 4 MB on."""


def new_array(size: int, dtype: npt.DTypeLike) -> Array:
    """An array of `size` arbitrary elements that begins at a cache line.

    NumPy's own arrays do not begin at one, and a vector across two lines takes twice the time. The memory is Arrow's,
    and Arrow reuses it: see `scratch_array`.
    """
    return np.frombuffer(pa.allocate_buffer(size * np.dtype(dtype).itemsize), dtype) if size else np.empty(0, dtype)


def scratch_array(size: int, dtype: npt.DTypeLike) -> Array:
    """An array of `size` arbitrary elements for a short time.

    A large array gets its memory from Arrow, which keeps freed memory for a while. The C library returns freed memory
    to the system at once. To get a page again took 2 us (virtual machine, Zen 4). That was half the time of a join of
    65,536 rows a side.
    """
    return np.empty(size, dtype) if size < _LARGE else new_array(size, dtype)


def vast_array(size: int, dtype: npt.DTypeLike) -> Array:
    """As `scratch_array`, but for many megabytes. NumPy requests large pages, so the process has fewer page faults.

    A thousand joins of 10 % a side took 27,000 faults of small pages in Arrow's memory. In NumPy's they took 2,000.
    """
    return np.empty(size, dtype) if size >= _VAST else scratch_array(size, dtype)


@cache
def lasting_memory() -> pa.MemoryPool:
    """The memory pool for columns that stay until their chunk expires. Freed memory returns to the system.

    The C library's memory holds messages of megabytes, which come and go. If long-lived columns took the places of
    freed messages, each new message would get fresh pages. The event loop touches these first. That took 10 to 15 ms
    for 8 MiB (virtual machine, Zen 4). With the pages of the last message it took 4 ms. Arrow's usual choice, mimalloc,
    took a quarter more memory for columns of half a MiB. Its huge pages also took three times the system's time at the
    first touch: 0.75 s for 1.1 GB, against 0.23 s (EPYC Zen 5, in a virtual machine).
    """
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:  # not in every build
        return pa.system_memory_pool()


def lasting_array(size: int, dtype: npt.DTypeLike) -> Array:
    """An array of `size` arbitrary elements for a long time. A large one is in `lasting_memory`."""
    if size < _LARGE:
        return np.empty(size, dtype)
    return np.frombuffer(pa.allocate_buffer(size * np.dtype(dtype).itemsize, memory_pool=lasting_memory()), dtype)


def address_of(array: Array) -> int:
    """The address of an array's first element, for kernels. The array must be contiguous, and the caller keeps it
    alive."""
    ensure(array.flags.c_contiguous, "columns", "an array is not one piece of memory")
    return int(array.__array_interface__["data"][0])


@dataclass(frozen=True, slots=True)
class Column:
    """`n` values of one type.

    `values`: see `psoup.values.kinds`. `valid`: bool[n], or None if no value is NULL. `data`: uint8 bytes of TEXT.
    `error`: bool[n], True in rows for which an expression failed, or None. Such rows are not valid.
    """

    type: DataType
    values: Array
    valid: Array | None = None
    data: Array | None = None
    error: Array | None = None

    def __len__(self) -> int:
        return len(self.values) - 1 if self.type.kind is Kind.TEXT else len(self.values)

    @property
    def nbytes(self) -> int:
        """The bytes charged for the values. The bytes of slices add up to the bytes of the column. O(1)."""
        rows = len(self)
        if self.type.kind is Kind.TEXT:
            return rows * 9 + int(self.values[-1] - self.values[0])
        return rows * (self.values.itemsize + 1 + self.type.beside)

    def slice(self, start: int, stop: int) -> Column:
        """The rows from start to stop. They share the column's memory. O(1)."""
        last = stop + 1 if self.type.kind is Kind.TEXT else stop
        return Column(
            self.type,
            self.values[start:last],
            None if self.valid is None else self.valid[start:stop],
            self.data,
            None if self.error is None else self.error[start:stop],
        )

    def take(self, rows: Array) -> Column:
        """The rows at positions `rows` (int64[k]), copied. O(k)."""
        valid = None if self.valid is None else self.valid.take(rows)
        error = None if self.error is None else self.error.take(rows)
        if self.type.kind is not Kind.TEXT:  # take(rows) needs two thirds of the time of [rows]
            return Column(self.type, self.values.take(rows), valid, None, error)
        assert self.data is not None
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(self.values[1:][rows] - self.values[:-1][rows], out=offsets[1:])
        text: Array = np.empty(int(offsets[-1]), np.uint8)
        if len(text) >= _LONG_TEXT * len(rows):
            starts, ends = self.values[:-1][rows].tolist(), self.values[1:][rows].tolist()
            for place, start, end in zip(offsets.tolist(), starts, ends, strict=False):
                text[place : place + end - start] = self.data[start:end]
        else:
            take_texts(self.values, self.data, np.ascontiguousarray(rows, np.int64), offsets, text)
        return Column(self.type, offsets, valid, text, error)

    def bytes_at(self, rows: Array) -> int:
        """The `nbytes` that `take(rows)` would have, computed without a copy. `rows`: int64[k]. O(k)."""
        if self.type.kind is Kind.TEXT:
            return 9 * len(rows) + int((self.values[1:][rows] - self.values[:-1][rows]).sum())
        return len(rows) * (self.values.itemsize + 1 + self.type.beside)

    def order_keys(self) -> Array:
        """The order keys of the values: int64[n], arbitrary for NULL. Not for TEXT and WIDE. O(n)."""
        if self.type.kind is Kind.DOUBLE:
            return float_keys(self.values)
        if self.values.dtype == np.int64:
            return self.values
        return self.values.astype(np.int64)

    def to_arrow(self) -> pa.Array:
        """The column as an Arrow array of `arrow_type(type)`. Fixed-width values without NULL are not copied."""
        rows = len(self)
        null_mask = None if self.valid is None else pack_valid(self.valid)
        kind = self.type.kind
        if kind is Kind.TEXT:
            assert self.data is not None
            text = pa.Array.from_buffers(
                pa.large_string(), rows, [null_mask, pa.py_buffer(self.values), pa.py_buffer(self.data)]
            )
            return text.cast(pa.string()) if self.values[-1] - self.values[0] < 2**31 else text
        if kind is Kind.BOOLEAN:
            bits = pa.py_buffer(np.packbits(self.values, bitorder="little"))
            return pa.Array.from_buffers(pa.bool_(), rows, [null_mask, bits])
        values = pa.py_buffer(np.ascontiguousarray(self.values))
        if kind is Kind.DECIMAL:
            narrow = pa.Array.from_buffers(
                pa.decimal64(self.type.precision, self.type.scale), rows, [null_mask, values]
            )
            return narrow.cast(arrow_type(self.type))
        return pa.Array.from_buffers(arrow_type(self.type), rows, [null_mask, values])

    def to_list(self) -> list[Any]:
        """The values as Python objects: Decimal, datetime and date for those kinds, None for NULL."""
        values: list[Any] = self.to_arrow().to_pylist()
        return values


def value_bytes(data_type: DataType) -> int:
    """The bytes that `Column.nbytes` counts for one value, without the bytes of its text. O(1)."""
    return _VALUE_BYTES[data_type.kind]


_VALUE_BYTES = {kind: np.dtype(facts.dtype).itemsize + 1 for kind, facts in TYPES.items()}


def float_keys(values: Array) -> Array:
    """The order keys of float64 values, int64. -0.0 equals 0.0. All NaN are equal, and greater than all other
    values. O(n)."""
    clean = values + 0.0
    clean[np.isnan(clean)] = np.nan
    bits = clean.view(np.int64)
    return np.where(bits < 0, bits ^ _SIGN, bits)


def key_float(key: int) -> float:
    """The DOUBLE value that has the order key `key`."""
    bits = np.int64(key) if key >= 0 else np.int64(key) ^ _SIGN
    return float(bits.view(np.float64))


def pack_valid(valid: Array) -> pa.Buffer:
    """Pack a bool array into an Arrow validity bitmap."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a stream's tuples."""
    return pa.schema([pa.field(a.name, arrow_type(a.type), a.nullable) for a in schema.attributes])


def arrow_table(schema: Schema, columns: Sequence[Column]) -> pa.Table:
    """The columns of a stream's tuples as a table. A repeated column is converted once."""
    written = {key: column.to_arrow() for key, column in {id(column): column for column in columns}.items()}
    return pa.table([written[id(column)] for column in columns], schema=arrow_schema(schema))


def empty_column(data_type: DataType) -> Column:
    """A column without rows."""
    if data_type.kind is Kind.TEXT:
        return Column(data_type, np.zeros(1, np.int64), None, np.zeros(0, np.uint8))
    return Column(data_type, np.zeros(0, TYPES[data_type.kind].dtype))


def null_column(data_type: DataType, rows: int) -> Column:
    """A column that is NULL in all rows."""
    if not rows:
        return empty_column(data_type)
    valid = np.zeros(rows, bool)
    if data_type.kind is Kind.TEXT:
        return Column(data_type, np.zeros(rows + 1, np.int64), valid, np.zeros(0, np.uint8))
    return Column(data_type, np.zeros(rows, TYPES[data_type.kind].dtype), valid)


def spread_column(column: Column, present: Array) -> Column:
    """A column with the rows of `column`, in order, where `present` (bool[n]) is set, and NULL elsewhere. O(n)."""
    rows = len(present)
    if not len(column):
        return null_column(column.type, rows)
    valid, error = present.copy(), None
    if column.valid is not None:
        valid[present] = column.valid
    if column.error is not None:
        error = np.zeros(rows, bool)
        error[present] = column.error
    if column.type.kind is Kind.TEXT:
        sizes = np.zeros(rows + 1, np.int64)
        sizes[1:][present] = np.diff(column.values)
        return Column(column.type, np.cumsum(sizes) + column.values[0], valid, column.data, error)
    values = np.zeros(rows, column.values.dtype)
    values[present] = column.values
    return Column(column.type, values, valid, None, error)


def concat_columns(columns: Sequence[Column], check: Callable[[], object] | None = None) -> Column:
    """A column with the rows of at least one column, in order. All columns have one type.

    Several columns are copied. `check`: called before each copy.
    """
    if len(columns) == 1:
        return columns[0]
    first = columns[0].type
    valid = _concat_flags([c.valid for c in columns], columns, True, check)
    error = _concat_flags([c.error for c in columns], columns, False, check)
    if first.kind is not Kind.TEXT:
        return Column(first, concatenated([c.values for c in columns], check), valid, None, error)
    parts, offsets, base = [], [np.zeros(1, np.int64)], 0
    for column in columns:
        assert column.data is not None
        start, stop = int(column.values[0]), int(column.values[-1])
        parts.append(column.data[start:stop])
        offsets.append(column.values[1:] - start + base)
        base += stop - start
    return Column(first, concatenated(offsets, check), valid, concatenated(parts, check), error)


_COPIED = 65_536


def concatenated(arrays: Sequence[Array], check: Callable[[], object] | None = None) -> Array:
    """An array with the rows of at least one array, in order, copied. All arrays have one type.

    `check`: called before the copy of each 65,536 rows.
    """
    if check is None:
        return np.concatenate(arrays)
    whole: Array = np.empty((sum(map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)
    start = 0
    for array in arrays:
        for at in range(0, len(array), _COPIED):
            check()
            part = array[at : at + _COPIED]
            whole[start : start + len(part)] = part
            start += len(part)
    return whole


def _concat_flags(
    flags: list[Array | None], columns: Sequence[Column], default: bool, check: Callable[[], object] | None
) -> Array | None:
    if all(flag is None for flag in flags):
        return None
    whole = [np.full(len(c), default) if f is None else f for f, c in zip(flags, columns, strict=True)]
    return concatenated(whole, check)


@dataclass(frozen=True)
class Batch:
    """Tuples of one stream: a column for each attribute, and `times`, their physical IDs (int64[n])."""

    columns: tuple[Column, ...]
    times: Array

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def nbytes(self) -> int:
        """The bytes charged to the memory budget. The bytes of slices add up to the bytes of the batch. O(columns),
        computed once."""
        return 8 * len(self.times) + sum(column.nbytes for column in self.columns)

    def slice(self, start: int, stop: int) -> Batch:
        """The rows from start to stop. They share the batch's memory."""
        if stop - start == len(self):
            return self
        return Batch(tuple(c.slice(start, stop) for c in self.columns), self.times[start:stop])

    def take(self, rows: Array) -> Batch:
        """The rows at positions `rows`, copied."""
        return Batch(tuple(c.take(rows) for c in self.columns), self.times[rows])


def concat_batches(batches: Sequence[Batch]) -> Batch:
    """A batch with the tuples of at least one batch, in order."""
    if len(batches) == 1:
        return batches[0]
    columns = tuple(concat_columns(group) for group in zip(*(b.columns for b in batches), strict=True))
    return Batch(columns, np.concatenate([b.times for b in batches]))


def plain(array: Array) -> Array:
    """The array, or a copy if it is read-only or strided. So each kernel is compiled for one kind of array."""
    return array if array.flags.c_contiguous and array.flags.writeable else array.copy()
