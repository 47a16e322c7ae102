"""Rows of a COPY in binary format taken apart.

    data      0 2 | 0 0 0 8 | 00…07 | ff ff ff ff
    starts    6, 18
    sizes     8, -1

The row has a BIGINT and a NULL.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, inline="always")
def _int32(data, at):
    value = np.int64(0)
    for j in range(4):
        value = value << 8 | np.int64(data[at + j])
    return value - (value >> 31 << 32)


@njit(cache=True, nogil=True)
def find_values(data, first, starts, sizes):
    """Find the values of whole rows.

    The search ends before a row with another number of columns, or with a false length.

    data: uint8[bytes], first: the place of the first row; read. starts, sizes: int64[c, capacity], written: where each
    value begins, and its bytes, -1 for NULL. Returns the rows, and the place behind them. O(rows * c).
    """
    rows, at, end = 0, first, data.shape[0]
    while rows < starts.shape[1] and at + 2 <= end:
        if (np.int64(data[at]) << 8 | np.int64(data[at + 1])) != starts.shape[0]:
            break
        place = at + 2
        for c in range(starts.shape[0]):
            if place + 4 > end:
                return rows, at
            size = _int32(data, place)
            place += 4
            if size < -1 or place + size > end:
                return rows, at
            starts[c, rows], sizes[c, rows] = place, size
            place += max(size, 0)
        at = place
        rows += 1
    return rows, at
