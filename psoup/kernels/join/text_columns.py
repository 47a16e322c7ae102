"""Texts of joined rows: the bytes that those at some positions of a side have together, and these bytes in a batch.

    positions   3 0 3        of the matches of a side, in any order, also repeated
    ends        0 5 8 13     [values] of the column; and [text] onetwothreeone…

Sides: see `psoup.kernels.join.pair_columns`; arrays of chunks are named by address, and the caller keeps them
alive.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from psoup.kernels.compile.inner import inner
from psoup.kernels.rows.batch_body import PARTS, _bytes, _longs, _nth, _pointer


@inner
def _part(stops, position, part):
    """The chunk of a position; `part`: the chunk of another position, often the same."""
    if position < stops[part] and (part == 0 or position >= stops[part - 1]):
        return part
    low, high = np.int64(0), np.int64(stops.shape[0] - 1)
    while low < high:
        middle = (low + high) >> 1
        if stops[middle] <= position:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def text_bytes_at(column, sources, stride, rows, stops, positions):
    """The bytes of the texts at some positions together, repeated ones as often as they are there.

    column: its place in the schema; sources, stride, rows, stops: a side, as in `gather`; positions: int32 or int64[n].
    All read. O(n).
    """
    nth, part, total = PARTS * _nth(column, stride), np.int64(0), np.int64(0)
    for i in range(positions.shape[0]):
        position = np.int64(positions[i])
        part = _part(stops, position, part)
        row = np.int64(rows[position])
        ends = _longs(sources[part * stride + nth], row + 2)
        total += ends[row + 1] - ends[row]
    return total


@njit(cache=True, nogil=True)
def gather_texts_at(which, column, sources, stride, rows, stops, positions, places, out, nulls):
    """Write a column of texts of a record batch that comes from one side of a join.

    which: its place in the batch; column, sources, stride, rows, stops, positions: as in `text_bytes_at`; places:
    int64[all, 3], as in `gather`. All read. out: as in `gather`; nulls: int64[all], the number of NULLs written.
    O(n), and the bytes of text.
    """
    total, nth, part, at = positions.shape[0], PARTS * _nth(column, stride), np.int64(0), np.uint64(0)
    valid, text = places[which, 0], out[places[which, 2] :]
    stored = carray(_pointer(np.int64(out.ctypes.data) + places[which, 1]), total + 1, np.int32)
    stored[0] = nulls[which] = 0
    for i in range(total):
        position = np.int64(positions[i])
        part = _part(stops, position, part)
        row, first = np.int64(rows[position]), part * stride + nth
        ends = _longs(sources[first], row + 2)
        low, size = np.uint64(ends[row]), np.uint64(ends[row + 1] - ends[row])
        data = _bytes(sources[first + 2], ends[row + 1])
        for k in range(size):
            text[at + k] = data[low + k]
        at += size
        stored[i + 1] = np.int32(at)
        if valid >= 0:
            flags = _bytes(sources[first + 1], row + 1)
            bit = np.uint8(1) if sources[first + 1] == 0 else np.uint8(flags[row] != 0)
            if i & 7 == 0:
                out[valid + (i >> 3)] = 0
            out[valid + (i >> 3)] |= np.uint8(bit << np.uint8(i & 7))
            nulls[which] += 1 - np.int64(bit)
