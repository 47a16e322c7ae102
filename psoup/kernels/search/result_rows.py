"""The matches of one clause in the results of many chunks: their places, then their rows, in two calls.

    chunks    sealed   sealed   open          each a vector of numbers: where the arrays of its results lie
    located   bits     list     row, runs     how many, and where: `locate`
    rows      0 7 9  | 3 4    | 1             offsets, chunk after chunk: `write_rows`

Arrays are named by address, as their number varies; the caller keeps them alive. The numbers of a chunk are
`psoup.results.places`.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from psoup.kernels.arrive.slot_runs import BUCKETS, mark_pairs
from psoup.kernels.compile.inner import inner
from psoup.kernels.rows.batch_body import _longs, _pointer
from psoup.kernels.rows.bitmaps import _ALL, _FOUR, _ONE, _S6, _popcount, _word, _write_four, offset_range

EVERYTHING, PACKED, OPEN = 0, 1, 2
"""Forms of the results of a chunk: of a clause without a condition; sealed; of a chunk that gets tuples."""

PACK_NUMBERS = 7
"""Numbers of a pack: (ids, length of ids, counts, place, lists, bitmaps, words of a bitmap). Arrays are addresses."""
RUN_NUMBERS = 4
"""Numbers of a run: (slots, offsets, starts, number of blocks). Arrays are addresses."""
PACKS_AT, RUNS_AT = 3, 10
"""First places of packs and of runs. Before them: the form, the first SQC ID that is not covered, and the count of
packs or runs. Of an open chunk then (row_of_slot, its length, rows, B, R, W, rows in use)."""

NOTHING, RANGE, LIST, BITS, MIXED = range(5)
"""Forms of located matches: no row; rows from start on; uint16 offsets at an address; bits there; an open chunk's
numbers there."""


@inner
def _found(ids, wanted):
    """The place of an ID among ascending ones, or -1."""
    low, high = 0, ids.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < ids.shape[0] and ids[low] == wanted else -1


@njit(cache=True, nogil=True)
def _in_packs(numbers, sqc_id, start, stop, rows, out):
    """Locate a clause in the packs of a sealed chunk."""
    for pack in range(numbers[2]):
        part = numbers[PACKS_AT + pack * PACK_NUMBERS : PACKS_AT + (pack + 1) * PACK_NUMBERS]
        at = _found(_longs(part[0], part[1]), sqc_id)
        if at < 0:
            continue
        count = np.int64(carray(_pointer(part[2]), part[1], np.int32)[at])
        place = _longs(part[3], part[1])[at]
        if place >= 0:
            lists = carray(_pointer(part[4]), place + count, np.uint16)
            low, high = offset_range(lists, place, place + count, start, stop)
            out[0], out[1], out[4] = LIST, part[4] + 2 * low, high - low
            return
        address = part[5] + 8 * part[6] * ~place
        if stop - start < rows:
            words, count = carray(_pointer(address), part[6], np.uint64), np.int64(0)
            for index in range(start >> 6, ((stop - 1) >> 6) + 1):
                count += np.int64(_popcount(_word(words, index, start, stop)))
        out[0], out[1], out[4] = BITS, address, count
        return


@njit(cache=True, nogil=True)
def _mixed(numbers, slot, start, stop, words):
    """Write what a slot matched in an open chunk as bits; returns how many of them are in [start, stop)."""
    slots = carray(_pointer(numbers[3]), numbers[4], np.int32)
    row = slots[slot] if slot < numbers[4] else -1
    blocks, height, width = numbers[6], numbers[7], numbers[8]
    words[:] = 0
    if row >= 0 and row < numbers[9]:
        rows = carray(_pointer(numbers[5]), (blocks, height, width), np.uint64)
        for index in range(words.shape[0]):
            words[index] = rows[index // width, row, index % width]
    for run in range(numbers[2]):
        part = numbers[RUNS_AT + run * RUN_NUMBERS : RUNS_AT + (run + 1) * RUN_NUMBERS]
        starts = carray(_pointer(part[2]), (part[3], BUCKETS + 1), np.int64)
        if part[3]:
            size = starts[part[3] - 1, BUCKETS]
            pairs = carray(_pointer(part[0]), size, np.uint32), carray(_pointer(part[1]), size, np.uint16)
            mark_pairs(pairs[0], pairs[1], starts, slot, start, stop, words)
    count = np.int64(0)
    for index in range(start >> 6, ((stop - 1) >> 6) + 1):
        count += np.int64(_popcount(_word(words, index, start, stop)))
    return count


@njit(cache=True, nogil=True)
def locate(chunks, low, high, sqc_id, slot, located):
    """Locate the matches of a clause in chunks, those with tuple IDs in [low, high).

    chunks: int64[n, 4]: address and count of a chunk's numbers (0: the clause has no condition), first tuple ID, count
    of tuples; read. slot: of the clause in open chunks. located: int64[n, 5], written:
    (what, address, from which row, to which, how many). Returns how many in all; -1 if some chunk was not evaluated as
    a whole. O(words of open chunks and of those that are cut + log of what is in the packs).
    """
    total, words = np.int64(0), np.empty(0, np.uint64)
    for part in range(chunks.shape[0]):
        first, rows, out = chunks[part, 2], chunks[part, 3], located[part]
        start, stop = max(low - first, 0), min(high - first, rows)
        out[0], out[1], out[2], out[3], out[4] = NOTHING, 0, start, stop, 0
        if start >= stop:
            continue
        if not chunks[part, 0]:
            out[0], out[4] = RANGE, stop - start
            total += out[4]
            continue
        numbers = _longs(chunks[part, 0], chunks[part, 1])
        if sqc_id >= numbers[1]:
            return np.int64(-1)
        if numbers[0] == PACKED:
            _in_packs(numbers, sqc_id, start, stop, rows, out)
        else:
            if words.shape[0] < (stop + 63) >> 6:
                words = np.empty((stop + 63) >> 6, np.uint64)
            out[0], out[1] = MIXED, chunks[part, 0]
            out[4] = _mixed(numbers, slot, start, stop, words[: (stop + 63) >> 6])
        total += out[4]
    return total


@inner
def _write_bits(words, start, stop, rows, at, end):
    """Write the places of set bits in [start, stop) to rows[at:end]; returns where the next goes, -1: no room.

    Words have some bits, at random: to ask after each whether there is another takes more time than to write four.
    """
    begin, last, at, end = np.uint64(start >> 6), np.uint64((stop - 1) >> 6), np.uint64(at), np.uint64(end)
    for index in range(begin, last + _ONE):  # unsigned, or each would be asked whether it counts from the end
        word, first = words[index], np.int32(index << _S6)
        if index == begin:
            word &= _ALL << np.uint64(start & 63)
        if index == last:
            word &= _ALL >> np.uint64(63 - ((stop - 1) & 63))
        after = at + _popcount(word)
        if after > end:
            return np.int64(-1)
        if word == _ALL:
            for bit in range(64):
                rows[at + np.uint64(bit)] = first + np.int32(bit)
        elif after + _FOUR <= end:
            word = _write_four(word, first, rows, at)
            while word != 0:
                at += _FOUR
                word = _write_four(word, first, rows, at)
        else:
            while word != 0:
                rows[at] = first + np.int32(_popcount((word & (~word + _ONE)) - _ONE))
                at += _ONE
                word &= word - _ONE
        at = after
    return np.int64(at)


@njit(cache=True, nogil=True)
def write_rows(located, chunks, slot, rows):
    """Write the rows that `locate` found, ascending in each chunk; returns how many, -1 if these are not `rows`.

    located: int64[n, 5], of `locate`; chunks, slot: as there; read. rows: int32[k], k what `locate` returned; written.
    O(k + words).
    """
    at, end, words = np.int64(0), np.int64(rows.shape[0]), np.empty(0, np.uint64)
    for part in range(located.shape[0]):
        form, address, start, stop, count = located[part]
        if at + count > end:
            return np.int64(-1)
        if form == RANGE:
            for i in range(count):
                rows[at + i] = start + i
            at += count
        elif form == LIST:
            offsets = carray(_pointer(address), count, np.uint16)
            for i in range(count):
                rows[at + i] = offsets[i]
            at += count
        elif form == BITS:
            at = _write_bits(carray(_pointer(address), (stop + 63) >> 6, np.uint64), start, stop, rows, at, end)
        elif form == MIXED:
            if words.shape[0] < (stop + 63) >> 6:
                words = np.empty((stop + 63) >> 6, np.uint64)
            here = words[: (stop + 63) >> 6]
            _mixed(_longs(address, chunks[part, 1]), slot, start, stop, here)
            at = _write_bits(here, start, stop, rows, at, end)
        if at < 0:
            return np.int64(-1)
    return at if at == end else np.int64(-1)
