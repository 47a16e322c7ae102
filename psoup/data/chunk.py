"""A chunk: up to 65,536 consecutive tuples of one stream, column by column.

    OpenChunk      buffers that only grow; rows below the published length never change
      └─ view() ─> ChunkView   immutable; for readers, results and storage

When a buffer is full, the writer copies it to a larger one. Earlier views keep the old buffer. A full chunk is
*closed*: only its last view remains, trimmed to its size. Results are in `psoup.results`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.chunk_caches import ChunkAddresses, MemoryCaches
from psoup.data.chunk_versions import ChunkVersions
from psoup.data.narrow import Short
from psoup.data.places import Places
from psoup.expressions.tree import TIME_INDEX
from psoup.model import TIMESTAMP, DataType, Kind, Schema, StreamSpec
from psoup.values.columns import Array, Batch, Column, address_of, lasting_array
from psoup.values.kinds import TYPES

_FIRST_ROWS = 1_024
_FIRST_BYTES = 4_096
_GROWTH = 8
"""The growth factor of a full buffer, up to the rows of a chunk. With 2, copying took as long as storing the tuples."""
_UNLIMITED = 2**62
DECODED = (Kind.BIGINT, Kind.TIMESTAMP)
"""The kinds whose order keys equal their values in answers."""


@dataclass(frozen=True, slots=True)
class ChunkView:
    """`n` tuples, whose IDs are in `places`. `times`: int64[n], never decreasing.

    `columns`: in schema order. `nbytes`: the bytes that the memory budget charges for the tuples. The IDs of all places
    are `first_id` to `end_id` - 1.
    """

    number: int
    places: Places
    times: Array
    columns: tuple[Column, ...]
    nbytes: int
    caches: MemoryCaches = field(default_factory=MemoryCaches, compare=False, repr=False)
    """Statistics and encodings that readers have computed from the columns. No other part of a view changes."""
    span: tuple[int, int] | None = None
    """The first and the last time before the chunk was thinned. None if it is not thinned."""
    first_id: int = field(init=False)
    """The tuple ID of the first place. Stored, because windows compare it with each chunk; so is `end_id`."""
    end_id: int = field(init=False)
    """The tuple ID after the last place."""

    versions: ChunkVersions | None = field(default=None, compare=False, repr=False)
    """The successors and ends of the rows of a table. None in a stream."""

    in_memory = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "first_id", self.places.first_id)
        object.__setattr__(self, "end_id", self.places.end_id)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def first_time(self) -> int:
        """The least physical ID, also of tuples that have left; there must be a place."""
        return int(self.times[0]) if self.span is None else self.span[0]

    @property
    def last_time(self) -> int:
        """The greatest physical ID, also of tuples that have left; there must be a place."""
        return int(self.times[-1]) if self.span is None else self.span[1]

    def ids_of(self, start: int, stop: int) -> Array:
        """The tuple IDs of rows start to stop, int64."""
        return self.places.ids_between(start, stop)

    def addresses(self) -> Array:
        """The addresses of the arrays, for kernels, valid as long as the view lives: int64[3 * (columns + 2)].

        Each column has three numbers; see PARTS of `psoup.kernels.rows.batch_body`. The pseudo-columns follow: `_time`
        (-2), then `_id` (-1). The first number of `_id` is the first tuple ID, and the third has the places left.
        Kernels find both by counting from the end. Computed on the first call in O(columns), and again after further
        columns got codes.
        """
        caches = self.caches
        coded, places = len(caches.narrow) + len(caches.short), caches.places
        if not places or places[-1].coded != coded:
            made = _places(self)
            if places and (latest := places[-1]).told == made.told:
                latest.coded = made.coded
            else:
                places.append(made)
        return places[-1].addresses

    def take(self, index: int, rows: Array) -> Column:
        """A column at positions `rows`, copied."""
        return Column(TIMESTAMP, self.times[rows]) if index == TIME_INDEX else self.columns[index].take(rows)


def _places(chunk: ChunkView) -> ChunkAddresses:
    narrow_forms, short_forms = dict(chunk.caches.narrow), dict(chunk.caches.short)
    addresses, arrays, listed = list[int](), list[Array](), set[int]()
    for index, column in enumerate(chunk.columns):
        addresses += [address_of(column.values), 0 if column.valid is None else address_of(column.valid)]
        narrow, short = narrow_forms.get(index), short_forms.get(index)
        third = column.data
        if column.type.kind not in DECODED:
            pass
        elif narrow is not None and narrow.shift == narrow.first == 0:
            third = np.array([address_of(narrow.codes), narrow.codes.itemsize, narrow.least], np.int64)
            arrays += [third, narrow.codes]
            listed.add(index)
        elif isinstance(short, Short):
            third = np.array([address_of(short.codes), short.codes.itemsize, short.least], np.int64)
            arrays += [third, short.codes]
            listed.add(index)
        addresses.append(0 if third is None else address_of(third))
    left = chunk.places.left
    addresses += [address_of(chunk.times), 0, 0, chunk.first_id, 0, 0 if left is None else address_of(left)]
    return ChunkAddresses(
        np.array(addresses, np.int64), len(narrow_forms) + len(short_forms), arrays, frozenset(listed)
    )


Keep = Callable[[int, StreamSpec, ChunkView, int], ArchivedChunk | None]
"""A port: stores a closed chunk of the stream (ID, spec). The chunk is durable when the call returns.

