"""Nile's selections on a virtual clock (promising tuples, section 4.2): many queries, each with an interval of items.

    SIMPLE      each query tests each tuple, the queries in turn; the next arrival is the time-out, the rest is dropped
    promising   a tuple goes into the bucket of its item; in its turn a query looks at what is new in its buckets, the
                bucket with the most promised matches first, and goes on where it stopped

Buckets are ranges of items. So only the two at the ends of an interval have tuples that do not match. What waits
in a bucket is promised by its count. The functions are compiled. Every step moves the clock by its cost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.reproduce.emulators.compiler import compiled
from benchmarks.reproduce.emulators.promising_tuples.join import Costs

Array = npt.NDArray[Any]
BUCKETS = 64


class Selected(NamedTuple):
    """The outputs: int64 query, int64 tuple, and float64 time in ms of the output."""

    query: Array
    tuple: Array
    times: Array


def simple(items: Array, seconds: Array, intervals: Array, costs: Costs) -> Selected:
    """SIMPLE selection. `intervals`: int64[queries, 2], both ends included."""
    room = _room(items, intervals)
    output = np.empty((room, 2), np.int64), np.empty(room)
    count = _simple(items, seconds, intervals, costs, *output)
    return Selected(output[0][:count, 0], output[0][:count, 1], output[1][:count])


def promising(items: Array, seconds: Array, intervals: Array, costs: Costs, domain: int) -> Selected:
    """Selection guided by buckets. `domain`: items are below it."""
    room = _room(items, intervals)
    output = np.empty((room, 2), np.int64), np.empty(room)
    places = items * BUCKETS // domain
    reach = intervals * BUCKETS // domain
    seen = np.zeros((len(intervals), BUCKETS), np.int64)
    last = np.full((len(intervals), BUCKETS), -1, np.int64)
    lists = np.full(len(items), -1, np.int64), np.full((BUCKETS, 2), -1, np.int64), np.zeros(BUCKETS, np.int64)
    count = _promising(items, seconds, intervals, places, reach, costs, *lists, seen, last, *output)
    return Selected(output[0][:count, 0], output[0][:count, 1], output[1][:count])


def _room(items: Array, intervals: Array) -> int:
    """The number of outputs of all queries over all tuples."""
    ordered = np.sort(items)
    stops, starts = np.searchsorted(ordered, intervals[:, 1], "right"), np.searchsorted(ordered, intervals[:, 0])
    return int((stops - starts).sum())


@compiled
def _simple(items, seconds, intervals, costs, output, times):  # type: ignore[no-untyped-def]
    count, turn, clock = 0, 0, 0.0
    for at in range(len(items) - 1):
        clock = max(clock, 1e3 * seconds[at]) + costs.insert
        until = 1e3 * seconds[at + 1]
        tested = 0
        while tested < len(intervals) and clock < until:
            clock += costs.visit
            if intervals[turn, 0] <= items[at] <= intervals[turn, 1]:
                clock += costs.emit
                output[count, 0], output[count, 1], times[count] = turn, at, clock
                count += 1
            turn = (turn + 1) % len(intervals)
            tested += 1
    return count


@compiled
def _promising(items, seconds, intervals, places, reach, costs, following, lists, counts, seen, last, output, times):  # type: ignore[no-untyped-def]
    count, query, arrived, clock = 0, 0, 0, 0.0
    idle, end = 0, 1e3 * seconds[-1]
    while clock < end:
        if idle == len(intervals):
            clock, idle = max(clock, 1e3 * seconds[arrived]), 0
        arrived, clock = _arrivals(seconds, places, costs, following, lists, counts, arrived, clock)
        clock += costs.promise * (reach[query, 1] - reach[query, 0] + 1)
        bucket = _best(counts, seen[query], reach[query, 0], reach[query, 1])
        idle = 0 if bucket >= 0 else idle + 1
        while bucket >= 0 and clock < end:
            place = lists[bucket, 0] if last[query, bucket] < 0 else following[last[query, bucket]]
            last[query, bucket] = place
            seen[query, bucket] += 1
            clock += costs.visit
            if intervals[query, 0] <= items[place] <= intervals[query, 1]:
                clock += costs.emit
                output[count, 0], output[count, 1], times[count] = query, place, clock
                count += 1
            arrived, clock = _arrivals(seconds, places, costs, following, lists, counts, arrived, clock)
            if counts[bucket] == seen[query, bucket]:
                bucket = _best(counts, seen[query], reach[query, 0], reach[query, 1])
        query = (query + 1) % len(intervals)
    return count


@compiled
def _arrivals(seconds, places, costs, following, lists, counts, arrived, clock):  # type: ignore[no-untyped-def]
    """Insert all tuples that have arrived; returns their number so far, and the clock."""
    while arrived < len(seconds) - 1 and 1e3 * seconds[arrived] <= clock:
        bucket = places[arrived]
        if lists[bucket, 0] < 0:
            lists[bucket, 0] = arrived
        else:
            following[lists[bucket, 1]] = arrived
        lists[bucket, 1] = arrived
        counts[bucket] += 1
        arrived += 1
        clock += costs.insert
    return arrived, clock


@compiled
def _best(counts, seen, first, last):  # type: ignore[no-untyped-def]
    """The bucket with the most tuples that a query has not seen, of those inside its interval; -1: it has seen all.

    A bucket at an end counts half: about half of its tuples match.
    """
    best, largest = -1, 0
    for bucket in range(first, last + 1):
        waiting = (counts[bucket] - seen[bucket]) * (1 if bucket in (first, last) else 2)
        if waiting > largest:
            best, largest = bucket, waiting
    return best
