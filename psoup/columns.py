"""Columns of values, batches of tuples, and their way in from Arrow and out to Arrow.

    column  price DECIMAL(6,2)     values 1050 990 0   valid 1 1 0          `psoup.kinds` has the form of each kind
    column  sym TEXT               values 0 3 6 6      data IBMSUN          valid 1 1 0
    batch   columns of one length, and the times of the tuples

A NULL has `valid` False and a value of zero (an empty text). A column is never changed once made; a slice shares
its memory. Nothing here knows streams or queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from psoup.errors import InvalidBatch
from psoup.invariants import ensure
from psoup.kernels.gather import take_texts
from psoup.kinds import TYPES, accepts, arrow_type, memory_type
from psoup.model import DataType, Kind, Schema, positions

Array = npt.NDArray[Any]

_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)


_LARGE = 8_192
"""Elements from which on memory is Arrow's: to ask it takes half a microsecond more."""
_VAST = 1 << 19
"""Elements from which on NumPy asks for large pages, about: it does from 4 MB on."""


def new_array(size: int, dtype: npt.DTypeLike) -> Array:
    """An array of `size` arbitrary elements that begins with a line of cache, as NumPy's own do not: a vector
    that lies in two lines takes twice the time. Of Arrow's memory, which is used again: see `scratch_array`."""
    return np.frombuffer(pa.allocate_buffer(size * np.dtype(dtype).itemsize), dtype) if size else np.empty(0, dtype)


def scratch_array(size: int, dtype: npt.DTypeLike) -> Array:
    """An array of `size` arbitrary elements for what will soon be dropped.

    If it is large it is of Arrow's memory, which keeps what is freed for a while. The C library gives it back at once,
    and to fetch a page again took 2 us (virtual machine, Zen 4): half the time of a join of 65,536 rows a side.
    """
    return np.empty(size, dtype) if size < _LARGE else new_array(size, dtype)


def vast_array(size: int, dtype: npt.DTypeLike) -> Array:
    """As `scratch_array`, where many megabytes are to be written: NumPy asks for large pages, of which few are fetched.

    A thousand joins of 10 % a side took 27,000 faults of small pages in Arrow's memory, and 2,000 so.
    """
    return np.empty(size, dtype) if size >= _VAST else scratch_array(size, dtype)


def address_of(array: Array) -> int:
    """Where an array lies in memory, for kernels; it must be one piece, and be kept alive."""
    ensure(array.flags.c_contiguous, "columns", "an array is not one piece of memory")
    return int(array.__array_interface__["data"][0])


@dataclass(frozen=True, slots=True)
class Column:
    """`n` values of one type.

    `values`: see `psoup.kinds`. `valid`: bool[n], or None if no value is NULL. `data`: uint8 bytes of TEXT.
    `error`: bool[n] where an expression failed (such rows are invalid too), or None.
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
        """Bytes charged for the values: additive over slices. O(1)."""
        rows = len(self)
        if self.type.kind is Kind.TEXT:
            return rows * 9 + int(self.values[-1] - self.values[0])
        return rows * (self.values.itemsize + 1)

    def slice(self, start: int, stop: int) -> Column:
        """Rows start to stop, sharing memory. O(1)."""
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
        take_texts(self.values, self.data, np.ascontiguousarray(rows, np.int64), offsets, text)
        return Column(self.type, offsets, valid, text, error)

    def order_keys(self) -> Array:
        """int64[n] that order as the values do; NULL rows have an arbitrary key. Not for TEXT and WIDE. O(n)."""
        if self.type.kind is Kind.DOUBLE:
            return float_keys(self.values)
        if self.values.dtype == np.int64:
            return self.values
        return self.values.astype(np.int64)

    def to_arrow(self) -> pa.Array:
        """The column as an Arrow array of `arrow_type(type)`; fixed-width values without NULL are not copied."""
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
        """The values as Python's: Decimal, datetime and date for those kinds; None for NULL."""
        values: list[Any] = self.to_arrow().to_pylist()
        return values


def float_keys(values: Array) -> Array:
    """Order keys of float64 values, int64: -0.0 equals 0.0, every NaN is the same and greatest. O(n)."""
    clean = values + 0.0
    clean[np.isnan(clean)] = np.nan
    bits = clean.view(np.int64)
    return np.where(bits < 0, bits ^ _SIGN, bits)


