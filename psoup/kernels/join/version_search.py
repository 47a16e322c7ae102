"""The version of a table that held at the time of each row: versions grouped by key, and a binary search in each group.

    versions   key  7  9  7  7  9        slots: a hash table from the key to the number of its group
               from 1  2  5  8  9        groups in the order of the versions: 7: 1 5 8, 9: 2 9
    row        key  7, time 6     ──>    the last version of 7 that begins at 6 or before: from 5, if it has not ended

The hash starts from a secret, so that no client can choose keys that collide.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def _mixed(key, secret):
    value = (np.uint64(key) ^ secret) * _FIRST
    value = (value ^ (value >> _HALF)) * _SECOND
    return value ^ (value >> _HALF)


@njit(cache=True, nogil=True)
def group_versions(keys, secret, slots, names, groups, starts):
    """Number the distinct keys of versions, in the order of their first versions. Returns their number.

    keys: int64[m], read. secret: uint64. slots: int32[2^k], all -1, written; more than m places. names: int64[m],
    written: the key of each group. groups: int32[m], written: the group of each version. starts: int32[m + 1], all 0,
    written: for each group the number of its versions. O(m) expected.
    """
    mask = np.uint64(slots.shape[0] - 1)
    count = 0
    for i in range(keys.shape[0]):
        key = keys[i]
        at = _mixed(key, secret) & mask
        while slots[at] >= 0 and names[slots[at]] != key:
            at = (at + _ONE) & mask
        if slots[at] < 0:
            slots[at] = count
            names[count] = key
            count += 1
        groups[i] = slots[at]
        starts[slots[at]] += 1
    return count


@njit(cache=True, nogil=True)
def place_groups(names, count, secret, slots):
    """Put groups into a hash table, which may be smaller than that of `group_versions`.

    names: int64[m], of which the first `count` are read. secret: uint64. slots: int32[2^k], all -1, written; more than
    `count` places. O(count) expected.
    """
    mask = np.uint64(slots.shape[0] - 1)
    for group in range(count):
        at = _mixed(names[group], secret) & mask
        while slots[at] >= 0:
            at = (at + _ONE) & mask
        slots[at] = group


@njit(cache=True, nogil=True)
def sort_versions(groups, count, begins, ends, starts, order, spans):
    """Sort versions by their group. Versions of one group stay in their order.

    groups: int32[m], begins, ends: int64[m], read. starts: int32[m + 1], the sizes of groups; written: their first
    places, and after the last group m. order: int32[m], written: the versions by group. spans: int64[m, 2], written:
    the begin and the end of each version, by group. O(m).
    """
    place = 0
    for group in range(count):
        size = starts[group]
        starts[group] = place
        place += size
    for i in range(groups.shape[0]):
        at = starts[groups[i]]
        order[at] = i
        spans[at, 0], spans[at, 1] = begins[i], ends[i]
        starts[groups[i]] = at + 1
    for group in range(count, 0, -1):
        starts[group] = starts[group - 1]
    starts[0] = 0


@njit(cache=True, nogil=True)
def find_versions(keys, times, secret, slots, names, starts, order, spans, partners):
    """Find the version that holds at the time of each row: the last one that begins then or before, and ends later.

    keys, times: int64[n], of the rows. secret, slots, names: of `place_groups`. starts, order, spans: of
    `sort_versions`. All are read. partners: int32[n], written: the version, or -1. The begins of one group must ascend.
    O(n log(versions of a key)) expected.
    """
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(keys.shape[0]):
        key, time = keys[i], times[i]
        partners[i] = -1
        at = _mixed(key, secret) & mask
        while slots[at] >= 0 and names[slots[at]] != key:
            at = (at + _ONE) & mask
        group = slots[at]
        if group < 0:
            continue
        last, size = np.int64(starts[group]), np.int64(starts[group + 1] - starts[group])
        while size > 1:  # without a branch on the comparison, which no processor could predict
            half = size >> 1
            last += half * np.int64(spans[last + half, 0] <= time)
            size -= half
        if spans[last, 0] <= time < spans[last, 1]:
            partners[i] = order[last]
