"""Twins of `psoup.kernels.join.multiway`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.multiway import (
    AT,
    BASE,
    BUCKETS,
    COUNT,
    FACTOR,
    INSIDE,
    KEYS,
    PARENT,
    PLACE_KEYS,
    PLACE_ROWS,
    PLACES,
    ROWS,
    SEARCHED,
    SHIFT,
    STARTS,
)
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.pair_columns import probe_buckets
from psoup.kernels.plain.rows.batch_body import _at


def keep_partnered(
    keys: Array,
    rows: Array,
    base: np.uint64,
    factor: np.uint64,
    shift: np.uint64,
    starts: Array,
    place_keys: Array,
    out: Array,
) -> int:
    """See the kernel."""
    remaining = []
    for row in rows.tolist():
        bucket = int(((keys[row : row + 1].view(np.uint64) - base) * factor)[0] >> shift)
        if bucket < len(starts) - 2:
            begin, end = int(starts[bucket]), int(starts[bucket + 1])
            near = keys[row] == place_keys[begin : min(end, begin + SEARCHED)]
            if near.any() or end - begin > SEARCHED if len(place_keys) else end > begin:
                remaining.append(row)
    out[: len(remaining)] = remaining
    return len(remaining)


def nest(
    steps: Array,
    rows: Array,
    state: Array,
    cap: int,
    held_rows: Array,
    keys: Array,
    firsts: Array,
    out: Array,
    counts: Array,
) -> tuple[int, int]:
    """See the kernel."""
    sides, (block, room) = len(steps), (keys.shape[1], out.shape[1])
    unsigned = steps.view(np.uint64)
    made, looked, level = 0, 0, int(state[sides, 0])
    while level >= 0 and made < room and looked < cap:
        at, inside, count = state[level].tolist()
        if at == count:
            first = int(state[sides, 1])
            if level > 0 or first == len(rows):
                level -= 1
                continue
            count = min(block, len(rows) - first)
            held_rows[0, 0, :count] = rows[first : first + count]
            state[sides, 1] = first + count
            looked, at, inside = looked + count, 0, 0
            keys[0, :count] = _keys(steps[0])[held_rows[0, 0, :count]]
        step, last = steps[level], level == sides - 1
        right = out[sides, made:] if last else held_rows[level + 1, level + 1]
        before, left, part = at, firsts[: len(right)], keys[level, :count]
        base, factor, shift = unsigned[level, [BASE, FACTOR, SHIFT]]
        build, more = (base, factor, shift, *_buckets(step)), cap - looked
        at, inside, n, places = probe_buckets(part, rows[:0], *build, at, inside, more, left, right)
        state[level, [AT, INSIDE, COUNT]] = at, inside, count
        counts[level] += at - before, n, places, 1
        looked += places
        tuples = held_rows[level, : level + 1][:, left[:n]]
        if last:
            out[: level + 1, made : made + n] = tuples
            made += n
        else:
            held_rows[level + 1, : level + 1, :n] = tuples
        if n and not last:
            level += 1
            state[level, [AT, INSIDE, COUNT]] = 0, 0, n
            keys[level, :n] = _keys(steps[level])[held_rows[level, steps[level, PARENT], :n]]
    state[sides, 0] = level
    return made, looked


def _keys(step: Array) -> Array:
    return _at(step[KEYS], step[ROWS], np.int64)


def _buckets(step: Array) -> tuple[Array, Array, Array]:
    starts = _at(step[STARTS], step[BUCKETS], np.int32)
    place_keys = _at(step[PLACE_KEYS], step[PLACES], np.int64) if step[PLACE_KEYS] else np.zeros(0, np.int64)
    return starts, place_keys, _at(step[PLACE_ROWS], step[PLACES], np.int32)
