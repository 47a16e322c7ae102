"""Matches laid out by tuple, under the names of their queries.

    pairs       slot 7 2 9 | 4 8 | 5 …      offset 3 3 3 | 0 0 | 3 …     a *stretch* of equal offsets after the other
    bases       of 64 slots each: query = base + slot, where that holds for all of them; else each has its name
    out         queries of tuple 0, tuple 1, …                            a stretch is written to one place
    rows        of bits, for clauses that match often: each has its query, and is read a line of cache at a time

Lists give the matches of a tuple one after the other: stretches are long, and are written in a third of the time of
single pairs. Query IDs follow slots as a rule, as both count up: the bases of a million slots take an eighth of a
megabyte, their names four.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.lanes import LINE
from psoup.kernels.rows.bitmaps import _popcount

_ONE = np.uint64(1)
TOGETHER = 6
"""Bits of a slot that do not say which base it has."""
UNEVEN = np.iinfo(np.int64).min
"""The base of slots that have a name each."""


@njit(cache=True, nogil=True)
def count_offsets(offsets, ends, counts):
    """Find the stretches of pairs, and add how many pairs each offset has to counts[offset].

    offsets: uint16[k], read. ends: int32[k], written: where each stretch ends. counts: int64, written. Returns how many
    stretches there are. O(k), without a branch for each pair.
    """
    size, stretches, begin, unit = np.uint64(offsets.shape[0]), np.int64(0), np.int64(0), np.uint64(1)
    if size == 0:
        return stretches
    for i in range(size - unit):
        ends[stretches] = i + unit
        stretches += offsets[i] != offsets[i + unit]
    ends[stretches] = size
    stretches += 1
    for stretch in range(stretches):
        counts[offsets[begin]] += ends[stretch] - begin
        begin = np.int64(ends[stretch])
    return stretches


@njit(cache=True, nogil=True)
def place_by_offset(slots, offsets, ends, names, bases, first, places, out, several):
    """Put the query of each pair to the next place of its offset: out[places[offset]], which then goes on.

    slots: uint32[k], offsets: uint16[k]; ends: int32[stretches], see `count_offsets`. names: int32 or int64[S], the
    query less `first`, or below 0, which is put as it is. bases: int64[S >> TOGETHER, rounded up]. Read. places, out:
    int64, written. several: int64[k + 1], written: where the names below 0 are put, in no order. Returns how many there
    are. O(k).
    """
    begin, count = np.int64(0), np.int64(0)
    for stretch in range(ends.shape[0]):
        end, offset = np.int64(ends[stretch]), offsets[begin]
        place, part = places[offset], slots[begin:end]
        queries = out[place : place + end - begin]
        for i in range(end - begin):
            slot = part[i]
            base = bases[slot >> TOGETHER]
            if base != UNEVEN:
                queries[i] = base + np.int64(slot)
            else:
                name = np.int64(names[slot])
                queries[i] = name + (first if name >= 0 else 0)
                several[count] = place + i
                count += name < 0
        places[offset] = place + end - begin
        begin = end
    return count


@njit(cache=True, nogil=True)
def count_bits(rows, count, counts):
    """Add to counts[tuple] how many of the first `count` rows have its bit.

    rows: uint64[B, R, W] (see `psoup.kernels.rows.bit_blocks`), read. counts: int64, written. O(words + set bits).
    """
    for block in range(rows.shape[0]):
        for row in range(count):
            for word in range(rows.shape[2]):
                bits, first = rows[block, row, word], (block * rows.shape[2] + word) << 6
                while bits != 0:
                    counts[first + np.int64(_popcount((bits & (~bits + _ONE)) - _ONE))] += 1
                    bits &= bits - _ONE


@njit(cache=True, nogil=True)
def place_bits(rows, queries, places, out, several):
    """Put queries[r] for each bit of row r to the next place of its tuple: out[places[tuple]], which then goes on.

    rows: uint64[B, R, W]; queries: int64[r], r <= R, of the first rows, or a name below 0. Read. places, out, several,
    and what is returned: see `place_by_offset`. Tuples of one line of cache are written to at a time: of all tuples
    there are more places than the first cache has lines. O(words + set bits).
    """
    count = np.int64(0)
    for block in range(rows.shape[0]):
        for line in range(0, rows.shape[2], LINE):
            for row in range(queries.shape[0]):
                query = queries[row]
                for word in range(line, min(line + LINE, rows.shape[2])):
                    bits, first = rows[block, row, word], (block * rows.shape[2] + word) << 6
                    while bits != 0:
                        offset = first + np.int64(_popcount((bits & (~bits + _ONE)) - _ONE))
                        bits &= bits - _ONE
                        out[places[offset]] = query
                        if query < 0:
                            several[count] = places[offset]
                            count += 1
                        places[offset] += 1
    return count


@njit(cache=True, nogil=True)
def write_out(queries, several, ptr, members, out):
    """Copy queries, and instead of the names below 0 what they stand for: -1 - k, members[ptr[k]] up to ptr[k + 1].

    queries, ptr, members: int64; several: int64[m], where the names are, ascending. Read. out: int64, written.
    O(length of out).
    """
    place, begin = np.int64(0), np.int64(0)
    for k in range(several.shape[0] + 1):
        end = several[k] if k < several.shape[0] else queries.shape[0]
        out[place : place + end - begin] = queries[begin:end]
        place += end - begin
        begin = end + 1
        if k < several.shape[0]:
            part = members[ptr[-1 - queries[end]] : ptr[-queries[end]]]
            out[place : place + part.shape[0]] = part
            place += part.shape[0]
