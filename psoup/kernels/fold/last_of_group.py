"""The last rows of each group, read from the newest row backwards.

    numbers   0 1 0 0 1 2        the group of each row
    left      2 2 2              each group takes two more rows
    flags     0 1 1 1 1 1        left afterwards: 0 0 1

A group that takes no more rows is full.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def keep_last(numbers, left, flags):
    """Mark the last rows of each group.

    numbers: int32[n], the group of each row, read. left: int32[groups], how many rows each group still takes, written.
    flags: uint8[n], 1 for a row that its group takes, else 0, written. O(n).
    """
    for row in range(numbers.shape[0] - 1, -1, -1):
        group = numbers[row]
        more = left[group]
        if more > 0:
            left[group] = more - 1
            flags[row] = 1
        else:
            flags[row] = 0
