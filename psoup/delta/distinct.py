"""DISTINCT, and UNION of several inputs: each value once, for as long as one of its rows is in the relation.

    rows       IBM 3 ───── 7                              the state    IBM 12
               IBM     5 ───────── 9
               IBM                   10 ── 12
    DISTINCT   IBM 3 ─────────────────── 12               one change at 3, and one at 13

The state has one entry for each value, with its latest end ("delta-star"; update patterns, section 5.3.1). A row that
begins at the instant after its value's end prolongs the entry: the value neither leaves nor enters. The buffer keeps
the end that a value had when it was put there. When this end is due, and the value has a later end by now, the value is
put there again. So ends are not put there in order, which a `fifo` buffer would need.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.delta.buffers import BUFFERS, BufferKind, Entries
from psoup.delta.spans import FOREVER, LEAVES, Deltas, Spans, checked, in_order, merged
from psoup.delta.value_table import ValueTable, new_places, wastes, with_room
from psoup.invariants import ensure
from psoup.kernels.delta import value_ends
from psoup.model import DataType
from psoup.values.columns import Array, plain

ABSENT = value_ends.ABSENT
"""The end of a value that is not in the relation."""


class Distinct:
    """The distinct values of one or more inputs, whose columns have the same types. See the module.

    `buffer`: the kind of buffer for the ends, `calendar` or `keyed`. The results are the same with both.
    """

    def __init__(self, types: Sequence[DataType], buffer: BufferKind = "calendar") -> None:
        self._values = ValueTable(types)
        self._ends: Array = np.full(0, ABSENT)
        """The latest end of each value."""
        self._buffer = BUFFERS[buffer]()
        self._until: int | None = None
        self.rows = 0
        """The number of values in the relation."""

    @property
    def nbytes(self) -> int:
        """The bytes of the values, their ends, and the buffer."""
        return self._values.nbytes + self._ends.nbytes + self._buffer.nbytes

    def step(self, inputs: Sequence[Spans], until: int) -> Deltas:
        """The changes up to `until`; see `Operator`. O(n) expected, and a sort of the result."""
        spans = merged([checked(spans, self._until, until) for spans in inputs])
        self._until = until
        numbers, signs, instants = self._arrivals(spans)
        gone = self._expired(until)
        numbers = np.concatenate([numbers, gone.rows])
        signs = np.concatenate([signs, np.full(len(gone.rows), LEAVES)])
        instants = np.concatenate([instants, gone.ends + 1])
        deltas = in_order(self._values.columns(numbers), signs, instants)
        self._evict()
        return deltas

    def _arrivals(self, spans: Spans) -> tuple[Array, Array, Array]:
        """Put new rows into the state. Returns the numbers of the changed values, the signs and the instants."""
        rows = len(spans.start)
        numbers = self._values.number(spans.columns, rows)
        self._ends = with_room(self._ends, self._values.count, ABSENT)
        changed, signs = np.empty(2 * rows, np.int32), np.empty(2 * rows, np.int8)
        instants, entered = np.empty(2 * rows, np.int64), np.empty(rows, np.int32)
        changes, entries = value_ends.prolong_values(
            numbers, plain(spans.start), plain(spans.end), self._ends, changed, signs, instants, entered
        )
        self.rows += entries
        entered = entered[:entries]
        self._buffer.put(entered, self._ends[entered])
        return changed[:changes], signs[:changes], instants[:changes]

    def _expired(self, until: int) -> Entries:
        """Remove the values that leave up to `until`. Values with a later end are put into the buffer again."""
        numbers = self._buffer.due(until).rows
        ends = self._ends[numbers]
        later = ends >= until
        if later.any():
            self._buffer.put(numbers[later], ends[later])
            numbers, ends = numbers[~later], ends[~later]
        self._ends[numbers] = ABSENT
        self.rows -= len(numbers)
        return Entries(numbers, ends)

    def _evict(self) -> None:
        """Remove the values that left, if they are many."""
        count = self._values.count
        if wastes(count, self.rows):
            stays = np.flatnonzero(self._ends != ABSENT)
            self._values.keep(stays)
            self._ends = self._ends[stays]
            self._buffer.renumber(new_places(stays, count))

    def check(self) -> None:
        """Raise Corrupt if an invariant does not hold. O(values)."""
        present = self._ends != ABSENT
        ensure(int(np.count_nonzero(present)) == self.rows, self, "each value in the relation has an end")
        until = -(2**63) if self._until is None else self._until
        ensure(bool((self._ends[present] >= until).all()), self, "no value stays after its end")
        queued = self._buffer.entries()
        ensure(len(np.unique(queued.rows)) == len(queued.rows), self, "the buffer has each value once")
        ensure(bool((queued.ends <= self._ends[queued.rows]).all()), self, "no value is queued after its end")
        waiting: Array = np.zeros(len(present), np.bool_)
        waiting[queued.rows] = True
        ensure(bool((waiting | ~present | (self._ends == FOREVER)).all()), self, "each value with an end is queued")
