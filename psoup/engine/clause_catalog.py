"""The clauses of all streams, by their SQC IDs, with the queries and sides that share each of them.

    add           the name of a FROM-WHERE ─ known ──> further members of that clause
                                           └ new ────> SQC ID, slot: it joins the Query SteM
    add_columns   the same for the queries of a block, in one step
    add_idle …    a guest in the clause of the index that has the same name; else an idle clause: an SQC ID that
                  no chunk covers, no slot, no index
    leave         members leave; a clause goes with its last one
    unsettled     idle clauses that a new clause of the index equals, and clauses of the index that have only guests:
                  their members must enter the catalog anew (`psoup.engine.query_alteration`)

Only the engine's writer changes the catalog.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from psoup.published.idle_clauses import FIRST_IDLE, FIRST_INACTIVE, NO_SLOT, is_idle, is_inactive
from psoup.published.members import add, remove, remove_all, with_sides
from psoup.published.paged_map import Editor, PagedMap, PagedRecords
from psoup.published.parked_queries import ParkedQueries
from psoup.published.record_block import picked
from psoup.published.records import ClauseBlock, ClauseRecord
from psoup.sql.templates.block import ManyQueries
from psoup.values.columns import Array

Streams = Mapping[int, StreamState]
"""The streams by their IDs."""

_NONE: Array = np.zeros(0, np.int64)


class ClauseCatalog:
    """The clauses; see the module. `next_sqc`: the SQC ID of the next clause that joins an index."""

    def __init__(self, shape: Shape) -> None:
        self.next_sqc = 1
        self.idle = 0
        """The number of idle clauses."""
        self._next_idle, self._next_inactive = FIRST_IDLE, FIRST_INACTIVE
        self._guests = set[int]()
        """The clauses of the index that idle queries may share."""
        self._left = set[int]()
        """The clauses among them that have lost a member since the last `unsettled`."""
        self._twins: list[Array] = []
        """SQC IDs of idle clauses that equal a clause that has joined the index since then."""
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

    def check(self, streams: Streams) -> None:
        """Check the map, the number of idle clauses, and that none of them equals a clause of the index. Raises
        Corrupt."""
        self._records.check()
        idle = [record for sqc_id, record in self._records.freeze().items() if is_idle(sqc_id)]
        ensure(len(idle) == self.idle, self, "idle clauses are miscounted", counted=self.idle, found=len(idle))
        for stream_id, state in streams.items():
            some = [r for r in idle if r.stream_id == stream_id and not is_inactive(r.sqc_id)]
            names = [state.clauses.table.name_of(record.factors) for record in some]
            if not some:
                continue
            twins = np.flatnonzero(state.clauses.table.find(np.concatenate(names)) >= 0)
            ensure(not len(twins), self, "idle clauses equal clauses of the index", stream=stream_id, rows=twins)
            named = set(state.clauses.idle_names.find(np.concatenate(names)).tolist())
            nameless = [record.sqc_id for record in some if record.sqc_id not in named]
            ensure(not nameless, self, "idle clauses have no name", clauses=nameless)

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
        self._twins.append(state.clauses.idle_names.find(names[fresh]))
        return sqc_ids

    def add_columns(self, state: StreamState, ids: Array, queries: ManyQueries, rows: Array | None = None) -> Array:
        """Add the clauses of the queries in some `rows` of a block. Returns their SQC IDs, int64[n].

        `rows`: int64[n], or None for all rows. `ids`: the ID of each of these queries, int64[n], ascending.
        Clauses of a single query stay in columns. A shared clause gets a record, for which no query is bound.
        """
        every = queries.clauses()
        columns, rows = (every, np.arange(len(ids))) if rows is None else (every.take(rows), rows)
        names = state.clauses.table.names_of(columns)
        slots, fresh = state.clauses.place(names, self.next_sqc)
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
        single = np.zeros(len(ids), np.bool_)
        single[unshared] = True
        members = grouped(sqc_ids[~single], ids[~single])
        shared = fresh[~alone]
        # Queries of shared clauses leave the block, which may go before them.
        few = queries.take(rows[shared].astype(np.int64)) if len(shared) else queries
        for place, row in enumerate(shared.tolist()):
            sqc_id = int(sqc_ids[row])
            used = attributes if columns.never is None or not columns.never[row] else ()
            member_set = add((), members.pop(sqc_id), self._shape)
            key = sqc_id, int(slots[row]), state.stream_id
            self._records.set(sqc_id, ClauseRecord(*key, used, member_set, few, place))
        self._add_members(members)
        self.next_sqc += len(fresh)
        self._twins.append(state.clauses.idle_names.find(names[fresh]))
        return sqc_ids

    def add_idle(self, state: StreamState, ids: Array, queries: Sequence[StandingQuery], *, active: bool) -> Array:
        """Add some queries or sides that are idle. Returns the SQC IDs of their clauses, int64[n]."""
        if active:
            names = np.concatenate([state.clauses.table.name_of(query.factors) for query in queries])
            sqc_ids, alone = self._as_guests(state, names, ids)
        else:
            sqc_ids, alone = self._take_idle(len(ids), active), np.arange(len(ids))
        for row in alone.tolist():
            sqc_id, members = int(sqc_ids[row]), (int(ids[row]),)
            self._records.set(sqc_id, ClauseRecord(sqc_id, NO_SLOT, state.stream_id, (), members, (queries[row],)))
        return sqc_ids

    def add_parked(self, state: StreamState, query_id: int, queries: ParkedQueries) -> int:
        """Add a parked query, or a side of one, that is in no block: `queries[0]`. Returns the SQC ID of its clause."""
        (sqc_id,) = self._take_idle(1, active=False).tolist()
        self._records.set(sqc_id, ClauseRecord(sqc_id, NO_SLOT, state.stream_id, (), (query_id,), queries))
        return int(sqc_id)

    def add_idle_columns(
        self,
        state: StreamState,
        ids: Array,
        queries: ManyQueries | ParkedQueries,
        rows: Array | None = None,
        *,
        active: bool,
    ) -> Array:
        """Add the queries in some `rows` of a block, which are idle. Their idle clauses stay in columns."""
        if active:
            every = queries.clauses()
            names = state.clauses.table.names_of(every if rows is None else every.take(rows))
            sqc_ids, alone = self._as_guests(state, names, ids)
        else:
            sqc_ids, alone = self._take_idle(len(ids), active), np.arange(len(ids))
        if len(alone):
            rows = alone if rows is None else rows[alone]
            slots = np.broadcast_to(np.int32(NO_SLOT), len(alone))  # takes no memory
            columns = sqc_ids[alone], slots, rows.astype(np.int32), ids[alone]
            self._records.add_block(ClauseBlock(*columns, queries, state.stream_id, ()))
        return sqc_ids

    def _as_guests(self, state: StreamState, names: Array, ids: Array) -> tuple[Array, Array]:
        """Add queries to the clauses of the index with their names, and give the rest IDs of idle clauses.

        Returns the SQC ID of each query, int64[n], and the rows of the remaining ones, int64[m].
        """
        sqc_ids = state.clauses.table.find(names)
        alone = np.flatnonzero(sqc_ids < 0)
        guests = np.flatnonzero(sqc_ids >= 0)
        if len(guests):
            shared = grouped(sqc_ids[guests], ids[guests])
            self._add_members(shared)
            self._guests.update(shared)
        sqc_ids[alone] = self._take_idle(len(alone), active=True)
        state.clauses.name_idle(names[alone], sqc_ids[alone])
        return sqc_ids, alone

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
            self._left.update({sqc_id} & self._guests)
            return
        self._records.remove(sqc_id)
        if is_idle(sqc_id):
            self.idle -= 1
            state.clauses.idle_names.removed(1, self._exist)
            return
        self._guests.discard(sqc_id)
        columns = np.array([clause.sqc_id], np.int64), np.array([clause.slot], np.int64)
        state.remove_clauses(GoneClauses(*columns, dict.fromkeys(clause.attributes, 1)))

    def leave(self, leaving: LeavingQueries, streams: Streams) -> None:
        """Remove members of clauses. If `streams` lacks a stream, it was dropped with all its parts."""
        clauses = self._records.find(leaving.sqc_ids)
        ensure(not len(clauses.missing), self, "queries have no clause", clauses=clauses.missing)
        stay = []
        for sqc_id, clause in clauses.records.items():
            members = remove_all(clause.members, leaving.of(sqc_id))
            if len(members):
                self._records.set(sqc_id, replace(clause, members=members))
                stay.append(sqc_id)
        sqc_ids = np.setdiff1d(leaving.sqc_ids, np.array(stay, np.int64), assume_unique=True)
        self._left.update(self._guests.intersection(stay))
        if self._guests:
            self._guests.difference_update(sqc_ids.tolist())
        removed = self._records.remove_all(sqc_ids)
        for stream_id, gone in gone_clauses(removed).items():
            if stream_id in streams:
                streams[stream_id].remove_clauses(gone)
        self._forget_idle(removed, sqc_ids, streams)

    def _forget_idle(self, removed: PagedRecords, sqc_ids: Array, streams: Streams) -> None:
        """Count the idle clauses among removed ones (int64[k], ascending), and note that their names have gone."""
        idle = int((sqc_ids >= FIRST_IDLE).sum())
        if not idle:
            return
        self.idle -= idle
        counts = Counter(r.stream_id for r in removed.records.values() if FIRST_IDLE <= r.sqc_id < FIRST_INACTIVE)
        for block, places in removed.blocks:
            counts.update({block.stream_id: len(places) if FIRST_IDLE <= block.first < FIRST_INACTIVE else 0})
        for stream_id, count in counts.items():
            if stream_id in streams:
                streams[stream_id].clauses.idle_names.removed(count, self._exist)

    def _exist(self, sqc_ids: Array) -> Array:
        """Whether each clause exists: bool[k]."""
        order = np.argsort(sqc_ids)
        missing = self._records.find(sqc_ids[order]).missing
        return ~np.isin(sqc_ids, missing)

    # Clauses whose members must enter anew -------------------------------------------------------------------

    def unsettled(self, is_idle_query: Callable[[int], bool]) -> Array:
        """The queries and sides that must leave their clauses and enter anew: int64[k], ascending.

        They are members of idle clauses that equal a new clause of the index. Or they are members of a clause of the
        index that has only guests. O(1) if there are none, else O(members).
        """
        twins = np.unique(np.concatenate(self._twins)) if any(map(len, self._twins)) else _NONE
        members = list[Array]()
        if len(twins):
            clauses = self._records.find(twins)
            members += [picked(block.members, places) for block, places in clauses.blocks]
            members += [np.array(record.members, np.int64) for record in clauses.records.values()]
        for sqc_id in self._left:
            clause = self._records.get(sqc_id)
            if clause is not None and all(map(is_idle_query, with_sides(clause.members, 0))):
                members.append(np.fromiter(with_sides(clause.members, 0), np.int64))
        self._twins.clear()
        self._left.clear()
        return np.sort(np.concatenate(members)) if members else _NONE
