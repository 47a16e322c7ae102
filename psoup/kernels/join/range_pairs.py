"""Pairs of rows from ranges of places: which partners each row on the left may have, and which it has.

    left row     0      1      2         places begin[i] to end[i] of an order of the right rows
    places       4..6   -      0..1
    pairs        (0, row at 4), (0, row at 5), (2, row at 0)        ascending by left row, as much as there is room for

A call that stops for want of room says where; the next one goes on from there. No call writes past its arrays.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit

from psoup.kernels.compile.inner import inner

AT_LEAST, ABOVE, AT_MOST, BELOW = range(4)
"""Values of `relation` in `narrow_ranges`: `ordered[place]` must be >=, >, <= or < the key of the row."""

EQ, LT, LE, GT, GE = range(5)
"""Relations of the left key of a pair to its right key, for `keep_pairs`."""


@inner
def _place(ordered, key, past, low, high, hint):
    """The first of places low to high whose key is >= key (past: > key). Fast if it is near `hint`."""
    if low < hint < high:
        step = 1
        if ordered[hint] < key or (past and ordered[hint] == key):
            low = hint + 1
            while low + step < high and (ordered[low + step] < key or (past and ordered[low + step] == key)):
                low += step + 1
                step *= 2
            high = min(high, low + step)
        else:
            high = hint
            while high - step > low and not (ordered[high - step] < key or (past and ordered[high - step] == key)):
                high -= step
                step *= 2
            low = max(low, high - step)
    while low < high:
        middle = (low + high) >> 1
        if ordered[middle] < key or (past and ordered[middle] == key):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def narrow_ranges(ordered, keys, relation, begin, end):
    """Narrow each row's range of places to those with ordered[place] >= keys[i] (or as `relation` says).

    Returns how many places are left. ordered: int64[places], ascending within each range; keys: int64[n]; read.
    begin, end: int32[n], written in place. O(n log of the distance between the places of a row and of the row before).
    """
    past, lower = relation in (ABOVE, AT_MOST), relation in (AT_LEAST, ABOVE)
    hint, left = 0, 0
    for i in range(keys.shape[0]):
        if begin[i] >= end[i]:
            continue
        hint = _place(ordered, keys[i], past, begin[i], end[i], hint)
        if lower:
            begin[i] = hint
        else:
            end[i] = hint
        left += end[i] - begin[i]
    return left


@njit(cache=True, nogil=True)
def emit_pairs(begin, end, keys, place_keys, place_rows, at, inside, cap, left, right):
    """Write pairs from left row `at` on, of whose range `inside` places are done.

    Returns (at, inside, pairs, places looked at). begin, end: int32[n], ranges of places. keys: int64[n] and
    place_keys: int64[places]: only pairs of equal keys are written; place_keys of no length: all are. place_rows:
    int32[places]. All read. A row is written whole, unless it alone is more than there is room for. left, right:
    int64[room], room at least 1; written. The call ends after the row with which `cap` places have been looked at.
    O(places looked at + n). Most rows have no partner, one or two, at random: two are written without asking, and
    counted or not; asking took twice the time.
    """
    n, looked, room, rows = 0, 0, left.shape[0], begin.shape[0]
    checked, places = place_keys.shape[0] > 0, place_rows.shape[0]
    while at < rows and looked < cap:
        first = begin[at] + inside
        size = end[at] - first
        if n + max(size, 2) <= room and first + 2 <= places:
            left[n], right[n] = at, place_rows[first]
            n += (size > 0) & (not checked or place_keys[first] == keys[at])
            left[n], right[n] = at, place_rows[first + 1]
            n += (size > 1) & (not checked or place_keys[first + 1] == keys[at])
            for place in range(first + 2, first + size):
                left[n], right[n] = at, place_rows[place]
                n += not checked or place_keys[place] == keys[at]
            taken = size
        else:
            taken = min(size, room - n)
            if taken < size and n:
                break
            for place in range(first, first + taken):
                if not checked or place_keys[place] == keys[at]:
                    left[n], right[n] = at, place_rows[place]
                    n += 1
        looked += max(taken, 0)
        if taken < size:
            inside += taken
            break
        at, inside = at + 1, 0
    return at, inside, n, looked


@njit(cache=True, nogil=True)
def keep_pairs(left_keys, right_keys, operator, left, right, pairs):
    """Keep the pairs whose keys compare as `operator` says, at the front; returns how many.

    left_keys, right_keys: int64, by row; read. left, right: int64, the first `pairs` are; written in place. O(pairs).
    """
    count = 0
    for i in range(pairs):
        a, b = left_keys[left[i]], right_keys[right[i]]
        if operator == EQ:
            true = a == b
        elif operator == LT:
            true = a < b
        elif operator == LE:
            true = a <= b
        elif operator == GT:
            true = a > b
        else:
            true = a >= b
        left[count], right[count] = left[i], right[i]
        count += true
    return count
