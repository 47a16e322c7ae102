"""Packs made ahead: what was asked for as a table is folded over chunks that are about to leave the memory.

    asked    count, sum of 100,000 users over stream 3            nobody who has not asked pays
    chunks   on disk ─┬─ sealed, in memory ──┬─ open              each is folded once, for all clauses of such queries
    16, 256 of them are combined once they are there; what is of chunks on disk goes to the disk

After a start it is known from the disk what was asked for: the newest chunks there have packs of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from psoup.aggregates.folds import Span
from psoup.aggregates.measures import Name, states_for
from psoup.aggregates.packs import Packs
from psoup.answer.asked import plan_of
from psoup.answer.folded import folds_of
from psoup.answer.packed import Spans
from psoup.answer.packs_on_disk import PackShelf, pack_shelf
from psoup.answer.source_rows import Reading
from psoup.answer.together import Together
from psoup.columns import Array
from psoup.errors import PSoupError
from psoup.plan.nodes import Measure, Node
from psoup.plan.sides import FIRST_SIDE
from psoup.published.records import NO_CLAUSE, QueryBlock, picked
from psoup.published.snapshot import Snapshot, StreamView
from psoup.reading import NO_LIMIT, ReadBudget
from psoup.results.chunk_results import ALL
from psoup.results.sets import all_evaluated

_STEP = 16
"""Chunks, and spans put on the disk, of one step: some tens of milliseconds."""
_LEVELS = 4
"""Levels of spans, of a newest one of each of which it is looked whether it has a pack on the disk."""

Key = tuple[int, tuple[Name, ...]]
"""A stream, and what states are made of."""


class Asking(NamedTuple):
    """Clauses (SQC IDs, int64[k], ascending) of standing queries with some states, and a measure for each state."""

    ids: Array
    measures: Sequence[Measure]


class PacksAhead:
    """What has been packed ahead. One thread at a time."""

    def __init__(self) -> None:
        self._queries: object = None
        self._asking: dict[Key, Asking] = {}
        self._found: set[int] = set()
        """Streams of which it was looked what is on the disk."""

    def step(self, snapshot: Snapshot, view: StreamView) -> int:
        """Pack some of a stream, and put some on the disk; returns how many packs, 0 if there is nothing to do."""
        if view.stream_id not in self._found and view.archived:
            self._found.add(view.stream_id)
            self._find(snapshot, view, self._wanted(snapshot))
        made = 0
        for stream_id, packs in view.packs.kept():
            if stream_id == view.stream_id and made < _STEP:
                wanted = self._wanted(snapshot).get((stream_id, tuple(states_for(packs.measures))))
                made += 0 if wanted is None else self._pack(snapshot, view, packs, wanted)
        return made

    def _pack(self, snapshot: Snapshot, view: StreamView, packs: Packs, wanted: Asking) -> int:
        base, made = view.chunks[0].data.number, 0
        packs.forget(base, view.packs.fan)
        wanted = Asking(np.setdiff1d(wanted.ids, view.outside.ids, assume_unique=True), wanted.measures)
        spans, shelf = _spans(snapshot, view, packs, wanted), pack_shelf(snapshot, view, packs)
        number = max(packs.ahead, base + view.archived)
        while made < _STEP and number < base + len(view.chunks) - 1:
            entry = view.chunks[number - base]
            if not entry.data.in_memory or entry.results.evicted:
                number += 1
                continue
            if entry.results.open is not None or not all_evaluated(entry.results, wanted.ids):
                break
            made += _made(spans, shelf, number, base)
            number += 1
        packs.ahead = number
        return made if shelf is None else made + shelf.shelve(_STEP)

    def _find(self, snapshot: Snapshot, view: StreamView, asking: dict[Key, Asking]) -> None:
        """Note what was asked for before the start, as the disk has it."""
        for (stream_id, _), wanted in asking.items():
            if stream_id == view.stream_id and view.packs.of(stream_id, wanted.measures) is None:
                shelf = pack_shelf(snapshot, view, Packs(tuple(wanted.measures)))
                if shelf is not None and any(map(shelf.has, _newest(shelf, view.packs.fan))):
                    view.packs.known(stream_id, wanted.measures, view.tenant)

    def _wanted(self, snapshot: Snapshot) -> dict[Key, Asking]:
        """The aggregates that stand, by stream and states. O(queries), once these have changed."""
        if snapshot.queries is not self._queries:
            clauses, measures = defaultdict[Key, list[Array]](list), dict[Key, Sequence[Measure]]()
            for stream_id, sqc_ids, plan in _plans(snapshot):
                folds = folds_of(plan)
                names = {} if folds is None else states_for(folds.node.measures)
                if folds is not None:
                    clauses[stream_id, tuple(names)].append(sqc_ids)
                    measures[stream_id, tuple(names)] = tuple(names.values())
            every = ((key, np.unique(np.concatenate(parts))) for key, parts in clauses.items())
            self._asking = {key: Asking(ids[ids < ALL], measures[key]) for key, ids in every}
            self._queries = snapshot.queries
        return self._asking


def _made(spans: Spans, shelf: PackShelf | None, number: int, base: int) -> int:
    """Fold a chunk, and the spans that end with it and whose other chunks need not be read; returns how many."""
    made, fan = 0, spans.together.view.packs.fan
    level, size = 0, 1
    while (number + 1) % size == 0 and number + 1 - size >= base:
        span = level, number // size
        if level and shelf is not None:
            spans.fetch(shelf, (number + 1 - size, number + 1))
        try:
            if spans.lacks(span) and (not level or not spans.lacks_chunks(span)):
                spans.complete(span)
                made += 1
        except PSoupError:  # a reader who asks is told
            break
        level, size = level + 1, size * fan
    return made


def _spans(snapshot: Snapshot, view: StreamView, packs: Packs, wanted: Asking) -> Spans:
    budget = ReadBudget()
    reading = Reading([], None, snapshot.config.texts, budget, 0)
    return Spans(packs.measures, packs, Together(snapshot, view, wanted.ids, budget), reading, NO_LIMIT)


def _newest(shelf: PackShelf, fan: int) -> Iterator[Span]:
    """The newest span of each level, all of whose chunks are on the disk."""
    for level in range(_LEVELS):
        size = fan**level
        if (shelf.disk.stop // size - 1) * size >= shelf.disk.first:
            yield level, shelf.disk.stop // size - 1


def _plans(snapshot: Snapshot) -> Iterator[tuple[int, Array, Node]]:
    """The stream, the clauses and the plan of queries, those of a block together."""
    alike = defaultdict[int, list[int]](list)
    plans = dict[int, tuple[int, Node]]()
    for record in snapshot.queries.single():
        if record.query_id < FIRST_SIDE and record.sqc_id != NO_CLAUSE and record.query.factors:
            plan = record.query.plan
            alike[id(plan)].append(record.sqc_id)
            plans[id(plan)] = record.stream_id, plan
    for key, (stream_id, plan) in plans.items():
        yield stream_id, np.array(alike[key], np.int64), plan
    for block in snapshot.queries.blocks:
        if isinstance(block, QueryBlock) and block.first < FIRST_SIDE:
            yield block.stream_id, picked(block.sqc_ids, block.standing()), plan_of(block)
