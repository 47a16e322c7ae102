"""Nile's queue of promising cells (promising tuples, section 4.1.1): its order is the preference of the query.

    DESC       most matches first
    ASC        fewest matches first
    WEIGHTED   the oldest entry first; each finds only a share of its matches

Priorities are integers, so that an entry is added in constant time. The functions are compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.reproduce.emulators.compiler import compiled

Array = npt.NDArray[Any]
DESC, ASC, WEIGHTED = 0, 1, 2
LEVELS = 1_024
"""Priorities of the queue: a quarter of a match each."""
_ENTRIES = 32
"""Room of the queue, in entries for each tuple."""


class Queue(NamedTuple):
    """A priority queue with integer levels: linked lists of entries, the newest first (WEIGHTED: the oldest first).

    `heads`: int64[LEVELS]. `links`: int64[n, 6]: next entry, probing tuple, zone, turn of the zone, next tuple to
    look at, last tuple to look at. `quota`: float64[n], matches that an entry may still find. `state`: int64[4], the
    level to begin with, the slot for the next entry, the number of entries, and the newest one.
    """

    heads: Array
    links: Array
    quota: Array
    state: Array


def new_queue(tuples: int) -> Queue:
    """An empty queue for the probes of some tuples."""
    links = np.full((_ENTRIES * tuples, 6), -1)
    return Queue(np.full(LEVELS, -1, np.int64), links, np.full(len(links), 0.0), np.zeros(4, np.int64))


@compiled
def clear(queue):  # type: ignore[no-untyped-def]
    """Take all entries out."""
    for level in range(queue.state[0] + 1):
        queue.heads[level] = -1
    for place in range(len(queue.state)):
        queue.state[place] = 0


@compiled
def push(cells, turns, queue, at, zone, cell, matches, preference, share):  # type: ignore[no-untyped-def]
    """Add an entry: tuple `at` has an estimated number of matches in a cell. It may find a share of them (WEIGHTED).

    Nothing is added for an empty cell, or without room.
    """
    slot = queue.state[1]
    if cells[zone, cell, 0] < 0 or slot == len(queue.links):
        return
    level = int(min(4 * matches, LEVELS - 1))
    if preference == ASC:
        level = LEVELS - 1 - level
    queue.quota[slot] = np.inf
    if preference == WEIGHTED:
        level = 0
        queue.quota[slot] = np.floor(matches * share + np.random.random()) if share < 1 else np.inf
        if queue.quota[slot] == 0:
            return
    links = queue.links
    links[slot, 0], links[slot, 1], links[slot, 2], links[slot, 3] = queue.heads[level], at, zone, turns[zone]
    links[slot, 4], links[slot, 5] = cells[zone, cell, 0], cells[zone, cell, 1]
    if preference == WEIGHTED and queue.heads[0] >= 0:
        links[slot, 0] = -1
        links[queue.state[3], 0] = slot
    else:
        queue.heads[level] = slot
    queue.state[3] = slot
    queue.state[0] = max(queue.state[0], level)
    queue.state[1] += 1
    queue.state[2] += 1
