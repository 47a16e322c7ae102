"""A hash table from the key of a table's row to the tuple ID of its newest version.

    key    lanes (128 bits)     table: uint64[m, 2], int64[m] and int32[m], m = 2^k; a key is in the first free place
    'UA'   5f… 07…              ids    [ -1   7  -1  -1   2   9  -1  -1 ]
                                counts [  0   2   0   0   1   0   0   0 ]    versions of the key that are left

A key without versions is not in the table any more, though it has a place until the table is moved.

The lanes start from a secret, as in `clause_names`, so no client can choose colliding keys.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def put_newest(lanes, first_id, names, ids, counts, before):
    """Put the versions first_id, first_id + 1, … into the table, each as the newest of its key. Returns the new places.

    lanes: uint64[n, 2], the keys, read. names: uint64[m, 2], ids: int64[m], -1 in a free place, counts: int32[m], all
    written; at least n places are free. before: int64[n], written: the version that was the newest of the key, or -1.
    O(n) expected.
    """
    mask = np.uint64(ids.shape[0] - 1)
    new = 0
    for i in range(lanes.shape[0]):
        one, two = lanes[i, 0], lanes[i, 1]
        at = one & mask
        while ids[at] >= 0 and (names[at, 0] != one or names[at, 1] != two):
            at = (at + np.uint64(1)) & mask
        before[i] = ids[at] if counts[at] > 0 else -1
        if ids[at] < 0:
            names[at, 0], names[at, 1] = one, two
            new += 1
        ids[at] = first_id + i
        counts[at] += 1
    return new


@njit(cache=True, nogil=True)
def find_newest(lanes, names, ids, counts, newest, versions):
    """Find the newest version of each key, or -1, and the number of its versions.

    lanes: uint64[n, 2], names: uint64[m, 2], ids: int64[m], counts: int32[m], read. newest: int64[n], versions:
    int32[n], written. O(n) expected.
    """
    mask = np.uint64(ids.shape[0] - 1)
    for i in range(lanes.shape[0]):
        one, two = lanes[i, 0], lanes[i, 1]
        at = one & mask
        while ids[at] >= 0 and (names[at, 0] != one or names[at, 1] != two):
            at = (at + np.uint64(1)) & mask
        versions[i] = counts[at]
        newest[i] = ids[at] if counts[at] > 0 else -1


@njit(cache=True, nogil=True)
def leave_newest(lanes, names, ids, counts):
    """Count one version less of each key. Returns the number of keys that have no version any more.

    lanes: uint64[n, 2], names: uint64[m, 2], ids: int64[m], read. counts: int32[m], written. O(n) expected.
    """
    mask = np.uint64(ids.shape[0] - 1)
    gone = 0
    for i in range(lanes.shape[0]):
        one, two = lanes[i, 0], lanes[i, 1]
        at = one & mask
        while ids[at] >= 0 and (names[at, 0] != one or names[at, 1] != two):
            at = (at + np.uint64(1)) & mask
        if counts[at] > 0:
            counts[at] -= 1
            gone += counts[at] == 0
    return gone


@njit(cache=True, nogil=True)
def move_newest(names, ids, counts, wider_names, wider_ids, wider_counts):
    """Copy the keys that have versions to another table. Returns their number.

    names: uint64[m, 2], ids: int64[m], counts: int32[m], read. wider_names: uint64[w, 2], wider_ids: int64[w], all -1,
    wider_counts: int32[w], written. O(m).
    """
    mask = np.uint64(wider_ids.shape[0] - 1)
    count = 0
    for k in range(ids.shape[0]):
        if counts[k] <= 0:
            continue
        at = names[k, 0] & mask
        while wider_ids[at] >= 0:
            at = (at + np.uint64(1)) & mask
        wider_names[at, 0], wider_names[at, 1] = names[k, 0], names[k, 1]
        wider_ids[at], wider_counts[at] = ids[k], counts[k]
        count += 1
    return count
