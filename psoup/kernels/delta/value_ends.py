"""Youngest ends of values: which new rows make their value enter a relation.

    IBM ends at 7     row IBM 5..9   ──> 9      no change
                      row IBM 11..12 ──> 12     IBM leaves at 10, enters at 11

A value is a number, and it has one end.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit

ABSENT = -(2**63)
"""The end of a value that is not in the relation."""


@njit(cache=True, nogil=True)
def prolong_values(numbers, start, end, ends, changed, signs, instants, entered):
    """Put rows into the ends of their values; returns how many changes there are, and how many values were absent.

    numbers: int32[n], the value of each row; start, end: int64[n], ascending by start; read. ends: int64[values], the
    youngest end of each value, or ABSENT, written. changed: int32[2n], signs: int8[2n], instants: int64[2n], the
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