def key_float(key: int) -> float:
    """The value whose order key is `key`."""
    bits = np.int64(key) if key >= 0 else np.int64(key) ^ _SIGN
    return float(bits.view(np.float64))


def pack_valid(valid: Array) -> pa.Buffer:
    """A bool array as an Arrow validity bitmap."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a stream's tuples."""
    return pa.schema([pa.field(a.name, arrow_type(a.type), a.nullable) for a in schema.attributes])


def arrow_table(schema: Schema, columns: Sequence[Column]) -> pa.Table:
    """The columns of a stream's tuples as a table; a column that is there more than once is written once."""
    written = {key: column.to_arrow() for key, column in {id(column): column for column in columns}.items()}
    return pa.table([written[id(column)] for column in columns], schema=arrow_schema(schema))


def empty_column(data_type: DataType) -> Column:
    """A column of no rows."""
    if data_type.kind is Kind.TEXT:
        return Column(data_type, np.zeros(1, np.int64), None, np.zeros(0, np.uint8))
    return Column(data_type, np.zeros(0, TYPES[data_type.kind].dtype))


def null_column(data_type: DataType, rows: int) -> Column:
    """A column of NULL alone."""
    if not rows:
        return empty_column(data_type)
    valid = np.zeros(rows, bool)
    if data_type.kind is Kind.TEXT:
        return Column(data_type, np.zeros(rows + 1, np.int64), valid, np.zeros(0, np.uint8))
    return Column(data_type, np.zeros(rows, TYPES[data_type.kind].dtype), valid)


def concat_columns(columns: Sequence[Column], check: Callable[[], object] | None = None) -> Column:
    """The columns one after the other, copied; at least one, all of one type. `check`: called before each is copied."""
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


