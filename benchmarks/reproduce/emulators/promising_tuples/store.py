"""Nile's intermediate representation of a stream (promising tuples, section 3): tuples in cells, countsketches on top.

              zone 0     zone 1     zone 2          a cell: its tuples linked in the order of arrival, and a countsketch
    bucket 0  ▢→▢→▢      ▢                          zones: time; buckets: a hash of the item
    bucket 1  ▢→▢        ▢→▢→▢      ▢               on top of all zones of a granularity: the sum of their sketches
                                    ▲ current zone

    SHJ   one zone, 64 buckets, no sketch: a hash table       T3   11 zones, 16 buckets
    T1    one zone, one bucket, no sketch: a list             T4   the same, whose zones also end when the standard
    T2    11 zones, one bucket                                     error of an estimate exceeds a limit (0.5 tuples)

A zone that leaves the window is taken out. With two granularities it is added to a zone of the older one. That zone is
as long as a window, and stays. Functions are compiled; a store is a tuple of arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.reproduce.emulators.compiler import compiled

Array = npt.NDArray[Any]
FIELDS = 5
ROWS = 3
"""Rows of a sketch."""
WIDTH = 128
"""Counters in a row of a zone's sketches: all cells together."""
OLD_ZONES = 64
"""Zones of the older granularity."""


class Form(NamedTuple):
    """The kind of a store. `limit`: of the standard error, in tuples; 0: zones do not adjust."""

    zones: int
    buckets: int
    sketch: bool
    limit: float = 0.0


FORMS = {
    "SHJ": Form(1, 64, False),
    "T1": Form(1, 1, False),
    "T2": Form(11, 1, True),
    "T3": Form(11, 16, True),
    "T4": Form(22, 16, True, 0.5),
}


class Store(NamedTuple):
    """The tuples of both streams; the zones of stream 1 come after the zones of stream 0.

    `tuples`: int64[n, FIELDS], `seconds`: float64[n], `following`: int64[n], the next tuple of the cell or -1.
    `cells`: int64[zones, buckets, 2], the first and the last tuple of a cell, or -1. `sketch`: int32[zones + 4, ROWS,
    WIDTH]; the last four are on top of each stream's two granularities. `spans`: float64[zones, 2], the begin and the
    newest tuple of a zone. `state`: int64[2, 3], for each stream the current zones of both granularities, and the sum
    of squares. That is of the first row of the newer zone's sketch. `turns`: int64[zones], how often a zone left.
    """

    tuples: Array
    seconds: Array
    following: Array
    cells: Array
    sketch: Array
    spans: Array
    state: Array
    turns: Array


def new_store(form: Form, capacity: int) -> Store:
    """An empty store; in each stream the zones after `form.zones` belong to the older granularity."""
    each = form.zones + OLD_ZONES
    return Store(
        np.full((capacity, FIELDS), 0, np.int64),
        np.full(capacity, 0.0),
        np.full(capacity, -1, np.int64),
        np.full((2 * each, form.buckets, 2), -1, np.int64),
        np.zeros((2 * each + 4, ROWS, WIDTH), np.int32),
        np.full((2 * each, 2), -np.inf),
        np.array([[0, form.zones, 0], [each, each + form.zones, 0]]),
        np.zeros(2 * each, np.int64),
    )


@compiled
def column(item, row, buckets):  # type: ignore[no-untyped-def]
    """The counter of an item in a row, and its sign. Each bucket has a sketch of its own in WIDTH // buckets."""
    mixed = np.uint64(2 * item + 1) * (np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x3C6EF372FE94F82A) * np.uint64(row))
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    wide = WIDTH // buckets
    at = bucket(item, buckets) * wide + np.int64((mixed >> np.uint64(40)) & np.uint64(wide - 1))
    return at, 1 - 2 * np.int64(mixed >> np.uint64(63))


