"""Aggregates that show a value of one row: MIN and MAX, FIRST, LAST, ANY_VALUE, ARG_MIN, ARG_MAX.

    min, max of numbers and times    flags of groups with a row, and int64 or float64 values
    all others                       these flags, the column of the values, and the column of their sort keys

If two rows are equal, the earlier one stays. So MIN shows -0.0 or 0.0, whichever came first. NaN is greater than all
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.aggregates.state import Rows, State, padded, padded_column, put, taken
from psoup.expressions.frame import null_column
from psoup.kernels.fold import group_states
from psoup.model import DataType, Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column, plain
from psoup.values.kinds import TYPES
from psoup.values.wide_order import joint_order_keys

_UNNOTED: Array = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Extreme:
    """The state of MIN, or of MAX if `greatest`, for a type with values of fixed width."""

    greatest: bool
    type: DataType
    exact: bool = True

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        wide = np.float64 if self.type.kind is Kind.DOUBLE else np.int64
        return np.zeros(groups, np.uint8), np.zeros(groups, wide)

    def grow(self, state: State, groups: int) -> State:
        """Extend the state to `groups` groups. The new groups have no rows."""
        seen, best = _arrays(state)
        return padded(seen, groups), padded(best, groups)

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        seen, best = _arrays(state)
        values = plain(rows.args[0].values.astype(best.dtype, copy=False))
        if rows.codes is not None:
            group_states.keep_extreme(values, rows.mask, rows.codes, self.greatest, best, seen, _UNNOTED)
            return state
        values = values[rows.counted] if len(rows.mask) else values
        if len(values):
            self._keep(values[self._row(values)].reshape(1), np.zeros(1, np.int64), best, seen)
        return state

    def _row(self, values: Array) -> int:
        """The row of the least or the greatest value."""
        if self.greatest:
            return int(values.argmax())  # the first NaN, if there is one
        row = int(values.argmin())
        return row if values[row] == values[row] or np.isnan(values).all() else int(np.nanargmin(values))

    def _keep(self, values: Array, places: Array, best: Array, seen: Array) -> None:
        group_states.keep_extreme(
            values, np.zeros(0, np.uint8), places.astype(np.int32), self.greatest, best, seen, _UNNOTED
        )

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        (seen, best), (some, values) = _arrays(into), _arrays(other)
        if not some.all():
            here = np.flatnonzero(some)
            values, places = values[here], places[here]
        self._keep(values, places, best, seen)
        return into

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return taken(state, order)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the value of each group."""
        seen, best = _arrays(state)
        seen, values = seen[:groups], best[:groups].astype(TYPES[self.type.kind].dtype, copy=False)
        return Column(self.type, values, None if np.count_nonzero(seen) == groups else seen.view(np.bool_))


@dataclass(frozen=True, slots=True)
class Pick:
    """The state that keeps the value of one row of each group: the row that `place` names.

    `place`: `first`, `last`, or the row whose key is the `least` or the `greatest`. `key`: the type of the sort key,
    the last argument. None if the value itself is the key, or there is no key. `nulls`: whether rows with a NULL value
    count. They count for FIRST(x), and do not for ANY_VALUE(x).
    """

    place: str
    type: DataType
    key: DataType | None = None
    exact: bool = True
    nulls: bool = False

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        kinds = [self.type] if self.key is None else [self.type, self.key]
        return np.zeros(groups, np.uint8), *[null_column(kind, groups) for kind in kinds]

    def grow(self, state: State, groups: int) -> State:
        """Extend the state to `groups` groups. The new groups have no rows."""
        seen, columns = _parts(state)
        return padded(seen, groups), *[padded_column(column, groups) for column in columns]

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        best = self._best(rows, len(_parts(state)[0]))
        groups = np.flatnonzero(best >= 0)
        taken = best[groups]
        return self._merge(state, groups, [column.take(taken) for column in rows.args])

    def _best(self, rows: Rows, groups: int) -> Array:
        """The best row of each group, -1 for a group without a row."""
        best = np.full(groups, -1, np.int64)
        if self.place == "first":
            group_states.first_rows(rows.mask, rows.groups, best)
        elif self.place == "last":
            group_states.last_rows(rows.mask, rows.groups, best)
        elif (key := rows.args[-1]).type.kind is Kind.TEXT:
            assert key.data is not None
            ends, data = plain(key.values), plain(key.data)
            group_states.extreme_texts(ends, data, rows.mask, rows.groups, self.place == "greatest", best)
        else:
            keys, best_keys, seen = (
                plain(joint_order_keys([key])[0]),
                np.zeros(groups, np.int64),
                np.zeros(groups, np.uint8),
            )
            group_states.keep_extreme(keys, rows.mask, rows.groups, self.place == "greatest", best_keys, seen, best)
        return best

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        seen, columns = _parts(other)
        here = np.flatnonzero(seen[: len(places)])
        return self._merge(into, places[here], [column.take(here) for column in columns])

    def _merge(self, state: State, groups: Array, later: list[Column]) -> State:
        """Replace the values of some groups by those of later rows, if the later rows are better."""
        seen, columns = _parts(state)
        if self.place == "first":
            better = seen[groups] == 0
        elif self.place == "last":
            better = np.ones(len(groups), np.bool_)
        else:
            better = (seen[groups] == 0) | self._before(later[-1], columns[-1].take(groups))
        seen[groups] = 1
        rows, places = np.flatnonzero(better), groups[better]
        return seen, *[put(column, places, new.take(rows)) for column, new in zip(columns, later, strict=True)]

    def _before(self, later: Column, earlier: Column) -> Array:
        """A flag for each later key that is strictly better than the earlier key."""
        less, more = (later, earlier) if self.place == "least" else (earlier, later)
        if later.type.kind is not Kind.TEXT:
            low, high = joint_order_keys([less, more])
            return low < high
        texts = [Column(later.type, column.values, None, column.data).to_arrow() for column in (less, more)]
        before = pc.less(*[text.cast(pa.large_binary()) for text in texts])
        flags: Array = before.to_numpy(zero_copy_only=False)
        return flags

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return taken(state, order)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the value of each group."""
        return _parts(state)[1][0].slice(0, groups)


def _arrays(state: State) -> list[Array]:
    return [part for part in state if isinstance(part, np.ndarray)]


def _parts(state: State) -> tuple[Array, list[Column]]:
    (seen,) = _arrays(state)
    return seen, [part for part in state if isinstance(part, Column)]
