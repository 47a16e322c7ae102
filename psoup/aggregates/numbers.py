"""Dense numbers for the values of one key, in order of appearance. NULL and NaN are values; -0.0 equals 0.0.

    sym   price         numbers of sym     of price
    IBM   10.0          0                  0
    SUN   NaN           1                  1
    IBM   NULL          0                  2

Integers that are near one another have an array of numbers, indexed by the integer. Other integers and all texts have a
hash table with a secret seed; texts are compared in full. A number never changes; `order` sorts the numbers by value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.aggregates.state import ALL
from psoup.budgets import GROUP_KEYS
from psoup.errors import ResourceExhausted
from psoup.events.tenants import GroupQuota
from psoup.kernels.fold import group_numbers
from psoup.kernels.names import clause_names
from psoup.kernels.rows.batch_body import take_texts
from psoup.kernels.rows.radix_sort import order_keys
from psoup.model import DataType, Kind
from psoup.values.columns import Array, Column, empty_column, plain
from psoup.values.kinds import LEAST, TYPES

_MASK = 2**64 - 1
_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_FIRST = 1_024
"""The number of values for which a new table has room."""
_NEAR = 1 << 16
"""The length that the array indexed by integer may have, however few rows there are."""
_MAX_NEAR = 1 << 22
"""The greatest length of the array indexed by integer."""
_NEAR_SHARE = 8
"""The most elements of the array indexed by integer for each row. With more, the hash table takes its place."""
_WORD = 8
"""Bytes of a word. Many texts are sorted by their words, a radix sort."""
_SORTED_BY_WORDS = 1 << 16
"""The least number of texts that are sorted by words. Arrow's sort of 2^20 texts takes half a second, and checks no
deadline."""
_MAX_WORDS = 8
"""The most words of a text that is sorted by words."""

Hold = Callable[[int], None]
"""A function that is called with a number of bytes before they are allocated. It may raise, to refuse them."""


def _seeds() -> Array:
    """Two secret seeds from Python's own hash seed. No client knows them, so none can choose keys that collide."""
    return np.array([hash(("psoup", "group", lane)) & _MASK for lane in (1, 2)], np.uint64)


def over_keys(limit: int) -> ResourceExhausted:
    """The error for more groups than one read, or the tenant's quota, allows."""
    if isinstance(limit, GroupQuota):
        return limit.refusal()
    return ResourceExhausted(
        f"GROUP BY, PARTITION BY of a window, or an aggregate of DISTINCT values, has more than {limit:,} keys, as many"
        " as one invocation may hold (group_keys); narrow the window or the WHERE clause, or group by fewer or coarser"
        " keys",
        reason="GROUP_BUDGET",
        **GROUP_KEYS.over(f"{limit + 1} or more", limit),
    )


class ScratchArray:
    """A scratch array that all calls reuse. A new array for each call would take more time than the numbering."""

    def __init__(self, dtype: type) -> None:
        self._array: Array = np.empty(0, dtype)

    def of(self, size: int) -> Array:
        """The first `size` elements. The caller may overwrite the array that the previous call returned."""
        if len(self._array) < size:
            self._array = np.empty(size, self._array.dtype)
        return self._array[:size]


