"""A hash table from the key of a table's row to the tuple ID of its newest version.

    key    lanes (128 bits)     table: uint64[m, 2] and int64[m], m = 2^k; a key is in the first free place
    'UA'   5f… 07…              ids   [ -1   7  -1  -1   2   9  -1  -1 ]

The lanes start from a secret, as in `clause_names`, so no client can choose colliding keys.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def put_newest(lanes, first_id, names, ids, before):
    """Put the versions first_id, first_id + 1, … into the table, each as the newest of its key. Returns the new keys.

    lanes: uint64[n, 2], the keys, read. names: uint64[m, 2], ids: int64[m], -1 in a free place, both written; at least
    n places are free. before: int64[n], written: the version that was the newest of the key, or -1. O(n) expected.
    """
    mask = np.uint64(ids.shape[0] - 1)
    new = 0
    for i in range(lanes.shape[0]):
        first_lane, second_lane = lanes[i, 0], lanes[i, 1]
        at = first_lane & mask
        while ids[at] >= 0 and (names[at, 0] != first_lane or names[at, 1] != second_lane):
            at = (at + np.uint64(1)) & mask
        before[i] = ids[at]
        if ids[at] < 0:
            names[at, 0], names[at, 1] = first_lane, second_lane
            new += 1
        ids[at] = first_id + i
    return new


@njit(cache=True, nogil=True)
def find_newest(lanes, names, ids, newest):
    """Find the newest version of each key, or -1.

    lanes: uint64[n, 2], names: uint64[m, 2], ids: int64[m], read. newest: int64[n], written. O(n) expected.
    """
    mask = np.uint64(ids.shape[0] - 1)
    for i in range(lanes.shape[0]):
        first_lane, second_lane = lanes[i, 0], lanes[i, 1]
        at = first_lane & mask
        while ids[at] >= 0 and (names[at, 0] != first_lane or names[at, 1] != second_lane):
            at = (at + np.uint64(1)) & mask
        newest[i] = ids[at]


@njit(cache=True, nogil=True)
def move_newest(names, ids, oldest_id, wider_names, wider_ids):
    """Copy the entries with an ID of at least `oldest_id` to a table of another size. Returns their number.

    names: uint64[m, 2], ids: int64[m], read. wider_names: uint64[w, 2], wider_ids: int64[w], all -1, written. O(m).
    """
    mask = np.uint64(wider_ids.shape[0] - 1)
    count = 0
    for k in range(ids.shape[0]):
        if ids[k] < 0 or ids[k] < oldest_id:
            continue
        at = names[k, 0] & mask
        while wider_ids[at] >= 0:
            at = (at + np.uint64(1)) & mask
        wider_names[at, 0], wider_names[at, 1] = names[k, 0], names[k, 1]
        wider_ids[at] = ids[k]
        count += 1
    return count
