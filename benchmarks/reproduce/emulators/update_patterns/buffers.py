"""Buffers of the update-pattern paper (SIGMOD 2005, section 5.3.2): arrays of linked lists of tuples with an expiry.

    FIFO          a list in the order of arrival; expired tuples are taken from its head
    LIST          the same list, but tuples expire in any order: a search for them reads the whole list
    HASH          lists by key, in the order of arrival; a negative tuple finds its tuple in the list of its key
    PARTITIONED   lists by expiry, each sorted by it: a calendar; a negative tuple is looked for in all lists

A buffer that an operator probes also has an index: lists by key. The functions are compiled. A cell is a row of
`cells` and of `nodes`: what a search by expiry reads lies apart, so it takes 12 bytes a cell of the cache. -1 stands
for none. Times are units of the trace; a tuple is in its window while `now < expiry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[Any]
FIFO, LIST, HASH, PARTITIONED = range(4)
KEY, LEFT, RIGHT, NEXT, PREVIOUS, CHOSEN = range(6)
"""Columns of `cells`: key, IDs of two tuples, neighbours by key, a mark."""
EXPIRY, AFTER, BEFORE = range(3)
"""Columns of `nodes`: expiry, and neighbours in the list."""
KIND, WIDTH, LISTS, FIRST, PLACE, MASK, SORTED = range(7)
"""Facts of a buffer: the width of a partition, its lists, their first row in `ends`, the partition to expire next."""

compiled = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)  # type: ignore[call-overload]
"""For functions that only compiled functions call. They allocate nothing, so no references are counted."""


class State(NamedTuple):
    """All buffers of a plan, which share their cells, and what else the operators keep.

    `facts`: int64[buffers, 7]; `cells`: int32[capacity, 6]; `nodes`: int32[capacity, 3]; `ends`: head and tail of each
    list, then of each bucket, of one buffer after the other; `free`: the first free cell; `keys`: int64[4, keys] and
    `tally`: int64[3], of a negation (`operators`); `queues`: int64[3, n, 5], what has arrived and what two operators
    put out; `counts`: rows of these.
    """

    facts: Array
    cells: Array
    nodes: Array
    ends: Array
    free: Array
    keys: Array
    tally: Array
    queues: Array
    counts: Array


class Buffer(NamedTuple):
    """The form of a buffer. `indexed`: with an index; `ordered`: the index is sorted by expiry."""

    kind: int = FIFO
    indexed: bool = False
    ordered: bool = False


def state_of(buffers: Sequence[Buffer], window: int, partitions: int, *, capacity: int, keys: int, queue: int) -> State:
    """An empty state, with room for `capacity` tuples in all buffers and for `queue` rows that one tuple puts out."""
    facts, rows = np.zeros((len(buffers), 7), np.int64), 0
    for at, (kind, indexed, ordered) in enumerate(buffers):
        lists = partitions + 1 if kind == PARTITIONED else 1
        buckets = 1 << max(keys - 1, 1).bit_length() if indexed or kind == HASH else 0
        facts[at] = kind, -(-window // partitions), lists, rows, 0, buckets - 1, ordered
        rows += lists + buckets
    cells, nodes = np.full((capacity, 6), -1, np.int32), np.full((capacity, 3), -1, np.int32)
    nodes[:-1, AFTER] = np.arange(1, capacity)
    by_key = np.array([[0], [0], [0], [-1]], np.int64).repeat(keys, 1)
    queues = np.zeros((3, queue, 5), np.int64), np.zeros(3, np.int64)
    ends = np.full((rows, 2), -1, np.int32)
    return State(facts, cells, nodes, ends, np.zeros(1, np.int64), by_key, np.zeros(3, np.int64), *queues)


@compiled
def _after(s, cell, hashed):  # type: ignore[no-untyped-def]
    """The next cell in the bucket (`hashed`) or list."""
    return np.int64(s.cells[cell, NEXT] if hashed else s.nodes[cell, AFTER])


@njit(cache=True)
def cells_of(s, at):  # type: ignore[no-untyped-def]
    """The cells of a buffer, in the order of its lists or buckets."""
    hashed = s.facts[at, KIND] == HASH
    start = s.facts[at, FIRST] + (s.facts[at, LISTS] if hashed else 0)
    count = s.facts[at, MASK] + 1 if hashed else s.facts[at, LISTS]
    numbers = [np.int64(0) for _ in range(0)]
    for row in range(start, start + count):
        cell = np.int64(s.ends[row, 0])
        while cell >= 0:
            numbers.append(cell)
            cell = _after(s, cell, hashed)
    return np.array(numbers, np.int64)


def in_lists_of(s: State, other: State) -> State:
    """The tuples of `s` in the lists of `other`, an empty state of the same plan with other partitions."""
    facts, ends, nodes = other.facts, other.ends, s.nodes
    for at, (old, new) in enumerate(zip(s.facts, facts, strict=True)):
        (before, after), count = (row[FIRST] + row[LISTS] for row in (old, new)), new[MASK] + 1
        ends[after : after + count] = s.ends[before : before + count]
        if new[KIND] != PARTITIONED:
            ends[new[FIRST]] = s.ends[old[FIRST]]
            continue
        cells = cells_of(s, at)
        expiries = nodes[cells, EXPIRY]
        cells = cells[np.argsort(expiries, kind="stable")]
        lists = nodes[cells, EXPIRY] // new[WIDTH] % new[LISTS]
        for number in np.unique(lists):
            chain = cells[lists == number]
            nodes[chain, AFTER], nodes[chain, BEFORE] = [*chain[1:], -1], [-1, *chain[:-1]]
            ends[new[FIRST] + number] = chain[0], chain[-1]
    return s._replace(facts=facts, ends=ends)


@compiled
def _link(rows, ends, at, column, behind, cell):  # type: ignore[no-untyped-def]
    """Put a cell into the list `at`, after the cell `behind`. `rows`: `nodes`, or `cells` for a list by key."""
    ahead = ends[at, 0] if behind < 0 else rows[behind, column]
    rows[cell, column], rows[cell, column + 1] = ahead, behind
    _connect(rows, ends, at, column, behind, cell, cell, ahead)


@compiled
def _unlink(rows, ends, at, column, cell):  # type: ignore[no-untyped-def]
    """Take a cell out of the list `at`."""
    ahead, behind = rows[cell, column], rows[cell, column + 1]
    _connect(rows, ends, at, column, behind, ahead, behind, ahead)


@compiled
def _connect(rows, ends, at, column, behind, after, before, ahead):  # type: ignore[no-untyped-def]
    """Let `after` follow the cell `behind`, and `before` precede the cell `ahead`; -1: an end of the list."""
    if behind < 0:
        ends[at, 0] = after
    else:
        rows[behind, column] = after
    if ahead < 0:
        ends[at, 1] = before
    else:
        rows[ahead, column + 1] = before


@compiled
def _list_of(s, at, expiry):  # type: ignore[no-untyped-def]
    if s.facts[at, KIND] == PARTITIONED:
        return s.facts[at, FIRST] + expiry // s.facts[at, WIDTH] % s.facts[at, LISTS]
    return s.facts[at, FIRST]


@compiled
def _bucket_of(s, at, key):  # type: ignore[no-untyped-def]
    """The row of `ends` of a key's bucket."""
    mixed = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return s.facts[at, FIRST] + s.facts[at, LISTS] + np.int64(mixed & np.uint64(s.facts[at, MASK]))


