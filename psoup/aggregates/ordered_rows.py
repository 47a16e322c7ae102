"""States that list the rows of each group, for aggregates whose result depends on an order, and for STRING_AGG.

    groups 0 0 1 0      arguments b a c a      keys of ORDER BY 3 1 7 1      in the order of arrival, part after part
    sorted              0: a a b    1: c                                     rows with equal keys keep that order
    first(x ORDER BY y) a, c        string_agg(x, ',' ORDER BY y) 'a,a,b', 'c'

The state has a part for each argument and each key. It is sorted only when it is finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.aggregates.list_states import value_ranks
from psoup.aggregates.numbers import in_order
from psoup.aggregates.state import Folding, Rows, State, places_in, size_of
from psoup.errors import ResourceExhausted
from psoup.model import BIGINT, TEXT, DataType
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column, concat_columns, empty_column

MOST_TEXT = 1 << 20
"""The most bytes of the text that STRING_AGG makes of a group."""
_MOST_GROUPS = 2**31 - 1
_PARTS = 64
"""The number of parts from which the parts of a list are merged into one."""
_ROW_BYTES = 64
"""Bytes of a row, without its values, while the state is sorted."""


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The state that lists rows.

    `types`: the types of the arguments, then of the keys of ORDER BY. `order`: whether each key is descending, and
    whether its NULLs come first. `distinct`: whether equal arguments count once. `inner`: the aggregate that folds the
    sorted rows. None for STRING_AGG, which puts the texts together with `separator` between them.
    """

    types: tuple[DataType, ...]
    order: tuple[tuple[bool, bool], ...]
    distinct: bool = False
    inner: Folding | None = None
    separator: str = ""
    exact: ClassVar[bool] = True

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        return np.zeros(0, np.int32), *map(empty_column, self.types)

    def grow(self, state: State, groups: int) -> State:
        """Return the state as it is, as a group without rows takes no memory."""
        return state

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        groups = rows.groups
        columns = [Column(column.type, column.values, column.valid, column.data) for column in rows.args]
        if len(rows.mask):
            groups, columns = groups[rows.counted], [column.take(rows.counted) for column in columns]
        return self._joined((*state, groups.copy(), *columns))

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        groups, columns = self._rows(other)
        return self._joined((*into, places[groups].astype(np.int32), *columns))

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return self.combine(self.empty(len(order)), state, places_in(order))

    def count(self, state: State) -> int:
        """The number of rows of a state."""
        return sum([len(part) for part in state[:: 1 + len(self.types)]])

    def room_to_add(self, rows: Rows) -> int:
        """An upper bound of the bytes that `add` and a later `finish` allocate for the rows."""
        return 3 * sum([column.nbytes for column in rows.args]) + self._row_bytes * rows.count

    @property
    def _row_bytes(self) -> int:
        return _ROW_BYTES + len(self.separator.encode())

    def room_to_finish(self, state: State) -> int:
        """An upper bound of the bytes that `finish` allocates: sorted copies of the columns, and the texts."""
        return 2 * size_of(state) + self._row_bytes * self.count(state)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the aggregate of the sorted rows of each group. Raises ResourceExhausted for too long a text."""
        owners, columns = self._rows(state)
        args = columns[: len(columns) - len(self.order)]
        if self.distinct and len(owners):
            rows = _first_of_equals([Column(BIGINT, owners.astype(np.int64)), *args])
            owners, columns = owners[rows], [column.take(rows) for column in columns]
        rows = self._sorted(owners, columns[len(args) :])
        owners, args = owners[rows], [column.take(rows) for column in columns[: len(args)]]
        if self.inner is None:
            return _together(owners, args[0], self.separator, groups)
        sorted_rows = Rows(len(owners), args, codes=owners)
        return self.inner.finish(self.inner.add(self.inner.empty(groups), sorted_rows), measure, groups)

    def _joined(self, state: State) -> State:
        if len(state) < _PARTS * (1 + len(self.types)):
            return state
        groups, columns = self._rows(state)
        return groups, *columns

    def _rows(self, state: State) -> tuple[Array, list[Column]]:
        """All rows of a state as one part: the group of each row, int32, and the columns."""
        width = 1 + len(self.types)
        groups = [part for part in state[::width] if isinstance(part, np.ndarray)]
        parts = [[part for part in state[place::width] if isinstance(part, Column)] for place in range(1, width)]
        return np.concatenate(groups), list(map(concat_columns, parts))

    def _sorted(self, owners: Array, keys: list[Column]) -> Array:
        """The rows by group, and by the keys within a group, int64. Rows with equal keys keep their order."""
        order: Array = np.arange(len(owners))
        for column, (descending, nulls_first) in reversed(list(zip(keys, self.order, strict=True))):
            ranks = value_ranks(column)
            if column.valid is not None:
                ranks = np.where(column.valid, ranks, 0)  # NULLs are equal
            order = order[in_order((~ranks if descending else ranks)[order])]
            if column.valid is not None:
                last = column.valid if nulls_first else ~column.valid
                order = order[in_order(last.astype(np.int64)[order])]
        return order[in_order(owners.astype(np.int64)[order])]


def _first_of_equals(columns: list[Column]) -> Array:
    """The first row of each set of equal rows, ascending."""
    keys = Keys([column.type for column in columns], _MOST_GROUPS, lambda size: None)
    numbers = keys.number(columns)
    rows = np.empty(keys.count, np.int64)
    rows[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    rows.sort()
    return rows


def _together(owners: Array, texts: Column, separator: str, groups: int) -> Column:
    """The texts of each group, put together with the separator between them. NULL for a group without texts.

    `owners`: the group of each text, ascending.
    """
    counts = np.bincount(owners, minlength=groups)[:groups]
    firsts = np.concatenate([[0], np.cumsum(counts)])
    follows = np.zeros(len(owners), np.bool_)
    follows[1:] = owners[1:] == owners[:-1]  # a separator comes before the text
    data = np.frombuffer(separator.encode(), np.uint8)
    sizes = np.diff(texts.values) + np.where(follows, len(data), 0)
    longest = int(np.diff(np.concatenate([[0], np.cumsum(sizes)])[firsts]).max(initial=0))
    if longest > MOST_TEXT:
        raise ResourceExhausted(
            f"string_agg makes a text of {longest:,} bytes, and a text may have {MOST_TEXT:,}; narrow the window or the"
            " WHERE clause, or group by finer keys",
            reason="GROUP_BUDGET",
            bytes=longest,
        )
    places = np.arange(len(owners)) + np.cumsum(follows)
    rows = np.full(len(owners) + np.count_nonzero(follows), len(owners))  # the separator is the row after all texts
    rows[places] = np.arange(len(owners))
    plain_texts = Column(TEXT, texts.values, None, texts.data)
    joined = concat_columns([plain_texts, Column(TEXT, np.array([0, len(data)]), None, data)]).take(rows)
    starts = np.append(places - follows, len(rows))[firsts]
    return Column(TEXT, joined.values[starts], None if counts.all() else counts > 0, joined.data)
