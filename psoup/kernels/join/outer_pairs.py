"""Pairs of an outer join: rows of the left without a partner are merged into the pairs, in order.

    rows     0 1 2 3 4         all rows of the left, or of a part of it
    pairs    (0, 4) (0, 7) (3, 2)
    out      (0, 4) (0, 7) (1, -) (2, -) (3, 2) (4, -)

A row is a position, or the code of a tuple.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_U0, _U1 = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def merge_missing(rows, left, right, missing, out_left, out_right):
    """Merge a pair (row, missing) for each row without a pair into the pairs; returns how many there are then.

    rows: int32[k], ascending. left, right: int32[n], the pairs; left ascends. All read. out_left,
    out_right: int32[k + n], written, with scratch behind the pairs. A pair whose left is not in rows remains. O(k + n).
    """
    at, n, pairs = _U0, _U0, np.uint64(left.shape[0])
    for i in range(rows.shape[0]):
        row = rows[np.uint64(i)]
        while at < pairs and left[at] < row:
            out_left[n], out_right[n] = left[at], right[at]
            n, at = n + _U1, at + _U1
        if at == pairs or left[at] != row:
            out_left[n], out_right[n] = row, missing
            n += _U1
    while at < pairs:
        out_left[n], out_right[n] = left[at], right[at]
        n, at = n + _U1, at + _U1
    return np.int64(n)