class KeyNumbers(ABC):
    """The values of a key with their numbers, at most `limit` values.

    `hold` is called with a number of bytes before they are allocated.
    """

    def __init__(self, data_type: DataType, limit: int, hold: Hold, entry_type: type) -> None:
        self.type = data_type
        self.room = ScratchArray(np.int32)
        self._limit = limit
        self._hold = hold
        self._entries: Array = np.zeros(min(_FIRST, limit), entry_type)
        """The entry that identifies each value, by number: an integer itself, or a text's hash."""
        self._counts: Array = np.array([0, -1], np.int64)
        self._table: Array = np.zeros(0, np.int32)
        hold(self._entries.nbytes)

    @property
    def count(self) -> int:
        """The number of values."""
        return int(self._counts[0])

    @property
    def null(self) -> int:
        """The number that NULL has, or -1 if no NULL has come."""
        return int(self._counts[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the values and of their lookup table."""
        return self._entries.nbytes + self._table.nbytes

    def fork(self, limit: int, hold: Hold) -> Self:
        """A copy with the same numbers, to which a reader may add values. O(1), as arrays are shared until then.

        Other readers may use the original, so it must get no further values.
        """
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.room, copy._limit, copy._hold = ScratchArray(np.int32), limit, hold
        # the copy has no spare entries, so no kernel writes to the array that it shares with the original
        copy._entries, copy._counts = self._entries[: self.count], self._counts.copy()
        return copy

    @abstractmethod
    def number_column(self, column: Column) -> Array:
        """The number of each row's value, int32[n] in `room`; new values get numbers. Raises `over_keys`."""

    def text_bytes(self, numbers: Array) -> int:
        """The bytes of the texts that have these numbers (int64[k]). Returns 0 for other types."""
        return 0

    @abstractmethod
    def order(self) -> Array:
        """The numbers in the order of their values, NULL last: int64[count]."""

    @abstractmethod
    def column(self, numbers: Array) -> Column:
        """The column of the values that have these numbers (int64[k])."""

    def _valid_of(self, numbers: Array) -> Array | None:
        """A flag for each number that is not NULL's, or None if no NULL has come."""
        return None if self.null < 0 else numbers != self.null

    def _make_room(self) -> None:
        """Make room for twice as many values. Raises `over_keys` at the limit."""
        room = len(self._entries)
        if room >= self._limit:
            raise over_keys(self._limit)
        more = min(max(2 * room, _FIRST), self._limit) - room
        self._hold(more * self._entries.itemsize)
        self._entries = np.concatenate([self._entries, np.zeros(more, self._entries.dtype)])

    def _new_table(self, size: int) -> Array:
        """An empty hash table of `size` places."""
        self._hold(4 * size)
        return np.full(size, -1, np.int32)

    def _table_size(self) -> int:
        """The size of the hash table, a power of two. At most half of the places are used, for open addressing."""
        return 1 << (2 * len(self._entries) - 1).bit_length()

    def _nulls_last(self, order: Array) -> Array:
        """The order of all numbers, with NULL's number moved to the end."""
        return order if self.null < 0 else np.append(order[order != self.null], self.null)


class Integers(KeyNumbers):
    """The numbers of integers, and of values of all other types with order keys (all but TEXT)."""

    def __init__(self, data_type: DataType, limit: int, hold: Hold) -> None:
        super().__init__(data_type, limit, hold, np.int64)
        self._seed = _seeds()[0]
        self._rows = 0
        self._base = 0
        self._near: Array | None = np.zeros(0, np.int32)
        """The number of each key from `_base` on, -1 for none. None if keys are too far apart for this array."""
        self._shared = False
        """Whether another object uses the array `_near`, too, so that it must be copied before a change."""

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, and of the arrays of their numbers."""
        return super().nbytes + (0 if self._near is None else self._near.nbytes)

    def fork(self, limit: int, hold: Hold) -> Self:
        """A copy with the same numbers, to which a reader may add values. O(1)."""
        copy = super().fork(limit, hold)
        copy._shared = True
        return copy

    def number_column(self, column: Column) -> Array:
        """The number of each row's value, int32[n] in `room`; new values get numbers. Raises `over_keys`."""
        return self.number(column.order_keys(), _valid(column))

    def number(self, keys: Array, valid: Array = ALL) -> Array:
        """The number of each key (int64[n]), int32[n] in `room`; new keys get numbers. Raises `over_keys`.

        `valid`: uint8[n], 0 for NULL.
        """
        numbers = self.room.of(len(keys))
        keys, row = plain(keys), 0
        self._rows += len(keys)
        if len(keys) and self._near is not None:
            self._reach(int(keys.min()), int(keys.max()))
        while row < len(keys):
            if self._near is not None:
                place = keys, valid, row, self._base, self._near
                row = group_numbers.number_near(*place, self._entries, self._counts, numbers)
            else:
                place = keys, valid, row, self._seed, self._table
                row = group_numbers.number_keys(*place, self._entries, self._counts, numbers)
            if row < len(keys):
                self._make_room()
                if self._near is None:
                    self._fill()
                elif self._shared:
                    self._hold(self._near.nbytes)
                    self._near = self._near.copy()
                    self._shared = False
        return numbers

    def keys(self) -> Array:
        """The key that has each number, int64[count]. The key of NULL is 0."""
        return self._entries[: self.count]

    def order(self) -> Array:
        """The numbers in the order of their keys, NULL last: int64[count]."""
        if self._near is not None:
            order = self._near[self._near >= 0].astype(np.int64)
            return order if self.null < 0 else np.append(order, self.null)
        return self._nulls_last(in_order(self.keys()))

    def column(self, numbers: Array) -> Column:
        """The column of the values that have these numbers (int64[k])."""
        keys, valid = self.keys()[numbers], self._valid_of(numbers)
        if self.type.kind is Kind.DOUBLE:
            return Column(self.type, np.where(keys < 0, keys ^ _SIGN, keys).view(np.float64), valid)
        return Column(self.type, keys.astype(TYPES[self.type.kind].dtype, copy=False), valid)

    def _reach(self, low: int, high: int) -> None:
        """Extend the array indexed by key to the keys from `low` to `high`, or change to the hash table."""
        assert self._near is not None
        if len(self._near):
            low, high = min(low, self._base), max(high, self._base + len(self._near) - 1)
        span = high - low + 1
        if span == len(self._near):
            return
        if span > min(max(_NEAR, _NEAR_SHARE * self._rows), _MAX_NEAR):
            self._near = None
            self._fill()
            return
        if len(self._near):  # the next part may reach further
            low, high = max(low - (low < self._base) * span // 8, LEAST), high + span // 8
        wider = self._new_table(high - low + 1)
        wider[self._base - low :][: len(self._near)] = self._near
        self._base = low
        self._near = wider
        self._shared = False

    def _fill(self) -> None:
        """Make a new hash table with all keys."""
        self._table = self._new_table(self._table_size())
        group_numbers.place_keys(self._entries, self.count, self.null, self._seed, self._table)


class Texts(KeyNumbers):
    """The numbers of texts."""

    def __init__(self, data_type: DataType, limit: int, hold: Hold) -> None:
        super().__init__(data_type, limit, hold, np.uint64)
        self._seeds = _seeds()
        self._table = self._new_table(self._table_size())
        self._texts = empty_column(data_type)
        """The text that has each number; an empty text for NULL."""

    @property
    def nbytes(self) -> int:
        """Bytes of the texts, of their hashes, and of their lookup table."""
        return super().nbytes + self._texts.nbytes

    def fork(self, limit: int, hold: Hold) -> Self:
        """A copy with the same numbers, to which a reader may add texts. O(1)."""
        copy, texts = super().fork(limit, hold), self._texts
        assert texts.data is not None
        copy._texts = Column(texts.type, texts.values, None, texts.data[: texts.values[-1]])
        return copy

    def number_column(self, column: Column) -> Array:
        """The number of each row's text, int32[n] in `room`; new texts get numbers. Raises `over_keys`."""
        count, row, before, valid = len(column), 0, self.count, _valid(column)
        assert column.data is not None
        ends, data = plain(column.values), plain(column.data)
        hashes: Array = np.empty((count, 2), np.uint64)
        clause_names.mix_texts(ends, data, self._seeds, hashes)
        numbers = self.room.of(count)
        rows = np.full(len(self._entries), -1, np.int64)
        lane = np.ascontiguousarray(hashes[:, 0])
        texts = self._texts.values, self._texts.data
        while row < count:
            place = ends, data, lane, valid, row, self._table, self._entries
            row = group_numbers.number_texts(*place, *texts, self._counts, numbers, rows)
            if row < count:
                self._make_room()
                rows = np.concatenate([rows, np.full(len(self._entries) - len(rows), -1, np.int64)])
                self._table = self._new_table(self._table_size())
                group_numbers.place_texts(self._entries, self.count, self.null, self._table)
        if self.count > before:
            self._keep(Column(column.type, ends, None, data), rows[before : self.count])
        return numbers

    def _keep(self, column: Column, rows: Array) -> None:
        """Append new texts, which are in these rows of the column. Row -1 stands for NULL, an empty text."""
        lengths = np.where(rows < 0, 0, np.diff(column.values)[rows])
        first = int(self._texts.values[-1])
        size = int(lengths.sum())
        self._hold(size + 8 * len(rows))
        ends = np.append(self._texts.values, first + np.cumsum(lengths))
        assert self._texts.data is not None
        assert column.data is not None
        data = self._texts.data
        if len(data) < first + size:  # room for twice as many bytes, so that texts are copied only a few times
            data = np.concatenate([data[:first], np.empty(first + 2 * size, np.uint8)])
        taken = np.empty(size, np.uint8)
        some = rows[rows >= 0]
        take_texts(column.values, column.data, some, np.append(0, np.cumsum(lengths[rows >= 0])), taken)
        data[first : first + size] = taken
        self._texts = Column(column.type, ends, None, data)

    def order(self) -> Array:
        """The numbers in the order of the bytes of their texts, NULL last: int64[count]."""
        lengths = np.diff(self._texts.values)
        words = -(-int(lengths.max(initial=0)) // _WORD)
        if self.count < _SORTED_BY_WORDS or words > _MAX_WORDS:
            texts = self._texts.to_arrow().cast(pa.large_binary())
            return self._nulls_last(pc.array_sort_indices(texts).to_numpy().astype(np.int64))
        order = in_order(lengths)  # the shorter of two texts comes first if they differ only in trailing zeros
        for word in reversed(range(words)):
            self._hold(0)
            order = order[in_order(self._words(word, lengths)[order])]
        return self._nulls_last(order)

    def _words(self, word: int, lengths: Array) -> Array:
        """The eight bytes of each text from word * 8 on, as an integer: int64[count].

        Short texts are padded with zeros. The integers have the order of the bytes.
        """
        assert self._texts.data is not None
        ends = self._texts.values
        data = np.zeros(int(ends[-1]) + _WORD, np.uint8)
        data[: ends[-1]] = self._texts.data[: ends[-1]]
        every = np.ndarray(len(data) - _WORD + 1, ">u8", data, 0, (1,))
        left = np.clip(lengths - _WORD * word, 0, _WORD)
        values = every[np.minimum(ends[:-1] + _WORD * word, len(every) - 1)].astype(np.uint64)
        beyond = (64 - 8 * left).astype(np.uint64)
        values = np.where(left == 0, np.uint64(0), values >> beyond % np.uint64(64) << beyond % np.uint64(64))
        return (values ^ np.uint64(1 << 63)).view(np.int64)

    def text_bytes(self, numbers: Array) -> int:
        """The bytes of the texts that have these numbers (int64[k]). O(k)."""
        return int(np.diff(self._texts.values)[numbers].sum())

    def column(self, numbers: Array) -> Column:
        """The column of the texts that have these numbers (int64[k])."""
        column = self._texts.take(numbers)
        return Column(self.type, column.values, self._valid_of(numbers), column.data)


def numbers_of(data_type: DataType, limit: int, hold: Hold) -> KeyNumbers:
    """Make the empty table of numbers for a key of this type."""
    return (Texts if data_type.kind is Kind.TEXT else Integers)(data_type, limit, hold)


def in_order(keys: Array) -> Array:
    """The places of `keys` (int64[n]) in ascending order of their keys. The sort is stable."""
    order: Array = np.empty(len(keys), np.int64)
    order_keys(keys, order, np.empty(len(keys), np.int64))
    return order


def _valid(column: Column) -> Array:
    """A byte for each row, 0 for NULL, as the kernels need it. `ALL` if no row is NULL."""
    return ALL if column.valid is None else plain(column.valid).view(np.uint8)
