"""The rows of a join. A row is a position in each of its sides until its columns are gathered from the sides.

    node, matches ─ a way of joining ─> pieces: one array of positions for each source, in FROM order
                                      └─ SELECT reads (source, column): gathered from its side, one scope for all

A sort holds the positions of the rows as a matrix, one row each. Rows that were shown leave nothing in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from psoup.execution.join.join_case import JoinCase, Pieces, join_case
from psoup.execution.join.located_side import count_of
from psoup.execution.join.sides import MatchedSide
from psoup.execution.rows.select_list import shown
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import AttributeRef, Expr, columns_of, with_columns
from psoup.plan.nodes import Join
from psoup.plan.sides import MOST_SOURCES
from psoup.plan.way import Ways
from psoup.values.columns import Array, Column

Piece = list[Array]
"""Some rows of a join: for each side the positions of the rows in it."""


def has_no_rest(node: Join) -> bool:
    """Whether all conditions of a join are equalities and bands."""
    return not node.rest


def count_rows(case: JoinCase) -> int:
    """Find all rows and count them. Raises as `JoinCase.pieces`."""
    reading, total = case.reading, 0
    found = case.pieces()
    try:
        for piece in found:
            reading.budget.check()
            total += len(piece[0])
    finally:
        reading.join_errors = found.errors
        found.close()
    return total


@dataclass(frozen=True, slots=True)
class JoinWays:
    """The ways of finding the pairs of a join, and the ways of counting them."""

    pairs: Ways[JoinCase, Pieces]
    count: Ways[JoinCase, int]


@dataclass(slots=True)
class JoinRows:
    """The rows of a join. `limit`: the most rows that remain after the first `skip`."""

    reading: Reading
    node: Join
    ways: JoinWays
    limit: int | None = None
    skip: int = 0
    sides: Sequence[MatchedSide] = ()
    """The sides to which positions refer. Empty before `pieces` has started."""
    _cases: list[JoinCase] = field(default_factory=list)
    """The evaluations whose sides are open."""

    @property
    def count(self) -> int | None:
        """None, as the number of rows is not known before the join has run."""
        return None

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1)."""
        self.limit = rows
        self.skip = skip

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most `most` rows at a time."""
        flat = _Flat(outputs)
        try:
            for piece in self.pieces(most):
                yield from self._computed(flat, piece)
        finally:
            self.close()

    def keyed(self, keys: list[Expr], most: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """Yield rows as positions, int32[n, sources], at most `most` at once, and the values of `keys` in parts."""
        flat = _Flat(keys)
        for piece in self.pieces(most):
            yield np.stack(piece, axis=1).astype(np.int32, copy=False), self._computed(flat, piece)

    def counts(self, most: int) -> Iterator[int]:
        """Yield counts that sum to the number of rows. `most`: the most rows of a piece, if LIMIT cuts the rows."""
        if self.limit is not None or self.skip or not self._has_rows:
            for piece in self.pieces(most):
                yield len(piece[0])
        else:
            yield self.ways.count.take(self.node, self._case())

    @property
    def _has_rows(self) -> bool:
        """Whether each side has a row, and LIMIT is not 0."""
        return self.limit != 0 and all(map(count_of, self.reading.matches))

    def _case(self) -> JoinCase:
        case = join_case(self.node, self.reading, self.ways.pairs, few=self.limit is not None)
        self._cases.append(case)
        return case

    def arranged(self, outputs: list[Expr], places: Array, most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows `places` (int32[n, sources]), in their order, at most `most` at a time."""
        flat = _Flat(outputs)
        for start in range(0, len(places), most):
            yield from self._computed(flat, list(places[start : start + most].T))

    def close(self) -> None:
        """Close the sides and return their bytes. After that no row can be shown."""
        for side in self.sides:
            side.close()
        for case in self._cases:
            case.close()
        self.sides = ()
        self._cases = []

    def pieces(self, most: int) -> Iterator[Piece]:
        """Find the rows that LIMIT and `skip` leave, at most `most` in each piece. The caller then calls `close`."""
        reading, skip, left = self.reading, self.skip, self.limit
        if not self._has_rows:
            return
        found = self._case().pieces()
        self.sides = found.sides
        try:
            for piece in found:
                reading.join_errors = found.errors
                start, stop = min(skip, len(piece[0])), len(piece[0])
                skip -= start
                if left is not None:
                    stop = min(stop, start + left)
                    left -= stop - start
                for first in range(start, stop, most):
                    reading.budget.check()
                    yield [positions[first : min(first + most, stop)] for positions in piece]
                if left == 0:
                    return
        finally:
            reading.join_errors = found.errors
            found.close()

    def _computed(self, flat: _Flat, piece: Piece) -> Iterator[list[Column]]:
        """Compute expressions over the rows of a piece. Yields several parts if texts are too large for one."""
        reading, rows = self.reading, len(piece[0])
        whole: list[Column] | None = None
        with suppress(TooMuchText):
            gathered = partial(flat.gathered, self.sides, piece)
            whole = shown(flat.exprs, gathered(), rows, reading.now, reading.texts, reading.budget)
        if whole is not None:
            yield whole
            return
        middle = rows // 2
        for half in (slice(0, middle), slice(middle, rows)):  # not in the handler: its exception keeps values alive
            yield from self._computed(flat, [positions[half] for positions in piece])


class _Flat:
    """Expressions over several sources, rewritten to read one scope that has the columns of all sources."""

    def __init__(self, exprs: Sequence[Expr]) -> None:
        read = dict.fromkeys(column for expr in exprs for column in columns_of(expr))
        places = {column: AttributeRef(column.type, at, column.name) for at, column in enumerate(read)}
        self.exprs = [with_columns(expr, places) for expr in exprs]
        self._places = {(column.source, column.index): at.index for column, at in places.items()}
        self._wanted = [[column for column in read if column.source == place] for place in range(MOST_SOURCES)]

    def gathered(self, sides: Sequence[MatchedSide], piece: Piece) -> dict[int, Column]:
        """Gather the columns that the expressions read, by their places in the scope. Raises TooMuchText."""
        columns = dict[int, Column]()
        for place, (side, positions) in enumerate(zip(sides, piece, strict=True)):
            if self._wanted[place]:
                found = side.gather(self._wanted[place], positions)
                columns |= {self._places[place, index]: column for index, column in found.items()}
        return columns
