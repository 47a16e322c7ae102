"""The groups of rows by one or several keys, as dense numbers in order of appearance.

    sym   price              numbers of sym     of price     of the pair
    IBM   10.0               0                  0            0
    SUN   NaN                1                  1            1
    IBM   NULL               0                  2            2            0 << 32 | 2, numbered like any integer

At its second use as a key, a chunk's column is dictionary-encoded if its values repeat enough
(`psoup/data/dictionary_column.py`). Then the key lookup runs once for each distinct value, not for each row. The module
`psoup/aggregates/numbers.py` assigns the numbers for one key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.aggregates.numbers import Hold, Integers, KeyNumbers, ScratchArray, in_order, numbers_of
from psoup.aggregates.wide_keys import halved, halved_types, joined
from psoup.data.chunk import ChunkView
from psoup.data.dictionary_column import ASKED, USELESS, Coded, is_worth_keeping
from psoup.kernels.fold import group_numbers
from psoup.model import BIGINT, DataType
from psoup.values.columns import Array, Column


class Keys:
    """The groups of rows by one or several key columns, numbered in order of appearance."""

    def __init__(self, types: Sequence[DataType], limit: int, hold: Hold) -> None:
        """`limit`: the most groups, and the most different values of one key. `hold`: charges bytes to a budget."""
        self._types = tuple(types)
        single = halved_types(types)
        self._has_halves = len(single) > len(types)
        self._single = [numbers_of(kind, limit, hold) for kind in single]
        self._pairs = [Integers(BIGINT, limit, hold) for _ in single[1:]]
        self._room = ScratchArray(np.int64)
        self._ordered = 0
        """The number of groups whose numbers are in the order of their keys: 0, or the keys given to `of`."""
        self.given: tuple[Column, ...] = ()
        """The key columns that were given to `of`, in the order of the keys."""

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Keys:
        """Make groups from sorted, distinct keys. The number of a group is the row of its key."""
        keys = cls([column.type for column in columns], len(columns[0]) + 1, lambda size: None)
        keys.number(columns)
        keys._ordered, keys.given = keys.count, tuple(columns)
        return keys

    def fork(self, limit: int, hold: Hold) -> Keys:
        """A copy with the same numbers, to which a reader may add groups. See `KeyNumbers.fork`. O(key columns)."""
        keys = Keys.__new__(Keys)
        keys._ordered, keys.given = self._ordered, self.given
        keys._types, keys._has_halves = self._types, self._has_halves
        keys._single = [each.fork(limit, hold) for each in self._single]
        keys._pairs = [each.fork(limit, hold) for each in self._pairs]
        keys._room = ScratchArray(np.int64)
        return keys

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and of their lookup tables."""
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
        """The group number of each row, int32[n]; new keys get new numbers. Raises `over_keys` above the limit.

        The next call overwrites the result.
        """
        if self._has_halves:
            columns = halved(columns)
        given = [_numbered(values_of_key, column) for values_of_key, column in zip(self._single, columns, strict=True)]
        numbers = given[0]
        for pairs, right in zip(self._pairs, given[1:], strict=True):
            joined = self._room.of(len(right))
            group_numbers.pair_numbers(numbers, right, joined)
            numbers = pairs.number(joined)
        return numbers

    def columns(self, groups: Array) -> list[Column]:
        """The key columns of some groups (int64[k])."""
        columns = [key.column(numbers) for key, numbers in zip(self._single, self._of_each(groups), strict=True)]
        return joined(self._types, columns) if self._has_halves else columns

    def text_bytes(self, groups: Array) -> int:
        """The bytes of the texts in the key columns of some groups (int64[k]). O(k)."""
        return sum([key.text_bytes(numbers) for key, numbers in zip(self._single, self._of_each(groups), strict=True)])

    def order(self) -> Array:
        """All groups in the order of their keys, NULLs last: int64[count]."""
        if self.in_order:
            return np.arange(self.count)
        if not self._pairs:
            return self._single[0].order()
        order = np.arange(self.count)
        for key, numbers in reversed(list(zip(self._single, self._of_each(order), strict=True))):
            ranks = np.empty(key.count, np.int64)
            ranks[key.order()] = np.arange(key.count)
            order = order[in_order(ranks[numbers[order]])]
        return order

    def _of_each(self, groups: Array) -> list[Array]:
        """For each key column, the numbers of its values in some groups."""
        numbers = []
        for pairs in reversed(self._pairs):
            joined = pairs.keys()[groups]
            numbers.append(joined & 0xFFFF_FFFF)
            groups = joined >> 32
        return [groups, *reversed(numbers)]


def _numbered(numbers: KeyNumbers, column: Column | Coded) -> Array:
    return _mapped(numbers, column) if isinstance(column, Coded) else numbers.number_column(column)


def _mapped(key: KeyNumbers, column: Coded) -> Array:
    """The number of each row's value in a dictionary-encoded column. Only values that occur in a row become keys."""
    numbers: Array = np.zeros(len(column.values), np.int32)
    if column.whole:
        numbers[:] = key.number_column(column.values)
    else:
        seen: Array = np.zeros(len(numbers), np.uint8)
        group_numbers.mark_codes(column.codes, seen)
        here = np.flatnonzero(seen)
        numbers[here] = key.number_column(column.values.take(here))
    out = key.room.of(len(column))
    group_numbers.map_codes(column.codes, numbers, out)
    return out


def coded_column(chunk: ChunkView, index: int) -> Coded | None:
    """A chunk's column in dictionary encoding, or None. The second request encodes it, if that saves memory."""
    coded = chunk.caches.coded.get(index)
    if coded is None:
        chunk.caches.coded[index] = ASKED
    if not isinstance(coded, Coded) and coded == ASKED:
        column = chunk.columns[index]
        keys = Keys([column.type], len(column) + 1, lambda size: None)
        numbers = keys.number([column])
        coded = chunk.caches.coded[index] = USELESS
        if is_worth_keeping(keys.count, len(column)):
            values = keys.columns(np.arange(keys.count))[0]
            coded = chunk.caches.coded[index] = Coded(numbers.astype(np.uint16), values)
    return coded if isinstance(coded, Coded) else None
