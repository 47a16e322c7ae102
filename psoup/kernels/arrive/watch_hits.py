"""Clauses that are watched, and which of them matched new tuples of a chunk that is still being filled.

    runs   slot 4 9 2 | 7 4      place_of_slot  4 -> 0, 7 -> 1         hits  1 1
    rows   …0000|0100…           from `start` on, the words of the watched clauses alone

One pass over matches that are new, and a look at some words for each watched clause: no step of Python for a clause.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@njit(cache=True, nogil=True)
def hits_in_run(slots, offsets, place_of_slot, start, hits):
    """Mark the clauses that have a pair from offset `start` on.

    slots: uint32[n]; offsets: uint16[n]; place_of_slot: int32[s], -1 for a slot that is not watched, as is a slot from
    s on; read. hits: uint8[k], written: 1 at the place of each such clause. O(n).
    """
    slot_count = place_of_slot.shape[0]
    for i in range(slots.shape[0]):
        slot = slots[i]
        if slot < slot_count and offsets[i] >= start and place_of_slot[slot] >= 0:
            hits[place_of_slot[slot]] = 1


@njit(cache=True, nogil=True)
def hits_in_rows(rows, count, row_of_slot, slots, start, stop, hits):
    """Mark the clauses whose row of bits has a bit in [start, stop), which is not empty.

    rows: uint64[B, R, W], of which `count` rows are in use (`psoup.kernels.rows.bit_blocks`); row_of_slot: int32[s], -1
    for a slot without a row; slots: int64[k]; read. hits: uint8[k], written: 1 for each such clause. O(k
    words).
    """
    width, first, last = rows.shape[2], start >> 6, (stop - 1) >> 6
    for i in range(slots.shape[0]):
        slot = slots[i]
        row = row_of_slot[slot] if slot < row_of_slot.shape[0] else -1
        if hits[i] or row < 0 or row >= count:
            continue
        for index in range(first, last + 1):
            word = rows[index // width, row, index % width]
            if index == first:
                word &= _ALL << np.uint64(start & 63)
            if index == last:
                word &= _ALL >> np.uint64(63 - ((stop - 1) & 63))
            if word != 0:
                hits[i] = 1
                break
