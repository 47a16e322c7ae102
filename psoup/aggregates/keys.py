"""The groups of rows by one or several keys, as dense numbers that are given as the groups come.

    sym   price              numbers of sym     of price     of the pair
    IBM   10.0               0                  0            0
    SUN   NaN                1                  1            1
    IBM   NULL               0                  2            2            0 << 32 | 2, numbered like any integer

A column of a chunk that is grouped by again is kept as numbers of its values (`psoup/data/coded.py`): then only the
values are numbered, not the rows. How the values of one key get their numbers is in `numbers`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.aggregates.numbers import Hold, Integers, Numbers, Room, in_order, numbers_of
from psoup.columns import Array, Column
from psoup.data.chunk import ChunkView
from psoup.data.coded import ASKED, USELESS, Coded, is_worth_keeping
from psoup.kernels import group
from psoup.model import BIGINT, DataType


class Keys:
    """The groups of rows by one or several key columns, numbered as they come."""

    def __init__(self, types: Sequence[DataType], most: int, hold: Hold) -> None:
        """`most`: groups, and different values of one key, at most."""
        self._single = [numbers_of(kind, most, hold) for kind in types]
        self._pairs = [Integers(BIGINT, most, hold) for _ in types[1:]]
        self._room = Room(np.int64)
        self._ordered = 0
        """So many numbers are in the order of their keys, if there are no more."""
        self.given: tuple[Column, ...] = ()
        """The keys that were given at once, in their order."""

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Keys:
        """Groups by keys that are given in their order: their numbers are their places."""
        own = cls([column.type for column in columns], len(columns[0]) + 1, lambda size: None)
        own.number(columns)
        own._ordered, own.given = own.count, tuple(columns)
        return own

    def fork(self, most: int, hold: Hold) -> Keys:
        """The same groups with the same numbers, for a reader that may number more; see `Numbers.fork`. O(keys)."""
        own = Keys.__new__(Keys)
        own._ordered, own.given = self._ordered, self.given
        own._single = [each.fork(most, hold) for each in self._single]
        own._pairs = [each.fork(most, hold) for each in self._pairs]
        own._room = Room(np.int64)
        return own

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and of the tables of their numbers."""
        return sum(each.nbytes for each in [*self._single, *self._pairs])

    @property
    def in_order(self) -> bool:
        """Whether the numbers are in the order of the keys."""
        return self.count == self._ordered

    @property
    def count(self) -> int:
        """The number of groups."""
        return self._pairs[-1].count if self._pairs else self._single[0].count

    def number(self, columns: Sequence[Column | Coded]) -> Array:
        """Number the groups of rows: int32[n], which the next call overwrites. Raises as `over_keys`."""
        given = [_numbered(own, column) for own, column in zip(self._single, columns, strict=True)]
        numbers = given[0]
        for pairs, right in zip(self._pairs, given[1:], strict=True):
            joined = self._room.of(len(right))
            group.pair_numbers(numbers, right, joined)
            numbers = pairs.number(joined)
        return numbers

    def columns(self, groups: Array) -> list[Column]:
        """The keys of some groups (int64[k])."""
        return [own.column(some) for own, some in zip(self._single, self._of_each(groups), strict=True)]

    def text_bytes(self, groups: Array) -> int:
        """Bytes of the texts that `columns` makes for some groups (int64[k]). O(k)."""
        return sum([own.text_bytes(some) for own, some in zip(self._single, self._of_each(groups), strict=True)])

    def order(self) -> Array:
        """The groups in the order of their keys, NULLs last: int64[count]."""
        if self.in_order:
            return np.arange(self.count)
        if not self._pairs:
            return self._single[0].order()
        order = np.arange(self.count)
        for own, numbers in reversed(list(zip(self._single, self._of_each(order), strict=True))):
            ranks = np.empty(own.count, np.int64)
            ranks[own.order()] = np.arange(own.count)
            order = order[in_order(ranks[numbers[order]])]
        return order

    def _of_each(self, groups: Array) -> list[Array]:
        """The number of each key of some groups."""
        numbers = []
        for pairs in reversed(self._pairs):
            joined = pairs.keys()[groups]
            numbers.append(joined & 0xFFFF_FFFF)
            groups = joined >> 32
        return [groups, *reversed(numbers)]


def _numbered(own: Numbers, column: Column | Coded) -> Array:
    return _mapped(own, column) if isinstance(column, Coded) else own.number_column(column)


def _mapped(own: Numbers, column: Coded) -> Array:
    """The numbers of rows whose values are known by number: only values that occur in them are keys."""
    numbers: Array = np.zeros(len(column.values), np.int32)
    if column.whole:
        numbers[:] = own.number_column(column.values)
    else:
        seen: Array = np.zeros(len(numbers), np.uint8)
        group.mark_codes(column.codes, seen)
        here = np.flatnonzero(seen)
        numbers[here] = own.number_column(column.values.take(here))
    out = own.room.of(len(column))
    group.map_codes(column.codes, numbers, out)
    return out


def coded_column(chunk: ChunkView, index: int) -> Coded | None:
    """A column of a chunk as numbers of its values, made when it is asked for a second time and worth it; else None."""
    known = chunk.caches.coded.get(index)
    if known is None:
        chunk.caches.coded[index] = ASKED
    if not isinstance(known, Coded) and known == ASKED:
        column = chunk.columns[index]
        keys = Keys([column.type], len(column) + 1, lambda size: None)
        numbers = keys.number([column])
        known = chunk.caches.coded[index] = USELESS
        if is_worth_keeping(keys.count, len(column)):
            values = keys.columns(np.arange(keys.count))[0]
            known = chunk.caches.coded[index] = Coded(numbers.astype(np.uint16), values)
    return known if isinstance(known, Coded) else None
