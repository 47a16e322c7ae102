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
    """out[places[i]] = values[offsets[i]]; returns a number without a meaning.

    values: int64[m]; offsets, places: int64[n]; read. out: int64, written. O(n), O(m + n) if n is a sixteenth of m.
    """
    met = np.int64(0)
    if 16 * offsets.shape[0] > values.shape[0]:
        for i in range(0, values.shape[0], 8):  # lines that come in their order come in two thirds of the time
            met += values[i]
    for i in range(offsets.shape[0]):
        out[places[i]] = values[offsets[i]]
    return met


@njit(cache=True, nogil=True)
def order_within(keys, starts, rows):
    """Sort the rows of each segment by their keys; rows of equal keys keep their order.

    keys: int64[n]; starts: int64[k + 1]; read. rows: int64[n], by segment, written. O(n) for
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
def _group_many(keys, low, high, first, group_keys, counts):
    """As `group_within` one segment of many rows; returns how many groups it has."""
    some = np.sort(keys[low:high])
    made = np.int64(0)
    for i in range(some.shape[0]):
        if i == 0 or some[i] != some[i - 1]:
            group_keys[first + made], counts[first + made] = some[i], 0
            made += 1
        counts[first + made - 1] += 1
    return made


@njit(cache=True, nogil=True)
def group_within(keys, starts, groups, group_keys, counts, ends):
    """Make a group of the rows with equal keys of each segment, in the order of the keys; returns how many.

    keys: int64[n]; starts: int64[k + 1]; read. groups: int32[n], the group of each row, or of no length: not wanted;
    group_keys, counts: int64[n], the key and the rows of each group; ends: int64[k + 1], where the groups of each
    segment start; written. O(n) for segments of a few rows, O(n log n).
    """
    first = np.int64(0)
    for segment in range(starts.shape[0] - 1):
        low, high = starts[segment], starts[segment + 1]
        ends[segment], made = first, np.int64(0)
        if high - low > _FEW:
            made = _group_many(keys, low, high, first, group_keys, counts)
        else:
            for i in range(low, high):
                key, at = keys[i], first + made
                while at > first and group_keys[at - 1] > key:
                    at -= 1
                if at > first and group_keys[at - 1] == key:
                    counts[at - 1] += 1
                    continue
                for other in range(first + made, at, -1):
                    group_keys[other], counts[other] = group_keys[other - 1], counts[other - 1]
                group_keys[at], counts[at] = key, 1
                made += 1
        if groups.shape[0]:
            for i in range(low, high):
                groups[i] = first + np.searchsorted(group_keys[first : first + made], keys[i])
        first += made
    ends[starts.shape[0] - 1] = first
    return first


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


@njit(cache=True, nogil=True)
def count_rows(which, counts):
    """Add to each count the rows of its clause.

    which: int64[n], read. counts: int64[clauses], added to. O(n).
    """
    for i in range(which.shape[0]):
        counts[which[i]] += 1


@njit(cache=True, nogil=True)
def spread_names(names, starts, out):
    """Give each row the name of its segment.

    names: int64[k]; starts: int64[k + 1]; read. out: int64[n], written. O(n).
    """
    for segment in range(names.shape[0]):
        for i in range(starts[segment], starts[segment + 1]):
            out[i] = names[segment]
