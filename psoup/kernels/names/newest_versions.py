"""A hash table from the key of a table's row to the tuple ID of its newest version.

    key    lanes (128 bits)     slots: uint64[4 * m], m = 2^k; a key is in the first free slot, half a line of cache
    'UA'   5f… 07…              slot   first lane | second lane | tuple ID + 1, or 0 if the slot is free | versions left

The lanes start from a secret, as in `clause_names`, so no client can choose colliding keys. A key without versions is
not in the table any more. Its slot stays until the table is moved.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.lanes import fetch

SLOT = 4
"""The numbers of a slot."""
_AHEAD = 16
"""The slots that are prefetched together, as keys lie anywhere in memory."""
_ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def _slot(first_lane, second_lane, slots):
    """The place of the slot of a key, or of the free slot for it."""
    mask = np.uint64(slots.shape[0] // SLOT - 1)
    at = first_lane & mask
    while slots[SLOT * at + 2] and (slots[SLOT * at] != first_lane or slots[SLOT * at + 1] != second_lane):
        at = (at + _ONE) & mask
    return np.int64(SLOT * at)


@njit(cache=True, nogil=True, inline="always")
def _ask_for(lanes, start, stop, slots):
    """Prefetch the first slots of some keys."""
    mask = np.uint64(slots.shape[0] // SLOT - 1)
    for i in range(start, stop):
        place = np.int64(SLOT * (lanes[i, 0] & mask))
        fetch(slots, place, place + 1)


@njit(cache=True, nogil=True)
def put_newest(lanes, first_id, slots, before):
    """Put the versions first_id, first_id + 1, … into the table, each as the newest of its key. Returns the new slots.

    lanes: uint64[n, 2], the keys, read. slots: uint64[4 * m], written; at least n slots are free. before: int64[n],
    written: the version that was the newest of the key, or -1. O(n) expected.
    """
    new = 0
    for start in range(0, lanes.shape[0], _AHEAD):
        stop = min(start + _AHEAD, lanes.shape[0])
        _ask_for(lanes, start, stop, slots)
        for i in range(start, stop):
            at = _slot(lanes[i, 0], lanes[i, 1], slots)
            before[i] = np.int64(slots[at + 2]) - 1 if slots[at + 3] else -1
            if slots[at + 2] == 0:
                slots[at], slots[at + 1] = lanes[i, 0], lanes[i, 1]
                new += 1
            slots[at + 2] = np.uint64(first_id + i + 1)
            slots[at + 3] += _ONE
    return new


@njit(cache=True, nogil=True)
def find_newest(lanes, slots, newest, versions):
    """Find the newest version of each key, or -1, and the number of its versions.

    lanes: uint64[n, 2], slots: uint64[4 * m], read. newest, versions: int64[n], written. O(n) expected.
    """
    for i in range(lanes.shape[0]):
        at = _slot(lanes[i, 0], lanes[i, 1], slots)
        versions[i] = np.int64(slots[at + 3])
        newest[i] = np.int64(slots[at + 2]) - 1 if slots[at + 3] else -1


@njit(cache=True, nogil=True)
def leave_newest(lanes, slots):
    """Count one version less of each key. Returns the number of keys that have no version any more.

    lanes: uint64[n, 2], read. slots: uint64[4 * m], written. O(n) expected.
    """
    gone = 0
    for i in range(lanes.shape[0]):
        at = _slot(lanes[i, 0], lanes[i, 1], slots)
        if slots[at + 3]:
            slots[at + 3] -= _ONE
            gone += slots[at + 3] == 0
    return gone


@njit(cache=True, nogil=True)
def move_newest(slots, wider):
    """Copy the keys that have versions to another table, which is empty. Returns their number.

    slots: uint64[4 * m], read. wider: uint64[4 * w], written. O(m).
    """
    count = 0
    for k in range(0, slots.shape[0], SLOT):
        if slots[k + 3]:
            at = _slot(slots[k], slots[k + 1], wider)
            wider[at], wider[at + 1], wider[at + 2], wider[at + 3] = slots[k], slots[k + 1], slots[k + 2], slots[k + 3]
            count += 1
    return count
