"""Key indexes: the rows of a closed chunk in the order of their keys, and a search by intervals of keys.

    keys     305 12 307 12 NULL      code of a key: (key - minimum) >> shift      its bucket: code >> low
    starts   0 2                     bucket b begins at place starts[b]         its tag: the `low` bits that are left
    rows     1 3 0 2                 by bucket, in it by tag, equal ones as they lie; none of a NULL
    tags     0 0 1 3                 none if low is 0

A search takes several chunks, each named by the address of its `FACTS`; the caller keeps the arrays alive. If shift is
not 0, a row at an end of an interval may have a key outside.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from psoup.kernels.compile.inner import inner
from psoup.kernels.rows.batch_body import _longs, _pointer

FACTS = 7
"""Numbers of a chunk: the address of `starts`, `rows` and `tags` (uint16, side by side), the counts of starts and rows,
the least key and the greatest, shift, low."""

_FEW = 32
"""Rows that are sorted by comparing them."""


@inner
def _sort_few(tags, rows, first, stop):
    """Sort places first to stop by their tags, in place; equal ones stay in their order."""
    for i in range(first + 1, stop):
        tag, row, at = tags[i], rows[i], i
        while at > first and tags[at - 1] > tag:
            tags[at], rows[at] = tags[at - 1], rows[at - 1]
            at -= 1
        tags[at], rows[at] = tag, row


@njit(cache=True, nogil=True)
def _sort_many(tags, rows):
    """Sort by tags, a byte at a time; equal ones stay in their order."""
    size = tags.shape[0]
    tags_from, rows_from = tags.copy(), rows.copy()
    for down in (np.uint16(0), np.uint16(8)):
        ends = np.zeros(257, np.int64)
        for i in range(size):
            ends[np.int64((tags_from[i] >> down) & np.uint16(255)) + 1] += 1
        for digit in range(1, 257):
            ends[digit] += ends[digit - 1]
        for i in range(size):
            digit = np.int64((tags_from[i] >> down) & np.uint16(255))
            tags[ends[digit]], rows[ends[digit]] = tags_from[i], rows_from[i]
            ends[digit] += 1
        tags_from[:], rows_from[:] = tags, rows


_HASHED, _SPREAD = np.uint64(0xCBF2_9CE4_8422_2325), np.uint64(0x9E37_79B9_7F4A_7C15)


@njit(cache=True, nogil=True)
def number_texts(offsets, data, out):
    """A number of 32 bits for each text, the same for equal texts. Different texts may share one.

    offsets: int64[n + 1], data: uint8[b], read. out: int64[n], written. O(bytes).
    """
    for i in range(out.shape[0]):
        state = _HASHED
        for at in range(offsets[i], offsets[i + 1]):
            state = (state ^ np.uint64(data[at])) * _SPREAD
            state ^= state >> np.uint64(32)
        out[i] = np.int64((state * _SPREAD) >> np.uint64(32))


@njit(cache=True, nogil=True)
def order_rows(keys, valid, minimum, shift, low, starts, rows, tags):
    """Put rows in the order of their keys.

    keys: int64[n], none of a valid row below least, n at most 65,536; valid: uint8[n], or uint8[0] if all are; read.
    starts: uint16[buckets], the last with a row; rows: uint16[valid rows]; tags: as rows, or uint16[0] if low is 0;
    written. O(n + buckets).
    """
    base, move, down = np.uint64(minimum), np.uint64(shift), np.uint64(low)
    mask, all_valid, tagged = (np.uint64(1) << down) - np.uint64(1), valid.shape[0] == 0, low > 0
    ends = np.zeros(starts.shape[0] + 1, np.int64)
    for i in range(keys.shape[0]):
        if all_valid or valid[i] != 0:
            ends[np.int64((np.uint64(keys[i]) - base) >> move >> down) + 1] += 1
    for b in range(starts.shape[0]):
        ends[b + 1] += ends[b]
        starts[b] = ends[b]
    for i in range(keys.shape[0]):
        if all_valid or valid[i] != 0:
            code = (np.uint64(keys[i]) - base) >> move
            b = np.int64(code >> down)
            rows[ends[b]] = i
            if tagged:
                tags[ends[b]] = code & mask
            ends[b] += 1
    if tagged:
        for b in range(starts.shape[0]):
            first, stop = np.int64(starts[b]), ends[b]
            if stop - first > _FEW:
                _sort_many(tags[first:stop], rows[first:stop])
            elif stop - first > 1:
                _sort_few(tags, rows, first, stop)


@njit(cache=True, nogil=True, inline="always")
def _place(words, buckets, count, low, code):
    """The first place of a code, or of the next one that has a row."""
    b = np.int64(code >> np.uint64(low))
    if b >= buckets:
        return count
    first, stop = np.int64(words[b]), np.int64(words[b + 1]) if b + 1 < buckets else count
    if low == 0:
        return first
    tags, tag = buckets + count, code & ((np.uint64(1) << np.uint64(low)) - np.uint64(1))
    while first < stop:
        middle = (first + stop) >> 1
        if words[tags + middle] < tag:
            first = middle + 1
        else:
            stop = middle
    return first


@njit(cache=True, nogil=True)
def find_keys(indexes, lows, lasts, begin, end, counts):
    """Find the places of the keys in intervals, in each of some chunks.

    indexes: int64[c], addresses of int64[FACTS]; lows, lasts: int64[k], the ends of the intervals, both in it; read.
    The intervals ascend and are disjoint. Two of them may share a code if shift is not 0: the first gets its places.
    begin, end: int32[c, k], written: places, ascending, each in one interval at most; counts: int64[c], written: the
    number of places in each chunk. O(c * k * log of the rows of a bucket).
    """
    for c in range(indexes.shape[0]):
        facts = _longs(indexes[c], FACTS)
        buckets, count, minimum, maximum = facts[1], facts[2], facts[3], facts[4]
        move, low = np.uint64(facts[5]), facts[6]
        words = carray(_pointer(facts[0]), buckets + 2 * count, np.uint16)
        total, taken = np.int64(0), np.int64(0)
        for k in range(lows.shape[0]):
            first, last = max(lows[k], minimum), min(lasts[k], maximum)
            begin[c, k], end[c, k] = 0, 0
            if first <= last:
                code = (np.uint64(first) - np.uint64(minimum)) >> move
                start = max(_place(words, buckets, count, low, code), taken)
                code = (np.uint64(last) - np.uint64(minimum)) >> move
                taken = max(_place(words, buckets, count, low, code + np.uint64(1)), taken)
                begin[c, k], end[c, k] = start, taken
                total += taken - start
        counts[c] = total


@njit(cache=True, nogil=True)
def _sort_rows(out, marks):
    """Sort rows, in place; returns whether all differ. marks: uint8[65,536], zeros, as afterwards; unused for few rows.

    Only the different rows are written if some are equal.
    """
    size = out.shape[0]
    if size <= _FEW:
        for i in range(1, size):
            row, at = out[i], i
            while at > 0 and out[at - 1] > row:
                out[at] = out[at - 1]
                at -= 1
            out[at] = row
        same = 0
        for i in range(1, size):
            same += out[i] == out[i - 1]
        return same == 0
    minimum, maximum = out[0], out[0]
    for i in range(size):
        marks[out[i]] = 1
        minimum, maximum = min(minimum, out[i]), max(maximum, out[i])
    at = 0
    for row in range(minimum, maximum + 1):
        if marks[row] != 0:
            out[at], marks[row] = row, 0
            at += 1
    return at == size


@njit(cache=True, nogil=True)
def take_found(indexes, which, begin, end, out):
    """Write the rows at places that `find_keys` found; returns whether the rows of each chunk strictly ascend.

    indexes, begin, end: see `find_keys`; which: int64[m], chunks, in their order; read. out: int64[rows of these],
    written. A place that is in two intervals gives its row twice: False, and `out` is not to be used. O(rows), and
    30 us for a chunk that gives more than some.
    """
    cap = np.int64(0)
    for m in range(which.shape[0]):
        matches = np.int64(0)
        for k in range(begin.shape[1]):
            matches += end[which[m], k] - begin[which[m], k]
        cap = max(cap, matches)
    marks, at = np.zeros(65_536 if cap > _FEW else 1, np.uint8), 0
    ascending = True
    for m in range(which.shape[0]):
        c = which[m]
        facts = _longs(indexes[c], FACTS)
        words = carray(_pointer(facts[0]), facts[1] + facts[2], np.uint16)
        start = at
        for k in range(begin.shape[1]):
            for place in range(begin[c, k], end[c, k]):
                out[at] = words[facts[1] + place]
                at += 1
        ascending &= _sort_rows(out[start:at], marks)
    return ascending
