"""Sorted runs of (name of 128 bits, number): looked up in, and merged.

high  [ 03…  1f…  1f…  a7… ]     ascending: names are random, so where one lies is nearly known before it is looked at
low   [ 9c…  04…  77…  31… ]     ascending where `high` is equal; empty where 64 bits are enough
ids   [   4    0    7    1 ]
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_HALF = np.uint64(32)


@njit(cache=True, nogil=True)
def find_names(wanted, high, low, last_places):
    """Find where names lie in a run.

    wanted: uint64[n, 2], read. high, low: uint64[m], ascending, read. last_places: int64[n], written: the last place of
    the name, or -1. O(n log sqrt m) expected.
    """
    size = np.int64(high.shape[0])
    for i in range(wanted.shape[0]):
        name = wanted[i, 0]
        last_places[i] = -1
        if size == 0:
            continue
        guess = np.int64(((name >> _HALF) * np.uint64(size)) >> _HALF)
        step, start, stop = np.int64(8), guess, guess
        while start > 0 and high[start - 1] > name:
            start = max(start - step, 0)
            step *= 2
        step = np.int64(8)
        while stop < size and high[stop] <= name:
            stop = min(stop + step, size)
            step *= 2
        while start < stop:  # the first place behind the name is in [start, stop]
            middle = (start + stop) // 2
            if high[middle] <= name:
                start = middle + 1
            else:
                stop = middle
        at = start - 1
        while at >= 0 and high[at] == name:
            if low[at] == wanted[i, 1]:
                last_places[i] = at
                break
            at -= 1


@njit(cache=True, nogil=True)
def merge_names(high, low, ids, later_high, later_low, later_ids, out_high, out_low, out_ids):
    """Merge two runs; of equal names with a `low` the later name stays, without a `low` all do, the later behind.

    high, low, ids: uint64[n], uint64[n] or [0], uint32[n], read; so are the later ones, of m. out_*: of n + m (or 0),
    written. Returns how many of them. O(n + m).
    """
    exact = out_low.shape[0] > 0
    at, later_at, out = 0, 0, 0
    while at < high.shape[0] or later_at < later_high.shape[0]:
        if at == high.shape[0]:
            first = False
        elif later_at == later_high.shape[0]:
            first = True
        elif high[at] != later_high[later_at]:
            first = high[at] < later_high[later_at]
        elif not exact:
            first = True
        elif low[at] == later_low[later_at]:
            at += 1
            continue
        else:
            first = low[at] < later_low[later_at]
        if first:
            out_high[out], out_ids[out] = high[at], ids[at]
            if exact:
                out_low[out] = low[at]
            at += 1
        else:
            out_high[out], out_ids[out] = later_high[later_at], later_ids[later_at]
            if exact:
                out_low[out] = later_low[later_at]
            later_at += 1
        out += 1
    return out
