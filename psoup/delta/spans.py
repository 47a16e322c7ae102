"""Spans, the input of an operator with state, and deltas, its output.

    spans      value  start  end           deltas of DISTINCT     value  sign  instant
               IBM    3      7                                    IBM    +1    3
               IBM    5      9                                    IBM    -1    10
               SUN    5      FOREVER                              SUN    +1    5

A row is in the relation R(t) at all instants t from `start` to `end`, both inclusive, in microseconds. So it enters at
`start` and leaves at `end + 1`. Deltas are the differences between R(t) and R(t - 1) as multisets of values. NULL
equals NULL, NaN equals NaN, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.aggregates.numbers import in_order as places_in_order
from psoup.aggregates.state import places_in
from psoup.invariants import ensure
from psoup.model import DataType, Kind
from psoup.values.columns import Array, Column, concat_columns, empty_column

FOREVER = 2**63 - 1
"""The end of a row that never leaves its window."""
ENTERS, LEAVES = np.int8(1), np.int8(-1)


class Spans(NamedTuple):
    """Rows of an input, in order of `start`.

    `columns`: columns of n rows. `start`, `end`: the first and the last instant of each row, int64[n].
    """

    columns: tuple[Column, ...]
    start: Array
    end: Array

    @classmethod
    def empty(cls, types: Sequence[DataType]) -> Spans:
        """Spans without rows."""
        none = np.zeros(0, np.int64)
        return cls(tuple(map(empty_column, types)), none, none)

    def take(self, rows: Array) -> Spans:
        """The spans at positions `rows` (int64[k]), copied. O(k)."""
        return Spans(tuple([column.take(rows) for column in self.columns]), self.start[rows], self.end[rows])


class Deltas(NamedTuple):
    """Changes of a relation, ordered by instant, then by sign, then by value, with NULL last.

    `sign`: int8[n], 1 for a row that enters, -1 for one that leaves. `instant`: int64[n]. At one instant, no value both
    enters and leaves. A value that enters twice has two rows.
    """

    columns: tuple[Column, ...]
    sign: Array
    instant: Array

    def take(self, rows: Array) -> Deltas:
        """The changes at positions `rows` (int64[k]), copied. O(k)."""
        return Deltas(tuple([column.take(rows) for column in self.columns]), self.sign[rows], self.instant[rows])


class Operator(Protocol):
    """An operator with state.

    The state after a step up to W depends only on the spans with start <= W <= end. So `load` makes the same state from
    these spans.
    """

    @property
    def rows(self) -> int:
        """The number of rows, values or groups in the state."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        ...

    def step(self, inputs: Sequence[Spans], until: int) -> Deltas:
        """Compute the changes at the instants after the last step, up to `until`.

        `inputs`: for each input, all spans that start after the last step, up to `until`. The first step may have
        spans with any start.
        """
        ...

    def check(self) -> None:
        """Raise Corrupt if an invariant of the state does not hold. O(state)."""
        ...


@runtime_checkable
class Loading(Protocol):
    """An operator with a faster way to make its state than a step."""

    def load(self, inputs: Sequence[Spans], until: int) -> None:
        """Add spans to the state before the first step; see the function `load`."""
        ...


def load(operator: Operator, inputs: Sequence[Spans], until: int) -> None:
    """Make the state at `until` in a new operator. `inputs`: each input's spans with start <= until <= end.

    The spans may be divided over several calls with ascending instants. At the last instant, all of them must still be
    in their relations.
    """
    if isinstance(operator, Loading):
        operator.load(inputs, until)
    else:
        operator.step(inputs, until)


def merged(inputs: Sequence[Spans]) -> Spans:
    """The spans of several inputs with equal types, in order of start. O(n log n)."""
    if len(inputs) == 1:
        return inputs[0]
    columns = [concat_columns(parts) for parts in zip(*[spans.columns for spans in inputs], strict=True)]
    start = np.concatenate([spans.start for spans in inputs])
    whole = Spans(tuple(columns), start, np.concatenate([spans.end for spans in inputs]))
    return whole.take(np.argsort(start, kind="stable"))


def checked(spans: Spans, after: int | None, until: int) -> Spans:
    """The spans without those that end before they start. Raises Corrupt for starts out of order, or outside the step.

    `after`: the end of the last step, or None for the first step. O(n).
    """
    start, end = spans.start, spans.end
    ensure(bool((start[1:] >= start[:-1]).all()), "spans", "the spans are not in order of start")
    if len(start):
        ensure(int(start[-1]) <= until, "spans", "a span starts after the step", start=start[-1], until=until)
        first = int(start[0])
        ensure(after is None or first > after, "spans", "a span starts before the step", start=first, after=after)
    empty = end < start
    return spans.take(np.flatnonzero(~empty)) if empty.any() else spans


