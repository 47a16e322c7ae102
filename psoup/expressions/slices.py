"""Pieces of texts, by code point, without a loop over rows.

offsets      0        4     7          every row's text is bytes offsets[r] to offsets[r+1] of one buffer
data         a é b    x €              starts[k] is the byte where the k-th code point of the buffer begins, so
starts       0 1 3    4 5   (8)        code point i of row r begins at starts[first[r] + i]
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Array, Column
from psoup.model import TEXT


def cut(column: Column, begin: Array, end: Array) -> Column:
    """Bytes begin[r] to end[r] (positions in `column.data`, int64[n]) of every row, copied."""
    assert column.data is not None
    lengths = end - begin
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    source = np.repeat(begin - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Column(TEXT, offsets, column.valid, column.data[source], column.error)


def code_points(column: Column) -> tuple[Array, Array]:
    """(first, starts): `first` int64[n+1] numbers the first code point of each row, `starts` their bytes.

    `starts` has one more entry than there are code points: the end of the last row. Both count from the first row.
    """
    assert column.data is not None
    low, high = int(column.values[0]), int(column.values[-1])
    leads = np.flatnonzero((column.data[low:high] & 0xC0) != 0x80) + low
    starts = np.append(leads, high)
    return np.searchsorted(leads, column.values), starts


def substring(column: Column, start: Array, length: Array | None) -> Column:
    """substr as DuckDB: 1 is the first code point, -1 the last, 0 is before the first; length may be negative.

    `start` and `length` int64[n], within +-2**32.
    """
    first, starts = code_points(column)
    size = np.diff(first)
    begin = np.where(start > 0, start - 1, np.where(start < 0, size + start, -1))
    end = size if length is None else begin + length
    begin, end = np.minimum(begin, end), np.maximum(begin, end)
    begin, end = np.clip(begin, 0, size), np.clip(end, 0, size)
    return cut(column, starts[first[:-1] + begin], starts[first[:-1] + end])
