"""The tuples of several sides by one equality a side, in one call: loops in loops, a block of tuples at a time.

    side 0     rows 0 1 2 …    each side but the first has a parent before it, whose key it must have: a tree
    step 1     tuples of (0)       ─ buckets of side 1 ─> tuples of (0, 1)        as many as a block has
    step 2     tuples of (0, 1)    ─ buckets of side 2 ─> tuples of (0, 1, 2)     these first, then the next of (0, 1)

So tuples come in the order of their rows of side 0, then of side 1, and so on. Before that each side loses the rows
without a partner on the sides below it: then every tuple that a step makes becomes one of all sides.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from psoup.kernels.compile.inner import inner
from psoup.kernels.join.pair_columns import _bucket, probe_buckets
from psoup.kernels.rows.batch_body import _longs, _pointer

PARENT, KEYS, ROWS, BASE, FACTOR, SHIFT, STARTS, BUCKETS, PLACE_KEYS, PLACE_ROWS, PLACES = range(11)
"""Numbers of a step: the parent's place, the address of its keys, and its rows. Then the buckets of the next side, as
of `fill_buckets`, arrays as addresses: BUCKETS numbers at STARTS; 0 at PLACE_KEYS: there are none."""

AT, INSIDE, COUNT = range(3)
"""The state of a step: which of its tuples is next, how many places of its bucket are done, and how many tuples."""

SEARCHED = 32
"""Places of a bucket that a row is looked for in: keys may be chosen so that a bucket has a million of another key."""

_U0, _U1, _MOST = np.uint64(0), np.uint64(1), np.uint64(SEARCHED)


@njit(cache=True, nogil=True, inline="always")
def _ints(address, size):
    return carray(_pointer(address), size, np.int32)


@njit(cache=True, nogil=True)
def keep_partnered(keys, rows, base, factor, shift, starts, place_keys, out):
    """Write the rows that may have a partner in buckets to the front of `out`; returns how many.

    keys: int64 by row; rows: int32[k]; base to place_keys: of `fill_buckets`, place_keys of no length: a bucket has one
    key. All read. out: int32[k], may be `rows` itself. Of a bucket SEARCHED places are looked at: a row whose key is
    not there is dropped if these are all. O(k).
    """
    remaining, exact = _U0, place_keys.shape[0] == 0
    for i in range(rows.shape[0]):
        row = rows[np.uint64(i)]
        key = keys[np.uint64(row)]
        p, size = _bucket(key, base, factor, shift, starts)
        out[remaining] = row
        if exact:
            remaining += np.uint64(size > _U0)
        else:
            end = p + min(size, _MOST)
            while p < end and place_keys[p] != key:
                p += _U1
            remaining += np.uint64((p < end) | (size > _MOST))
    return np.int64(remaining)


@inner
def _take(values, places, count, out, begin):
    first = np.uint64(begin)
    for i in range(count):
        out[first + np.uint64(i)] = values[np.uint64(places[np.uint64(i)])]


@njit(cache=True, nogil=True)
def nest(steps, rows, state, cap, held_rows, keys, firsts, out, counts):
    """Write tuples of all sides, from where `state` says; returns how many, and how many places were looked at.

    steps: int64[s, 11], see PARENT; rows: int32[n], of side 0; read. state: int64[s + 1, 3], see AT, at first
    zeros. Its last row has the step that goes on, -1 when all is done, and the next place of `rows`. held_rows:
    int32[s, s, block] and keys: int64[s, block]: of the tuples in state. firsts: int32[at least room, block],
    scratch. out: int32[s + 1, room], written, with scratch behind the tuples. counts: int64[s, 4], what each step
    did is added: tuples in and out, places looked at, pieces. The call ends with the block after which `cap` rows and
    places have been looked at, or without room. O(tuples * s + places looked at).
    """
    sides, block, room = steps.shape[0], keys.shape[1], out.shape[1]
    every = firsts[:0]
    made, looked, level = np.int64(0), np.int64(0), state[sides, 0]
    while level >= 0 and made < room and looked < cap:
        at, inside, count = state[level]
        if at == count:
            first = state[sides, 1]
            if level > 0 or first == rows.shape[0]:
                level -= 1
                continue
            count = min(block, rows.shape[0] - first)
            held_rows[0, 0, :count] = rows[first : first + count]
            state[sides, 1] = first + count
            looked += count
            at, inside = np.int64(0), np.int64(0)
            _take(_longs(steps[0, KEYS], steps[0, ROWS]), held_rows[0, 0], count, keys[0], 0)
        step, last = steps[level], level == sides - 1
        free = room - made if last else block
        right = out[sides, made:] if last else held_rows[level + 1, level + 1]
        before = at
        at, inside, n, places = probe_buckets(
            keys[level, :count], every, np.uint64(step[BASE]), np.uint64(step[FACTOR]), np.uint64(step[SHIFT]),
            _ints(step[STARTS], step[BUCKETS]), _longs(step[PLACE_KEYS], step[PLACES] if step[PLACE_KEYS] else 0),
            _ints(step[PLACE_ROWS], step[PLACES]), at, inside, max(cap - looked, 0), firsts[:free], right,
        )  # fmt: skip
        state[level, AT], state[level, INSIDE], state[level, COUNT] = at, inside, count
        counts[level, 0] += at - before
        counts[level, 1] += n
        counts[level, 2] += places
        counts[level, 3] += 1
        looked += places
        for side in range(level + 1):
            if last:
                _take(held_rows[level, side], firsts, n, out[side], made)
            else:
                _take(held_rows[level, side], firsts, n, held_rows[level + 1, side], 0)
        if last:
            made += n
        elif n:
            level += 1
            state[level, AT], state[level, INSIDE], state[level, COUNT] = 0, 0, n
            values = _longs(steps[level, KEYS], steps[level, ROWS])
            _take(values, held_rows[level, steps[level, PARENT]], n, keys[level], 0)
    state[sides, 0] = level
    return made, looked
