"""All pairs of two small sides by one equality, in one call: for a few rows the steps' calls took longer than the rows.

keys of both sides ─ gather_keys ─> buckets of the right one ─ fill_buckets ─> pairs ─ probe_buckets
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.buckets import fill_buckets
from psoup.kernels.inner import inner
from psoup.kernels.joined import gather_keys, probe_buckets

SPREADING = np.uint64(0x9E37_79B9_7F4A_7C15)
"""An odd number near 2**64 divided by the golden ratio: the high bits of a product depend on all bits of a key."""


@njit(cache=True, nogil=True)
def choose_buckets(least, greatest, count):
    """How the keys of a side become buckets, as `fill_buckets` asks; returns (base, factor, shift, buckets, exact).

    exact: a bucket has one key. count: how many keys, from `least` to `greatest`; at least one. O(1).
    """
    if np.uint64(greatest) - np.uint64(least) <= np.uint64(2 * count):
        return np.uint64(least), np.uint64(1), np.uint64(0), greatest - least + 1, True
    bits = 4
    while count >> bits:
        bits += 1
    return np.uint64(0), SPREADING, np.uint64(64 - bits), np.int64(1) << bits, False


@inner
def _chained(keys, driving, other, others, heads, following, shift, most, left, right):
    """As `pair_small`, where keys are far apart, and most rows have no partner: those of one hash hang on a chain."""
    heads[:] = -1
    for i in range(others.shape[0] - 1, -1, -1):  # the last row first: a chain ascends
        row = np.uint64(others[i])
        bucket = (np.uint64(other[row]) * SPREADING) >> shift
        following[row], heads[bucket] = heads[bucket], row
    n, room, looked = np.uint64(0), np.uint64(left.shape[0]), 0
    every, count = driving.shape[0] == 0, keys.shape[0] if driving.shape[0] == 0 else driving.shape[0]
    for i in range(count):
        row = np.uint64(i if every else driving[i])
        key = keys[row]
        partner = heads[(np.uint64(key) * SPREADING) >> shift]
        while partner >= 0:
            looked += 1
            if other[np.uint64(partner)] == key:
                if n == room:
                    return np.int64(-1)
                left[n], right[n] = row, partner
                n += np.uint64(1)
            partner = following[np.uint64(partner)]
        if looked > most:
            return np.int64(-1)
    return np.int64(n)


@njit(cache=True, nogil=True)
def pair_small(
    kinds, columns, sources, stride, rows, stops, other_sources, other_stride, other_rows, other_stops, most,
    left, right,
):  # fmt: skip
    """Write the pairs of rows with equal keys, ascending; returns how many.

    kinds, columns: (int, int), of the keys of both sides, and sources to stops, of one side and of the other: as
    `gather_keys` asks; each has a row. Read. left, right: int32[room], written. Returns -1 if there are more
    pairs than room, or if more than `most` places were to be looked at. O(rows + places looked at).
    """
    keys, kept = np.empty(rows.shape[0], np.int64), np.empty(rows.shape[0], np.int32)
    count, _, _ = gather_keys(kinds[0], columns[0], sources, stride, rows, stops, keys, kept)
    other, others = np.empty(other_rows.shape[0], np.int64), np.empty(other_rows.shape[0], np.int32)
    size, least, greatest = gather_keys(
        kinds[1], columns[1], other_sources, other_stride, other_rows, other_stops, other, others
    )
    if count == 0 or size == 0:
        return np.int64(0)
    if size == other_rows.shape[0]:
        for i in range(size):
            others[i] = i
    driving = kept[:0] if count == rows.shape[0] else kept[:count]
    base, factor, shift, buckets, exact = choose_buckets(least, greatest, size)
    places = np.empty(size if exact else other_rows.shape[0], np.int32)
    starts = np.empty(buckets + 2, np.int32)
    if not exact:
        return _chained(keys, driving, other, others[:size], starts[:buckets], places, shift, most, left, right)
    fill_buckets(other, others[:size], base, factor, shift, starts, places, other[:0])
    at, _, pairs, _ = probe_buckets(
        keys, driving, base, factor, shift, starts, other[:0], places, 0, 0, most, left, right
    )
    return pairs if at == count else np.int64(-1)
