"""Blocks: many queries of one template, stored as columns of their parameters, not as objects.

    template  SELECT * FROM trades WHERE sym = ? AND qty > ?
    columns   string ["IBM", "SUN", …]   int64 [7, 12, …]          16 bytes for a query here, instead of a thousand

    block[1]  ->  the query of `… WHERE sym = 'SUN' AND qty > 12`

A block is a sequence of queries, as a list is. It creates a `StandingQuery` at the first access. The values have been
checked, so a block refuses nothing. A block of joins has a block for each side, which shares its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, overload

import pyarrow as pa

from psoup.invariants import ensure
from psoup.plan.nodes import Node, Source
from psoup.plan.standing_query import ClauseColumns, Parameter, StandingQuery
from psoup.sql.templates.values import Columns, rows_of_columns
from psoup.values.columns import Array

_MADE = 1_024
"""The most `StandingQuery` objects that a block keeps after their first access, for frequent readers."""


class BlockTemplate(Protocol):
    """The methods of a `PreparedStatement` that a block and its readers call."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, which are the same for all queries."""
        ...

    @property
    def plan(self) -> Node:
        """The plan, which is the same for all queries."""
        ...

    def bind(self, values: Sequence[Parameter], /) -> StandingQuery:
        """The query with a value for each parameter."""
        ...

    def clauses(self, columns: Columns) -> ClauseColumns:
        """The FROM-WHERE parts of all queries of a block over one stream."""
        ...

    def sides(self, columns: Columns) -> tuple[ManyQueries, ...]:
        """The sides of the queries of a block, one item for each place in FROM. () if the queries are over one
        stream."""
        ...


class BoundBlock(Sequence[StandingQuery]):
    """Many queries of one template, as columns of their parameters. Any thread may use it.

    It never changes, except for the queries that it keeps after their first access.
    """

    __slots__ = ("_made", "columns", "template")

    def __init__(self, template: BlockTemplate, columns: Columns) -> None:
        self.template = template
        self.columns = columns
        self._made: dict[int, StandingQuery] = {}

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, position: int) -> StandingQuery: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[StandingQuery]: ...
    def __getitem__(self, position: int | slice) -> StandingQuery | Sequence[StandingQuery]:
        """The query at a position, in about 15 microseconds. A slice is a block that shares the columns."""
        if isinstance(position, slice):
            start, stop, step = position.indices(len(self))
            ensure(step == 1, self, "the queries of a block are asked for in another order", step=step)
            return BoundBlock(self.template, tuple(c.slice(start, max(stop - start, 0)) for c in self.columns))
        made = self._made.get(position)
        if made is None:
            made = self.template.bind(self.row(position))
            if len(self._made) >= _MADE:
                self._made.clear()
            self._made[position] = made
        return made

    def __iter__(self) -> Iterator[StandingQuery]:
        return map(self.template.bind, self.rows())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def row(self, position: int) -> tuple[Parameter, ...]:
        """The parameters of one query."""
        if not 0 <= position < len(self):
            raise IndexError(position)
        return tuple([column[position].as_py() for column in self.columns])

    def rows(self) -> list[tuple[Parameter, ...]]:
        """The parameters of all queries. O(n)."""
        return rows_of_columns(self.columns)

    def take(self, rows: Array) -> BoundBlock:
        """The queries at positions `rows` (int64[k]), in that order, copied."""
        places = pa.array(rows)
        return BoundBlock(self.template, tuple(column.take(places) for column in self.columns))

    def clauses(self) -> ClauseColumns:
        """The FROM-WHERE parts of all queries. O(n), without a Python loop."""
        return self.template.clauses(self.columns)

    @property
    def sides(self) -> tuple[BoundBlock | SameQueries, ...]:
        """The sides of all queries, in the order of FROM. () for queries over one stream."""
        return self.template.sides(self.columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return sum(column.nbytes for column in self.columns)

    def __reduce__(self) -> Any:
        raise TypeError("a block of queries is written as its template and its rows")


class SameQueries(Sequence[StandingQuery]):
    """A sequence of equal queries. In a block of joins, it is a side without parameters."""

    __slots__ = ("_count", "_query")

    def __init__(self, query: StandingQuery, count: int) -> None:
        self._query = query
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, position: int) -> StandingQuery: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[StandingQuery]: ...
    def __getitem__(self, position: int | slice) -> StandingQuery | Sequence[StandingQuery]:
        """The query, whatever the position. A slice is a sequence with as many repetitions as the slice is long."""
        if isinstance(position, slice):
            return SameQueries(self._query, len(range(*position.indices(self._count))))
        return self._query

    def take(self, rows: Array) -> SameQueries:
        """The query, repeated as often as `rows` (int64[k]) has entries."""
        return SameQueries(self._query, len(rows))

    def clauses(self) -> ClauseColumns:
        """The FROM-WHERE parts of all queries."""
        return ClauseColumns(self._count, (), self._query.factors)

    @property
    def sides(self) -> tuple[BoundBlock | SameQueries, ...]:
        """() because the query is over one stream."""
        return ()

    @property
    def nbytes(self) -> int:
        """The additional bytes for the repetitions, which are 0."""
        return 0


ManyQueries = BoundBlock | SameQueries
