"""UNION, INTERSECT and EXCEPT of two relations, piece by piece, in the order of the left and then of the right.

    left   a b a c      UNION         a b c d      UNION ALL      a b a c  b d b
    right  b d b        INTERSECT     b            INTERSECT ALL  b
                        EXCEPT        a c          EXCEPT ALL     a a c

UNION ALL keeps nothing. The others keep the numbers of different rows (`row_numbers`), and EXCEPT ALL also the rows of
the left. INTERSECT and EXCEPT read the right first, so that the rows of the left can go on at once.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import numpy as np

from psoup.execution.relations.row_numbers import RowNumbers, first_rows, one_row_each, rows_within
from psoup.execution.relations.table_rows import Pieces, over_rows
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

    def pieces(self, most: int) -> Generator[list[Column], None, None]:
        """Yield the rows, at most `most` at a time. Raises ResourceExhausted if it must hold too many."""
        operator, keeps_all = self._node.operator, self._node.all
        if operator is SetOperator.UNION and keeps_all:
            yield from self._left(most)
            yield from self._right(most)
            return
        types = [output.type for output in self._node.outputs]
        reading = self._reading
        numbers = RowNumbers(types, reading.budget, reading.sort_rows, set_name(self._node))
        try:
            if operator is SetOperator.UNION:
                yield from self._union(numbers, most)
            elif operator is SetOperator.INTERSECT:
                yield from self._intersection(numbers, most)
            elif keeps_all:
                yield from self._difference_of_counts(numbers, most)
            else:
                yield from self._difference(numbers, most)
        finally:
            numbers.close()

    def _union(self, numbers: RowNumbers, most: int) -> Generator[list[Column], None, None]:
        """Yield the first of equal rows of both inputs."""
        for side in (self._left, self._right):
            yield from self._new_rows(side, numbers, most)

    def _difference(self, numbers: RowNumbers, most: int) -> Generator[list[Column], None, None]:
        """Yield the first of equal rows of the left that the right has not."""
        with closing(self._right(most)) as right:
            for columns in right:
                numbers.of(columns)
        yield from self._new_rows(self._left, numbers, most)

    def _new_rows(self, side: Pieces, numbers: RowNumbers, most: int) -> Generator[list[Column], None, None]:
        """Yield the rows of one input that have no number yet, the first of equal ones."""
        with closing(side(most)) as pieces:
            for columns in pieces:
                known = numbers.count
                yield from _taken(columns, first_rows(numbers.of(columns), known))

    def _intersection(self, numbers: RowNumbers, most: int) -> Generator[list[Column], None, None]:
        """Yield the rows of the left that the right has: with ALL as often as both have them, else once."""
        quota = self._counts(numbers, most)
        if not len(quota):
            return
        with closing(self._left(most)) as left:
            for columns in left:
                places = numbers.of(columns)
                shared = np.flatnonzero(places < len(quota))
                if self._node.all:
                    rows = rows_within(places[shared], quota, self._reading.budget)
                else:
                    rows = one_row_each(places[shared], quota)
                yield from _taken(columns, shared[rows])

    def _difference_of_counts(self, numbers: RowNumbers, most: int) -> Generator[list[Column], None, None]:
        """Yield each row of the left as often as the left has it more often than the right, the first of them."""
        counts, budget = self._counts(numbers, most), self._reading.budget
        pieces, rows = list[tuple[list[Column], Array]](), 0
        with closing(self._left(most)) as left:
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

    def _counts(self, numbers: RowNumbers, most: int) -> Array:
        """Number the rows of the right. Returns how often each number occurs, int64."""
        counts: Array = np.zeros(0, np.int64)
        with closing(self._right(most)) as right:
            for columns in right:
                places = numbers.of(columns)
                found = np.bincount(places, minlength=numbers.count)
                numbers.hold(found.nbytes - counts.nbytes)
                found[: len(counts)] += counts
                counts = found
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
