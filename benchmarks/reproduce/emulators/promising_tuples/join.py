"""Nile's window join on a virtual clock (promising tuples, section 4.1): symmetric, each tuple probes the other stream.

    tuple ─insert─> store of its stream
          ─promise─> for each cell of the other store: (tuple, cell, estimated matches) into a queue
                     queue ─the best entry─> one tuple of its cell after the other is looked at, until the next arrival

Every step moves the clock by its cost. The next arrival is the time-out of a probe. Unfinished entries stay in the
queue, and go on when the processor is idle, until the last arrival. A store without sketches has one entry for each
tuple, the newest first.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.reproduce.emulators.compiler import compiled
from benchmarks.reproduce.emulators.promising_tuples.queue import DESC, WEIGHTED, clear, new_queue, push
from benchmarks.reproduce.emulators.promising_tuples.store import (
    FIELDS,
    FORMS,
    OLD_ZONES,
    bucket,
    columns,
    estimate,
    insert,
    new_store,
)

Array = npt.NDArray[Any]
INSERT, PROMISE, ALL = 0, 1, 2
"""The last stage that runs, to measure the cost of each."""
FADE = 0.8
_BUSY = 64
"""Entries in the queue from which on WEIGHTED gives new ones a smaller share."""
_OUTPUT = 1_024
"""Rows of the output queue, in which the next operator would find them."""


class Costs(NamedTuple):
    """Milliseconds of virtual time: an insertion, an estimate with its entry, a look at a tuple, an output."""

    insert: float
    promise: float
    visit: float
    emit: float


NO_COSTS = Costs(0.0, 0.0, 0.0, 0.0)


class Joined(NamedTuple):
    """`pairs`: int64[n, 2], earlier and later tuple. `spent`: seconds of processor time.

    `inserts`, `promises`, `visits`, `outputs`: how often a step ran.
    """

    pairs: Array
    spent: float
    inserts: int
    promises: int
    visits: int
    outputs: int


def join(
    records: Array,
    seconds: Array,
    name: str,
    costs: Costs = NO_COSTS,
    *,
    window: float = 60.0,
    whole: bool = False,
    preference: int = DESC,
    stage: int = ALL,
    room: int = 2**24,
) -> Joined:
    """Join the two streams with a form of store. `records`: int64[n, FIELDS], the stream first and the item fourth.

    `whole`: the join window is the whole stream; `window` is then the length of the newer granularity. `room`: the
    number of pairs that are kept; without room none.
    """
    form, count = FORMS[name], len(records)
    store = new_store(form, count)
    queue = new_queue(count)
    output = np.empty((_OUTPUT, 2 * FIELDS), np.int64)
    pairs = np.empty((room, 2), np.int64)
    counts = np.zeros(4, np.int64)
    start = time.thread_time()
    _run(
        records, seconds, store, form, queue, output, pairs, counts,
        costs, np.inf if costs == NO_COSTS else 1e3 * seconds[-1], window, whole, preference, stage,
    )  # fmt: skip
    spent = time.thread_time() - start
    if 0 < room < counts[3]:
        raise ValueError(f"{counts[3]:,} pairs exceed the room for {room:,}: give more")
    return Joined(pairs[: counts[3]], spent, *(int(number) for number in counts))


@compiled
def _run(records, seconds, store, form, queue, output, pairs, counts, costs, end, window, whole, preference, stage):  # type: ignore[no-untyped-def]
    np.random.seed(1)
    clock, share = 0.0, 1.0
    for at in range(len(records)):
        arrival = 1e3 * seconds[at]
        clock = max(clock, arrival)
        until = 1e3 * seconds[at + 1] if at + 1 < len(records) else end
        insert(store, form, records, at, seconds[at], window, whole)
        counts[0] += 1
        clock += costs.insert
        if stage == INSERT or clock >= until:
            continue
        estimates = _promise(store, form, queue, at, 1 - records[at, 0], records[at, 3], preference, share)
        counts[1] += estimates
        clock += costs.promise * estimates
        if stage == PROMISE:
            clear(queue)
            continue
        clock = _drain(
            records, seconds, store, queue, output, pairs, counts,
            costs, clock, until, seconds[at], window, whole,
        )  # fmt: skip
        if preference == WEIGHTED:
            share = min(1.0, share * 1.05) if queue.state[2] < _BUSY else max(0.001, share * 0.95)


@compiled
def _promise(store, form, queue, at, side, item, preference, share):  # type: ignore[no-untyped-def]
    """Put an entry for each promising cell of a stream into the queue; returns the number of estimates."""
    cell = bucket(item, form.buckets)
    start = side * (form.zones + OLD_ZONES)
    if not form.sketch:
        push(store.cells, store.turns, queue, at, start, cell, 1.0, preference, 1.0)
        return 1
    slots = columns(item, form.buckets)
    top, estimates = len(store.sketch) - 4 + 2 * side, 0
    for granularity in range(2):
        estimates += 1
        if estimate(store.sketch, top + granularity, slots) < 1:
            continue
        first, stop = (
            (start, start + form.zones) if granularity == 0 else (start + form.zones, store.state[side, 1] + 1)
        )
        fade = FADE if granularity else 1.0
        for zone in range(first, stop):
            if store.cells[zone, cell, 0] >= 0:
                estimates += 1
                matches = estimate(store.sketch, zone, slots)
                if matches >= 1:
                    push(store.cells, store.turns, queue, at, zone, cell, matches * fade, preference, share)
    return estimates


@compiled
def _drain(records, seconds, store, queue, output, pairs, counts, costs, clock, until, now, window, whole):  # type: ignore[no-untyped-def]
    """Look at the tuples of the best entries until the next arrival; returns the clock."""
    links = queue.links
    while clock < until and queue.state[2]:
        level = queue.state[0]
        slot = queue.heads[level]
        if slot < 0:
            queue.state[0] -= 1
            continue
        at, zone, place, last = links[slot, 1], links[slot, 2], links[slot, 4], links[slot, 5]
        gone = not whole and (store.turns[zone] != links[slot, 3] or seconds[at] < now - window)
        if gone:
            clock += costs.visit
            place = -1
        while place >= 0 and clock < until:
            clock += costs.visit
            counts[2] += 1
            if store.tuples[place, 3] == records[at, 3] and (whole or store.seconds[place] >= seconds[at] - window):
                _emit(records, store.tuples, place, at, output, pairs, counts)
                clock += costs.emit
                queue.quota[slot] -= 1
            elif not whole and store.seconds[place] < now - window:
                cell = bucket(store.tuples[place, 3], store.cells.shape[1])
                if store.cells[zone, cell, 0] == place:
                    store.cells[zone, cell, 0] = store.following[place]
            place = -1 if place == last or queue.quota[slot] <= 0 else store.following[place]
        if place >= 0:
            links[slot, 4] = place
        else:
            queue.heads[level] = links[slot, 0]
            queue.state[2] -= 1
            if queue.state[2] == 0:
                queue.state[0] = queue.state[1] = 0
    return clock


@compiled
def _emit(records, tuples, place, at, output, pairs, counts):  # type: ignore[no-untyped-def]
    row = counts[3] % len(output)
    for field in range(FIELDS):
        output[row, field] = tuples[place, field]
        output[row, FIELDS + field] = records[at, field]
    if counts[3] < len(pairs):
        pairs[counts[3], 0], pairs[counts[3], 1] = place, at
    counts[3] += 1
