"""The registry: all standing queries, and the clauses that they share.

    register       name of its FROM-WHERE ─ known ──> one more member of that clause
                                          └ new ────> SQC ID, slot: it joins the Query SteM
    a block        the same for all of its queries at once; what stays are columns (see `psoup.published.records`)
    unregister     the clause goes with its last member; many at once by columns (`psoup.engine.leaving`)

Owned by the engine's writer; readers get frozen maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from psoup.clauses.factor_table import FactorTable, PreparedQueries
from psoup.columns import Array
from psoup.config import Shape
from psoup.engine.leaving import LeavingQueries, gone_clauses
from psoup.engine.stream.checks import check_stream
from psoup.engine.stream.clauses import GoneClauses
from psoup.engine.stream.state import StreamState
from psoup.engine.tags import Tags
from psoup.events.change import Replacements
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG, Tag
from psoup.gc_pause import without_collector
from psoup.invariants import corrupt, ensure
from psoup.plan.standing import StandingQuery
from psoup.published.lifetimes import Lifetimes
from psoup.published.members import add, remove, remove_all, since
from psoup.published.paged import Editor, PagedMap
from psoup.published.records import ClauseBlock, ClauseRecord, QueryBlock, QueryRecord
from psoup.published.replaced import Departed, WhyGone
from psoup.published.tags import PublishedTags
from psoup.sql.templates.block import BoundBlock

Streams = Mapping[int, StreamState]
"""The streams by their IDs."""


class Registry:
    """Queries and clauses of all streams, by their IDs."""

    def __init__(self, shape: Shape = Shape()) -> None:
        self.next_sqc = 1
        self._shape = shape
        self._queries: Editor[QueryRecord] = PagedMap[QueryRecord](page=shape.page).edit()
        self._clauses: Editor[ClauseRecord] = PagedMap[ClauseRecord](page=shape.page).edit()
        self._tags = Tags()
        self._departed: dict[str, Departed] = {}
        """The latest of each tenant that were replaced, or have expired."""
        self._why_gone: dict[str, WhyGone] = {}
        self.lifetimes = Lifetimes()

    def freeze(
        self, sequence: int
    ) -> tuple[PagedMap[QueryRecord], PagedMap[ClauseRecord], PublishedTags, Mapping[str, WhyGone]]:
        """Queries, clauses, keys and labels, and why queries are gone for a reader, as of the event `sequence`."""
        return self._queries.freeze(), self._clauses.freeze(), self._tags.freeze(sequence), self._why_gone

    def bill(self) -> dict[str, int]:
        """How many queries and clauses there are, and bytes of their blocks."""
        blocks = (*self._queries.freeze().blocks, *self._clauses.freeze().blocks)
        return {
            "queries": len(self._queries),
            "clauses": len(self._clauses),
            "query_blocks_bytes": sum(block.nbytes for block in blocks),
            "query_tags_bytes": self._tags.nbytes,
        }

    def register(self, event: Registered, streams: Streams) -> StreamState:
        """Add one query; returns its stream."""
        self._add(event, streams[event.stream_id], np.array([event.query_id], np.int64), [event.query])
        if event.tag is not NO_TAG:
            self._tags.add(event)
        if event.expires:
            self.lifetimes.add(event.query_id, 1, event.expires, event.time)
        return streams[event.stream_id]

    def register_many(self, event: RegisteredMany, streams: Streams) -> list[StreamState]:
        """Add a block of queries, new clauses of a stream joining its Query SteM together; returns their streams."""
        count, queries = len(event.queries), event.queries
        if event.tags is not None:
            self._tags.add(event)
        if event.expires:
            self.lifetimes.add(event.first_id, count, event.expires, event.time)
            self.lifetimes.remove(np.array(event.gone, np.int64) + event.first_id)
        ids = np.arange(event.first_id, event.first_id + count)
        stand = np.ones(count, np.bool_)
        stand[np.array(event.gone, np.int64)] = False
        with without_collector():
            if isinstance(queries, BoundBlock):
                state = streams[event.stream_ids[0]]
                rows = np.flatnonzero(stand)
                if len(rows):
                    self._add_columns(event, state, ids, queries, rows)
                return [state]
            owners = np.where(stand, np.array(event.stream_ids, np.int64), 0)
            for stream_id in dict.fromkeys(owners[stand].tolist()):
                places = np.flatnonzero(owners == stream_id)
                made = (queries.names[places], queries.table) if isinstance(queries, PreparedQueries) else None
                tags = () if event.tags is None else [event.tags.tag(row) for row in places.tolist()]
                self._add(event, streams[stream_id], ids[places], [queries[row] for row in places.tolist()], made, tags)
        return [streams[stream_id] for stream_id in dict.fromkeys(owners[stand].tolist())]

    def unregister(self, query_id: int, streams: Streams) -> StreamState:
        """Remove one query; returns its stream. O(its clause), and its page or the flags of its block."""
        record = self._queries.get(query_id)
        if record is None:
            raise corrupt(self, "a query is unregistered that is not there", query=query_id)
        self._queries.remove(query_id)
        if record.tags is not NO_TAG:
            self._tags.remove([query_id])
        if record.expires:
            self.lifetimes.remove(np.array([query_id]))
        clause = self._clauses.get(record.sqc_id)
        if clause is None:
            raise corrupt(self, "a query has no clause", query=query_id, clause=record.sqc_id)
        state = streams[record.stream_id]
        state.clauses.count_queries(-1)
        members = remove(clause.members, query_id)
        if len(members):
            self._clauses.set(record.sqc_id, replace(clause, members=members))
            return state
        self._clauses.remove(record.sqc_id)
        one = np.array([clause.sqc_id], np.int64), np.array([clause.slot], np.int64)
        state.remove_clauses(GoneClauses(*one, dict.fromkeys(clause.attributes, 1)))
        return state

    def replace(self, tenant: str, pairs: Replacements, streams: Streams) -> list[StreamState]:
        """Remove the queries that others replace, unless a replay knows no more of them; returns their streams."""
        earlier = np.sort(pairs.earlier)
        missing = self._queries.find(earlier).missing
        departed = self._departed.setdefault(tenant, Departed())
        departed.note_replaced(*pairs)
        self._why_gone = {**self._why_gone, tenant: departed.freeze()}
        return self.unregister_many(np.setdiff1d(earlier, missing, assume_unique=True), streams)

    def unregister_many(self, query_ids: Array, streams: Streams) -> list[StreamState]:
        """Remove some queries (int64[k], ascending); returns their streams.

        A stream that is not among `streams` is gone, and its parts with it. O(k log n), by columns where the queries
        came in a block of a template, and a step for each other query and each shared clause.
        """
        try:
            leaving = LeavingQueries(self._queries.remove_all(query_ids))
        except KeyError as problem:
            raise corrupt(self, "a query is unregistered that is not there", query=problem.args[0]) from problem
        self._tags.remove(leaving.tagged)
        self.lifetimes.remove(query_ids)
        found = self._clauses.find(leaving.sqc_ids)
        ensure(not len(found.missing), self, "queries have no clause", clauses=found.missing)
        stay = []
        for sqc_id, clause in found.records.items():
            members = remove_all(clause.members, leaving.of(sqc_id))
            if len(members):
                self._clauses.set(sqc_id, replace(clause, members=members))
                stay.append(sqc_id)
        sqc_ids = np.setdiff1d(leaving.sqc_ids, np.array(stay, np.int64), assume_unique=True)
        for stream_id, gone in gone_clauses(self._clauses.remove_all(sqc_ids)).items():
            if stream_id in streams:
                streams[stream_id].remove_clauses(gone)
        states = [streams[stream_id] for stream_id in leaving.streams if stream_id in streams]
        for state in states:
            state.clauses.count_queries(-leaving.streams[state.stream_id])
        return states

    def note_expired(self, tenant: str, query_ids: Array) -> None:
        """Remember that queries (int64[k]) have expired."""
        departed = self._departed.setdefault(tenant, Departed())
        departed.note_expired(query_ids)
        self._why_gone = {**self._why_gone, tenant: departed.freeze()}

    def clause_of(self, query_id: int) -> ClauseRecord | None:
        """The clause of a query; None if the query does not stand."""
        record = self._queries.get(query_id)
        return None if record is None else self._clauses.get(record.sqc_id)

    def queries_of(self, sqc_ids: Sequence[int]) -> tuple[int, ...]:
        """The first query of each of these clauses, left out if the clause does not stand."""
        clauses = [self._clauses.get(sqc_id) for sqc_id in sqc_ids]
        return tuple(next(since(clause.members, 0)) for clause in clauses if clause is not None)

    @property
    def counts(self) -> tuple[int, int]:
        """How many queries and clauses there are. O(blocks)."""
        return len(self._queries), len(self._clauses)

    def clauses_of(self, stream_id: int) -> list[ClauseRecord]:
        """The clauses of a stream. O(clauses of all streams)."""
        return [clause for _, clause in self._clauses.freeze().items() if clause.stream_id == stream_id]

    def check(self, streams: Streams) -> None:
        """Check that queries and clauses name each other, and that the streams know the clauses."""
        for records in (self._queries, self._clauses):
            records.check()
        clauses, queries = dict(self._clauses.freeze().items()), dict(self._queries.freeze().items())
        self._tags.check(queries)
        self.lifetimes.check({i: record.expires for i, record in queries.items() if record.expires})
        members = {i: clause.sqc_id for clause in clauses.values() for i in since(clause.members, 0)}
        named = {i: record.sqc_id for i, record in queries.items()}
        ensure(members == named, self, "queries and members of clauses differ", members=members, queries=named)
        for state in streams.values():
            clauses_here = [clause for clause in clauses.values() if clause.stream_id == state.stream_id]
            check_stream(state, clauses_here)
            users = sum(record.stream_id == state.stream_id for record in queries.values())
            counted, stream = state.clauses.queries, state.stream_id
            ensure(counted == users, self, "queries are miscounted", stream=stream, counted=counted, found=users)

    # Inside ----------------------------------------------------------------------------------------------

    def _add(
        self,
        event: Registered | RegisteredMany,
        state: StreamState,
        ids: Array,
        queries: Sequence[StandingQuery],
        made: tuple[Array, FactorTable] | None = None,
        tags: Sequence[Tag] = (),
    ) -> None:
        """Add queries of one stream as a record each. `made`: names of their clauses, and their factors, if at hand."""
        tags = tags or ([event.tag] if isinstance(event, Registered) else [NO_TAG] * len(queries))
        if made is None:
            names, table = np.concatenate([state.clauses.table.name_of(query.factors) for query in queries]), None
        else:
            names, table = made
        slots, fresh = state.clauses.place(names, self.next_sqc)
        clauses = [(int(slots[row]), queries[row].factors) for row in fresh.tolist()]
        attributes = state.admit(clauses, table)
        sqc_ids = state.clauses.table.sqc_of_slot[slots]
        members = _grouped(sqc_ids, ids)
        for row, used in zip(fresh.tolist(), attributes, strict=True):
            sqc_id, slot = int(sqc_ids[row]), int(slots[row])
            member_set = add((), members.pop(sqc_id), self._shape)
            self._clauses.set(sqc_id, ClauseRecord(sqc_id, slot, state.stream_id, used, member_set, (queries[row],)))
        self._add_members(members)
        common = (event.time, event.sequence)
        for query_id, sqc_id, query, tag in zip(ids.tolist(), sqc_ids.tolist(), queries, tags, strict=True):
            record = QueryRecord(
                query_id, event.tenant, state.stream_id, sqc_id, *common, (query,), 0, tag, event.expires
            )
            self._queries.set(query_id, record)
        self._count(state, len(ids), len(fresh))

    def _add_columns(
        self, event: RegisteredMany, state: StreamState, ids: Array, queries: BoundBlock, rows: Array
    ) -> None:
        """Add some `rows` of a block of one template: clauses that only one query has stay in columns."""
        tags = event.tags
        if len(rows) < len(queries):
            ids, queries, tags = ids[rows], queries.take(rows), None if tags is None else tags.take(rows)
        columns = queries.clauses()
        slots, fresh = state.clauses.place(state.clauses.table.names_of(columns), self.next_sqc)
        attributes = state.admit_columns(
            slots[fresh], columns.take(fresh), lambda row: queries[int(fresh[row])].factors
        )
        sqc_ids = state.clauses.table.sqc_of_slot[slots]
        new = sqc_ids - self.next_sqc
        uses = np.bincount(new[new >= 0], minlength=len(fresh))
        alone = uses == 1
        if columns.never is not None:
            alone &= ~columns.never[fresh]  # a clause that no tuple can satisfy has other attributes: none
        unshared = fresh[alone]
        if len(unshared):
            places = sqc_ids[unshared], slots[unshared].astype(np.uint32), unshared.astype(np.int32)
            self._clauses.add_block(ClauseBlock(*places, ids[unshared], queries, state.stream_id, attributes))
        for row in fresh[~alone].tolist():
            sqc_id = int(sqc_ids[row])
            used = attributes if columns.never is None or not columns.never[row] else ()
            record = ClauseRecord(sqc_id, int(slots[row]), state.stream_id, used, (), (queries[row],))
            self._clauses.set(sqc_id, record)
        single = np.zeros(len(ids), np.bool_)
        single[unshared] = True
        self._add_members(_grouped(sqc_ids[~single], ids[~single]))
        stamps = event.tenant, state.stream_id, event.time, event.sequence
        self._queries.add_block(QueryBlock(ids, sqc_ids, queries, *stamps, tags, event.expires))
        self._count(state, len(ids), len(fresh))

    def _add_members(self, members: Mapping[int, Sequence[int]]) -> None:
        """Make queries (ascending) members of clauses that stand."""
        for sqc_id, query_ids in members.items():
            clause = self._clauses.get(sqc_id)
            if clause is None:
                raise corrupt(self, "queries join a clause that is not there", clause=sqc_id, queries=query_ids)
            self._take_from_block(sqc_id)
            self._clauses.set(sqc_id, replace(clause, members=add(clause.members, query_ids, self._shape)))

    def _take_from_block(self, sqc_id: int) -> None:
        """Turn a clause of a block that is now shared into a record."""
        if self._clauses.in_block(sqc_id):
            self._clauses.remove(sqc_id)

    def _count(self, state: StreamState, queries: int, clauses: int) -> None:
        self.next_sqc += clauses
        state.clauses.count_queries(queries)


def _grouped(sqc_ids: Array, ids: Array) -> dict[int, list[int]]:
    """The queries of each clause, in their order."""
    groups: dict[int, list[int]] = {}
    for sqc_id, query_id in zip(sqc_ids.tolist(), ids.tolist(), strict=True):
        groups.setdefault(sqc_id, []).append(query_id)
    return groups
