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
from functools import partial
from itertools import chain
from typing import Protocol

import numpy as np

from psoup.answer.snapshot import ChunkEntry
from psoup.archive import ArchivedChunk
from psoup.columns import Array
from psoup.config import EngineConfig
from psoup.covering import cover
from psoup.errors import ResourceExhausted
from psoup.model import StreamSpec
from psoup.results.chunk_results import ChunkResults
from psoup.results.open import OpenResults
from psoup.results.room import RowRoom
from psoup.results.sealed import seal
from psoup.stems.chunk import ChunkView, Keep
from psoup.stems.costs import Costs, Tally
from psoup.stems.piece import Runner, serial, threads_of
from psoup.stems.query_stem import MergeResult, MergeTask, Subset
from psoup.stems.zones import narrow_all
from psoup.stream_state import StreamState

COVER_AT_ONCE = 8_192
"""Clauses covered by one task: a row of bits for each, 64 MiB, is the most it holds for a chunk."""

COVER_PAIRS = 32_768
"""Pairs of a clause and a chunk in one task: some tenths of a second, for which other maintenance waits."""

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
class _Replace:
    """New results for one chunk, if they are still what the task saw."""

    stream_id: int
    number: int
    seen: ChunkResults
    results: ChunkResults

    def install(self, state: StreamState) -> bool:
        return state.replace_results(self.number, self.seen, self.results)


@dataclass(frozen=True, slots=True)
class _ReplaceAll:
    """New results for some chunks of a stream, each if it still fits."""

    stream_id: int
    parts: tuple[_Replace, ...]

    def install(self, state: StreamState) -> bool:
        installed = [part.install(state) for part in self.parts]
        return any(installed)


@dataclass(frozen=True, slots=True)
class _Store:
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
        return _Stored(self.stream_id, self.chunk.number, entry)


@dataclass(frozen=True, slots=True)
class _NoRoom:
    stream_id: int

    def install(self, state: StreamState) -> bool:
        state.storing = False
        return False


@dataclass(frozen=True, slots=True)
class _Stored:
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
        pack = seal(results.open, results.open.sqc_of_slot, self.list_limit)
        self.room.make_ready(len(results.open.rows))
        return _Replace(self.stream_id, self.entry.data.number, results, results.sealed(pack))


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
        return _Replace(self.stream_id, self.entry.data.number, results, without)


@dataclass(frozen=True, slots=True)
class _Cover:
    """Chunks that lack the same clauses. One that goes in the meantime is covered too, and leaves with a compaction.

    Each thread takes every n-th chunk, with arrays of its own: what it writes first is memory that is new to it.
    """

    stream_id: int
    entries: tuple[ChunkEntry, ...]
    sqc_ids: Array
    index: Subset
    config: EngineConfig
    sqc_of_slot: Array
    before: int
    name: str = "cover"

    def compute(self, run: Runner = serial) -> Installable:
        lanes = min(threads_of(run), len(self.entries))
        done: list[tuple[_Replace, ...]] = [()] * lanes
        ids = frozenset(self.sqc_ids.tolist())

        def cover_lane(lane: int) -> None:
            index = self.index if not lane else self.index.twin()
            fresh = OpenResults(self.config, len(self.sqc_of_slot))
            found = []
            for entry in self.entries[lane::lanes]:
                data, seen = entry.data, entry.results
                cover(data, index, fresh, self.config, serial)
                pack = seal(fresh.view(len(data), self.sqc_of_slot), self.sqc_of_slot, self.config.list_limit)
                results = seen.covered(pack, ids, self.before, fresh.errors)
                found.append(_Replace(self.stream_id, data.number, seen, results))
                fresh.clear()
            done[lane] = tuple(found)

        run([partial(cover_lane, lane) for lane in range(lanes)])
        return _ReplaceAll(self.stream_id, tuple(chain.from_iterable(done)))


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
class _Tally:
    stream_id: int
    costs: Costs
    sqc_of_slot: Array
    name: str = "tally"

    def compute(self, run: Runner = serial) -> Installable:
        return _Tallied(self.stream_id, self.costs.tally(self.sqc_of_slot))


@dataclass(frozen=True, slots=True)
class _Tallied:
    stream_id: int
    tally: Tally

    def install(self, state: StreamState) -> bool:
        state.clauses.costs.install(self.tally, state.slots.sqc_of_slot)
        return False


def _store_due(state: StreamState, everything: bool) -> Task | None:
    if state.keep is None or not state.storing or state.stored == state.data.open.number:
        return None
    chunk = state.data.closed[state.stored - state.data.open.number]
    return _Store(state.stream_id, state.data.spec, chunk, state.oldest, state.keep)


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


def _cover_due(state: StreamState, everything: bool) -> Task | None:
    """The chunk whose mark is the least comes first: chunk after chunk lacks the same clauses then."""
    if not state.uncovered:
        return None
    lacking = [e for e in state.closed if e.results.covered_before < state.next_sqc and not e.results.evicted]
    lacking.sort(key=lambda e: e.results.covered_before)
    for place, entry in enumerate(lacking):
        seen = entry.results
        missing, slots, before = _missing(state, seen)
        if len(missing):
            index, owners = state.subset(missing, slots), state.slots.share()
            others = lacking[place : place + max(1, COVER_PAIRS // len(missing))]
            alike = tuple(e for e in others if _coverage(e) == _coverage(entry))
            return _Cover(state.stream_id, alike, missing, index, state.config, owners, before)
    state.uncovered = False
    return None


def _missing(state: StreamState, seen: ChunkResults) -> tuple[Array, Array, int]:
    """SQC IDs and slots of some clauses that were not evaluated over a chunk, and the ID below which those are all."""
    ids, slots = state.live.since(seen.covered_before, COVER_AT_ONCE + 1 + len(seen.late))
    if seen.late:
        lacking = ~np.isin(ids, np.fromiter(seen.late, np.int64, len(seen.late)))
        ids, slots = ids[lacking], slots[lacking]
    before = int(ids[COVER_AT_ONCE]) if len(ids) > COVER_AT_ONCE else state.next_sqc
    return ids[:COVER_AT_ONCE], slots[:COVER_AT_ONCE], before


def _coverage(entry: ChunkEntry) -> tuple[int, frozenset[int]]:
    return entry.results.covered_before, entry.results.late


def _compact_due(state: StreamState, everything: bool) -> Task | None:
    total = state.deaths_before + len(state.deaths)
    wait = 1 if everything else max(_COMPACT_FROM, len(state.live) // 8)
    if total - state.deaths_before < wait:
        return None
    for entry in _sealed(state):
        if total - entry.results.compacted >= wait:
            dead = np.array(sorted(state.deaths[entry.results.compacted - state.deaths_before :]), np.int64)
            return _Compact(state.stream_id, entry, dead, total, state.used_errors(entry.results.errors))
    return None


def _tally_due(state: StreamState, everything: bool) -> Task | None:
    costs = state.clauses.costs
    return _Tally(state.stream_id, costs, state.slots.share()) if costs.due(everything) else None


def _sealed(state: StreamState) -> Iterator[ChunkEntry]:
    return (entry for entry in state.closed if entry.results.open is None)


_RULES: tuple[Callable[[StreamState, bool], Task | None], ...] = (
    _chunk_due,
    _merge_due,
    _tidy_due,
    _cover_due,
    _compact_due,
    _tally_due,
)
