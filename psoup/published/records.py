"""Published queries and clauses: single records, and blocks of many as columns.

    QueryRecord, ClauseRecord      a record with all data of the query or clause
    QueryBlock                     first_id …    sqc_ids  int64[n]    the queries as their parameters (BoundBlock)
    ClauseBlock                    ids  slots    rows     int32[n]    each clause of one query, which has its factors

A block makes a record when it is read. A `PagedMap` holds both blocks and single records. When a further query shares a
clause of a block, the clause leaves its block and becomes a record.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace

import numpy as np

from psoup.events.tags import NO_TAG, Tag, TagColumns
from psoup.plan.amounts import AS_USUAL, Keeping
from psoup.plan.factors import Factor
from psoup.plan.sides import side_id
from psoup.plan.standing_query import StandingQuery
from psoup.published.members import Members
from psoup.published.parked_queries import ParkedQueries, width_of
from psoup.published.record_block import Numbers, RecordBlock, bytes_of, numbers, pick, picked
from psoup.sql.templates.block import ManyQueries
from psoup.values.columns import Array

NO_CLAUSE = 0
"""The `sqc_id` of a join, whose sides have the clauses."""


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A registered query, `queries[row]`, or a side of a join. `sqc_id`: its clause. `registered`: microseconds.

    A join has the `stream_id` of its first side, and NO_CLAUSE.
    """

    query_id: int
    tenant: str
    stream_id: int
    sqc_id: int
    registered: int
    sequence: int
    queries: Sequence[StandingQuery]
    row: int = 0
    tags: Tag | TagColumns = NO_TAG
    """The key and labels of the query, or the tags of its block; see `tag`."""
    expires: int = 0
    """The days without use after which the query is unregistered; 0 for a query that never expires."""
    next_id: int = 0
    """The ID that the next tuple of its stream had at the registration."""
    keeping: Keeping = AS_USUAL
    """The amount that is kept of its answer. A side has the keeping of its clause. `queries` of a parked query are
    `ParkedQueries`."""

    @property
    def tag(self) -> Tag:
        """The key and the labels."""
        return self.tags if isinstance(self.tags, Tag) else self.tags.tag(self.row)

    @property
    def key(self) -> str:
        """The key."""
        return self.tags.key if isinstance(self.tags, Tag) else self.tags.key(self.row)

    @property
    def query(self) -> StandingQuery:
        """The query that was registered. If it is parked, this reads the log (`psoup.published.parked_queries`)."""
        return self.queries[self.row]

    def altered(self, keeping: Keeping, sqc_id: int) -> QueryRecord:
        """The record with another keeping and clause."""
        return replace(self, keeping=keeping, sqc_id=sqc_id)

    def holding(self, queries: Sequence[StandingQuery]) -> QueryRecord:
        """The record of a query outside blocks, with its query parked or bound: `queries[0]`."""
        return replace(self, queries=queries, row=0)

    @property
    def side_ids(self) -> list[int]:
        """The IDs of the sides of a join."""
        width = 0 if self.sqc_id else width_of(self.queries, self.row)
        return [side_id(self.query_id, place) for place in range(width)]