@compiled
def insert(s, at, key, expiry, left, right):  # type: ignore[no-untyped-def]
    """Add a tuple to the buffer `at`. Returns its cell."""
    cells, nodes, ends = s.cells, s.nodes, s.ends
    cell = s.free[0]
    if cell < 0:
        raise MemoryError("the emulator has no free cell")
    s.free[0] = nodes[cell, AFTER]
    cells[cell, KEY], cells[cell, LEFT], cells[cell, RIGHT], cells[cell, CHOSEN] = key, left, right, 0
    nodes[cell, EXPIRY] = expiry
    if s.facts[at, KIND] != HASH:
        row = _list_of(s, at, expiry)
        behind = np.int64(ends[row, 1])
        if s.facts[at, KIND] == PARTITIONED:
            while behind >= 0 and nodes[behind, EXPIRY] > expiry:
                behind = np.int64(nodes[behind, BEFORE])
        _link(nodes, ends, row, AFTER, behind, cell)
    if s.facts[at, MASK] >= 0:
        row = _bucket_of(s, at, key)
        behind = np.int64(ends[row, 1])
        while s.facts[at, SORTED] and behind >= 0 and nodes[behind, EXPIRY] > expiry:
            behind = np.int64(cells[behind, PREVIOUS])
        _link(cells, ends, row, NEXT, behind, cell)
    return cell


