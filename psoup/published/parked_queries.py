"""Parked queries: inactive queries whose texts, values and bound forms are not in memory. The log has them.

    QueryBlock    ids  7 8 9 10      queries  ParkedQueries   parked  7 8 10   ──   read when asked   ──> the log
                                                              bound   9        the values of 9, in columns

A `ParkedQueries` stands where the queries of a record or a block stand otherwise: it is a sequence of queries, too. Any
reader may ask it for a query. `RecalledQueries` remembers the queries that were read last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, overload

import numpy as np

from psoup.invariants import corrupt, ensure
from psoup.plan.sides import place_of, query_of
from psoup.plan.standing_query import ClauseColumns, StandingQuery
from psoup.published.record_block import Numbers, bytes_of, numbers, pick, picked
from psoup.sql.templates.block import BlockTemplate, BoundBlock, ManyQueries
from psoup.values.columns import Array

REMEMBERED = 4_096
"""After so many queries, `RecalledQueries` calls `forget` by itself. So it holds at most twice as many."""
_NO_SIDE = -1


class Registrations(Protocol):
    """The log, as a place where registered queries can be read again."""

    def read_queries(self, sequence: int, query_ids: Array) -> Sequence[StandingQuery]:
        """The queries with some IDs (int64[k], ascending) that the event `sequence` registered; a block stays a block.

        They are bound as they were at their registration. Any thread. Raises NotFound, reason UNKNOWN_QUERY, if the log
        has forgotten the event, because its queries are gone. Raises Internal if the log is damaged.
        """
        ...


class NoLog:
    """The place of an engine without a log. Admission refuses to park queries there."""

    def read_queries(self, sequence: int, query_ids: Array) -> Sequence[StandingQuery]:
        """Raise Corrupt: there are no parked queries."""
        raise corrupt(self, "there is no log to read parked queries from", sequence=sequence, queries=query_ids)


class RecalledQueries:
    """Reads parked queries, and remembers the last ones: until `forget` is called twice after the last use. Any thread.

    Two threads may read the same query at once. Both get equal queries, and one of them is remembered.
    """

    def __init__(self, log: Registrations) -> None:
        self._log = log
        self._recent: dict[int, StandingQuery] = {}
        """Queries that were asked since the last `forget`, by their IDs, which are never used again."""
        self._older: dict[int, StandingQuery] = {}
        """Queries that were asked before."""

    def __len__(self) -> int:
        return len({*self._recent, *self._older})

    def query(self, sequence: int, query_id: int) -> StandingQuery:
        """The query with an ID. Raises the errors of `Registrations`."""
        query = self._recent.get(query_id) or self._older.get(query_id)
        if query is None:
            query = self._log.read_queries(sequence, np.array([query_id], np.int64))[0]
        if len(self._recent) >= REMEMBERED:
            self.forget()
        self._recent[query_id] = query
        return query

    def remember(self, sequence: int, query_ids: Array) -> None:
        """Read several queries of one registration (int64[k], ascending) at once, unless they are remembered.

        Raises the errors of `Registrations`.
        """
        near = np.array([i in self._recent or i in self._older for i in query_ids.tolist()], np.bool_)
        missing = query_ids[~near]
        if len(missing):
            queries = self._log.read_queries(sequence, missing)
            self._recent.update(zip(missing.tolist(), queries, strict=True))

    def queries(self, sequence: int, query_ids: Array) -> Sequence[StandingQuery]:
        """Several queries of one registration (int64[k], ascending), which are not remembered. Raises the same."""
        return self._log.read_queries(sequence, query_ids)

    def forget(self) -> None:
        """Forget the queries that were not asked since the last call. O(1)."""
        self._recent, self._older = {}, self._recent


class ParkedQueries(Sequence[StandingQuery]):
    """The queries of one registration, or their sides at one place in FROM. Each is either parked or bound.

    `ids`: the ID of each query, ascending. `width`: the number of sides of each. `place`: the place of the sides, or
    -1. `bound`, `at`: the bound queries, and the place of each query among them, int32[n]: -1 for parked ones.
    `source`: None in an event. Then only the numbers of queries and of sides can be asked.
    """

    __slots__ = ("_at", "_bound", "_ids", "_place", "_source", "sequence", "width")

    def __init__(
        self,
        source: RecalledQueries | None,
        sequence: int,
        ids: Numbers,
        width: int = 0,
        place: int = _NO_SIDE,
        bound: ManyQueries | None = None,
        at: Array | None = None,
    ) -> None:
        self._source = source
        self.sequence = sequence
        self._ids = numbers(ids)
        self.width = width
        self._place = place
        self._bound = bound
        self._at = at

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, position: int) -> StandingQuery: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[StandingQuery]: ...
    def __getitem__(self, position: int | slice) -> StandingQuery | Sequence[StandingQuery]:
        """The query at a position, in about a millisecond if it is parked. Raises the errors of `Registrations`."""
        if isinstance(position, slice):
            return self.take(np.arange(*position.indices(len(self))))
        if not 0 <= position < len(self):
            raise IndexError(position)
        if self._at is not None and self._bound is not None and self._at[position] >= 0:
            return self._bound[int(self._at[position])]
        query = self._reads.query(self.sequence, int(self._ids[position]))
        return query if self._place == _NO_SIDE else query.sides[self._place]

    def remember(self, rows: Array) -> None:
        """Read the parked queries at positions `rows` (int64[k], ascending) at once, for the next `query` of each.

        Raises the errors of `Registrations`.
        """
        parked = rows if self._at is None else rows[self._at[rows] < 0]
        self._reads.remember(self.sequence, picked(self._ids, parked))

    @property
    def _reads(self) -> RecalledQueries:
        ensure(self._source is not None, self, "an event is asked for parked queries", sequence=self.sequence)
        assert self._source is not None
        return self._source

    def take(self, rows: Array) -> ParkedQueries:
        """The queries at positions `rows` (int64[k]), in that order."""
        common = self._source, self.sequence, pick(self._ids, rows), self.width, self._place
        if self._at is None or self._bound is None or not (self._at[rows] >= 0).any():
            return ParkedQueries(*common)
        at = self._at[rows]
        return ParkedQueries(*common, *_renumbered(self._bound, at))

    @property
    def sides(self) -> tuple[ParkedQueries, ...]:
        """The sides of all queries, in the order of FROM. () for queries over one stream."""
        bound = (None,) * self.width if self._bound is None else self._bound.sides
        return tuple(
            ParkedQueries(self._source, self.sequence, self._ids, 0, place, bound[place], self._at)
            for place in range(self.width)
        )

    @property
    def all_parked(self) -> bool:
        """Whether no query is bound. O(1)."""
        return self._bound is None

    @property
    def template(self) -> BlockTemplate:
        """The template of all queries. Reads the log if all are parked, and raises the errors of `Registrations`."""
        some = self.read(np.zeros(1, np.int64)) if self._bound is None else self._bound
        assert isinstance(some, BoundBlock)
        return some.template

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        bound = 0 if self._bound is None else self._bound.nbytes
        return bytes_of(self._ids) + bound + (0 if self._at is None else self._at.nbytes)

    def clauses(self) -> ClauseColumns:
        """The FROM-WHERE parts of all queries. O(n), and reads the log."""
        return self.read(np.arange(len(self))).clauses()

    def parked(self) -> ParkedQueries:
        """The same queries, without those that are bound."""
        return ParkedQueries(self._source, self.sequence, self._ids, self.width, self._place)

    def bound(self, rows: Array) -> tuple[ManyQueries, Array]:
        """The bound queries, and the places among them of the queries at positions `rows` (int64[k]). None may be
        parked."""
        assert self._bound is not None and self._at is not None
        return self._bound, self._at[rows].astype(np.int64)

    def read(self, rows: Array) -> ManyQueries:
        """The queries of a block at positions `rows` (int64[k], ascending), as a block. O(bytes of the registration).

        Raises the errors of `Registrations`.
        """
        if self._at is not None and self._bound is not None and bool((self._at[rows] >= 0).all()):
            return self._bound.take(self._at[rows].astype(np.int64))
        block = self._reads.queries(self.sequence, picked(self._ids, rows))
        ensure(isinstance(block, BoundBlock), self, "a block was registered by single texts", sequence=self.sequence)
        assert isinstance(block, BoundBlock)
        return block if self._place == _NO_SIDE else block.sides[self._place]


def _renumbered(bound: ManyQueries, at: Array) -> tuple[ManyQueries, Array]:
    """Some bound queries, and the places of the queries among them. `at`: their former places, -1 for parked ones."""
    rows = np.flatnonzero(at >= 0)
    places: Array = np.full(len(at), -1, np.int32)
    places[rows] = np.arange(len(rows))
    return bound.take(at[rows].astype(np.int64)), places


def parked_alone(source: RecalledQueries, sequence: int, query_id: int, width: int) -> ParkedQueries:
    """A parked query that is in no block, or a side of one. `query_id`: its ID. `width`: the number of its sides."""
    alone = query_of(query_id)
    return ParkedQueries(source, sequence, range(alone, alone + 1), width, place_of(query_id))


def with_parked(
    queries: ManyQueries | ParkedQueries, parked: Array, source: RecalledQueries, sequence: int, ids: Numbers
) -> ManyQueries | ParkedQueries:
    """The queries of a block, once some are `parked` (bool[n]) and all other ones are bound.

    `sequence`: the event that registered them. `ids`: their IDs, or the IDs of sides. O(n), and reads the log if a
    parked query is to be bound: raises the errors of `Registrations`.
    """
    rest = np.flatnonzero(~parked)
    if len(rest) == len(parked):
        return queries.read(rest) if isinstance(queries, ParkedQueries) else queries
    first = int(ids[0])
    whole = numbers(picked(ids, np.arange(len(ids))) - (first - query_of(first)))
    width = queries.width if isinstance(queries, ParkedQueries) else len(queries.sides)
    if not len(rest):
        return ParkedQueries(source, sequence, whole, width, place_of(first))
    at: Array = np.full(len(parked), -1, np.int32)
    at[rest] = np.arange(len(rest))
    bound = queries.read(rest) if isinstance(queries, ParkedQueries) else queries.take(rest)
    return ParkedQueries(source, sequence, whole, width, place_of(first), bound, at)


def width_of(queries: Sequence[StandingQuery], row: int) -> int:
    """The number of sides of the query in a `row` of some queries. Does not read the log."""
    return queries.width if isinstance(queries, ParkedQueries) else len(queries[row].sides)


def bound_rows(queries: ManyQueries | ParkedQueries, rows: Array) -> tuple[ManyQueries, Array]:
    """Bound queries that include the queries at positions `rows` (int64[k]), and their places among them."""
    return queries.bound(rows) if isinstance(queries, ParkedQueries) else (queries, rows)