@dataclass(frozen=True, slots=True)
class ClauseRecord:
    """A standing query clause and the queries that share it. `attributes`: the Query SteM's attribute IDs.

    The factors are those of the query `queries[row]`, which may have been removed.
    """

    sqc_id: int
    slot: int
    stream_id: int
    attributes: tuple[int, ...]
    members: Members
    queries: Sequence[StandingQuery]
    row: int = 0

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors that a tuple must satisfy."""
        return self.queries[self.row].selections[0].factors


class QueryBlock(RecordBlock[QueryRecord]):
    """Queries that one event registered with a template, or the sides of such queries at one place in FROM.

    `sqc_ids`: the clause of each query, integers[n]. `next_id`: as in QueryRecord. `keeping`: one value if it is that
    of all queries, else the code of each, uint8[n]. `queries`: `ParkedQueries` if some of them are parked.
    """

    __slots__ = (
        "expires",
        "keeping",
        "next_id",
        "queries",
        "registered",
        "sequence",
        "sqc_ids",
        "stream_id",
        "tags",
        "tenant",
    )

    def __init__(
        self,
        ids: Numbers,
        sqc_ids: Numbers,
        queries: ManyQueries | ParkedQueries,
        tenant: str,
        stream_id: int,
        registered: int,
        sequence: int,
        tags: TagColumns | None = None,
        expires: int = 0,
        next_id: int = 0,
        keeping: Keeping | Array = AS_USUAL,
    ) -> None:
        super().__init__(ids)
        self.sqc_ids = numbers(sqc_ids)
        self.queries = queries
        self.tenant = tenant
        self.stream_id = stream_id
        self.registered = registered
        self.sequence = sequence
        self.tags = tags
        self.expires = expires
        self.next_id = next_id
        self.keeping = keeping

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        gone = 0 if self._gone is None else self._gone.nbytes
        tags = 0 if self.tags is None else self.tags.nbytes
        keeping = self.keeping.nbytes if isinstance(self.keeping, np.ndarray) else 0
        return bytes_of(self.ids, self.sqc_ids) + self.queries.nbytes + gone + tags + keeping

    def keeping_at(self, at: int) -> Keeping:
        """The keeping of the query at a position."""
        return Keeping.of(int(self.keeping[at])) if isinstance(self.keeping, np.ndarray) else self.keeping

    def codes_at(self, places: Array) -> Array:
        """The codes of the keeping of the queries at some positions (int64[k]): uint8[k]."""
        if isinstance(self.keeping, np.ndarray):
            return self.keeping[places]
        return np.full(len(places), self.keeping.code, np.uint8)

    def sides_at(self, places: Array) -> list[Array]:
        """The IDs of the sides of the joins at some positions (int64[k]): an array for each place in FROM."""
        ids = picked(self.ids, places)
        return [ids + side_id(0, place) for place in range(len(self.queries.sides))]

    def codes_after(self, places: Array, codes: Array) -> Array:
        """The codes of all queries, once those at some positions have other `codes` (uint8[k]): uint8[n]."""
        every = self.codes_at(np.arange(self.count)).copy()
        every[places] = codes
        return every

    @property
    def is_parked(self) -> bool:
        """Whether all queries are parked. O(1)."""
        return isinstance(self.queries, ParkedQueries) and self.queries.all_parked

    def unneeded(self) -> Array:
        """Flags, bool[n], of the queries that are removed."""
        return np.zeros(self.count, np.bool_) if self._gone is None else self._gone

    def altered(
        self, places: Array, codes: Array, sqc_ids: Array | None, queries: ManyQueries | ParkedQueries
    ) -> QueryBlock:
        """The block with another keeping (uint8[k]) of the queries at some positions (int64[k], ascending).

        `sqc_ids`: their new clauses, int64[k], or None if these stay. `queries`: the queries of the block, some of them
        perhaps parked. Shares all other columns. O(n).
        """
        changed = self.taken(None)
        changed.queries = queries
        changed._gone, changed.live = None if self._gone is None else self._gone.copy(), self.live
        every = self.codes_after(places, codes)
        alike = len(places) == self.live and bool((codes == codes[0]).all())
        changed.keeping = Keeping.of(int(codes[0])) if alike else every
        if sqc_ids is not None:
            column = np.array(self.sqc_ids, np.int64)
            column[places] = sqc_ids
            changed.sqc_ids = numbers(column)
        return changed

    def columns(self) -> tuple[Sized, ...]:
        """The columns, each with a value for each query."""
        keeping = (self.keeping,) if isinstance(self.keeping, np.ndarray) else ()
        return self.ids, self.sqc_ids, self.queries, *(() if self.tags is None else (self.tags,)), *keeping

    def make(self, at: int) -> QueryRecord:
        """See RecordBlock."""
        return QueryRecord(
            int(self.ids[at]),
            self.tenant,
            self.stream_id,
            int(self.sqc_ids[at]),
            self.registered,
            self.sequence,
            self.queries,
            at,
            self.tags or NO_TAG,
            self.expires,
            self.next_id,
            self.keeping_at(at),
        )

    def taken(self, rows: Array | None) -> QueryBlock:
        """See RecordBlock."""
        whole, tags, keeping = (self.ids, self.sqc_ids, self.queries), self.tags, self.keeping
        if rows is not None:
            keeping = keeping[rows] if isinstance(keeping, np.ndarray) else keeping
            whole = (pick(self.ids, rows), pick(self.sqc_ids, rows), self.queries.take(rows))
            tags = None if tags is None else tags.take(rows)
        ids, sqc_ids, queries = whole
        common = (self.tenant, self.stream_id, self.registered, self.sequence)
        return QueryBlock(ids, sqc_ids, queries, *common, tags, self.expires, self.next_id, keeping)


class ClauseBlock(RecordBlock[ClauseRecord]):
    """Clauses of a single query each: the query with ID `members[i]` is `queries[rows[i]]`."""

    __slots__ = ("attributes", "members", "queries", "rows", "slots", "stream_id")

    def __init__(
        self,
        ids: Numbers,
        slots: Numbers,
        rows: Numbers,
        members: Numbers,
        queries: ManyQueries | ParkedQueries,
        stream_id: int,
        attributes: tuple[int, ...],
    ) -> None:
        super().__init__(ids)
        self.slots = numbers(slots)
        self.rows = numbers(rows)
        self.members = numbers(members)
        self.queries = queries
        self.stream_id = stream_id
        self.attributes = attributes

    def queries_of(self, sqc_ids: Array) -> Array:
        """The query of each clause, or -1 for a clause that is missing or removed: int64[k]. O(k log n)."""
        at = self.places(sqc_ids)
        return np.where(at < 0, -1, picked(self.members, at))

    @property
    def nbytes(self) -> int:
        """Bytes of the columns; the queries are charged with their block."""
        gone = 0 if self._gone is None else self._gone.nbytes
        return bytes_of(self.ids, self.slots, self.rows, self.members) + gone

    def columns(self) -> tuple[Sized, ...]:
        """The columns, each with a value for each clause."""
        return self.ids, self.slots, self.rows, self.members

    def make(self, at: int) -> ClauseRecord:
        """See RecordBlock."""
        return ClauseRecord(
            int(self.ids[at]),
            int(self.slots[at]),
            self.stream_id,
            self.attributes,
            (int(self.members[at]),),
            self.queries,
            int(self.rows[at]),
        )

    def taken(self, rows: Array | None) -> ClauseBlock:
        """See RecordBlock."""
        arrays = (self.ids, self.slots, self.rows, self.members)
        queries = self.queries
        if rows is not None:
            ids, slots, places, members = (pick(array, rows) for array in arrays)
            arrays = (ids, slots, range(len(rows)), members)
            queries = queries.take(np.array(places, np.int64))
        return ClauseBlock(*arrays, queries, self.stream_id, self.attributes)