@compiled
def remove(s, at, cell):  # type: ignore[no-untyped-def]
    """Take a cell out of the buffer `at`."""
    if s.facts[at, KIND] != HASH:
        _unlink(s.nodes, s.ends, _list_of(s, at, np.int64(s.nodes[cell, EXPIRY])), AFTER, cell)
    if s.facts[at, MASK] >= 0:
        _unlink(s.cells, s.ends, _bucket_of(s, at, np.int64(s.cells[cell, KEY])), NEXT, cell)
    s.nodes[cell, AFTER] = s.free[0]
    s.free[0] = cell


@compiled
def expired(s, at, now):  # type: ignore[no-untyped-def]
    """The next cell of a FIFO or PARTITIONED buffer that has expired, or -1. The caller removes it."""
    last = now // s.facts[at, WIDTH] if s.facts[at, KIND] == PARTITIONED else 0
    while True:
        cell = np.int64(s.ends[s.facts[at, FIRST] + s.facts[at, PLACE] % s.facts[at, LISTS], 0])
        if cell >= 0 and s.nodes[cell, EXPIRY] <= now:
            return cell
        if s.facts[at, PLACE] >= last:
            return np.int64(-1)
        s.facts[at, PLACE] += 1


@njit(cache=True)
def remove_expired(s, at, now):  # type: ignore[no-untyped-def]
    """Remove all expired tuples. A HASH buffer has none: a negative tuple came for each."""
    if s.facts[at, KIND] == LIST:
        cell = np.int64(s.ends[s.facts[at, FIRST], 0])
        while cell >= 0:
            after = np.int64(s.nodes[cell, AFTER])
            if s.nodes[cell, EXPIRY] <= now:
                remove(s, at, cell)
            cell = after
    elif s.facts[at, KIND] != HASH:
        cell = expired(s, at, now)
        while cell >= 0:
            remove(s, at, cell)
            cell = expired(s, at, now)


@compiled
def same_key(s, cell, key, column):  # type: ignore[no-untyped-def]
    """The first cell with a key, from a cell of its bucket on: `column` is NEXT or PREVIOUS."""
    while cell >= 0 and s.cells[cell, KEY] != key:
        cell = np.int64(s.cells[cell, column])
    return cell


@compiled
def neighbour(s, cell, key, column):  # type: ignore[no-untyped-def]
    """The cell after (NEXT) or before (PREVIOUS) one of the same key, or -1."""
    return same_key(s, np.int64(s.cells[cell, column]), key, column)


@compiled
def first_of(s, at, key):  # type: ignore[no-untyped-def]
    """The first cell of a key in its bucket, or -1."""
    return same_key(s, np.int64(s.ends[_bucket_of(s, at, key), 0]), key, NEXT)


@compiled
def last_of(s, at, key):  # type: ignore[no-untyped-def]
    """The last cell of a key in its bucket, or -1."""
    return same_key(s, np.int64(s.ends[_bucket_of(s, at, key), 1]), key, PREVIOUS)


@compiled
def find(s, at, key, left, right):  # type: ignore[no-untyped-def]
    """The cell of a tuple to which a negative tuple has come: by its key, or in one list after the other. Or -1."""
    hashed = s.facts[at, KIND] == HASH
    start = _bucket_of(s, at, key) if hashed else s.facts[at, FIRST]
    for row in range(start, start + 1 if hashed else start + s.facts[at, LISTS]):
        cell = np.int64(s.ends[row, 0])
        while cell >= 0:
            if s.cells[cell, LEFT] == left and s.cells[cell, RIGHT] == right and s.cells[cell, KEY] == key:
                return cell
            cell = _after(s, cell, hashed)
    return np.int64(-1)
