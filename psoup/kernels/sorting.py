"""Row numbers in the order of keys, by counting: one pass for each digit of the keys, the least significant first.

    keys 5 3 9 3      rows 0 1 2 3   ──a pass for each digit──>   rows 1 3 0 2        equal keys keep their order

No comparisons, so the time does not depend on the CPU's sorting instructions nor on how the keys lie. A pass is short
(5 ns a row), and whoever sorts may look around between two of them.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def digit_pass(keys, least, shift, rows, ends, out):
    """out = rows, ordered by a digit of their keys; rows of one digit keep their order.

    keys: int64[n], none below `least`; rows: uint32[k], places in them; read. The digit of a key is
    ((key - least) >> shift) modulo len(ends), which is a power of two. ends: int64[digits], scratch; out: uint32[k];
    written. O(k + digits).
    """
    mask, down = np.uint64(ends.shape[0] - 1), np.uint64(shift)
    ends[:] = 0
    for i in range(rows.shape[0]):
        ends[(np.uint64(keys[rows[i]] - least) >> down) & mask] += 1
    start = np.int64(0)
    for digit in range(ends.shape[0]):
        count = ends[digit]
        ends[digit] = start
        start += count
    for i in range(rows.shape[0]):
        row = rows[i]
        digit = (np.uint64(keys[row] - least) >> down) & mask
        out[ends[digit]] = row
        ends[digit] += 1


@njit(cache=True, nogil=True)
def mark_changes(keys, rows, changed):
    """changed[i] |= keys[rows[i]] != keys[rows[i - 1]], from i = 1 on.

    keys: int64[n]; rows: uint32[k]; read. changed: uint8[k], ORed in place. O(k).
    """
    for i in range(1, rows.shape[0]):
        changed[i] |= np.uint8(keys[rows[i]] != keys[rows[i - 1]])
