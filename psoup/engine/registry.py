"""The registry: all standing queries, and the clauses that they share.

    register       name of its FROM-WHERE ─ known ──> one more member of that clause
                                          └ new ────> SQC ID, slot: it joins the Query SteM
    a block        all its queries in one step; they stay columns (see `psoup.published.records`)
    a join         a record without a clause, and a hidden query of each stream, its sides (`psoup.plan.sides`)
    unregister     a clause is removed with its last member; many queries in one step (`psoup.engine.removal_columns`)

Only the engine's writer changes the registry. Readers get frozen maps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from psoup.clauses.factor_table import FactorTable, PreparedQueries
from psoup.config import Shape
from psoup.engine.clause_catalog import ClauseCatalog, Streams
from psoup.engine.query_alteration import QueryAlteration
from psoup.engine.query_entry import Entered, QueryEntry, next_tuple_of
from psoup.engine.query_sides import sides_by_stream, tags_of
from psoup.engine.removal_columns import LeavingQueries, sides_in
from psoup.engine.stream.checks import check_stream
from psoup.engine.stream.state import StreamState
from psoup.engine.tags import Tags
from psoup.events.change import Replacements
from psoup.events.events import QueriesAltered, Registered, RegisteredMany
from psoup.events.tags import NO_TAG, Tag
from psoup.invariants import corrupt, ensure
from psoup.plan.amounts import ChosenAmount, idle_codes
from psoup.plan.sides import is_side, query_of
from psoup.plan.standing_query import StandingQuery
from psoup.published.automatic import AmountChoice
from psoup.published.departures import Departed, WhyGone
from psoup.published.eager_queries import EagerQueries
from psoup.published.idle_clauses import is_idle
from psoup.published.lifetimes import Lifetimes
from psoup.published.members import with_sides
from psoup.published.paged_map import Editor, PagedMap
from psoup.published.paired_queries import PairedQueries, auto_pairs
from psoup.published.parked_queries import (
    NoLog,
    ParkedQueries,
    RecalledQueries,
    Registrations,
)
from psoup.published.record_block import picked
from psoup.published.records import NO_CLAUSE, ClauseRecord, QueryRecord
from psoup.published.tags import PublishedTags
from psoup.sql.templates.block import BoundBlock
from psoup.values.columns import Array
from psoup.work.gc_pause import without_collector

BY_HAND = "taken out by the operator"
"""The reason for the quarantine of clauses of the operator's list."""


