"""The watched clauses of a stream, and a search for those that matched tuples since the last look.

    last look  ──── tuple IDs ────>  now        clauses 5 7 9
               [ open chunk, sealed ]      ──>  found    1 0 0      a tuple was matched
                                                unsure   0 0 1      not evaluated there: only an invocation can tell

`look` is one pass over the new results, for all watched clauses. It does not search for tuples that left, because the
window of an answer shows them. In a table it also finds the clauses of versions that have ended. Between two looks, no
snapshot is held in memory.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from psoup.answer.copies.range_plans import ranged
from psoup.answer.copies.watched_versions import note_ended
from psoup.execution.select.window import WindowChoice, windows_of
from psoup.kernels.arrive.watch_hits import hits_in_rows, hits_in_run
from psoup.model import Anchor
from psoup.plan.node_exprs import plan_reads_now
from psoup.published.idle_clauses import NO_SLOT
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.results.open import OpenView
from psoup.results.sets import WantedClauses, all_evaluated, evaluated, kept_counts
from psoup.values.columns import Array
from psoup.work.read_budget import NO_LIMIT


class WatchedClause(NamedTuple):
    """A watched clause. `every`: whether it has no condition, so that each tuple matches."""

    sqc_id: int
    slot: int
    every: bool


class Looked(NamedTuple):
    """SQC IDs, int64. `found`: clauses that matched a tuple since the last look. `unsure`: clauses not evaluated."""

    found: Array
    unsure: Array


_NOTHING = Looked(np.zeros(0, np.int64), np.zeros(0, np.int64))


class WatchedClauses:
    """The watched clauses of one stream, and the end of the last look. Only one thread may use it."""

    def __init__(self, view: StreamView) -> None:
        """Begin with the tuples after a view."""
        self._first_id = view.first_id
        self._next_id = view.next_id
        self._runs = list[weakref.ref[Array]]()
        """Weak references to the runs of the open chunk that an earlier look has read. A run never changes."""
        self._new: dict[int, WatchedClause] = {}
        """The clauses that the next look adds, by their SQC IDs."""
        self._dropped = set[int]()
        """The clauses that the next look removes."""
        self._take(np.zeros((0, 3), np.int64))

    def __len__(self) -> int:
        return len(self._rows) - len(self._dropped) + len(self._new)

    def add(self, clause: WatchedClause) -> None:
        """Watch a further clause, from the end of the last look on. The clause must not be watched yet."""
        self._new[clause.sqc_id] = clause

    def drop(self, sqc_id: int) -> None:
        """Stop watching a clause, which must be watched. O(1): the next look removes all dropped clauses at once."""
        if self._new.pop(sqc_id, None) is None:
            self._dropped.add(sqc_id)

    def _take(self, rows: Array) -> None:
        """Set the clauses: int64[k, 3], the fields of WatchedClause, ascending by SQC ID. O(k + slots)."""
        self._rows = rows
        self._wanted, self._slots, self._every = WantedClauses(rows[:, 0].copy()), rows[:, 1].copy(), rows[:, 2] == 1
        indexed = np.flatnonzero(self._slots != NO_SLOT)
        self._place_of_slot: Array = np.full(int(self._slots[indexed].max(initial=-1)) + 1, -1, np.int32)
        self._place_of_slot[self._slots[indexed]] = indexed.astype(np.int32)

    def _update(self) -> None:
        """Add the new clauses, and remove the dropped ones. O(clauses + slots)."""
        rows = self._rows
        if self._dropped:
            gone = np.fromiter(self._dropped, np.int64, len(self._dropped))
            rows = rows[~np.isin(rows[:, 0], gone)]
        if self._new:
            new: Array = np.array(sorted(self._new.values()), np.int64)
            rows = np.insert(rows, np.searchsorted(rows[:, 0], new[:, 0]), new, axis=0)
        self._take(rows)
        self._new, self._dropped = {}, set()

    def look(self, view: StreamView) -> Looked:
        """Find the clauses that matched tuples since the last look. O(new matches + clauses) for each new chunk."""
        if self._new or self._dropped:
            self._update()
        if (view.first_id, view.next_id) == (self._first_id, self._next_id):
            return _NOTHING
        ids, first = self._wanted.ids, self._next_id
        hits: Array = np.zeros(len(ids), np.uint8)
        unsure: Array = np.zeros(len(ids), np.bool_)
        if view.first_id < self._first_id:  # history was attached
            unsure[:] = True
        if view.next_id > first and len(ids):
            hits[self._every] = 1
            at = bisect_right(view.chunks, first, key=lambda entry: entry.data.first_id) - 1
            for entry in islice(view.chunks, max(at, 0), None):
                self._look_at(entry, entry.data.places.row_from(first), hits, unsure)
            if view.spec.table is not None:
                note_ended(view, first, self._wanted, hits, unsure)
                unsure &= ~self._every
        self._first_id = view.first_id
        self._next_id = view.next_id
        return Looked(ids[hits > 0], ids[unsure & (hits == 0)])

    def _look_at(self, entry: ChunkEntry, start: int, hits: Array, unsure: Array) -> None:
        results, stop = entry.results, len(entry.data)
        if start >= stop:
            return
        if not all_evaluated(results, self._wanted.ids):
            unsure |= ~evaluated(results, self._wanted.ids) & ~self._every
        packed = results
        if results.open is not None:
            self._look_at_open(results.open, start, stop, hits, unsure)
            packed = replace(results, open=None)
        if packed.packs:
            hits |= kept_counts(packed, self._wanted, start, stop, NO_LIMIT) > 0

    def _look_at_open(self, view: OpenView, start: int, stop: int, hits: Array, unsure: Array) -> None:
        same_clause = self._slots < len(view.sqc_of_slot)
        same_clause[same_clause] = view.sqc_of_slot[self._slots[same_clause]] == self._wanted.ids[same_clause]
        unsure |= ~same_clause & ~self._every  # such a clause was dropped, with its queries
        looked = {id(slots) for run in self._runs if (slots := run()) is not None}
        for run in view.runs:
            if id(run.slots) not in looked:
                hits_in_run(run.slots, run.offsets, self._place_of_slot, start, hits)
        self._runs = [weakref.ref(run.slots) for run in view.runs]
        if view.count:
            hits_in_rows(view.rows, view.count, view.row_of_slot, self._slots, start, stop, hits)


def clause_of(snapshot: Snapshot, record: QueryRecord, window: WindowChoice | None) -> WatchedClause | None:
    """The clause to watch for an answer. Every row that may enter the answer is then a new match of this clause.

    Returns None if there is no such clause. `window`: the window of the answer; None for the registered one. Raises the
    errors of `psoup.execution.select.window.windows_of`.
    """
    if record.sqc_id == NO_CLAUSE or ranged(record.query.plan) is None:
        return None
    end = windows_of(record.query, window)[0].end
    if end.anchor is Anchor.NOW and (end.offset or end.rows):  # tuples enter the window long after they arrived
        return None
    clause = snapshot.clause(record.sqc_id)
    return WatchedClause(clause.sqc_id, clause.slot, not clause.factors)


def slides_of(snapshot: Snapshot, record: QueryRecord, window: WindowChoice | None) -> bool:
    """Whether an answer may change with the clock alone, without new tuples.

    In event time, this holds only for joins with a stream that may become idle. NOW then advances to the watermark of
    the other streams. Their tuples enter any window that ends at NOW or after it.
    """
    specs = [snapshot.by_id[stream_id].spec for stream_id in snapshot.streams_of(record)]
    if specs[0].event_time:
        return len(specs) > 1 and any(spec.idle_after is not None for spec in specs)
    plan = record.query.plan
    if plan_reads_now(plan) or any(spec.retention.duration is not None for spec in specs):
        return True
    bounds = [bound for clause in windows_of(record.query, window) for bound in (clause.begin, clause.end)]
    return any(bound.offset or bound.anchor is Anchor.ABSOLUTE for bound in bounds)
