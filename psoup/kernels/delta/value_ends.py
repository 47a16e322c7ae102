"""The latest ends of values, and the changes that new rows cause.

    IBM ends at 7     row IBM 5..9   ──> 9      no change
                      row IBM 11..12 ──> 12     IBM leaves at 10, enters at 11

Values are numbers. The end of a value is the latest end of its rows.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit

ABSENT = -(2**63)
"""The end of a value that is not in the relation."""


@njit(cache=True, nogil=True)
def prolong_values(numbers, start, end, ends, changed, signs, instants, entered):
    """Update the ends of values by new rows; returns the number of changes, and of values that were absent.

    numbers: int32[n], the value of each row; start, end: int64[n], ascending by start; read. ends: int64[values], the
    latest end of each value, or ABSENT, written. changed: int32[2n], signs: int8[2n], instants: int64[2n], the
    changes, written at the front; a value's changes are in their order. entered: int32[n], the values that were
    absent, written at the front. A row that starts at the instant after its value's end prolongs it. O(n).
    """
    changes, entries = 0, 0
    for row in range(numbers.shape[0]):
        number = numbers[row]
        before = ends[number]
        if before != ABSENT:
            if before >= start[row] or before + 1 == start[row]:
                if end[row] > before:
                    ends[number] = end[row]
                continue
            changed[changes] = number
            signs[changes] = -1
            instants[changes] = before + 1
            changes += 1
        else:
            entered[entries] = number
            entries += 1
        changed[changes] = number
        signs[changes] = 1
        instants[changes] = start[row]
        changes += 1
        ends[number] = end[row]
    return changes, entries
