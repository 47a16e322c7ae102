"""The lists of the rows of each key, the newest first.

key 5 ─> row 9 ─> row 4 ─> row 0
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit

ABSENT = -(2**63)
"""The end of a row that left."""


@njit(cache=True, nogil=True)
def chain_rows(row_keys, first, following, head, links):
    """Put rows into the lists of their keys, from row `first` on.

    row_keys: int32[rows], -1 for none, read. following: int32[rows or more], the next row; head, links: int32[keys],
    the first row of each key, or -1, and the number of its rows; written. O(rows).
    """
    for row in range(first, row_keys.shape[0]):
        key = row_keys[row]
        if key >= 0:
            following[row] = head[key]
            head[key] = row
            links[key] += 1


@njit(cache=True, nogil=True)
def gather_rows(keys, head, following, ends, rows):
    """List the rows of some keys that did not leave; returns their number.

    keys: int64[k]; head: int32[keys]; following: int32[rows]; ends: int64[rows], ABSENT for a row that left; read.
    rows: int32, with room for all rows of these keys, written at the front. O(k + rows of these keys).
    """
    count = 0
    for place in range(keys.shape[0]):
        row = head[keys[place]]
        while row >= 0:
            if ends[row] != ABSENT:
                rows[count] = row
                count += 1
            row = following[row]
    return count