class Registry:
    """Queries and clauses of all streams, by their IDs."""

    def __init__(self, shape: Shape = Shape(), log: Registrations | None = None) -> None:
        """`log`: where parked queries are read; needed if queries are ever parked."""
        self._shape = shape
        self.recalled = RecalledQueries(log or NoLog())
        self._queries: Editor[QueryRecord] = PagedMap[QueryRecord](page=shape.page).edit()
        self._clauses = ClauseCatalog(shape)
        self._tags = Tags()
        self.alterations = 0
        """The number of changes of how queries are kept, or of the clauses of idle ones."""
        self._sides = 0
        """The number of registered sides."""
        self._uncounted = 0
        """The number of records that no stream counts: joins, and all but one of a join's sides on the same stream."""
        self._departed: dict[str, Departed] = {}
        """The queries of each tenant that were replaced or expired last, to tell callers why a query is missing."""
        self._why_gone: dict[str, WhyGone] = {}
        self.lifetimes = Lifetimes()
        self.eager = EagerQueries()

    def freeze(
        self, sequence: int
    ) -> tuple[PagedMap[QueryRecord], PagedMap[ClauseRecord], PublishedTags, Mapping[str, WhyGone]]:
        """The maps for readers after the event `sequence`: queries, clauses, keys and labels, reasons of removals."""
        return self._queries.freeze(), self._clauses.freeze(), self._tags.freeze(sequence), self._why_gone

    @property
    def next_sqc(self) -> int:
        """The SQC ID of the next clause that joins an index."""
        return self._clauses.next_sqc

    @property
    def sides(self) -> int:
        """The number of registered sides."""
        return self._sides

    def bill(self) -> dict[str, int]:
        """The numbers of queries and clauses, and the bytes of their blocks and tags."""
        blocks = (*self._queries.freeze().blocks, *self._clauses.freeze().blocks)
        return {
            "queries": len(self._queries) - self._sides,
            "clauses": len(self._clauses),
            "idle_clauses": self._clauses.idle,
            "query_blocks_bytes": sum(block.nbytes for block in blocks),
            "query_tags_bytes": self._tags.nbytes,
        }

    def register(self, event: Registered, streams: Streams) -> list[StreamState]:
        """Add one query. Returns its streams."""
        if event.tag is not NO_TAG:
            self._tags.add(event)
        if event.expires:
            self.lifetimes.add(event.query_id, 1, event.expires, event.time)
        if event.keeping.parked:
            return self._count(self._entry(event, streams).parked(event.query_id, event.side_streams, event.tag))
        if event.keeping.ahead:
            self.eager.set(np.array([event.query_id]), np.ones(1, np.bool_))
        if event.side_streams:
            joined = [event.query_id], [event.query], [event.side_streams], [event.tag]
            changed = self._add_joins(event, streams, *joined)
            self._settle(streams)
            return changed
        state = streams[event.stream_id]
        self._add(event, state, np.array([event.query_id], np.int64), [event.query], [event.tag], event.expires)
        state.clauses.count_queries(1)
        self._settle(streams)
        return [state]

    def register_many(self, event: RegisteredMany, streams: Streams) -> list[StreamState]:
        """Add a block of queries. The new clauses of a stream join its Query SteM in one step. Returns the streams."""
        count, queries = len(event.queries), event.queries
        if event.tags is not None:
            self._tags.add(event)
        if event.expires:
            self.lifetimes.add(event.first_id, count, event.expires, event.time)
            self.lifetimes.remove(np.array(event.gone, np.int64) + event.first_id)
        ids = np.arange(event.first_id, event.first_id + count)
        stand = np.ones(count, np.bool_)
        stand[np.array(event.gone, np.int64)] = False
        if event.keeping.ahead:
            self.eager.set(ids, stand & ~np.isin(ids - event.first_id, event.parked))
        with without_collector():
            if isinstance(queries, BoundBlock | ParkedQueries):
                changed = self._count(self._entry(event, streams).block(ids, queries, np.flatnonzero(stand)))
                self._settle(streams)
                return changed
            changed = self._count(self._entry(event, streams).parked_rows(stand))
            owners = np.where(stand, np.array(event.stream_ids, np.int64), 0)
            joins = [row for row, of_query in enumerate(event.side_streams) if of_query and stand[row]]
            owners[joins] = 0
            states = [streams[stream_id] for stream_id in dict.fromkeys(owners[owners > 0].tolist())]
            changed += states
            for state in states:
                places = np.flatnonzero(owners == state.stream_id)
                made = (queries.names[places], queries.table) if isinstance(queries, PreparedQueries) else None
                some, tags = [queries[row] for row in places.tolist()], tags_of(event, places.tolist())
                self._add(event, state, ids[places], some, tags, event.expires, made)
                state.clauses.count_queries(len(places))
            if joins:
                some, of_sides = [queries[row] for row in joins], [event.side_streams[row] for row in joins]
                joined = ids[joins].tolist(), some, of_sides, tags_of(event, joins)
                changed += self._add_joins(event, streams, *joined)
        self._settle(streams)
        return changed

    def unregister(self, query_id: int, streams: Streams) -> list[StreamState]:
        """Remove one query. Returns its streams. O(members of its clause + its page, or the flags of its block)."""
        record = self._queries.get(query_id)
        if record is None:
            raise corrupt(self, "a query is unregistered that is not there", query=query_id)
        if not record.sqc_id:
            return self.unregister_many(np.array([query_id]), streams)
        self._queries.remove(query_id)
        if record.tags is not NO_TAG:
            self._tags.remove([query_id])
        if record.expires:
            self.lifetimes.remove(np.array([query_id]))
        if record.keeping.ahead:
            self.eager.remove(np.array([query_id]))
        state = streams[record.stream_id]
        state.clauses.count_queries(-1)
        self._clauses.leave_one(record.sqc_id, query_id, state)
        self._settle(streams)
        return [state]

    def replace(self, tenant: str, pairs: Replacements, streams: Streams) -> list[StreamState]:
        """Remove replaced queries. Returns their streams. Skips queries that are missing, as a replay may lack some."""
        earlier = np.sort(pairs.earlier)
        missing = self._queries.find(earlier).missing
        departed = self._departed.setdefault(tenant, Departed())
        departed.note_replaced(*pairs)
        self._why_gone = {**self._why_gone, tenant: departed.freeze()}
        return self.unregister_many(np.setdiff1d(earlier, missing, assume_unique=True), streams)

    def unregister_many(self, query_ids: Array, streams: Streams) -> list[StreamState]:
        """Remove some queries (int64[k], ascending) with their sides. Returns their streams.

        If `streams` lacks a stream, it was dropped with all its parts. O(k log n): vector operations for queries of a
        template's block, a Python step for each other query and each shared clause.
        """
        try:
            queries_found = self._queries.remove_all(query_ids)
            sides = self._queries.remove_all(sides_in(queries_found) if self._sides else np.zeros(0, np.int64))
        except KeyError as problem:
            raise corrupt(self, "a query is unregistered that is not there", query=problem.args[0]) from problem
        leaving = LeavingQueries(queries_found, sides)
        self._sides -= leaving.sides
        self._uncounted -= len(query_ids) + leaving.sides - sum(leaving.streams.values())
        self._tags.remove(leaving.tagged)
        self.lifetimes.remove(query_ids)
        self.eager.remove(query_ids)
        self._clauses.leave(leaving, streams)
        self._settle(streams)
        states = [streams[stream_id] for stream_id in leaving.streams if stream_id in streams]
        for state in states:
            state.clauses.count_queries(-leaving.streams[state.stream_id])
        return states

    def alter(self, event: QueriesAltered, streams: Streams) -> list[StreamState]:
        """Change how some queries are kept. Returns the streams with clauses that join an index."""
        self.alterations += 1
        entered = self._alteration(streams).apply(event.query_ids, event.codes_after)
        self._settle(streams)
        return [streams[stream_id] for stream_id in sorted(entered)]

    def choose(self, choice: AmountChoice, streams: Streams) -> tuple[int, list[StreamState]]:
        """Change the amounts of AUTO queries by a choice. Returns their number, and the streams with clauses that join
        an index."""
        self.alterations += 1
        chosen, alteration = ChosenAmount(choice.amount), self._alteration(streams)
        entered = alteration.apply(choice.query_ids, lambda _, codes: chosen.of(codes))
        self._settle(streams)
        return alteration.changed, [streams[stream_id] for stream_id in sorted(entered)]

    def auto_pairs(self, query_ids: Array) -> list[PairedQueries]:
        """The AUTO queries among some whose pairs can be kept; see `psoup.published.paired_queries.auto_pairs`."""
        return auto_pairs(self._queries, query_ids)

    def idle_among(self, query_ids: Array) -> Array:
        """The idle queries among some (int64[k], ascending), int64, in no order. O(k log n)."""
        lookup = self._queries.find(query_ids)
        parts = [np.array([query_id for query_id, record in lookup.records.items() if record.keeping.idle], np.int64)]
        for block, at in lookup.blocks:
            parts.append(picked(block.ids, at)[idle_codes(block.codes_at(at))])
        return np.concatenate(parts)

    def note_expired(self, tenant: str, query_ids: Array) -> None:
        """Record that queries (int64[k]) of a tenant have expired, for the errors of later calls."""
        departed = self._departed.setdefault(tenant, Departed())
        departed.note_expired(query_ids)
        self._why_gone = {**self._why_gone, tenant: departed.freeze()}

    def clauses_of_query(self, query_id: int) -> list[ClauseRecord]:
        """The clause of a query, or the clauses of a join's sides, without idle ones. Empty if it is not registered."""
        record = self._queries.get(query_id)
        records = [] if record is None else [record, *map(self._queries.get, record.side_ids)]
        clauses = [self._clauses.get(record.sqc_id) for record in records if record is not None]
        return [clause for clause in clauses if clause is not None and not is_idle(clause.sqc_id)]

    def put_out(self, query_ids: Array | range | list[int], by_hand: Iterable[int], streams: Streams) -> None:
        """Take queries out of the index that are on the operator's list `by_hand`."""
        for query_id in by_hand:
            for clause in self.clauses_of_query(query_id) if query_id in query_ids else ():
                streams[clause.stream_id].put_out_by_hand(clause, BY_HAND)

    def auto_queries(self) -> list[int]:
        """The AUTO queries, ascending. O(queries), for checks."""
        return [i for i, record in self._queries.freeze().items() if record.keeping.auto]

    def queries_of(self, sqc_ids: Sequence[int]) -> tuple[int, ...]:
        """The first query of each of these clauses that still exists. If it is a side, its join stands for it."""
        clauses = [self._clauses.get(sqc_id) for sqc_id in sqc_ids]
        return tuple(query_of(next(with_sides(clause.members, 0))) for clause in clauses if clause is not None)

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of queries on all streams, and of clauses that are not idle. A join counts once on each of its
        streams. O(blocks)."""
        return len(self._queries) - self._uncounted, len(self._clauses) - self._clauses.idle

    def clauses_of(self, stream_id: int) -> list[ClauseRecord]:
        """The clauses of a stream. O(clauses of all streams)."""
        return [clause for _, clause in self._clauses.freeze().items() if clause.stream_id == stream_id]

    def check(self, streams: Streams) -> None:
        """Check that queries and clauses refer to each other, and that the streams have the clauses. Raises Corrupt."""
        self._queries.check()
        self._clauses.check(streams)
        clauses, queries = dict(self._clauses.freeze().items()), dict(self._queries.freeze().items())
        self._tags.check(queries)
        self.lifetimes.check({i: record.expires for i, record in queries.items() if record.expires})
        self.eager.check(sorted(i for i, record in queries.items() if record.keeping.ahead))
        members = {i: clause.sqc_id for clause in clauses.values() for i in with_sides(clause.members, 0)}
        named = {i: record.sqc_id for i, record in queries.items() if record.sqc_id}
        joined = sorted(side for record in queries.values() for side in record.side_ids)
        sides = [i for i in queries if is_side(i)]
        ensure(joined == sides, self, "joins have other sides than there are", wanted=joined, found=sides)
        ensure(self._sides == len(sides), self, "sides are miscounted", counted=self._sides, found=len(sides))
        ensure(members == named, self, "queries and members of clauses differ", members=members, queries=named)
        busy = {record.sqc_id for record in queries.values() if not record.keeping.idle}
        only_guests = [i for i in clauses if not is_idle(i) and i not in busy]
        ensure(not only_guests, self, "clauses of the index have only idle queries", clauses=only_guests)
        misplaced = [i for i, record in queries.items() if is_idle(record.sqc_id) and not record.keeping.idle]
        ensure(not misplaced, self, "queries that are not idle have idle clauses", queries=misplaced)
        for state in streams.values():
            of_stream = (clause for clause in clauses.values() if clause.stream_id == state.stream_id)
            clauses_here = [clause for clause in of_stream if not is_idle(clause.sqc_id)]
            check_stream(state, clauses_here)
            here = [i for i, record in queries.items() if record.sqc_id and record.stream_id == state.stream_id]
            users = len({query_of(i) for i in here})
            counted, stream = state.clauses.queries, state.stream_id
            ensure(counted == users, self, "queries are miscounted", stream=stream, counted=counted, found=users)

    # Inside ----------------------------------------------------------------------------------------------

    def _settle(self, streams: Streams) -> None:
        """Let idle queries change their clauses, if the clauses of other queries have come or gone."""
        self.alterations += self._alteration(streams).settle()

    def _alteration(self, streams: Streams) -> QueryAlteration:
        return QueryAlteration(self._queries, self._clauses, streams, self.recalled, self.eager)

    def _add_joins(
        self,
        event: Registered | RegisteredMany,
        streams: Streams,
        ids: Sequence[int],
        queries: Sequence[StandingQuery],
        side_streams: Sequence[tuple[int, ...]],
        tags: Sequence[Tag],
    ) -> list[StreamState]:
        """Add one record for each join, and then its sides, stream by stream. Returns the streams."""
        common = event.time, event.sequence
        for query_id, query, of_sides, tag in zip(ids, queries, side_streams, tags, strict=True):
            first, expires = of_sides[0], event.expires
            place, keeping = (query_id, event.tenant, first, NO_CLAUSE), event.keeping
            record = QueryRecord(*place, *common, (query,), 0, tag, expires, keeping=keeping)
            self._queries.set(query_id, record)
        by_stream = sides_by_stream(ids, queries, side_streams)
        for stream_id, sides in by_stream.items():
            count = len(sides.ids)
            self._add(event, streams[stream_id], np.array(sides.ids), sides.queries, [NO_TAG] * count, 0)
            streams[stream_id].clauses.count_queries(sides.joins)
            self._sides += count
            self._uncounted += count - sides.joins
        self._uncounted += len(ids)
        return [streams[stream_id] for stream_id in by_stream]

    def _add(
        self,
        event: Registered | RegisteredMany,
        state: StreamState,
        ids: Array,
        queries: Sequence[StandingQuery],
        tags: Sequence[Tag],
        expires: int,
        made: tuple[Array, FactorTable] | None = None,
    ) -> None:
        """Add one record for each of some queries or sides of a stream. `made`: see `ClauseCatalog.add`."""
        keeping = event.keeping.of_side if is_side(int(ids[0])) else event.keeping
        if keeping.idle:
            sqc_ids = self._clauses.add_idle(state, ids, queries, active=keeping.active)
        else:
            sqc_ids = self._clauses.add(state, ids, queries, made)
        common, stream_id, next_id = (
            (event.time, event.sequence),
            state.stream_id,
            next_tuple_of(event, state.stream_id),
        )
        for query_id, sqc_id, query, tag in zip(ids.tolist(), sqc_ids.tolist(), queries, tags, strict=True):
            place = query_id, event.tenant, stream_id, sqc_id
            record = QueryRecord(*place, *common, (query,), 0, tag, expires, next_id, keeping)
            self._queries.set(query_id, record)

    def _entry(self, event: Registered | RegisteredMany, streams: Streams) -> QueryEntry:
        return QueryEntry(event, streams, self._queries, self._clauses, self.recalled)

    def _count(self, entered: Entered) -> list[StreamState]:
        """Count the records that an event has added. Returns the streams of its queries."""
        self._sides += entered.sides
        self._uncounted += entered.uncounted
        return entered.states