@compiled
def bucket(item, buckets):  # type: ignore[no-untyped-def]
    """The value bucket of an item; the number of buckets is a power of two."""
    return np.int64(((np.uint64(item) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & np.uint64(buckets - 1))


@compiled
def columns(item, buckets):  # type: ignore[no-untyped-def]
    """The counters and signs of an item in the three rows."""
    first, second, third = column(item, 0, buckets), column(item, 1, buckets), column(item, 2, buckets)
    return first[0], second[0], third[0], first[1], second[1], third[1]


@compiled
def estimate(sketch, at, slots):  # type: ignore[no-untyped-def]
    """The estimated number of tuples with an item, by the sketch of a zone or of a granularity: a median.

    `slots`: the `columns` of the item.
    """
    first, second, third = sketch[at, 0, slots[0]], sketch[at, 1, slots[1]], sketch[at, 2, slots[2]]
    a, b, c = first * slots[3], second * slots[4], third * slots[5]
    return max(min(a, b), min(max(a, b), c))


@compiled
def insert(store, form, records, at, now, window, old):  # type: ignore[no-untyped-def]
    """Add tuple number `at`. `old`: whether tuples that leave the window go to the older granularity."""
    side = records[at, 0]
    zone = store.state[side, 0]
    if form.zones > 1:
        zone = _current(store, form, side, now, window, old)
    for field in range(FIELDS):
        store.tuples[at, field] = records[at, field]
    store.seconds[at] = now
    store.following[at] = -1
    store.spans[zone, 1] = now
    item = records[at, 3]
    cell = bucket(item, form.buckets)
    if store.cells[zone, cell, 0] < 0:
        store.cells[zone, cell, 0] = at
    else:
        store.following[store.cells[zone, cell, 1]] = at
    store.cells[zone, cell, 1] = at
    if form.sketch:
        top = len(store.sketch) - 4 + 2 * side
        for row in range(ROWS):
            place, sign = column(item, row, form.buckets)
            if row == 0:
                store.state[side, 2] += 2 * sign * store.sketch[zone, 0, place] + 1
            store.sketch[zone, row, place] += sign
            store.sketch[top, row, place] += sign


@compiled
def _current(store, form, side, now, window, old):  # type: ignore[no-untyped-def]
    """The zone for a tuple: a new one if the current one is full, and the next slot has left the window."""
    zone, first = store.state[side, 0], side * (form.zones + OLD_ZONES)
    if store.spans[zone, 0] == -np.inf:
        store.spans[zone, 0] = now
    age = now - store.spans[zone, 0]
    full = age >= window / 10
    if form.limit > 0 and age >= window / 20:
        full |= store.state[side, 2] > form.limit * form.limit * WIDTH
    after = first + (zone + 1 - first) % form.zones
    if not full or store.spans[after, 1] >= now - window:
        return zone
    if store.spans[after, 1] > -np.inf:
        _take_out(store, form, side, after, now, window, old)
    store.spans[after, 0] = now
    store.state[side, 0] = after
    store.state[side, 2] = 0
    return after


@compiled
def _take_out(store, form, side, zone, now, window, old):  # type: ignore[no-untyped-def]
    """Empty a zone (COLLAPSE): its sketch leaves the top, and is added to the older granularity if there is one."""
    top, target = len(store.sketch) - 4 + 2 * side, store.state[side, 1]
    for row in range(ROWS):
        for place in range(WIDTH):
            count = store.sketch[zone, row, place]
            store.sketch[top, row, place] -= count
            if old:
                store.sketch[target, row, place] += count
                store.sketch[top + 1, row, place] += count
            store.sketch[zone, row, place] = 0
    if old:
        _append_lists(store, form, side, zone, now, window)
    for cell in range(form.buckets):
        store.cells[zone, cell, 0] = -1
    store.turns[zone] += 1


@compiled
def _append_lists(store, form, side, zone, now, window):  # type: ignore[no-untyped-def]
    target = store.state[side, 1]
    if store.spans[target, 0] == -np.inf:
        store.spans[target, 0] = now
    store.spans[target, 1] = store.spans[zone, 1]
    for cell in range(form.buckets):
        if store.cells[zone, cell, 0] < 0:
            continue
        if store.cells[target, cell, 0] < 0:
            store.cells[target, cell, 0] = store.cells[zone, cell, 0]
        else:
            store.following[store.cells[target, cell, 1]] = store.cells[zone, cell, 0]
        store.cells[target, cell, 1] = store.cells[zone, cell, 1]
    if now - store.spans[target, 0] >= window and target + 1 < (side + 1) * (form.zones + OLD_ZONES):
        store.state[side, 1] = target + 1
