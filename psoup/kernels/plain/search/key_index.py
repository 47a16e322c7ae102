"""Twins of `psoup.kernels.search.key_index`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.plain.rows.batch_body import _at
from psoup.kernels.search.key_index import FACTS


def number_texts(offsets: Array, data: Array, out: Array) -> None:
    """See the kernel."""
    spread, mask = 0x9E37_79B9_7F4A_7C15, 2**64 - 1
    for i in range(len(out)):
        state = 0xCBF2_9CE4_8422_2325
        for byte in data[offsets[i] : offsets[i + 1]].tolist():
            state = ((state ^ byte) * spread) & mask
            state ^= state >> 32
        out[i] = ((state * spread) & mask) >> 32


def order_rows(
    keys: Array, valid: Array, minimum: int, shift: int, low: int, starts: Array, rows: Array, tags: Array
) -> None:
    """See the kernel."""
    part = np.flatnonzero(valid) if len(valid) else np.arange(len(keys))
    codes = [(int(key) - minimum) >> shift for key in keys[part]]
    order = sorted(range(len(part)), key=codes.__getitem__)
    rows[:] = part[order]
    if low:
        tags[:] = [codes[place] & ((1 << low) - 1) for place in order]
    starts[:] = np.searchsorted(np.array([codes[place] >> low for place in order]), np.arange(len(starts)))


def find_keys(indexes: Array, lows: Array, lasts: Array, begin: Array, end: Array, counts: Array) -> None:
    """See the kernel."""
    for c, address in enumerate(indexes.tolist()):
        words, buckets, count, minimum, maximum, shift, low = _at(address, FACTS, np.int64).tolist()
        every = _at(words, buckets + (2 if low else 1) * count, np.uint16).astype(np.int64)
        of_places = np.searchsorted(every[:buckets], np.arange(count), "right") - 1
        codes = (of_places << low) + (every[buckets + count :] if low else 0)
        taken = 0
        for k, (first, last) in enumerate(zip(lows.tolist(), lasts.tolist(), strict=True)):
            first, last = max(first, minimum), min(last, maximum)
            begin[c, k] = end[c, k] = 0
            if first <= last:
                begin[c, k] = max(np.searchsorted(codes, (first - minimum) >> shift, "left"), taken)
                end[c, k] = taken = max(np.searchsorted(codes, (last - minimum) >> shift, "right"), taken)
        counts[c] = int((end[c] - begin[c]).sum())


def take_found(indexes: Array, which: Array, begin: Array, end: Array, out: Array) -> bool:
    """See the kernel."""
    at, ascending = 0, True
    for c in which.tolist():
        words, buckets, count, *_ = _at(indexes[c], FACTS, np.int64).tolist()
        rows = _at(words, buckets + count, np.uint16)[buckets:]
        parts = [rows[first:stop] for first, stop in zip(begin[c].tolist(), end[c].tolist(), strict=True)]
        matches = np.sort(np.concatenate(parts)) if parts else rows[:0]
        out[at : at + len(matches)] = matches
        at += len(matches)
        ascending &= len(np.unique(matches)) == len(matches)
    return ascending
