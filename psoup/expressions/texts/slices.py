"""Pieces of texts, by code point, without a loop over rows.

offsets      0        4     7          every row's text is bytes offsets[r] to offsets[r+1] of one buffer
data         a é b    x €              starts[k] is the byte where the k-th code point of the buffer begins, so
starts       0 1 3    4 5   (8)        code point i of row r begins at starts[first[r] + i]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from psoup.values.columns import Array, Column


def cut(column: Column, begin: Array, end: Array) -> pa.Array:
    """Copy the bytes begin[r] to end[r] of every row. `begin`, `end`: int64[n], positions in `column.data` within the
    row.

    The begins and ends, interleaved, are the offsets of 2n texts, of which every second one is taken. So no array has
    an entry for each byte.
    """
    assert column.data is not None
    rows = len(begin)
    ends = np.empty(2 * rows + 1, np.int64)
    ends[0 : 2 * rows : 2], ends[1 : 2 * rows : 2] = begin, end
    ends[-1] = end[-1] if rows else 0
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(column.data))]
    whole = pa.Array.from_buffers(pa.large_string(), 2 * rows, buffers)
    return whole.take(pa.array(np.arange(0, 2 * rows, 2)))


def one_byte_each(column: Column) -> bool:
    """Whether all code points are ASCII. Then code point i of a row is its byte i."""
    assert column.data is not None
    data = column.data[int(column.values[0]) : int(column.values[-1])]
    return not len(data) or int(data.max()) < 0x80


def code_points(column: Column) -> tuple[Array, Array]:
    """The pair (first, starts). `first`, int64[n+1]: the number of the first code point of each row.

    `starts`: the byte at which each code point begins, then the end of the last row. Code points are numbered from the
    first row on.
    """
    assert column.data is not None
    low, high = int(column.values[0]), int(column.values[-1])
    leads = np.flatnonzero((column.data[low:high] & 0xC0) != 0x80) + low
    starts = np.append(leads, high)
    return np.searchsorted(leads, column.values), starts


def substring(column: Column, start: Array, length: Array | None) -> pa.Array:
    """Compute substr as DuckDB does. Start 1 is the first code point, -1 the last, and 0 is before the first.

    The length may be negative. `start`, `length`: int64[n], within +-2**32.
    """
    plain = one_byte_each(column)
    first, starts = (column.values, None) if plain else code_points(column)
    size = np.diff(first)
    begin = np.where(start > 0, start - 1, np.where(start < 0, size + start, -1))
    end = size if length is None else begin + length
    begin, end = np.minimum(begin, end), np.maximum(begin, end)
    begin, end = np.clip(begin, 0, size), np.clip(end, 0, size)
    begin, end = first[:-1] + begin, first[:-1] + end
    return cut(column, begin, end) if starts is None else cut(column, starts[begin], starts[end])
