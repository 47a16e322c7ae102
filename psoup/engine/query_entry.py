"""The entry of queries into the registry: a template's block as columns, and parked queries.

    a template's block   its queries stay columns, without the parked ones
    a parked query       a record, and a further record for each side of a join, without the query

`psoup.engine.registry` adds all other queries. Python takes a few steps for each block, and one for each other query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psoup.engine.clause_catalog import ClauseCatalog, Streams
from psoup.engine.query_sides import tags_of
from psoup.engine.stream.state import StreamState
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG, Tag
from psoup.plan.amounts import Keeping, parked_as, side_codes
from psoup.plan.sides import side_id
from psoup.published.paged_map import Editor
from psoup.published.parked_queries import ParkedQueries, RecalledQueries, parked_alone, with_parked
from psoup.published.records import NO_CLAUSE, QueryBlock, QueryRecord
from psoup.sql.templates.block import BoundBlock, ManyQueries
from psoup.values.columns import Array


class Entered(NamedTuple):
    """The streams of entered queries, the number of their sides, and the number of records that no stream counts."""

    states: list[StreamState]
    sides: int = 0
    uncounted: int = 0


class QueryEntry:
    """The entry of an event's queries. Only the registry uses it."""

    def __init__(
        self,
        event: Registered | RegisteredMany,
        streams: Streams,
        queries: Editor[QueryRecord],
        clauses: ClauseCatalog,
        recalled: RecalledQueries,
    ) -> None:
        self._event = event
        self._streams = streams
        self._queries = queries
        self._clauses = clauses
        self._recalled = recalled

    def parked_rows(self, stand: Array) -> Entered:
        """Add the parked queries of a block without columns. Takes them out of `stand` (bool[n])."""
        event = self._event
        assert isinstance(event, RegisteredMany)
        parked = np.full(len(stand), event.keeping.parked)
        parked[np.array(event.parked, np.int64)] = True
        rows = np.flatnonzero(parked & stand).tolist()
        stand[rows] = False
        changed, sides, uncounted = dict[int, StreamState](), 0, 0
        for row, tag in zip(rows, tags_of(event, rows), strict=True):
            of_sides = event.side_streams[row] if event.side_streams else ()
            entered = self.parked(event.first_id + row, of_sides, tag, row)
            changed.update((state.stream_id, state) for state in entered.states)
            sides, uncounted = sides + entered.sides, uncounted + entered.uncounted
        return Entered([*changed.values()], sides, uncounted)

    def parked(self, query_id: int, side_streams: Sequence[int], tag: Tag, row: int = 0) -> Entered:
        """Add a parked query that is in no block, with its sides."""
        event, streams, width = self._event, self._streams, len(side_streams)
        owners = event.stream_ids if isinstance(event, RegisteredMany) else (event.stream_id,)
        first = owners[row if len(owners) > 1 else 0]
        parts = [(query_id, first, tag, event.expires)]
        parts += [(side_id(query_id, place), stream, NO_TAG, 0) for place, stream in enumerate(side_streams)]
        for part_id, stream_id, part_tag, expires in parts:
            is_join = width > 0 and part_id == query_id
            queries = parked_alone(self._recalled, event.sequence, part_id, width if is_join else 0)
            sqc_id = NO_CLAUSE if is_join else self._clauses.add_parked(streams[stream_id], part_id, queries)
            place, next_id = (part_id, event.tenant, stream_id, sqc_id), next_tuple_of(event, stream_id)
            record = QueryRecord(*place, event.time, event.sequence, queries, 0, part_tag, expires)
            keeping = parked_as(event.keeping)
            keeping = keeping if part_id == query_id else keeping.of_side
            self._queries.set(part_id, replace(record, next_id=0 if is_join else next_id, keeping=keeping))
        states = [streams[stream_id] for stream_id in dict.fromkeys(side_streams or (first,))]
        for state in states:
            state.clauses.count_queries(1)
        return Entered(states, width, width - len(states) + 1 if width else 0)

    def block(self, ids: Array, queries: BoundBlock | ParkedQueries, rows: Array) -> Entered:
        """Add the queries in some `rows` of a template's block, some of them perhaps parked. `ids`: of all rows."""
        event = self._event
        assert isinstance(event, RegisteredMany)
        tags, parked = event.tags, np.isin(rows, event.parked) | event.keeping.parked
        if len(rows) < len(queries):
            ids, queries, tags = ids[rows], queries.take(rows), None if tags is None else tags.take(rows)
        if not len(ids):
            return Entered([self._streams[event.stream_ids[0]]])
        bound = with_parked(queries, parked, self._recalled, event.sequence, ids)
        stamps, expires = (event.tenant, event.stream_ids[0], event.time, event.sequence), event.expires
        keeping = _keepings(event.keeping, parked)
        if event.side_streams:
            none = np.zeros(len(ids), np.int8)
            self._queries.add_block(QueryBlock(ids, none, bound, *stamps, tags, expires, 0, keeping))
            return self._sides(ids, bound, parked)
        state, next_id = self._streams[event.stream_ids[0]], next_tuple_of(event, event.stream_ids[0])
        sqc_ids = self._columns(state, ids, bound, parked, event.keeping)
        self._queries.add_block(QueryBlock(ids, sqc_ids, bound, *stamps, tags, expires, next_id, keeping))
        state.clauses.count_queries(len(ids))
        return Entered([state])

    def _sides(self, ids: Array, queries: ManyQueries | ParkedQueries, parked: Array) -> Entered:
        """Add the sides of the joins of a block."""
        event, changed, uncounted = self._event, dict[int, StreamState](), len(ids)
        assert isinstance(event, RegisteredMany)
        keeping = _keepings(event.keeping, parked, sides=True)
        for place, (stream_id, sides) in enumerate(zip(event.side_streams[0], queries.sides, strict=True)):
            state, side_ids = self._streams[stream_id], ids + side_id(0, place)
            sqc_ids = self._columns(state, side_ids, sides, parked, event.keeping.of_side)
            stamps = event.tenant, stream_id, event.time, event.sequence
            self._queries.add_block(QueryBlock(side_ids, sqc_ids, sides, *stamps, None, 0, 0, keeping))
            if stream_id in changed:
                uncounted += len(ids)
            else:
                state.clauses.count_queries(len(ids))
            changed[stream_id] = state
        return Entered([*changed.values()], len(ids) * len(event.side_streams[0]), uncounted)

    def _columns(
        self, state: StreamState, ids: Array, queries: ManyQueries | ParkedQueries, parked: Array, keeping: Keeping
    ) -> Array:
        """Add the clauses of a block, in which some queries are `parked` (bool[n]). All other ones have a `keeping`.

        Returns the SQC IDs of its queries, int64[n].
        """
        if not isinstance(queries, ParkedQueries):
            return self._bound(state, ids, queries, None, keeping)
        sqc_ids: Array = np.zeros(len(ids), np.int64)
        here, rest = np.flatnonzero(parked), np.flatnonzero(~parked)
        sqc_ids[here] = self._clauses.add_idle_columns(state, ids[here], queries.parked(), here, active=False)
        if len(rest):
            sqc_ids[rest] = self._bound(state, ids[rest], *queries.bound(rest), keeping)
        return sqc_ids

    def _bound(
        self, state: StreamState, ids: Array, queries: ManyQueries, rows: Array | None, keeping: Keeping
    ) -> Array:
        """Add the clauses of the queries in some `rows` of a block. Returns the SQC IDs of its queries, int64[n]."""
        if keeping.idle:
            return self._clauses.add_idle_columns(state, ids, queries, rows, active=keeping.active)
        return self._clauses.add_columns(state, ids, queries, rows)


def _keepings(keeping: Keeping, parked: Array, *, sides: bool = False) -> Keeping | Array:
    """The keeping of the queries of a block, or of their `sides`, where some are `parked` (bool[n])."""
    if parked.any() and not parked.all():
        codes = np.where(parked, np.uint8(parked_as(keeping).code), np.uint8(keeping.code))
        return side_codes(codes) if sides else codes
    alike = parked_as(keeping) if parked.any() else keeping
    return alike.of_side if sides else alike


def next_tuple_of(event: Registered | RegisteredMany, stream_id: int) -> int:
    """The ID that the next tuple of a stream had at a registration; 0 if the event does not tell."""
    return event.next_id if isinstance(event, Registered) else dict(event.next_ids).get(stream_id, 0)
