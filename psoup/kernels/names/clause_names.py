"""Names of standing query clauses, 128 bits each, and a table that finds a clause by its name.

    clause      hash (two lanes)     table: int32[m], m = 2^k; a slot is in the first free place from hash & (m - 1)
    a in [3,9)  5f… 07…              [ -1   7  -1  -1   2   9  -1  -1 ]
                                           └ slot 7: hashes[7] says whose place it is

A lane is a chain of multiplications and shifts that starts from a secret, so no client can choose colliding constants.
The caller decides what is mixed in.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_ONE, _TWO = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF, _LESS = np.uint64(32), np.uint64(29)


@njit(cache=True, nogil=True)
def _mixed(state, word):
    """Mix a word into a lane: a bijection of the word for every state."""
    state = (state ^ word) * _ONE
    state = (state ^ (state >> _HALF)) * _TWO
    return state ^ (state >> _LESS)


@njit(cache=True, nogil=True)
def mix_words(words, seeds, out):
    """Add to each row of `out` the lanes of the same row of `words`; sums do not depend on the order of their parts.

    words: uint64[n, k], read. seeds: uint64[2], read. out: uint64[n, 2], added to. O(n * k).
    """
    for i in range(words.shape[0]):
        first_lane, second_lane = seeds[0], seeds[1]
        for k in range(words.shape[1]):
            first_lane, second_lane = _mixed(first_lane, words[i, k]), _mixed(second_lane, words[i, k])
        out[i, 0] += first_lane
        out[i, 1] += second_lane


@njit(cache=True, nogil=True)
def mix_texts(offsets, data, seeds, out):
    """Write the lanes of texts: of the length, then of eight bytes at a time, little-endian, the last zero-padded.

    offsets: int64[n + 1], data: uint8[b], read. seeds: uint64[2], read. out: uint64[n, 2], written. O(bytes).
    """
    for i in range(out.shape[0]):
        start, stop = offsets[i], offsets[i + 1]
        length = np.uint64(stop - start)
        first_lane, second_lane = _mixed(seeds[0], length), _mixed(seeds[1], length)
        for at in range(start, stop, 8):
            word = np.uint64(0)
            for k in range(min(8, stop - at)):
                word |= np.uint64(data[at + k]) << np.uint64(8 * k)
            first_lane, second_lane = _mixed(first_lane, word), _mixed(second_lane, word)
        out[i, 0] = first_lane
        out[i, 1] = second_lane


@njit(cache=True, nogil=True)
def look_up(wanted, table, slot_names, slots_found, places):
    """Find clauses, and take places for new ones.

    wanted: uint64[n, 2], read. table: int32[m], with at least n places free (-1), written: -2 - i for the first row i
    of a new clause; the caller puts its slot there. slot_names: uint64[S, 2], the lanes by slot, read.
    slots_found: int64[n], written: the slot, or -2 - i with i the first row of the same clause. places: int64[n],
    written where slots_found[i] == -2 - i: the place taken. O(n) expected.
    """
    mask = np.uint64(table.shape[0] - 1)
    for i in range(wanted.shape[0]):
        at = wanted[i, 0] & mask
        while True:
            entry = table[at]
            if entry == -1:
                table[at] = -2 - i
                slots_found[i] = -2 - i
                places[i] = at
                break
            if entry >= 0:
                same = slot_names[entry, 0] == wanted[i, 0] and slot_names[entry, 1] == wanted[i, 1]
            else:
                first = -2 - entry
                same = wanted[first, 0] == wanted[i, 0] and wanted[first, 1] == wanted[i, 1]
            if same:
                slots_found[i] = entry
                break
            at = (at + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def fill_table(slots, slot_names, table):
    """Put the slots of different clauses into a table.

    slots: int64[n], read. slot_names: uint64[S, 2], read. table: int32[m], m > n, written. O(n + m) expected.
    """
    mask = np.uint64(table.shape[0] - 1)
    table[:] = -1
    for slot in slots:
        at = slot_names[slot, 0] & mask
        while table[at] >= 0:
            at = (at + np.uint64(1)) & mask
        table[at] = slot


@njit(cache=True, nogil=True)
def take_out(slots, slot_names, table):
    """Take slots out of a table and close the gaps; returns how many were there.

    slots: int64[k], distinct, read. slot_names: uint64[S, 2], read. table: int32[m] with a free place, written. O(k)
    expected.
    """
    size = table.shape[0]
    mask = np.uint64(size - 1)
    taken = 0
    for slot in slots:
        gap = np.int64(slot_names[slot, 0] & mask)
        while table[gap] != slot and table[gap] != -1:
            gap = (gap + 1) % size
        if table[gap] == -1:
            continue
        at = (gap + 1) % size
        while table[at] >= 0:
            home = np.int64(slot_names[table[at], 0] & mask)
            if (at - home) % size >= (at - gap) % size:  # its way from home leads over the gap
                table[gap] = table[at]
                gap = at
            at = (at + 1) % size
        table[gap] = -1
        taken += 1
    return taken
