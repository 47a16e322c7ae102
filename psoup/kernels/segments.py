"""Rows of many clauses put side by side, clause after clause, and sorted and grouped within each.

    which     0 2 5 | 0 0 2          the clause of each row, part by part         starts   0 . 3 . . 5 6
    place     0 3 5 | 1 2 4          where it goes: by clause, then as they come
    keys      7 3 7 | 4 4 | 9        of rows by clause       order 1 0 2 | 3 4 | 5       groups 3 7 | 4 | 9

Segment k are the rows from starts[k] up to starts[k + 1]: few as a rule, so that each is sorted where it lies.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_FEW = 32
"""Rows up to which they are sorted by insertion."""


@njit(cache=True, nogil=True)
def place_rows(which, free, places):
    """Give each row the next place of its clause.

    which: int64[n], read. free: int64[clauses], the next place of each clause; places: int64[n]; written. O(n).
    """
    for i in range(which.shape[0]):
        clause = which[i]
        places[i] = free[clause]
        free[clause] += 1


@njit(cache=True, nogil=True)
def put_values(values, offsets, places, out):
    """out[places[i]] = values[offsets[i]].

    values: int64[m]; offsets, places: int64[n]; read. out: int64, written. O(n).
    """
    for i in range(offsets.shape[0]):
        out[places[i]] = values[offsets[i]]


@njit(cache=True, nogil=True)
def order_within(keys, starts, rows):
    """Sort the rows of each segment by their keys; rows of equal keys keep their order.

    keys: int64[n]; starts: int64[k + 1]; read. rows: int64[n], those of a segment at its places, written. O(n) for
    segments of a few rows, O(n log n).
    """
    for segment in range(starts.shape[0] - 1):
        low, high = starts[segment], starts[segment + 1]
        if high - low > _FEW:
            some = rows[low:high].copy()
            rows[low:high] = some[np.argsort(keys[some], kind="mergesort")]
            continue
        for i in range(low + 1, high):
            row, at = rows[i], i
            key = keys[row]
            while at > low and keys[rows[at - 1]] > key:
                rows[at] = rows[at - 1]
                at -= 1
            rows[at] = row


@njit(cache=True, nogil=True)
def group_within(keys, starts, rows, groups, group_keys, counts, ends):
    """Make a group of the rows of each segment with equal keys, which are side by side in `rows`; returns how many.

    keys: int64[n]; starts: int64[k + 1]; rows: int64[n], as `order_within` leaves them; read. groups: int32[n], the
    group of each row; group_keys, counts: int64[n], the key and the rows of each group; ends: int64[k + 1], where the
    groups of each segment start; written. O(n).
    """
    group = np.int64(-1)
    for segment in range(starts.shape[0] - 1):
        low, high = starts[segment], starts[segment + 1]
        ends[segment] = group + 1
        for i in range(low, high):
            row = rows[i]
            if i == low or keys[row] != group_keys[group]:
                group += 1
                group_keys[group] = keys[row]
                counts[group] = 0
            counts[group] += 1
            groups[row] = group
    ends[starts.shape[0] - 1] = group + 1
    return group + 1


@njit(cache=True, nogil=True)
def cut_within(starts, skip, limit, rows, ends):
    """Keep the first `limit` rows of each segment after the first `skip`, side by side; returns how many there are.

    starts: int64[k + 1], read. rows: int64[n], its beginning written in place; ends: int64[k + 1], where the rows of
    each segment start now, written. O(n).
    """
    at = np.int64(0)
    for segment in range(starts.shape[0] - 1):
        ends[segment] = at
        low = starts[segment] + skip
        for i in range(low, min(low + limit, starts[segment + 1])):
            rows[at] = rows[i]
            at += 1
    ends[starts.shape[0] - 1] = at
    return at
