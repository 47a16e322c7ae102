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
def find_names(wanted, high, low, found):
    """Find where names lie in a run.

    wanted: uint64[n, 2], read. high, low: uint64[m], ascending, read. found: int64[n], written: the last place of the
    name, or -1. O(n log sqrt m) expected.
    """
    size = np.int64(high.shape[0])
    for i in range(wanted.shape[0]):
        name = wanted[i, 0]
        found[i] = -1
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
                found[i] = at
                break
            at -= 1


@njit(cache=True, nogil=True)
def merge_names(high, low, ids, later_high, later_low, later_ids, out_high, out_low, out_ids):
    """Merge two runs; of equal names with a `low` the later name stays, without a `low` all do, the later behind.

    high, low, ids: uint64[n], uint64[n] or [0], uint32[n], read; so are the later ones, of m. out_*: of n + m (or 0),
    written. Returns how many of them. O(n + m).
    """
    exact = out_low.shape[0] > 0
    one, two, out = 0, 0, 0
    while one < high.shape[0] or two < later_high.shape[0]:
        if one == high.shape[0]:
            first = False
        elif two == later_high.shape[0]:
            first = True
        elif high[one] != later_high[two]:
            first = high[one] < later_high[two]
        elif not exact:
            first = True
        elif low[one] == later_low[two]:
            one += 1
            continue
        else:
            first = low[one] < later_low[two]
        if first:
            out_high[out], out_ids[out] = high[one], ids[one]
            if exact:
                out_low[out] = low[one]
            one += 1
        else:
            out_high[out], out_ids[out] = later_high[two], later_ids[two]
            if exact:
                out_low[out] = later_low[two]
            two += 1
        out += 1
    return out