def in_order(columns: Sequence[Column], sign: Array, instant: Array) -> Deltas:
    """Sort changes into deltas. No value may both enter and leave at one instant. O(n), and a sort of the ties."""
    order = _by_time(sign, instant)
    sign, instant = sign[order], instant[order]
    ties = (instant[1:] == instant[:-1]) & (sign[1:] == sign[:-1])
    if ties.any():
        tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
        by_value = _by_keys(_value_keys([column.take(order[tied]) for column in columns]), len(tied))
        order[tied] = order[tied][by_value[_by_time(sign[tied][by_value], instant[tied][by_value])]]
    return Deltas(tuple([column.take(order) for column in columns]), sign, instant)


def netted(columns: Sequence[Column], sign: Array, instant: Array) -> Deltas:
    """The deltas of changes in any order: at each instant, a value's entries and departures cancel out.

    `sign`: int8[n], 1 or -1. `instant`: int64[n]. O(n), and a sort of the changes that share their instant.
    """
    order = _by_time(sign, instant)
    at = instant[order]
    same = at[1:] == at[:-1]
    if not same.any():
        return Deltas(tuple([column.take(order) for column in columns]), sign[order], at)
    shared = np.append(same, False) | np.append(False, same)
    rows, signs = _net(columns, sign, instant, order[shared])
    rows, signs = np.append(order[~shared], rows), np.append(sign[order[~shared]], signs)
    last = _by_time(signs, instant[rows])
    return Deltas(tuple([column.take(rows[last]) for column in columns]), signs[last], instant[rows[last]])


def _net(columns: Sequence[Column], sign: Array, instant: Array, some: Array) -> tuple[Array, Array]:
    """The rows of `some` that do not cancel out, and their signs, in order of instant and value."""
    keys, at = _value_keys([column.take(some) for column in columns]), instant[some]
    order = _by_keys([at, *keys], len(some))
    new: Array = np.ones(len(some), np.bool_)
    new[1:] = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in (at, *keys)])
    first = np.flatnonzero(new)
    net = np.add.reduceat(sign[some[order]].astype(np.int64), first)
    rows = np.repeat(some[order[first]], np.abs(net))
    return rows, np.repeat(np.sign(net), np.abs(net)).astype(np.int8)


def _by_time(sign: Array, instant: Array) -> Array:
    """The rows by instant, then by sign, int64[n]. Other rows keep their order. O(n)."""
    by_sign = np.argsort(sign, kind="stable")
    order: Array = by_sign[places_in_order(instant[by_sign])]
    return order


def _by_keys(keys: Sequence[Array], count: int) -> Array:
    """The rows in the order of their keys (int64[count] each, the first one decides), int64[count]. O(count * keys)."""
    order: Array = np.arange(count)
    for key in reversed(keys):
        order = order[places_in_order(key[order])]
    return order


def _value_keys(columns: Sequence[Column]) -> list[Array]:
    """Keys with the order and the equality of values, int64[n] each: NULL last. O(n), and a sort for TEXT and WIDE."""
    keys = list[Array]()
    for column in columns:
        ranked = column.type.kind in (Kind.TEXT, Kind.WIDE)
        key = _ranks(column) if ranked else np.ascontiguousarray(column.order_keys())
        if column.valid is not None and not ranked:
            keys.append((~column.valid).astype(np.int64))
            key = np.where(column.valid, key, 0)
        keys.append(key)
    return keys


def _ranks(column: Column) -> Array:
    """The ranks of rows in the order of their values, int64[n]. Equal values have equal ranks. O(n log n)."""
    keys = Keys([column.type], len(column) + 1, lambda size: None)
    numbers = keys.number([without_errors(column)])
    ranks: Array = places_in(keys.order())[numbers]
    return ranks


def equal_to_next(columns: Sequence[Column]) -> Array:
    """Whether each row equals the next one, bool[n - 1]. NULL equals NULL. O(n), and a sort for TEXT and WIDE."""
    keys = _value_keys(columns)
    return np.logical_and.reduce([key[1:] == key[:-1] for key in keys])


def without_errors(column: Column) -> Column:
    """The column with NULL where an expression failed. O(1)."""
    return column if column.error is None else Column(column.type, column.values, column.valid, column.data)
