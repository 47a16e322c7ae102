"""Published queries and clauses: single records, and blocks of many as columns.

    QueryRecord, ClauseRecord      a record with all data of the query or clause
    QueryBlock                     first_id …    sqc_ids  int64[n]    the queries as their parameters (BoundBlock)
    ClauseBlock                    ids  slots    rows     int32[n]    each clause of one query, which has its factors

A block makes a record when it is read. A `PagedMap` holds both blocks and single records. When a further query shares a
clause of a block, the clause leaves its block and becomes a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np

from psoup.events.tags import NO_TAG, Tag, TagColumns
from psoup.invariants import ensure
from psoup.plan.factors import Factor
from psoup.plan.sides import side_id
from psoup.plan.standing_query import StandingQuery
from psoup.published.members import Members
from psoup.sql.templates.block import ManyQueries
from psoup.values.columns import Array

V = TypeVar("V")

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
        """The query that was registered."""
        return self.queries[self.row]

    @property
    def side_ids(self) -> list[int]:
        """The IDs of the sides of a join."""
        return [] if self.sqc_id else [side_id(self.query_id, place) for place in range(len(self.query.sides))]


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


Numbers = Array | range
"""Integers of a block: an array, or a range if they are consecutive. A range is the usual case, and takes no memory."""


def numbers(values: Numbers) -> Numbers:
    """The same integers, as a range if they are consecutive. O(n)."""
    if isinstance(values, np.ndarray) and len(values) and bool((np.diff(values) == 1).all()):
        return range(int(values[0]), int(values[-1]) + 1)
    return values


def _pick(values: Numbers, rows: Array) -> Numbers:
    """The integers at some positions (int64[k])."""
    return numbers(values[rows] if isinstance(values, np.ndarray) else rows + values.start)


def picked(values: Numbers, rows: Array) -> Array:
    """The integers at some positions (int64[k]), as an array."""
    return values[rows] if isinstance(values, np.ndarray) else rows + values.start


def _bytes(*parts: Numbers) -> int:
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


class RecordBlock(Generic[V]):
    """Records with ascending IDs (n > 0), some of which may be removed. Only the code that made a block may
    change it.
    """

    __slots__ = ("_gone", "count", "ids", "live")

    def __init__(self, ids: Numbers) -> None:
        self.ids = numbers(ids)
        self.count = self.live = len(ids)
        self._gone: Array | None = None

    def __len__(self) -> int:
        return self.live

    @property
    def first(self) -> int:
        """The least ID that the block ever had."""
        return int(self.ids[0])

    @property
    def last(self) -> int:
        """The greatest ID that the block ever had."""
        return int(self.ids[-1])

    def get(self, key: int) -> V | None:
        """The record of an ID, or None."""
        at = self.find(key)
        return None if at < 0 else self.make(at)

    def items(self, start: int) -> Iterator[tuple[int, V]]:
        """Yield (ID, record) for all IDs >= start, ascending."""
        for at in range(self._from(start), self.count):
            if self._gone is None or not self._gone[at]:
                yield int(self.ids[at]), self.make(at)

    def find(self, key: int) -> int:
        """The position of an ID that is not removed, or -1. O(log n)."""
        at = self._from(key)
        stands = at < self.count and self.ids[at] == key and (self._gone is None or not self._gone[at])
        return at if stands else -1

    def places(self, keys: Array) -> Array:
        """The position of each ID (int64[k]), or -1 for an ID that is missing or removed. O(k log n)."""
        ids = self.ids
        at: Array = keys - ids.start if isinstance(ids, range) else np.searchsorted(ids, keys)
        missing = (at < 0) | (at >= self.count)
        at[missing] = 0
        missing |= keys != (at + ids.start if isinstance(ids, range) else ids[at])
        if self._gone is not None:
            missing |= self._gone[at]
        at[missing] = -1
        return at

    def standing(self) -> Array:
        """The positions of remaining IDs, int64, ascending. O(n)."""
        return np.arange(self.count) if self._gone is None else np.flatnonzero(~self._gone)

    def _from(self, key: int) -> int:
        """The position of the first ID of at least `key`."""
        if isinstance(self.ids, range):
            return min(max(key - self.ids.start, 0), self.count)
        return int(np.searchsorted(self.ids, key))

    def without(self, key: int, owned: bool) -> Self | None:
        """The block without one ID, which must exist; None if it was the last ID. Returns itself if `owned`, else a
        copy.

        A copy costs O(n) bytes. When half of the records are removed, the rest is compacted, which is amortised.
        """
        at = self.find(key)
        ensure(at >= 0, self, "a record is removed that is not there", key=key)
        return self._without(at, 1, owned)

    def without_all(self, places: Array, owned: bool) -> Self | None:
        """`without` for the IDs at some positions (int64[k], distinct), which must all exist."""
        return self._without(places, len(places), owned)

    def _without(self, at: int | Array, count: int, owned: bool) -> Self | None:
        if self.live == count:
            return None
        changed = self if owned else self.taken(None)
        if not owned:
            changed._gone, changed.live = None if self._gone is None else self._gone.copy(), self.live
        if changed._gone is None:
            changed._gone = np.zeros(self.count, np.bool_)
        changed._gone[at] = True
        changed.live -= count
        return changed if 2 * changed.live > changed.count else changed.taken(np.flatnonzero(~changed._gone))

    def check(self) -> None:
        """Check that IDs ascend, and that the count of remaining IDs is right."""
        left = self.count if self._gone is None else self.count - int(np.count_nonzero(self._gone))
        ensure(self.live == left > 0, self, "records are miscounted", counted=self.live, left=left)
        ascend = isinstance(self.ids, range) or bool((np.diff(self.ids) > 0).all())
        ensure(ascend and len(self.ids) == self.count, self, "IDs do not ascend, or are too many", ids=self.ids)
        lengths = {len(column) for column in self.columns()}
        ensure(lengths == {self.count}, self, "a column has another length", lengths=lengths, count=self.count)

    def columns(self) -> tuple[Sized, ...]:
        """The columns, each with a value for each record."""
        raise NotImplementedError

    def make(self, at: int) -> V:
        """The record at a position."""
        raise NotImplementedError

    def taken(self, rows: Array | None) -> Self:
        """A block with copies of the records at `rows`, int64[k]. Without `rows`: a block of all records that shares
        the arrays.
        """
        raise NotImplementedError


class QueryBlock(RecordBlock[QueryRecord]):
    """Queries that one event registered with a template, or the sides of such queries at one place in FROM.

    `sqc_ids`: the clause of each query, integers[n]. `next_id`: as in QueryRecord.
    """

    __slots__ = ("expires", "next_id", "queries", "registered", "sequence", "sqc_ids", "stream_id", "tags", "tenant")

    def __init__(
        self,
        ids: Numbers,
        sqc_ids: Numbers,
        queries: ManyQueries,
        tenant: str,
        stream_id: int,
        registered: int,
        sequence: int,
        tags: TagColumns | None = None,
        expires: int = 0,
        next_id: int = 0,
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

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        gone = 0 if self._gone is None else self._gone.nbytes
        tags = 0 if self.tags is None else self.tags.nbytes
        return _bytes(self.ids, self.sqc_ids) + self.queries.nbytes + gone + tags

    def sides_at(self, places: Array) -> list[Array]:
        """The IDs of the sides of the joins at some positions (int64[k]): an array for each place in FROM."""
        ids = picked(self.ids, places)
        return [ids + side_id(0, place) for place in range(len(self.queries.sides))]

    def columns(self) -> tuple[Sized, ...]:
        """The columns, each with a value for each query."""
        return self.ids, self.sqc_ids, self.queries, *(() if self.tags is None else (self.tags,))

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
        )

    def taken(self, rows: Array | None) -> QueryBlock:
        """See RecordBlock."""
        whole, tags = (self.ids, self.sqc_ids, self.queries), self.tags
        if rows is not None:
            whole = (_pick(self.ids, rows), _pick(self.sqc_ids, rows), self.queries.take(rows))
            tags = None if tags is None else tags.take(rows)
        ids, sqc_ids, queries = whole
        common = (self.tenant, self.stream_id, self.registered, self.sequence)
        return QueryBlock(ids, sqc_ids, queries, *common, tags, self.expires, self.next_id)


class ClauseBlock(RecordBlock[ClauseRecord]):
    """Clauses of a single query each: the query with ID `members[i]` is `queries[rows[i]]`."""

    __slots__ = ("attributes", "members", "queries", "rows", "slots", "stream_id")

    def __init__(
        self,
        ids: Numbers,
        slots: Numbers,
        rows: Numbers,
        members: Numbers,
        queries: ManyQueries,
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
        return _bytes(self.ids, self.slots, self.rows, self.members) + gone

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
            ids, slots, places, members = (_pick(array, rows) for array in arrays)
            arrays = (ids, slots, range(len(rows)), members)
            queries = queries.take(np.array(places, np.int64))
        return ClauseBlock(*arrays, queries, self.stream_id, self.attributes)
