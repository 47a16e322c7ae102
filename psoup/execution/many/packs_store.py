"""Packs on disk, stored with their chunks. A call for many queries loads those that its window needs.

    disk     queries 100 … 199, with times of registration ─> their clauses now       queries gone or replaced: left out
    memory   packs of a span, for different clauses        ─> one pack, with a query for each clause

On disk a pack names queries, as SQC IDs change with each start. So a table of many aggregates over an archive reads
none of its tuples, even after a restart. Packs of clauses that call the operator's functions stay in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from psoup.aggregates.packs import FoldPack, Packs, uses_of
from psoup.aggregates.shelved_packs import Roster, decoded_pack, encoded_pack, name_of_packs
from psoup.aggregates.spans import Span
from psoup.aggregates.stored_folds import shelf_of
from psoup.data.sidecars import ChunkSpan, Hold, OnDisk
from psoup.errors import ResourceExhausted
from psoup.execution.many.many_folds import Folded
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.supplied_functions import calls_supplied
from psoup.plan.nodes import Measure
from psoup.plan.standing_query import ClauseColumns
from psoup.published.members import with_sides
from psoup.published.record_block import picked
from psoup.published.records import ClauseRecord, QueryBlock
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array
from psoup.work.read_budget import GroupBytes, ReadBudget

_UNKNOWN = -1
"""In place of the query of a clause, or the clause of a query, if there is none."""
_COPIES = 3
"""The copies of a pack in memory while it is loaded: the file, the decoded pack, and the states by current clauses."""


def pack_shelf(snapshot: Snapshot, view: StreamView, packs: Packs, budget: ReadBudget) -> PackShelf | None:
    """The packs of a stream on disk, for the measures of `packs`. None if they cannot be stored.

    `budget`: the budget of the read, or of the background work, that needs them.
    """
    shelf = shelf_of(view.stream_id, view.chunks, view.archived)
    name = None if shelf is None else name_of_packs(view.stream_id, packs.measures, snapshot.config.texts.value)
    return None if shelf is None or name is None else PackShelf(snapshot, view, packs, shelf.disk, name, budget)


@dataclass(slots=True)
class PackShelf:
    """The packs of a stream on disk, for some measures. Only one thread may use it. Threads share `packs`."""

    snapshot: Snapshot
    view: StreamView
    packs: Packs
    disk: OnDisk
    name: bytes
    budget: ReadBudget
    _clauses: dict[bytes, Array] = field(default_factory=dict)
    _rosters: dict[int, tuple[Array, Roster]] = field(default_factory=dict)
    """Rosters by the address of an array of SQC IDs. The entry keeps the array alive, so the address stays valid."""

    def has(self, span: Span) -> bool:
        """Whether the disk has a pack of a span. May wait for the disk."""
        first, stop = self._numbers(span)
        return stop <= self.disk.stop and self.disk.find(first, stop, self.name) is not None

    def fetch(self, span: Span) -> bool:
        """Load the pack of a span into memory. Tries each span once. Returns whether the disk had a pack."""
        first, stop = self._numbers(span)
        if span in self.packs.looked or first < self.disk.first or first >= self.disk.stop:
            return False
        memory = GroupBytes(self.budget)
        try:
            pack = self._found(first, stop, lambda size: memory.hold(_COPIES * size))
        except ResourceExhausted:  # the caller then reads the chunks
            return False
        finally:
            memory.give_back()
        self.packs.looked.add(span)
        if pack is None:
            return False
        self.view.packs.put(self.packs, span, pack)
        self.packs.fresh.discard(span)
        return True

    def _found(self, first: int, stop: int, hold: Hold) -> FoldPack | None:
        """Read the pack of the chunks [first, stop) from disk, and convert it to current clauses. None: no pack."""
        content = self.disk.find(first, stop, self.name, hold) if stop <= self.disk.stop else None
        return None if content is None else self._mapped(*decoded_pack(self.packs.measures, content))

    def shelve(self, limit: int) -> int:
        """Write the packs of at most `limit` spans whose chunks are all on disk. Returns their number. O(states)."""
        ready = [span for span in list(self.packs.fresh) if self._numbers(span)[1] <= self.disk.stop]
        for span in ready[:limit]:
            self.packs.fresh.discard(span)
            place = self.disk.span(*self._numbers(span))
            packs = self.packs.spans.get(span, ())
            if place is not None and packs:
                self._put(place, self._one(packs))
        return len(ready[:limit])

    def _one(self, packs: Sequence[FoldPack]) -> FoldPack:
        if len(packs) == 1:
            return packs[0]
        ids = self.packs.shared(np.unique(np.concatenate([pack.ids for pack in packs])))
        return one_of(self.packs.measures, self._reading(), packs, ids)

    def _reading(self) -> Reading:
        return Reading([], None, self.snapshot.config.texts, self.budget, 0)

    def _put(self, place: ChunkSpan, pack: FoldPack) -> None:
        roster = self._roster(pack.ids)
        stay = np.flatnonzero(roster.ids != _UNKNOWN)
        if len(stay):
            left = pack if len(stay) == len(pack.ids) else self._some(pack, stay, pack.ids[stay])
            self.disk.sidecars.put(place, {self.name: encoded_pack(roster.take(stay), left)})

    def _numbers(self, span: Span) -> tuple[int, int]:
        size = self.view.packs.fan ** span[0]
        return span[1] * size, (span[1] + 1) * size

    # Clauses and their queries ---------------------------------------------------------------------------------

    def _mapped(self, roster: Roster, pack: FoldPack) -> FoldPack | None:
        """Convert a pack from disk to the clauses that its queries have now. None if no query has one."""
        key = roster.ids.tobytes() + roster.registered.tobytes()
        clauses = self._clauses.get(key)
        if clauses is None:
            clauses = self._clauses[key] = self.packs.shared(self._clauses_of(roster))
        if len(clauses) and clauses[0] >= 0 and bool((np.diff(clauses) > 0).all()):
            return FoldPack(clauses, pack.at, pack.matched, pack.errors, pack.states)
        ids, rows = np.unique(clauses, return_index=True)
        stay = int(np.searchsorted(ids, 0))
        if stay == len(ids):
            return None
        whole = FoldPack(np.arange(len(clauses)), pack.at, pack.matched, pack.errors, pack.states)
        return self._some(whole, rows[stay:], self.packs.shared(ids[stay:]))

    def _some(self, pack: FoldPack, rows: Array, ids: Array) -> FoldPack:
        """Copy the `rows` of a pack into a new pack. `ids`: the SQC IDs of these rows."""
        order = np.argsort(rows)
        with closing(Folded(self.packs.measures, self._reading(), len(rows))) as made:
            made.join(pack, rows[order], order)
            return made.packed(ids)

    def _clauses_of(self, roster: Roster) -> Array:
        """The clauses of the queries in a roster: SQC IDs, int64[k].

        _UNKNOWN if a query was removed or replaced, or is over another stream.
        """
        order = np.argsort(roster.ids, kind="stable")
        wanted, registered = roster.ids[order], roster.registered[order]
        records, stream = self.snapshot.queries.find(wanted), self.view.stream_id
        sqc_ids: Array = np.full(len(wanted), _UNKNOWN, np.int64)
        for block, at in records.blocks:
            if isinstance(block, QueryBlock) and block.stream_id == stream:
                places = np.searchsorted(wanted, picked(block.ids, at))
                equal = registered[places] == block.registered
                sqc_ids[places[equal]] = picked(block.sqc_ids, at)[equal]
        for query_id, record in records.records.items():
            place = int(np.searchsorted(wanted, query_id))
            if record.stream_id == stream and record.registered == registered[place]:
                sqc_ids[place] = record.sqc_id
        out = np.empty_like(sqc_ids)
        out[order] = sqc_ids
        return out

    def _roster(self, sqc_ids: Array) -> Roster:
        """A query of each clause, for the file. _UNKNOWN for a clause that must not be written."""
        entry = self._rosters.get(id(sqc_ids))
        if entry is None:
            entry = self._rosters[id(sqc_ids)] = sqc_ids, self._roster_of(sqc_ids)
        return entry[1]

    def _roster_of(self, sqc_ids: Array) -> Roster:
        ids: Array = np.full(len(sqc_ids), _UNKNOWN, np.int64)
        clauses = self.snapshot.clauses.find(sqc_ids)
        for block, at in clauses.blocks:
            columns = block.queries.take(picked(block.rows, at[:1])).clauses()
            if not _calls(columns):
                ids[np.searchsorted(sqc_ids, picked(block.ids, at))] = picked(block.members, at)
        for sqc_id, record in clauses.records.items():
            if not _calls_supplied(record):
                ids[np.searchsorted(sqc_ids, sqc_id)] = next(iter(with_sides(record.members, 0)))
        return Roster(ids, self._registered(ids))

    def _registered(self, ids: Array) -> Array:
        """The times of registration of the queries `ids`, int64[k]. _UNKNOWN for a query that was removed."""
        wanted, back = np.unique(ids, return_inverse=True)
        records, times = self.snapshot.queries.find(wanted[wanted >= 0]), np.full(len(wanted), _UNKNOWN, np.int64)
        for block, at in records.blocks:
            times[np.searchsorted(wanted, picked(block.ids, at))] = block.registered
        for query_id, record in records.records.items():
            times[np.searchsorted(wanted, query_id)] = record.registered
        return times[back]


def one_of(measures: Sequence[Measure], reading: Reading, packs: Sequence[FoldPack], ids: Array) -> FoldPack:
    """Merge packs of a span into one. `ids`: the SQC IDs of the new pack. Each must be in one of the packs."""
    with closing(Folded(measures, reading, len(ids))) as whole:
        for use in uses_of(ids, packs).uses:
            whole.join(packs[use.pack], use.rows, use.places)
        return whole.packed(ids)


def _calls(columns: ClauseColumns) -> bool:
    attributes = [term.attribute for term in columns.terms]
    attributes += [term.attribute for factor in columns.fixed for term in factor.terms]
    return any(map(calls_supplied, attributes))


def _calls_supplied(clause: ClauseRecord) -> bool:
    return any(calls_supplied(term.attribute) for factor in clause.factors for term in factor.terms)
