"""Operators that pass on rows unchanged: UNION ALL, DSTREAM of a query without state, and LEFT JOIN.

    PlainRows    each row enters at its start, and leaves after its end
    OuterJoin    the joined rows in this way, and the rows of the left without a partner

PlainRows keeps only rows that will leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.delta import FOREVER, Deltas, Operator, Spans, netted
from psoup.delta.buffers import BUFFERS
from psoup.delta.row_store import RowStore
from psoup.delta.spans import ENTERS, LEAVES, checked, merged
from psoup.delta.value_table import new_places, wastes
from psoup.invariants import ensure
from psoup.model import DataType
from psoup.values.columns import Array, concat_columns


class PlainRows:
    """The rows of one or more inputs, whose columns have the same types. A `psoup.delta.Operator`."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._store = RowStore(types)
        self._buffer = BUFFERS["calendar"]()
        self._until: int | None = None
        self.rows = 0
        """The number of rows that will leave."""

    @property
    def nbytes(self) -> int:
        """The bytes of the rows and of their ends."""
        return self._store.nbytes + self._buffer.nbytes

    def step(self, inputs: Sequence[Spans], until: int) -> Deltas:
        """The changes up to `until`; see `Operator`. O(n log n)."""
        spans = merged([checked(each, self._until, until) for each in inputs])
        self._until = until
        leaving = np.flatnonzero(spans.end != FOREVER)
        first = self._store.count
        self._store.add([column.take(leaving) for column in spans.columns], len(leaving))
        self._buffer.put(np.arange(first, first + len(leaving), dtype=np.int32), spans.end[leaving])
        gone = self._buffer.due(until)
        self.rows += len(leaving) - len(gone.rows)
        left = self._store.take(gone.rows)
        columns = [concat_columns(pair) for pair in zip(spans.columns, left, strict=True)]
        signs = np.append(np.full(len(spans.start), ENTERS), np.full(len(gone.rows), LEAVES))
        deltas = netted(columns, signs, np.append(spans.start, gone.ends + 1))
        self._evict()
        return deltas

    def _evict(self) -> None:
        """Remove the rows that left, if they are many."""
        count = self._store.count
        if wastes(count, self.rows):
            staying: Array = np.sort(self._buffer.entries().rows).astype(np.int64)
            self._store.keep(staying)
            self._buffer.renumber(new_places(staying, count))

    def check(self) -> None:
        """Raise Corrupt if an invariant does not hold. O(rows)."""
        entries = self._buffer.entries()
        ensure(len(entries.rows) == self.rows, self, "the buffer has each row that will leave", rows=self.rows)
        until = -(2**63) if self._until is None else self._until
        ensure(bool((entries.ends >= until).all()), self, "no row stays after its end")


class OuterJoin:
    """A LEFT JOIN: the rows of the left without a partner, and the joined rows. A `psoup.delta.Operator`.

    Input 0: the rows of the left, with NULL for each column of the right. Input 1: their partners. Input 2: the joined
    rows. `alone`: the anti-join of inputs 0 and 1. `types`: the types of the columns of the result.
    """

    def __init__(self, alone: Operator, types: Sequence[DataType]) -> None:
        self._alone, self._joined = alone, PlainRows(types)

    @property
    def rows(self) -> int:
        """The number of rows in the states of both parts."""
        return self._joined.rows + self._alone.rows

    @property
    def nbytes(self) -> int:
        """The bytes of both parts."""
        return self._joined.nbytes + self._alone.nbytes

    def step(self, inputs: Sequence[Spans], until: int) -> Deltas:
        """The changes up to `until`; see `Operator`. O(n log n)."""
        left, partners, joined = inputs
        alone, together = self._alone.step([left, partners], until), self._joined.step([joined], until)
        columns = [concat_columns(pair) for pair in zip(alone.columns, together.columns, strict=True)]
        signs, instants = [np.append(*pair) for pair in zip(alone[1:], together[1:], strict=True)]
        return netted(columns, signs, instants)

    def check(self) -> None:
        """Raise Corrupt if an invariant of a part does not hold. O(state)."""
        self._joined.check()
        self._alone.check()