Any thread may call it, with the chunks of a stream in order. The last argument is the number of the oldest chunk that
is still needed. If the chunk itself is older, the store need not store its tuples, and the log may drop them. Returns
the stored chunk, or None if the chunk stays in memory.
"""

Thin = Callable[[int, StreamSpec, ChunkView], ArchivedChunk | None]
"""A port: replaces the file of a stored chunk by the rows of a thinned view. Takes the stream's ID and its spec.

The chunk must be stored before it is thinned. Any thread may call it. The new file is durable when the call returns; a
crash leaves the old file or the new one. Results that the store kept for the old rows go. Returns the new stored chunk.
Returns None if the chunk stays in memory. Also None if it has no file, as it has expired or its stream was dropped.
"""


class OpenChunk:
    """The chunk to which the writer appends tuples. Any thread may read its views."""

    def __init__(self, schema: Schema, number: int, first_id: int, rows: int, *, versioned: bool = False) -> None:
        """`versioned`: whether the chunk is of a table."""
        self.number = number
        self.first_id = first_id
        self.length = 0
        self.nbytes = 0
        self._rows = rows
        self._times: _Buffer = _Buffer(np.dtype(np.int64), rows)
        self._columns = [_column_buffer(attribute.type, rows) for attribute in schema.attributes]
        self._view: ChunkView | None = None
        self._versions = ChunkVersions(rows) if versioned else None

    @property
    def room(self) -> int:
        """The number of tuples that can still be appended."""
        return self._rows - self.length

    @property
    def text_bytes(self) -> int:
        """Bytes of variable-length data so far."""
        return sum(c.text_bytes for c in self._columns)

    def append(self, batch: Batch) -> None:
        """Append the tuples of a batch, which has at most `room` tuples in stream order."""
        count = len(batch)
        self._times.append(self.length, batch.times)
        for buffer, column in zip(self._columns, batch.columns, strict=True):
            buffer.append(self.length, column)
        self.length += count
        self.nbytes += batch.nbytes
        self._view = None

    def view(self) -> ChunkView:
        """A view of the tuples so far. O(columns) after an `append`, else O(1)."""
        if self._view is None:
            n = self.length
            columns = tuple(buffer.view(n) for buffer in self._columns)
            times, versions = self._times.array[:n], self._versions
            self._view = ChunkView(
                self.number, Places(self.first_id, n), times, columns, self.nbytes, versions=versions
            )
        return self._view

    def close(self) -> ChunkView:
        """The last view. Its arrays are copied to their exact size if the buffers are less than 7/8 full."""
        view = self.view()
        if 8 * self.length >= 7 * len(self._times.array):
            return view
        columns = tuple(_compact(column) for column in view.columns)
        return ChunkView(
            view.number,
            view.places,
            _copy(view.times),
            columns,
            view.nbytes,
            versions=None if self._versions is None else self._versions.cut(self.length),
        )


class _Buffer:
    """A growing array. A full `array` is replaced by a larger one, never resized in place."""

    __slots__ = ("_limit", "array")

    def __init__(self, dtype: np.dtype[Any], limit: int, first: int = _FIRST_ROWS) -> None:
        self._limit = limit
        self.array: Array = np.zeros(min(first, limit), dtype)

    def append(self, length: int, values: Array) -> None:
        """Write `values` at `length`."""
        end = length + len(values)
        if end > len(self.array):
            growth = _GROWTH if self._limit < _UNLIMITED else 2
            size = min(max(end, growth * len(self.array)), max(self._limit, end))
            grown = lasting_array(size, self.array.dtype)
            grown[:length] = self.array[:length]
            self.array = grown
        self.array[length:end] = values


class _FixedBuffer:
    """The growing buffers of a column of fixed-width values."""

    text_bytes = 0

    def __init__(self, data_type: DataType, rows: int) -> None:
        self._type = data_type
        self._rows = rows
        self._values = _Buffer(TYPES[data_type.kind].dtype, rows)
        self._valid: _Buffer | None = None

    def append(self, length: int, column: Column) -> None:
        self._values.append(length, column.values)
        self._valid = _append_valid(self._valid, length, column, self._rows)

    def view(self, length: int) -> Column:
        valid = None if self._valid is None else self._valid.array[:length]
        return Column(self._type, self._values.array[:length], valid)


class _TextBuffer:
    """The growing buffers of a TEXT column. offsets[0] is 0; offsets[i + 1] is the end of row i in `data`."""

    def __init__(self, data_type: DataType, rows: int) -> None:
        self._type = data_type
        self._rows = rows
        self._offsets = _Buffer(np.dtype(np.int64), rows + 1)
        self._data = _Buffer(np.dtype(np.uint8), _UNLIMITED, _FIRST_BYTES)
        self._valid: _Buffer | None = None
        self.text_bytes = 0

    def append(self, length: int, column: Column) -> None:
        assert column.data is not None
        start, stop = int(column.values[0]), int(column.values[-1])
        self._data.append(self.text_bytes, column.data[start:stop])
        self._offsets.append(length + 1, column.values[1:] - start + self.text_bytes)
        self.text_bytes += stop - start
        self._valid = _append_valid(self._valid, length, column, self._rows)

    def view(self, length: int) -> Column:
        valid = None if self._valid is None else self._valid.array[:length]
        return Column(self._type, self._offsets.array[: length + 1], valid, self._data.array[: self.text_bytes])


def _column_buffer(data_type: DataType, rows: int) -> _FixedBuffer | _TextBuffer:
    return _TextBuffer(data_type, rows) if data_type.kind is Kind.TEXT else _FixedBuffer(data_type, rows)


def _append_valid(valid: _Buffer | None, length: int, column: Column, rows: int) -> _Buffer | None:
    if valid is None:
        if column.valid is None:
            return None
        valid = _Buffer(np.dtype(np.bool_), rows, max(_FIRST_ROWS, length))
        valid.array[:length] = True
    valid.append(length, np.ones(len(column), np.bool_) if column.valid is None else column.valid)
    return valid


def _compact(column: Column) -> Column:
    valid = None if column.valid is None else _copy(column.valid)
    data = None if column.data is None else _copy(column.data)
    return Column(column.type, _copy(column.values), valid, data)


def _copy(array: Array) -> Array:
    made = lasting_array(len(array), array.dtype)
    made[:] = array
    return made
