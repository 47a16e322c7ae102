"""UNION, INTERSECT and EXCEPT of two relations, piece by piece. The rows of the left come first, in their order.

    left   a b a c      UNION         a b c d      UNION ALL      a b a c  b d b
    right  b d b        INTERSECT     b            INTERSECT ALL  b
                        EXCEPT        a c          EXCEPT ALL     a a c

UNION ALL keeps nothing. Any other operation keeps the numbers of different rows (`row_numbers`). EXCEPT ALL also keeps
the rows of the left. INTERSECT and EXCEPT read the right first, so that the rows of the left can go on at once.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import numpy as np

from psoup.execution.relations.kept_chunks import over_rows
from psoup.execution.relations.row_numbers import RowNumbers, first_rows, one_row_each, rows_within
from psoup.execution.relations.table_rows import Pieces
from psoup.execution.rows.source_rows import Reading
from psoup.plan.nodes import SetOperation, SetOperator
from psoup.values.columns import Array, Column

_NUMBER_BYTES = 4
"""Bytes of the number of a row."""


class SetRows:
    """The rows of a set operation. `left`, `right`: the rows of its inputs, whose columns have equal types."""

    def __init__(self, node: SetOperation, reading: Reading, left: Pieces, right: Pieces) -> None:
        self._node = node
        self._reading = reading
        self._left = left
        self._right = right

    def pieces(self, piece_rows: int) -> Generator[list[Column], None, None]:
        """Yield the rows, at most `piece_rows` at a time. Raises ResourceExhausted if it must hold too many."""
        operator, keeps_all = self._node.operator, self._node.all
        if operator is SetOperator.UNION and keeps_all:
            yield from self._left(piece_rows)
            yield from self._right(piece_rows)
            return
        types = [output.type for output in self._node.outputs]
        reading = self._reading
        numbers = RowNumbers(types, reading.budget, reading.sort_rows, set_name(self._node))
        try:
            if operator is SetOperator.UNION:
                yield from self._union(numbers, piece_rows)
            elif operator is SetOperator.INTERSECT:
                yield from self._intersection(numbers, piece_rows)
            elif keeps_all:
                yield from self._difference_of_counts(numbers, piece_rows)
            else:
                yield from self._difference(numbers, piece_rows)
        finally:
            numbers.close()

    def _union(self, numbers: RowNumbers, piece_rows: int) -> Generator[list[Column], None, None]:
        """Yield the first of equal rows of both inputs."""
        for side in (self._left, self._right):
            yield from self._new_rows(side, numbers, piece_rows)

    def _difference(self, numbers: RowNumbers, piece_rows: int) -> Generator[list[Column], None, None]:
        """Yield the first of equal rows of the left that the right has not."""
        with closing(self._right(piece_rows)) as right:
            for columns in right:
                numbers.of(columns)
        yield from self._new_rows(self._left, numbers, piece_rows)

    def _new_rows(self, side: Pieces, numbers: RowNumbers, piece_rows: int) -> Generator[list[Column], None, None]:
        """Yield the rows of one input that have no number yet, the first of equal ones."""
        with closing(side(piece_rows)) as pieces:
            for columns in pieces:
                count = numbers.count
                yield from _taken(columns, first_rows(numbers.of(columns), count))

    def _intersection(self, numbers: RowNumbers, piece_rows: int) -> Generator[list[Column], None, None]:
        """Yield the rows of the left that the right has: with ALL as often as both have them, else once."""
        quota = self._counts(numbers, piece_rows)
        if not len(quota):
            return
        with closing(self._left(piece_rows)) as left:
            for columns in left:
                places = numbers.of(columns)
                shared = np.flatnonzero(places < len(quota))
                if self._node.all:
                    rows = rows_within(places[shared], quota, self._reading.budget)
                else:
                    rows = one_row_each(places[shared], quota)
                yield from _taken(columns, shared[rows])

    def _difference_of_counts(self, numbers: RowNumbers, piece_rows: int) -> Generator[list[Column], None, None]:
        """Yield the first n of equal rows of the left. n: their count in the left, less their count in the right."""
        counts, budget = self._counts(numbers, piece_rows), self._reading.budget
        pieces, rows = list[tuple[list[Column], Array]](), 0
        with closing(self._left(piece_rows)) as left:
            for columns in left:
                places = numbers.of(columns).copy()
                numbers.hold(_NUMBER_BYTES * len(places) + sum([column.nbytes for column in columns]))
                pieces.append((columns, places))
                rows += len(places)
                if rows > self._reading.sort_rows:
                    raise over_rows(f"the left side of {set_name(self._node)}", rows, self._reading.sort_rows)
        numbers.hold(2 * counts.itemsize * numbers.count)
        quota: Array = np.zeros(numbers.count, np.int64)
        for _, places in pieces:
            quota += np.bincount(places, minlength=len(quota))
        quota[: len(counts)] -= counts
        for columns, places in pieces:
            yield from _taken(columns, rows_within(places, quota, budget))

    def _counts(self, numbers: RowNumbers, piece_rows: int) -> Array:
        """Number the rows of the right. Returns how often each number occurs, int64."""
        counts: Array = np.zeros(0, np.int64)
        with closing(self._right(piece_rows)) as right:
            for columns in right:
                places = numbers.of(columns)
                total = np.bincount(places, minlength=numbers.count)
                numbers.hold(total.nbytes - counts.nbytes)
                total[: len(counts)] += counts
                counts = total
        return counts


def set_name(node: SetOperation) -> str:
    """The name of a set operation in messages, such as UNION ALL."""
    return f"{node.operator.value}{' ALL' * node.all}"


def _taken(columns: list[Column], rows: Array) -> Generator[list[Column], None, None]:
    """Yield some rows of a piece, if there are any."""
    if len(rows) == len(columns[0]):
        yield columns
    elif len(rows):
        yield [column.take(rows) for column in columns]
