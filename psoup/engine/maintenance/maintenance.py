"""Work that keeps the structures small and the answers ready, none of which changes an answer.

    store    a closed chunk goes to whoever keeps it, through a port; from then on the log may forget its tuples
    seal     the open results of a full chunk become a pack, and its columns are made ready to be searched
    merge    the recent clauses' index goes into the main one
    tidy     the open results forget clauses that are gone, and their slots become free
    cover    clauses born after a chunk was closed are evaluated over it (new queries, old data)
    compact  packs forget clauses that are gone
    tally    what queries cost in chunks and indexes that are gone is counted by clause

A task is made by the writer from immutable parts, computed by anyone, and installed by the writer only if what it was
computed from still stands; else it is dropped and will be found due again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from psoup.clauses.costs import ClauseCosts, CostTally
from psoup.clauses.query_stem import MergeResult, MergeTask
from psoup.columns import Array
from psoup.data.archived import ArchivedChunk
from psoup.data.chunk import ChunkView, Keep
from psoup.data.zones import narrow_all
from psoup.engine.maintenance.cover import Replace, cover_due
from psoup.engine.stream.state import StreamState
from psoup.errors import ResourceExhausted
from psoup.model import StreamSpec
from psoup.published.snapshot import ChunkEntry
from psoup.results.room import RowRoom
from psoup.results.sealed import seal
from psoup.runner import Runner, serial

_COMPACT_FROM = 64


class Installable(Protocol):
    """The outcome of a task."""

    @property
    def stream_id(self) -> int:
        """Whose state it is for."""
        ...

    def install(self, state: StreamState) -> bool:
        """Put it in place; False if the state has moved on."""
        ...


class Task(Protocol):
    """Work that is due."""

    @property
    def name(self) -> str:
        """store, seal, merge, tidy, cover, compact or tally."""
        ...

    def compute(self, run: Runner = serial) -> Installable:
        """Do the work, large pieces of it on `run`. From any thread; changes nothing."""
        ...


def next_task(state: StreamState, *, everything: bool) -> Task | None:
    """The most urgent task of one stream, or None. O(1) while nothing has happened since it was None."""
    if state.settled and not everything:
        return None
    for find in _RULES:
        task = find(state, everything)
        if task is not None:
            return task
    state.settle()
    return None


@dataclass(frozen=True, slots=True)
class _StoreTask:
    """Results are not stored: they follow from the tuples and the queries."""

    stream_id: int
    spec: StreamSpec
    chunk: ChunkView
    oldest: int
    keep: Keep
    name: str = "store"

    def compute(self, run: Runner = serial) -> Installable:
        try:
            entry = self.keep(self.stream_id, self.spec, self.chunk, self.oldest)
        except ResourceExhausted:  # it stays where it is: in memory and in the log
            return _NoRoom(self.stream_id)
        return _StoreDone(self.stream_id, self.chunk.number, entry)


@dataclass(frozen=True, slots=True)
class _NoRoom:
    stream_id: int

    def install(self, state: StreamState) -> bool:
        state.storing = False
        return False


@dataclass(frozen=True, slots=True)
class _StoreDone:
    stream_id: int
    number: int
    entry: ArchivedChunk | None

    def install(self, state: StreamState) -> bool:
        state.stored = self.number + 1
        if self.entry is not None:
            state.data.leaving.append(self.entry)
        state.settled = False
        return False


@dataclass(frozen=True, slots=True)
class _Seal:
    stream_id: int
    entry: ChunkEntry
    list_limit: int
    room: RowRoom
    name: str = "seal"

    def compute(self, run: Runner = serial) -> Installable:
        results = self.entry.results
        assert results.open is not None and isinstance(self.entry.data, ChunkView)
        narrow_all(self.entry.data)
        pack = seal(results.open, results.open.sqc_of_slot, self.list_limit, self.room)
        self.room.make_ready(results.open.count)
        return Replace(self.stream_id, self.entry.data.number, results, results.sealed(pack))


@dataclass(frozen=True, slots=True)
class _Compact:
    stream_id: int
    entry: ChunkEntry
    dead: Array
    upto: int
    errors: dict[int, int]
    name: str = "compact"

    def compute(self, run: Runner = serial) -> Installable:
        results = self.entry.results
        without = results.without(self.dead, self.upto, self.errors)
        return Replace(self.stream_id, self.entry.data.number, results, without)


@dataclass(frozen=True, slots=True)
class _Tidy:
    """The open results are being written, so this is done when it is installed. O(open results)."""

    stream_id: int
    name: str = "tidy"

    def compute(self, run: Runner = serial) -> Installable:
        return self

    def install(self, state: StreamState) -> bool:
        state.tidy()
        return True


@dataclass(frozen=True, slots=True)
class _Merge:
    stream_id: int
    task: MergeTask
    name: str = "merge"

    def compute(self, run: Runner = serial) -> Installable:
        return _Merged(self.stream_id, self.task.compute())


@dataclass(frozen=True, slots=True)
class _Merged:
    stream_id: int
    result: MergeResult

    def install(self, state: StreamState) -> bool:
        state.settled = False
        return state.clauses.install(self.result)


@dataclass(frozen=True, slots=True)
class _TallyTask:
    stream_id: int
    costs: ClauseCosts
    sqc_of_slot: Array
    name: str = "tally"

    def compute(self, run: Runner = serial) -> Installable:
        return _Tallied(self.stream_id, self.costs.tally(self.sqc_of_slot))


@dataclass(frozen=True, slots=True)
class _Tallied:
    stream_id: int
    tally: CostTally

    def install(self, state: StreamState) -> bool:
        state.clauses.costs.install(self.tally, state.slots.sqc_of_slot)
        return False


def _store_due(state: StreamState, everything: bool) -> Task | None:
    if state.keep is None or not state.storing or state.stored == state.data.open.number:
        return None
    chunk = state.data.closed[state.stored - state.data.open.number]
    return _StoreTask(state.stream_id, state.data.spec, chunk, state.oldest, state.keep)


def _seal_due(state: StreamState, everything: bool) -> Task | None:
    oldest: ChunkEntry | None = None
    for entry in reversed(state.closed):  # chunks are sealed in their order, so those that are not come last
        if entry.results.open is None:
            break
        oldest = entry
    return None if oldest is None else _Seal(state.stream_id, oldest, state.config.list_limit, state.open.room)


def _chunk_due(state: StreamState, everything: bool) -> Task | None:
    """Chunks to seal and chunks to store take turns: neither the memory nor the log may grow because of the other."""
    seal, store = _seal_due(state, everything), _store_due(state, everything)
    if seal is None or store is None:
        return seal or store
    task = store if state.store_next else seal
    state.store_next = not state.store_next
    return task


def _merge_due(state: StreamState, everything: bool) -> Task | None:
    if state.clauses.merge_due(everything):
        return _Merge(state.stream_id, state.clauses.merge_task(everything))
    return None


def _tidy_due(state: StreamState, everything: bool) -> Task | None:
    dead = state.slots.dead_count
    due = dead > max(_COMPACT_FROM, len(state.live)) or (everything and dead)
    return _Tidy(state.stream_id) if due else None


def _compact_due(state: StreamState, everything: bool) -> Task | None:
    total = state.results.died
    wait = 1 if everything else max(_COMPACT_FROM, len(state.live) // 8)
    if len(state.results.deaths) < wait:
        return None
    for entry in _sealed(state):
        if total - entry.results.compacted >= wait:
            since = entry.results.compacted - state.results.deaths_before
            dead = np.array(sorted(state.results.deaths[since:]), np.int64)
            return _Compact(state.stream_id, entry, dead, total, state.standing.used(entry.results.errors))
    return None


def _tally_due(state: StreamState, everything: bool) -> Task | None:
    costs = state.clauses.costs
    return _TallyTask(state.stream_id, costs, state.slots.share()) if costs.due(everything) else None


def _sealed(state: StreamState) -> Iterator[ChunkEntry]:
    return (entry for entry in state.closed if entry.results.open is None)


_RULES: tuple[Callable[[StreamState, bool], Task | None], ...] = (
    _chunk_due,
    _merge_due,
    _tidy_due,
    cover_due,
    _compact_due,
    _tally_due,
)
