"""The version of a table that held at the time of each row: one sweep over rows and versions in the order of time.

    time        1   2   3   5   6   8        a table has the last version of each key so far, and its end
    versions    7:a 9:b     7:c     7:d
    rows                9           7        row (9, 3) meets b; row (7, 6) meets c

The keys of the sweep are numbers in a small range. Other keys are numbered first, by a hash table. The hash starts from
a secret, so that no client can choose keys that collide.
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
def number_keys(keys, secret, slots, names, numbers):
    """Number the distinct keys, in the order of their first rows. Returns how many there are.

    keys: int64[m], read. secret: uint64. slots: int32[2^k], all -1, written; more than m places. names: int64[m],
    written: the key of each number. numbers: int64[m], written. O(m) expected.
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
        numbers[i] = slots[at]
    return count


@njit(cache=True, nogil=True)
def find_numbers(keys, secret, slots, names, numbers):
    """Find the numbers of keys, or -1.

    keys: int64[n], secret, slots, names: of `number_keys`; read. numbers: int64[n], written. O(n) expected.
    """
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(keys.shape[0]):
        at = _mixed(keys[i], secret) & mask
        while slots[at] >= 0 and names[slots[at]] != keys[i]:
            at = (at + _ONE) & mask
        numbers[i] = slots[at]


@njit(cache=True, nogil=True)
def meet_versions(keys, times, rows, version_keys, begins, ends, versions, lowest, table, partners):
    """Find the version that holds at the time of each row: the last one that begins then or before, and ends later.

    keys, times: int64[n]. rows: int32[k], the rows to look at, by time. version_keys, begins, ends: int64[m]. versions:
    int32[m], their order by begin; of equal begins the last one stands. least: the lowest key of a version. All are
    read. table: int64[c, 2], -1 as the version of each key, written: version and end of the keys from `lowest` on, of
    which there are at most c. partners: int32[n], written for `rows`: the version, or -1. O(k + m).
    """
    j, last, count = 0, versions.shape[0], table.shape[0]
    for i in range(rows.shape[0]):
        row = rows[i]
        time = times[row]
        while j < last and begins[versions[j]] <= time:
            version = versions[j]
            place = version_keys[version] - lowest
            table[place, 0], table[place, 1] = version, ends[version]
            j += 1
        place = keys[row] - lowest
        partners[row] = -1
        if lowest <= keys[row] and 0 <= place < count and time < table[place, 1]:
            partners[row] = table[place, 0]
