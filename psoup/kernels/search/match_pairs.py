"""Matches of many clauses in one chunk as pairs, clause after clause: from lists of offsets, and from rows of bits.

    lists   [3 9 12][1 9]      rows [20, 30)      clause   0  0  4  4
    rows    …0100100 …                            offset   3  9  1  9

A pair is a name, which the caller gives each clause, and an offset. Pairs come in the order of the clauses.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.rows.bitmaps import _FOUR, _popcount, _word, _write_four

_NONE, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def _first_from(lists, low, high, bound):
    """The first place in [low, high) of ascending offsets that is not below `bound`."""
    while low < high:
        middle = (low + high) >> 1
        if lists[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def add_named(names, values, minimum, table, sums):
    """Add values to the sums of their names.

    names: int64[n]; values: int32[n]; table: int32[t], the place of name least + i, or -1; read. sums: int64[k],
    written in place. Names that the table has not are left out. O(n).
    """
    for i in range(names.shape[0]):
        number = names[i] - minimum
        if 0 <= number < table.shape[0] and table[number] >= 0:
            sums[table[number]] += values[i]


@njit(cache=True, nogil=True)
def lists_within(lists, start, stop, places, counts):
    """Narrow lists to their offsets in [start, stop).

    lists: uint16[n], read: list i is the places[i] up to places[i] + counts[i], ascending. places, counts: int64[k],
    written in place. O(k log n).
    """
    for i in range(places.shape[0]):
        end = places[i] + counts[i]
        low = _first_from(lists, places[i], end, start)
        counts[i] = _first_from(lists, low, end, stop) - low
        places[i] = low


@njit(cache=True, nogil=True)
def lists_to_pairs(lists, places, counts, names, which, offsets):
    """Write the offsets of some lists, one list after the other, each offset beside the name of its list.

    lists: uint16[n]; places, counts, names: int64[k]; read. which, offsets: int64[sum of counts], written. O(written).
    """
    at = np.int64(0)
    for i in range(places.shape[0]):
        for place in range(places[i], places[i] + counts[i]):
            which[at], offsets[at] = names[i], lists[place]
            at += 1


@njit(cache=True, nogil=True)
def place_rows(starts, rows, base, free, out):
    """Append rows to their sets.

    starts: int64[sets + 1], where the rows of each set begin; rows: int64[n]; read. `base` is added to each.
    free: int64[sets], where the next row of each goes, moved on. out: int32, written. O(n + sets).
    """
    for place in range(free.shape[0]):
        start, count, to = starts[place], starts[place + 1] - starts[place], free[place]
        for i in range(count):
            out[to + i] = rows[start + i] + base
        free[place] = to + count


@njit(cache=True, nogil=True)
def named_size(names, counts, places, minimum, table):
    """The number of offsets that the lists of wanted names have, and how many of the wanted have no list.

    names: int64[n]; counts: int32[n], at least 1; places: int64[n], below 0 for a name without a list; table: int32[t],
    the number of name least + i, or -1 if it is not wanted; read. O(n).
    """
    size, missing = np.int64(0), np.int64(0)
    for i in range(names.shape[0]):
        place = names[i] - minimum
        if 0 <= place < table.shape[0] and table[place] >= 0:
            size += np.int64(counts[i]) if places[i] >= 0 else np.int64(0)
            missing += np.int64(places[i] < 0)
    return size, missing


@njit(cache=True, nogil=True)
def named_to_pairs(lists, names, counts, places, minimum, table, start, stop, which, offsets):
    """Write the offsets in [start, stop) of the lists of wanted names, each beside the number of its name.

    lists: uint16[m]; the rest as for `named_size`. which, offsets: int64[size], the first ones written. Returns how
    many. O(n + size).
    """
    at, whole = np.int64(0), start == 0 and stop > 65_535
    for i in range(names.shape[0]):
        place, first = names[i] - minimum, places[i]
        if first < 0 or place < 0 or place >= table.shape[0] or table[place] < 0:
            continue
        number = table[place]
        if whole:
            which[at], offsets[at] = number, lists[first]  # most lists are of one: a loop would be guessed wrong
            at += 1
            for k in range(first + 1, first + counts[i]):
                which[at], offsets[at] = number, lists[k]
                at += 1
            continue
        for k in range(first, first + counts[i]):
            if start <= lists[k] < stop:
                which[at], offsets[at] = number, lists[k]
                at += 1
    return at


@njit(cache=True, nogil=True)
def count_within(bitmaps, which, start, stop, counts):
    """Count the bits of some bitmaps in [start, stop).

    bitmaps: uint64[m, w]; which: int64[k], places among them; read. counts: int64[k], written. O(k * words between).
    """
    for i in range(which.shape[0]):
        words, total = bitmaps[which[i]], np.uint64(0)
        for index in range(start >> 6, (stop + 63) >> 6 if start < stop else 0):
            total += _popcount(_word(words, index, start, stop))
        counts[i] = np.int64(total)


@njit(cache=True, nogil=True)
def bitmaps_to_pairs(bitmaps, which, start, stop, names, out, offsets):
    """Write the bits of some bitmaps in [start, stop), each beside the name of its bitmap.

    bitmaps: uint64[m, w]; which, names: int64[k]; read. out, offsets: int64[n], written: n is the sum of
    `count_within`. O(words + written). How many bits a word has is random: to ask takes more time than to write four.
    """
    at, end = _NONE, np.uint64(out.shape[0])
    for i in range(which.shape[0]):
        words, begin = bitmaps[which[i]], at
        for index in range(start >> 6, (stop + 63) >> 6 if start < stop else 0):
            first, word = np.int64(index) << 6, _word(words, index, start, stop)
            after = at + _popcount(word)
            if after + _FOUR <= end:
                word = _write_four(word, first, offsets, at)
                while word != 0:
                    at += _FOUR
                    word = _write_four(word, first, offsets, at)
            else:
                while word != 0:
                    offsets[at] = first + np.int64(_popcount((word & (~word + _ONE)) - _ONE))
                    at += _ONE
                    word &= word - _ONE
            at = after
        out[begin:at] = names[i]


@njit(cache=True, nogil=True)
def runs_to_pairs(slots, run, place_of_slot, start, stop, which, offsets):
    """Write the pairs of a run whose slots are wanted and whose offsets lie in [start, stop), in their order.

    slots: uint32[n], run: uint16[n], offsets; place_of_slot: int32[s], -1 for a slot that is not wanted, as is a slot
    from s on; read. which, offsets: int64[n], the first ones written. Returns how many. O(n).
    """
    at, slot_count = np.int64(0), place_of_slot.shape[0]
    for i in range(slots.shape[0]):
        slot = slots[i]
        if slot < slot_count and place_of_slot[slot] >= 0 and start <= run[i] < stop:
            which[at], offsets[at] = place_of_slot[slot], run[i]
            at += 1
    return at
