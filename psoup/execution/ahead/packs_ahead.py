"""Background work that makes packs over sealed chunks, for aggregates that were invoked as a table.

    table    count, sum of 100,000 users over stream 3            aggregates never invoked as a table cost nothing
    chunks   on disk ─┬─ sealed, in memory ──┬─ open              each is folded once, for all clauses of such queries
    spans    16 chunks, 256 chunks, combined when complete        packs of chunks on disk are written to disk

A pack has the states of many clauses over a span of chunks. After a restart, the packs on disk of the newest chunks
tell which aggregates were invoked as a table. Each pack has a budget of bytes and time, and a refusal is remembered
(`psoup.execution.ahead.attempts`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from psoup.aggregates.measures import Name, states_for
from psoup.aggregates.packs import Packs
from psoup.aggregates.spans import Span
from psoup.execution.ahead.attempts import Attempts, Turn, Work
from psoup.execution.many.many_folds import folds_of
from psoup.execution.many.packs_store import PackShelf, pack_shelf
from psoup.execution.many.query_sets import plan_of
from psoup.execution.many.window_packs import Spans
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.many_matches import Together
from psoup.plan.nodes import Measure, Node
from psoup.plan.sides import FIRST_SIDE
from psoup.published.record_block import picked
from psoup.published.records import NO_CLAUSE, QueryBlock
from psoup.published.snapshot import Snapshot, StreamView
from psoup.results.chunk_results import ALL
from psoup.results.sets import all_evaluated
from psoup.values.columns import Array
from psoup.work.read_budget import NO_LIMIT, UNBOUNDED, ReadBudget

_STEP = 16
"""The most chunks that one step folds, and the most spans that it writes. A step takes some tens of milliseconds."""
_LEVELS = 4
"""The number of levels of spans that are searched for packs on disk after a start."""

Key = tuple[int, tuple[Name, ...]]
"""A stream ID, and the names of the states in its packs."""


class ClauseStates(NamedTuple):
    """The clauses of registered queries whose aggregates have the same states. `ids`: SQC IDs, int64[k], ascending.

    `measures`: a measure for each state. `query_id`: the first of the queries.
    """

    ids: Array
    measures: Sequence[Measure]
    query_id: int


class PacksAhead:
    """The background work that makes packs of all streams, and its progress. One thread at a time may use it."""

    def __init__(self, attempts: Attempts, shelves: bool) -> None:
        """`shelves`: whether this work writes packs of chunks on disk to disk."""
        self._attempts, self._shelves = attempts, shelves
        self._queries: object = None
        self._asking: dict[Key, ClauseStates] = {}
        self._found: set[int] = set()
        """The streams whose packs on disk were searched after the start."""

    def step(self, snapshot: Snapshot, view: StreamView, turn: Turn) -> int:
        """Make some packs of a stream, and write some to disk.

        Returns their number, or 0 if nothing is left to do. Begins nothing after the end of the turn.
        """
        if view.stream_id not in self._found and view.archived:
            self._found.add(view.stream_id)
            self._find(snapshot, view, self._wanted(snapshot))
        made = 0
        for stream_id, former in view.packs.kept():
            packs = former
            if stream_id == view.stream_id and former.turn != view.turns[0]:
                packs = view.packs.known(stream_id, former.measures, view.tenant, view.turns) or Packs(former.measures)
            if stream_id == view.stream_id and made < _STEP and not turn.is_over and packs.turn == view.turns[0]:
                key = stream_id, tuple(states_for(packs.measures))
                wanted = self._wanted(snapshot).get(key)
                made += 0 if wanted is None else self._pack(snapshot, view, packs, wanted, key)
        return made

    def _pack(self, snapshot: Snapshot, view: StreamView, packs: Packs, wanted: ClauseStates, key: Key) -> int:
        base = view.chunks[0].data.number
        packs.forget(base, view.packs.fan)
        ids = np.setdiff1d(wanted.ids, view.outside.ids, assume_unique=True)
        numbers, made = _ready(view, packs, ids), 0
        work = Work(view, key, wanted.query_id, numbers[0] if numbers else base)
        if numbers:
            made = self._attempt(work, partial(_made, snapshot, view, packs, ids, numbers)) or 0
        return made + self._shelve(snapshot, view, packs, work._replace(key=("shelve", *key)))

    def _shelve(self, snapshot: Snapshot, view: StreamView, packs: Packs, work: Work) -> int:
        """Write the packs of chunks on disk, even while new packs are refused. Returns the number of spans written."""
        if not self._shelves or not packs.fresh or not view.archived:
            return 0

        def put(budget: ReadBudget) -> int:
            shelf = pack_shelf(snapshot, view, packs, budget)
            return 0 if shelf is None else shelf.shelve(_STEP)

        return self._attempt(work, put) or 0

    def _attempt(self, work: Work, make: Callable[[ReadBudget], int]) -> int | None:
        room = work.view.packs
        return self._attempts.make(work, room.refusals, room.work_bytes(work.view.tenant), make)

    def _find(self, snapshot: Snapshot, view: StreamView, asking: dict[Key, ClauseStates]) -> None:
        """Note the aggregates that were invoked as a table before the start. Packs on disk are the evidence."""
        for (stream_id, _), wanted in asking.items():
            if stream_id == view.stream_id and view.packs.of(stream_id, wanted.measures, view.turns[0]) is None:
                shelf = pack_shelf(snapshot, view, Packs(tuple(wanted.measures)), UNBOUNDED)  # only for a search
                if shelf is not None and any(map(shelf.has, _newest(shelf, view.packs.fan))):
                    view.packs.known(stream_id, wanted.measures, view.tenant, view.turns)

    def _wanted(self, snapshot: Snapshot) -> dict[Key, ClauseStates]:
        """The clauses of registered aggregates, by stream and states.

        O(queries) after a change of the queries, else O(1).
        """
        if snapshot.queries is not self._queries:
            clauses, measures = defaultdict[Key, list[Array]](list), dict[Key, Sequence[Measure]]()
            first = dict[Key, int]()
            for stream_id, query_id, sqc_ids, plan in _plans(snapshot):
                folds = folds_of(plan)
                names = {} if folds is None else states_for(folds.node.measures)
                if folds is not None:
                    clauses[stream_id, tuple(names)].append(sqc_ids)
                    measures[stream_id, tuple(names)] = tuple(names.values())
                    first.setdefault((stream_id, tuple(names)), query_id)
            every = ((key, np.unique(np.concatenate(parts))) for key, parts in clauses.items())
            self._asking = {key: ClauseStates(ids[ids < ALL], measures[key], first[key]) for key, ids in every}
            self._queries = snapshot.queries
            for view in snapshot.by_id.values():
                view.packs.refusals.keep(self._asking)
        return self._asking


def _ready(view: StreamView, packs: Packs, ids: Array) -> list[int]:
    """The numbers of the next chunks to fold, at most `_STEP`.

    Such a chunk is in memory, sealed, and evaluated for all clauses. The search ends at the first chunk that is not yet
    sealed or evaluated.
    """
    numbers, base = list[int](), view.chunks[0].data.number
    packs.ahead = number = max(packs.ahead, base + view.archived)
    for entry in view.chunks[number - base : -1]:
        if entry.data.in_memory and not entry.results.evicted:
            if len(numbers) == _STEP or entry.results.open is not None or not all_evaluated(entry.results, ids):
                break
            numbers.append(entry.data.number)
        elif not numbers:
            packs.ahead = entry.data.number + 1
    return numbers


def _made(
    snapshot: Snapshot, view: StreamView, packs: Packs, ids: Array, numbers: list[int], budget: ReadBudget
) -> int:
    """Make the packs of chunks, and of the spans that end with them. Returns the number of new packs.

    A span gets no pack if another chunk would have to be read for it.
    """
    made = 0
    reading = Reading([], None, snapshot.config.texts, budget, 0)
    spans = Spans(packs.measures, packs, Together(snapshot, view, ids, budget), reading, NO_LIMIT)
    shelf = pack_shelf(snapshot, view, packs, budget)
    for number in numbers:
        made += _made_of(spans, shelf, number, view.chunks[0].data.number)
        packs.ahead = number + 1
    return made


def _made_of(spans: Spans, shelf: PackShelf | None, number: int, base: int) -> int:
    """Make the packs of one chunk, and of the spans that end with it. Returns the number of new packs."""
    made, fan = 0, spans.together.view.packs.fan
    level, size = 0, 1
    while (number + 1) % size == 0 and number + 1 - size >= base:
        span = level, number // size
        if level and shelf is not None:
            spans.fetch(shelf, (number + 1 - size, number + 1))
        if spans.lacks(span) and (not level or not spans.lacks_chunks(span)):
            spans.complete(span)
            made += 1
        level, size = level + 1, size * fan
    return made


def _newest(shelf: PackShelf, fan: int) -> Iterator[Span]:
    """For each level, the newest span whose chunks are all on disk."""
    for level in range(_LEVELS):
        size = fan**level
        if (shelf.disk.stop // size - 1) * size >= shelf.disk.first:
            yield level, shelf.disk.stop // size - 1


def _plans(snapshot: Snapshot) -> Iterator[tuple[int, int, Array, Node]]:
    """The stream ID, first query ID, SQC IDs and plan of the queries that share a plan. A block is one item."""
    alike = defaultdict[int, list[int]](list)
    plans = dict[int, tuple[int, int, Node]]()
    for record in snapshot.queries.single():
        if record.keeping.parked or record.query_id >= FIRST_SIDE or record.sqc_id == NO_CLAUSE:
            continue
        if record.query.factors:
            plan = record.query.plan
            alike[id(plan)].append(record.sqc_id)
            plans.setdefault(id(plan), (record.stream_id, record.query_id, plan))
    for key, (stream_id, query_id, plan) in plans.items():
        yield stream_id, query_id, np.array(alike[key], np.int64), plan
    for block in snapshot.queries.blocks:
        if isinstance(block, QueryBlock) and block.first < FIRST_SIDE and not block.is_parked:
            yield block.stream_id, block.first, picked(block.sqc_ids, block.standing()), plan_of(block)
