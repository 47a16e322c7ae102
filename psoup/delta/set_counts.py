"""EXCEPT and INTERSECT, with and without ALL, by the numbers of equal rows of both inputs.

    left rows     IBM   3 ────────── 9
                  IBM      5 ── 7
    right row     IBM         6 ───────── 12
    EXCEPT ALL    IBM   3 ──── 7
                  IBM      5-5
    EXCEPT        IBM   3 ─ 5

The state has each row's value and end, and the number of rows of each value and input. NULL equals NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from psoup.delta.buffers import BufferKind
from psoup.delta.linked_rows import ABSENT, LinkedRows
from psoup.delta.positions import Positions
from psoup.delta.spans import Deltas, Spans, checked, in_order
from psoup.delta.value_table import ValueTable, new_places, wastes, with_room
from psoup.invariants import ensure
from psoup.model import DataType
from psoup.values.columns import Array

SetKind = Literal["except", "except all", "intersect", "intersect all"]

_RESULTS: dict[SetKind, Callable[[Array, Array], Array]] = {
    "except": lambda left, right: ((left > 0) & (right == 0)).astype(np.int64),
    "except all": lambda left, right: np.maximum(left - right, 0),
    "intersect": lambda left, right: ((left > 0) & (right > 0)).astype(np.int64),
    "intersect all": np.minimum,
}
"""The number of rows of the result by the numbers of rows of both inputs."""
_SIDES = 2


class SetCounts:
    """EXCEPT or INTERSECT of two inputs, whose columns have the same types.

    `buffer`: the kind of buffer for rows; `fifo` if all rows end in the order of start.
    """

    def __init__(self, types: Sequence[DataType], kind: SetKind, *, buffer: BufferKind = "calendar") -> None:
        self._result = _RESULTS[kind]
        self._values = ValueTable(types)
        self._rows = LinkedRows(0, buffer)
        """The rows. The key of a row is twice the number of its value, plus 1 for the right input."""
        self._counts: Array = np.zeros((0, _SIDES), np.int64)
        """The number of rows of each value and input."""
        self._used = 0
        """The number of values with rows."""
        self._until: int | None = None

    @property
    def rows(self) -> int:
        """The number of rows of both inputs."""
        return self._rows.used

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return self._values.nbytes + self._rows.nbytes + self._counts.nbytes

    def step(self, inputs: Sequence[Spans], until: int) -> Deltas:
        """The changes up to `until`; see `Operator`. O(n log n)."""
        sides = [checked(spans, self._until, until) for spans in inputs]
        self._until = until
        keys, starts = self._add(sides)
        gone = self._rows.expire(until)
        keys = np.concatenate([keys, self._rows.keys[gone.rows]]).astype(np.int64)
        positions = Positions.of(keys // _SIDES, np.append(starts, gone.ends + 1), len(starts))
        counts = self._count(positions, keys % _SIDES)
        shown = self._result(*counts)
        change = np.where(positions.later, np.diff(shown, prepend=0), 0)
        rows = np.repeat(np.arange(len(change)), np.abs(change))
        signs = np.sign(change[rows]).astype(np.int8)
        deltas = in_order(self._values.columns(positions.group[rows]), signs, positions.instant[rows])
        self._evict()
        return deltas

    def _add(self, sides: Sequence[Spans]) -> tuple[Array, Array]:
        """Append the rows of both inputs, in order of start. Returns their keys and starts."""
        numbers = [self._values.number(spans.columns, len(spans.start)) for spans in sides]
        keys = np.concatenate([_SIDES * of_side + side for side, of_side in enumerate(numbers)])
        starts, ends = (np.concatenate([spans[at] for spans in sides]) for at in (1, 2))
        order = np.argsort(starts, kind="stable")
        self._rows.add(ends[order], keys[order], [])
        if self._values.count > len(self._counts):
            self._counts = with_room(self._counts, self._values.count)
        return keys[order], starts[order]

    def _count(self, positions: Positions, sides: Array) -> list[Array]:
        """Return the numbers of rows of both inputs at all positions, and add the changes to the counts."""
        entering = len(positions.enters)
        last, counts = positions.last, list[Array]()
        groups = positions.group[last]
        before = np.count_nonzero(self._counts[groups].any(1))
        for side in range(_SIDES):
            here, gone = sides[:entering] == side, sides[entering:] == side
            counts.append(positions.counts(self._counts[:, side], positions.enters[here], positions.leaves[gone]))
            self._counts[groups, side] = counts[side][last]
        self._used += int(np.count_nonzero(self._counts[groups].any(1))) - int(before)
        return counts

    def _evict(self) -> None:
        """Remove the rows that left and the values without rows, if they are many."""
        count = self._values.count
        if not self._rows.wastes() and not wastes(count, self._used):
            return
        self._rows.keep()
        stays = np.flatnonzero(self._counts.any(1))
        places = new_places(stays, count)
        self._rows.keys = _SIDES * places[self._rows.keys // _SIDES] + self._rows.keys % _SIDES
        self._values.keep(stays)
        self._counts = self._counts[stays]

    def check(self) -> None:
        """Raise Corrupt if an invariant does not hold. O(state)."""
        self._rows.check(-(2**63) if self._until is None else self._until)
        keys = self._rows.keys[self._rows.ends != ABSENT]
        counts = np.bincount(keys, minlength=self._counts.size).reshape(-1, _SIDES)
        ensure(bool((counts == self._counts).all()), self, "each value knows the numbers of its rows")
        ensure(int(np.count_nonzero(counts.any(1))) == self._used, self, "the values with rows are counted")