def concatenated(arrays: Sequence[Array], check: Callable[[], object] | None = None) -> Array:
    """The arrays of one type one after the other, by rows, copied; at least one. `check`: called before each copy."""
    if check is None:
        return np.concatenate(arrays)
    whole: Array = np.empty((sum(map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)
    start = 0
    for array in arrays:
        check()
        stop = start + len(array)
        whole[start:stop] = array
        start = stop
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
        """Bytes charged against the memory budget: additive over slices. O(columns), once."""
        return 8 * len(self.times) + sum(column.nbytes for column in self.columns)

    def slice(self, start: int, stop: int) -> Batch:
        """Rows start to stop, sharing memory."""
        if stop - start == len(self):
            return self
        return Batch(tuple(c.slice(start, stop) for c in self.columns), self.times[start:stop])

    def take(self, rows: Array) -> Batch:
        """The rows at positions `rows`, copied."""
        return Batch(tuple(c.take(rows) for c in self.columns), self.times[rows])


def concat_batches(batches: Sequence[Batch]) -> Batch:
    """The batches one after the other; at least one."""
    if len(batches) == 1:
        return batches[0]
    columns = tuple(concat_columns(group) for group in zip(*(b.columns for b in batches), strict=True))
    return Batch(columns, np.concatenate([b.times for b in batches]))


def columns_from_arrow(schema: Schema, table: pa.Table | pa.RecordBatch) -> tuple[Column, ...]:
    """The columns of `table` in the schema's order and types.

    Columns are found by name (any case) and converted where no value is lost. A nullable attribute may be missing:
    those of one type share a column of NULL.
    Raises InvalidBatch that names the column, and the first bad row where there is one.
    """
    places = positions(schema, table.schema.names)
    columns = []
    missing: dict[DataType, Column] = {}
    for attribute in schema.attributes:
        at = places.get(attribute.name.lower(), -1)
        if at < 0:
            if attribute.type not in missing:
                missing[attribute.type] = null_column(attribute.type, table.num_rows)
            columns.append(missing[attribute.type])
            continue
        column = column_from_arrow(attribute.name, attribute.type, table.column(at))
        if not attribute.nullable and column.valid is not None:
            row = int(np.argmin(column.valid))
            raise InvalidBatch(
                f"row {row}: {attribute.name!r} is NULL, but the stream says NOT NULL", column=attribute.name, row=row
            )
        columns.append(column)
    return tuple(columns)


def column_from_arrow(name: str, data_type: DataType, source: pa.Array | pa.ChunkedArray) -> Column:
    """One Arrow array as a column of `data_type`; raises InvalidBatch where a value would be changed."""
    target = memory_type(data_type)
    same = source.type == target
    if not same:
        _check_type(name, data_type, source.type)
    if isinstance(source, pa.ChunkedArray):
        if source.num_chunks == 0:  # Arrow cannot make an empty array of every type
            source = pa.nulls(0)
        else:
            source = source.combine_chunks() if source.num_chunks != 1 else source.chunk(0)
    if isinstance(source, pa.ChunkedArray):  # combine_chunks of an over-long text column stays chunked
        raise InvalidBatch(f"column {name!r} is too large for one batch; send smaller batches", column=name)
    array = source if same else _convert(name, data_type, source, target)
    valid = None
    if array.null_count:
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
    rows = len(array)
    if not rows:  # its buffers may be missing
        return empty_column(data_type)
    if data_type.kind is Kind.TEXT:
        _, offsets_buffer, data_buffer = array.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64, rows + 1, 8 * array.offset)
        data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
        column = Column(data_type, offsets, valid, data)
        return _clear_null_text(column) if valid is not None else column
    if data_type.kind is Kind.BOOLEAN:
        values = array.fill_null(False).to_numpy(zero_copy_only=False)
        return Column(data_type, values, valid)
    dtype = TYPES[data_type.kind].dtype
    # With a count: a buffer off the wire may be longer than its values, and not a multiple of their size.
    values = np.frombuffer(array.buffers()[1], dtype, rows, dtype.itemsize * array.offset)
    if valid is not None:
        values = np.where(valid, values, np.zeros(1, dtype))
    return Column(data_type, values, valid)


def _clear_null_text(column: Column) -> Column:
    """Empty the texts of NULL rows, which may have bytes in Arrow."""
    if not np.diff(column.values)[~column.valid].any():  # type: ignore[operator]
        return column
    full = Column(column.type, column.values, None, column.data)
    lengths = np.where(column.valid, np.diff(column.values), 0)  # type: ignore[arg-type]
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    rows = np.flatnonzero(column.valid)  # type: ignore[arg-type]
    return Column(column.type, offsets, column.valid, full.take(rows).data)


def _check_type(name: str, data_type: DataType, source: pa.DataType) -> None:
    plain = source.value_type if pa.types.is_dictionary(source) else source
    if not accepts(data_type, plain):
        raise InvalidBatch(f"column {name!r} is {data_type}, but the batch has {source}; convert it first", column=name)


def _convert(name: str, data_type: DataType, source: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert `source` to the Arrow type that mirrors the engine's memory."""
    if pa.types.is_dictionary(source.type):
        source = source.dictionary_decode()
    try:
        return _cast(source, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        row = _first_bad_row(source, target)
        value = "a value" if row is None else _written(source[row])
        place = "" if row is None else f"row {row}: "
        raise InvalidBatch(
            f"{place}{value} in column {name!r} does not fit {data_type} without loss",
            column=name,
            row=-1 if row is None else row,
        ) from problem


def _written(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError, KeyError):  # a year that Python's datetime has not, an unknown zone
        return "the value"


def _cast(source: pa.Array, target: pa.DataType) -> pa.Array:
    if source.type == target:
        return source
    if pa.types.is_timestamp(source.type):  # instants: a zone is only how they are written
        source = source.cast(pa.timestamp(source.type.unit))
    if pa.types.is_decimal(target) and not pa.types.is_null(source.type):
        wide = pa.decimal128(38, target.scale)
        if not pa.types.is_decimal(source.type):
            source = source.cast(pa.decimal128(20, 0))
        return source.cast(wide).cast(pa.decimal128(target.precision, target.scale)).cast(target)
    return source.cast(target)


def _first_bad_row(source: pa.Array, target: pa.DataType) -> int | None:
    """The first row whose value alone cannot be converted, by halving. O(n) conversions in all."""
    low, high = 0, len(source)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(source.slice(low, middle - low), target)
            low = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
    return low if high > low else None


def plain(array: Array) -> Array:
    """The array, or a copy if it is read-only or strided: one kind of array means one compiled kernel."""
    return array if array.flags.c_contiguous and array.flags.writeable else array.copy()
