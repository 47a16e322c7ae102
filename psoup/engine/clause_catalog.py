"""The clauses of all streams, by their SQC IDs, with the queries and sides that share each of them.

    add           the name of a FROM-WHERE ─ known ──> further members of that clause
                                           └ new ────> SQC ID, slot: it joins the Query SteM
    add_columns   the same for the queries of a block, in one step
    add_idle …    an idle clause for each query: an SQC ID that no chunk covers, no slot, no index
    leave         members leave; a clause goes with its last one

Only the engine's writer changes the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from psoup.clauses.factor_table import FactorTable
from psoup.config import Shape
from psoup.engine.query_sides import grouped
from psoup.engine.removal_columns import LeavingQueries, gone_clauses
from psoup.engine.stream.clauses import GoneClauses
from psoup.engine.stream.state import StreamState
from psoup.invariants import corrupt, ensure
from psoup.plan.standing_query import StandingQuery
from psoup.published.idle_clauses import FIRST_IDLE, FIRST_INACTIVE, NO_SLOT, is_idle
from psoup.published.members import add, remove, remove_all
from psoup.published.paged_map import Editor, PagedMap
from psoup.published.records import ClauseBlock, ClauseRecord
from psoup.sql.templates.block import ManyQueries
from psoup.values.columns import Array

Streams = Mapping[int, StreamState]
"""The streams by their IDs."""


class ClauseCatalog:
    """The clauses; see the module. `next_sqc`: the SQC ID of the next clause that joins an index."""

    def __init__(self, shape: Shape) -> None:
        self.next_sqc = 1
        self.idle = 0
        """The number of idle clauses."""
        self._next_idle, self._next_inactive = FIRST_IDLE, FIRST_INACTIVE
        self._shape = shape
        self._records: Editor[ClauseRecord] = PagedMap[ClauseRecord](page=shape.page).edit()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, sqc_id: int) -> ClauseRecord | None:
        """The clause with this ID, or None."""
        return self._records.get(sqc_id)

    def freeze(self) -> PagedMap[ClauseRecord]:
        """The map for readers."""
        return self._records.freeze()

    def check(self) -> None:
        """Check the map, and the number of idle clauses. Raises Corrupt."""
        self._records.check()
        idle = sum(is_idle(sqc_id) for sqc_id, _ in self._records.freeze().items())
        ensure(idle == self.idle, self, "idle clauses are miscounted", counted=self.idle, found=idle)

    # Clauses of queries that come --------------------------------------------------------------------------

    def add(
        self,
        state: StreamState,
        ids: Array,
        queries: Sequence[StandingQuery],
        made: tuple[Array, FactorTable] | None = None,
    ) -> Array:
        """Add the clauses of some queries or sides (`ids`) of a stream. Returns the SQC ID of each, int64[n].

        `made`: the names of the clauses and their table of factors, if the caller has them already.
        """
        if made is None:
            names, table = np.concatenate([state.clauses.table.name_of(query.factors) for query in queries]), None
        else:
            names, table = made
        slots, fresh = state.clauses.place(names, self.next_sqc)
        clauses = [(int(slots[row]), queries[row].factors) for row in fresh.tolist()]
        attributes = state.admit(clauses, table)
        sqc_ids = state.clauses.table.sqc_of_slot[slots]
        members = grouped(sqc_ids, ids)
        for row, used in zip(fresh.tolist(), attributes, strict=True):
            sqc_id, slot = int(sqc_ids[row]), int(slots[row])
            member_set = add((), members.pop(sqc_id), self._shape)
            self._records.set(sqc_id, ClauseRecord(sqc_id, slot, state.stream_id, used, member_set, (queries[row],)))
        self._add_members(members)
        self.next_sqc += len(fresh)
        return sqc_ids

    def add_columns(self, state: StreamState, ids: Array, queries: ManyQueries, rows: Array | None = None) -> Array:
        """Add the clauses of the queries in some `rows` of a block (int64[n]; None: all). Returns their SQC IDs.

        `ids`: the ID of each of these queries, int64[n], ascending. Clauses of a single query stay in columns; a shared
        clause gets a record.
        """
        every = queries.clauses()
        columns, rows = (every, np.arange(len(ids))) if rows is None else (every.take(rows), rows)
        slots, fresh = state.clauses.place(state.clauses.table.names_of(columns), self.next_sqc)
        attributes = state.admit_columns(
            slots[fresh], columns.take(fresh), lambda row: queries[int(rows[fresh[row]])].factors
        )
        sqc_ids = state.clauses.table.sqc_of_slot[slots]
        new = sqc_ids - self.next_sqc
        uses = np.bincount(new[new >= 0], minlength=len(fresh))
        alone = uses == 1
        if columns.never is not None:
            alone &= ~columns.never[fresh]  # a clause that can match no tuple has no attributes
        unshared = fresh[alone]
        if len(unshared):
            places = sqc_ids[unshared], slots[unshared].astype(np.uint32), rows[unshared].astype(np.int32)
            self._records.add_block(ClauseBlock(*places, ids[unshared], queries, state.stream_id, attributes))
        for row in fresh[~alone].tolist():
            sqc_id = int(sqc_ids[row])
            used = attributes if columns.never is None or not columns.never[row] else ()
            record = ClauseRecord(sqc_id, int(slots[row]), state.stream_id, used, (), (queries[int(rows[row])],))
            self._records.set(sqc_id, record)
        single = np.zeros(len(ids), np.bool_)
        single[unshared] = True
        self._add_members(grouped(sqc_ids[~single], ids[~single]))
        self.next_sqc += len(fresh)
        return sqc_ids

    def add_idle(self, stream_id: int, ids: Array, queries: Sequence[StandingQuery], *, active: bool) -> Array:
        """Add an idle clause for each of some queries or sides. Returns the SQC IDs, int64[n]."""
        sqc_ids = self._take_idle(len(ids), active)
        for sqc_id, query_id, query in zip(sqc_ids.tolist(), ids.tolist(), queries, strict=True):
            self._records.set(sqc_id, ClauseRecord(sqc_id, NO_SLOT, stream_id, (), (query_id,), (query,)))
        return sqc_ids

    def add_idle_columns(
        self, stream_id: int, ids: Array, queries: ManyQueries, rows: Array | None = None, *, active: bool
    ) -> Array:
        """Add an idle clause for each query in some `rows` of a block, as `add_columns` does. They stay in columns."""
        sqc_ids = self._take_idle(len(ids), active)
        rows = np.arange(len(ids)) if rows is None else rows
        slots = np.full(len(ids), NO_SLOT, np.int32)
        self._records.add_block(ClauseBlock(sqc_ids, slots, rows.astype(np.int32), ids, queries, stream_id, ()))
        return sqc_ids

    def _take_idle(self, count: int, active: bool) -> Array:
        """The SQC IDs of new idle clauses, int64[count]."""
        first = self._next_idle if active else self._next_inactive
        if active:
            self._next_idle += count
        else:
            self._next_inactive += count
        self.idle += count
        return first + np.arange(count)

    def _add_members(self, members: Mapping[int, Sequence[int]]) -> None:
        """Add queries (ascending) as members of existing clauses."""
        for sqc_id, query_ids in members.items():
            clause = self._records.get(sqc_id)
            if clause is None:
                raise corrupt(self, "queries join a clause that is not there", clause=sqc_id, queries=query_ids)
            self._take_from_block(sqc_id)
            self._records.set(sqc_id, replace(clause, members=add(clause.members, query_ids, self._shape)))

    def _take_from_block(self, sqc_id: int) -> None:
        """Remove a clause from its block, if it is in one, as it is now shared. The caller stores it as a record."""
        if self._records.in_block(sqc_id):
            self._records.remove(sqc_id)

    # Members that leave ------------------------------------------------------------------------------------

    def leave_one(self, sqc_id: int, query_id: int, state: StreamState) -> None:
        """Remove one member of a clause. O(members)."""
        clause = self._records.get(sqc_id)
        if clause is None:
            raise corrupt(self, "a query has no clause", query=query_id, clause=sqc_id)
        members = remove(clause.members, query_id)
        if len(members):
            self._records.set(sqc_id, replace(clause, members=members))
            return
        self._records.remove(sqc_id)
        if is_idle(sqc_id):
            self.idle -= 1
            return
        columns = np.array([clause.sqc_id], np.int64), np.array([clause.slot], np.int64)
        state.remove_clauses(GoneClauses(*columns, dict.fromkeys(clause.attributes, 1)))

    def leave(self, leaving: LeavingQueries, streams: Streams) -> None:
        """Remove members of clauses. If `streams` lacks a stream, it was dropped with all its parts."""
        found = self._records.find(leaving.sqc_ids)
        ensure(not len(found.missing), self, "queries have no clause", clauses=found.missing)
        stay = []
        for sqc_id, clause in found.records.items():
            members = remove_all(clause.members, leaving.of(sqc_id))
            if len(members):
                self._records.set(sqc_id, replace(clause, members=members))
                stay.append(sqc_id)
        sqc_ids = np.setdiff1d(leaving.sqc_ids, np.array(stay, np.int64), assume_unique=True)
        self.idle -= int((sqc_ids >= FIRST_IDLE).sum())
        for stream_id, gone in gone_clauses(self._records.remove_all(sqc_ids)).items():
            if stream_id in streams:
                streams[stream_id].remove_clauses(gone)
