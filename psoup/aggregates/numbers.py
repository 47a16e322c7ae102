"""Dense numbers of the values of one key, given as they come; NULL is a value, NaN is one, and -0.0 is 0.0.

    sym   price         numbers of sym     of price
    IBM   10.0          0                  0
    SUN   NaN           1                  1
    IBM   NULL          0                  2

Numbers of integers lie in an array by key while the keys are near one another, else in a table by a secret hash; so do
those of texts, which are compared in full. A number never changes; `order` says in which order the values are shown.
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
from psoup.columns import Array, Column, empty_column, plain
from psoup.errors import ResourceExhausted
from psoup.events.tenants import GroupQuota
from psoup.kernels import group, identity
from psoup.kernels.gather import take_texts
from psoup.kernels.order import order_keys
from psoup.kinds import LEAST, TYPES
from psoup.model import DataType, Kind

_MASK = 2**64 - 1
_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_FIRST = 1_024
_NEAR, _MOST_NEAR = 1 << 16, 1 << 22
_NEAR_SHARE = 8
"""Places of an array by key for each row, up to which the array is worth its memory."""
_WORD = 8
_SORTED_BY_WORDS, _MOST_WORDS = 1 << 16, 8
"""Texts from which on they are sorted by eight bytes at a time, up to so many: to compare 2^20 of them takes half a
second in which no deadline is looked at."""

Hold = Callable[[int], None]
"""Told of bytes before they are taken; may refuse them by raising."""


def _seeds() -> Array:
    """Secrets of the process, those of Python's own hashes: no client can choose keys that collide."""
    return np.array([hash(("psoup", "group", lane)) & _MASK for lane in (1, 2)], np.uint64)


def over_keys(most: int) -> ResourceExhausted:
    """The error of more groups than one read may hold, or than its tenant's quota allows."""
    if isinstance(most, GroupQuota):
        return most.refusal()
    return ResourceExhausted(
        f"GROUP BY, or an aggregate of DISTINCT values, has more than {most:,} keys, as many as one invocation may hold"
        " (group_keys); narrow the window or the WHERE clause, or group by fewer or"
        " coarser keys",
        reason="GROUP_BUDGET",
        **GROUP_KEYS.over(f"{most + 1} or more", most),
    )


class Room:
    """An array that is used again for each part of the rows: new memory would cost more than numbering them."""

    def __init__(self, dtype: type) -> None:
        self._array: Array = np.empty(0, dtype)

    def of(self, size: int) -> Array:
        """The first `size` elements; the call before wrote to them, and the next one will."""
        if len(self._array) < size:
            self._array = np.empty(size, self._array.dtype)
        return self._array[:size]


class Numbers(ABC):
    """The values of a key that have a number, and room for more; beyond `most` numbers they are refused.

    `hold` is told of bytes before they are taken.
    """

    def __init__(self, data_type: DataType, most: int, hold: Hold, known: type) -> None:
        self.type = data_type
        self.room = Room(np.int32)
        self._most, self._hold = most, hold
        self._known: Array = np.zeros(min(_FIRST, most), known)
        """What a value is known by, a number after the other: an integer itself, a text's hash."""
        self._counts: Array = np.array([0, -1], np.int64)
        self._table: Array = np.zeros(0, np.int32)
        hold(self._known.nbytes)

    @property
    def count(self) -> int:
        """The count of numbers."""
        return int(self._counts[0])

    @property
    def null(self) -> int:
        """The number of NULL, -1 if none has come."""
        return int(self._counts[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the values, and of the table of their numbers."""
        return self._known.nbytes + self._table.nbytes

    def fork(self, most: int, hold: Hold) -> Self:
        """The same numbers, for a reader that may give more of them. O(1): arrays are shared until there is one more.

        What is forked may be in use by other readers, and gives no number any more.
        """
        own = object.__new__(type(self))
        own.__dict__.update(self.__dict__)
        own.room, own._most, own._hold = Room(np.int32), most, hold
        own._known, own._counts = self._known[: self.count], self._counts.copy()  # no room: no kernel writes
        return own

    @abstractmethod
    def number_column(self, column: Column) -> Array:
        """Number the values of a column: int32[n] in `room`. Raises as `over_keys`."""

    def text_bytes(self, numbers: Array) -> int:
        """Bytes of the texts with some numbers (int64[k]); of other values none."""
        return 0

    @abstractmethod
    def order(self) -> Array:
        """The numbers in the order of their values, NULL last: int64[count]."""

    @abstractmethod
    def column(self, numbers: Array) -> Column:
        """The values with some numbers (int64[k])."""

    def _valid_of(self, numbers: Array) -> Array | None:
        """Which numbers are not that of NULL; None: all."""
        return None if self.null < 0 else numbers != self.null

    def _make_room(self) -> None:
        """Make room for twice as many numbers."""
        room = len(self._known)
        if room >= self._most:
            raise over_keys(self._most)
        more = min(max(2 * room, _FIRST), self._most) - room
        self._hold(more * self._known.itemsize)
        self._known = np.concatenate([self._known, np.zeros(more, self._known.dtype)])

    def _new_table(self, size: int) -> Array:
        """An empty table of numbers."""
        self._hold(4 * size)
        return np.full(size, -1, np.int32)

    def _table_size(self) -> int:
        """The size of a table with open addressing: at most half of it is used."""
        return 1 << (2 * len(self._known) - 1).bit_length()

    def _nulls_last(self, order: Array) -> Array:
        """An order of all numbers, with that of NULL moved to the end."""
        return order if self.null < 0 else np.append(order[order != self.null], self.null)


class Integers(Numbers):
    """Numbers of integers, and of all types whose values have order keys."""

    def __init__(self, data_type: DataType, most: int, hold: Hold) -> None:
        super().__init__(data_type, most, hold, np.int64)
        self._seed = _seeds()[0]
        self._rows = 0
        self._base = 0
        self._near: Array | None = np.zeros(0, np.int32)
        """The numbers by key, from `_base` on; None: keys are too far apart."""
        self._shared = False
        """Whether `_near` is that of other readers too."""

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, and of the arrays of their numbers."""
        return super().nbytes + (0 if self._near is None else self._near.nbytes)

    def fork(self, most: int, hold: Hold) -> Self:
        """The same numbers, for a reader that may give more of them. O(1)."""
        own = super().fork(most, hold)
        own._shared = True
        return own

    def number_column(self, column: Column) -> Array:
        """Number the values of a column: int32[n] in `room`. Raises as `over_keys`."""
        return self.number(column.order_keys(), _valid(column))

    def number(self, keys: Array, valid: Array = ALL) -> Array:
        """Number keys (int64[n], uint8[n]): int32[n] in `room`. Raises as `over_keys`."""
        numbers = self.room.of(len(keys))
        keys, row = plain(keys), 0
        self._rows += len(keys)
        if len(keys) and self._near is not None:
            self._reach(int(keys.min()), int(keys.max()))
        while row < len(keys):
            if self._near is not None:
                place = keys, valid, row, self._base, self._near
                row = group.number_near(*place, self._known, self._counts, numbers)
            else:
                place = keys, valid, row, self._seed, self._table
                row = group.number_keys(*place, self._known, self._counts, numbers)
            if row < len(keys):
                self._make_room()
                if self._near is None:
                    self._fill()
                elif self._shared:
                    self._hold(self._near.nbytes)
                    self._near, self._shared = self._near.copy(), False
        return numbers

    def keys(self) -> Array:
        """The keys by number; 0 for NULL."""
        return self._known[: self.count]

    def order(self) -> Array:
        """The numbers in the order of their keys, NULL last: int64[count]."""
        if self._near is not None:
            order = self._near[self._near >= 0].astype(np.int64)
            return order if self.null < 0 else np.append(order, self.null)
        return self._nulls_last(in_order(self.keys()))

    def column(self, numbers: Array) -> Column:
        """The values with some numbers (int64[k])."""
        keys, valid = self.keys()[numbers], self._valid_of(numbers)
        if self.type.kind is Kind.DOUBLE:
            return Column(self.type, np.where(keys < 0, keys ^ _SIGN, keys).view(np.float64), valid)
        return Column(self.type, keys.astype(TYPES[self.type.kind].dtype, copy=False), valid)

    def _reach(self, least: int, greatest: int) -> None:
        """Make the array of near keys reach from `least` to `greatest`, or go over to the table by hash."""
        assert self._near is not None
        if len(self._near):
            least, greatest = min(least, self._base), max(greatest, self._base + len(self._near) - 1)
        span = greatest - least + 1
        if span == len(self._near):
            return
        if span > min(max(_NEAR, _NEAR_SHARE * self._rows), _MOST_NEAR):
            self._near = None
            self._fill()
            return
        if len(self._near):  # the next may be beyond these
            least, greatest = max(least - (least < self._base) * span // 8, LEAST), greatest + span // 8
        wider = self._new_table(greatest - least + 1)
        wider[self._base - least :][: len(self._near)] = self._near
        self._base, self._near, self._shared = least, wider, False

    def _fill(self) -> None:
        """Make the table by hash anew."""
        self._table = self._new_table(self._table_size())
        group.place_keys(self._known, self.count, self.null, self._seed, self._table)


class Texts(Numbers):
    """Numbers of texts."""

    def __init__(self, data_type: DataType, most: int, hold: Hold) -> None:
        super().__init__(data_type, most, hold, np.uint64)
        self._seeds = _seeds()
        self._table = self._new_table(self._table_size())
        self._kept = empty_column(data_type)
        """The texts by number; an empty one for NULL."""

    @property
    def nbytes(self) -> int:
        """Bytes of the texts, of their hashes, and of the table of their numbers."""
        return super().nbytes + self._kept.nbytes

    def fork(self, most: int, hold: Hold) -> Self:
        """The same numbers, for a reader that may give more of them. O(1)."""
        own, kept = super().fork(most, hold), self._kept
        assert kept.data is not None
        own._kept = Column(kept.type, kept.values, None, kept.data[: kept.values[-1]])
        return own

    def number_column(self, column: Column) -> Array:
        """Number the texts of a column: int32[n] in `room`. Raises as `over_keys`."""
        count, row, before, valid = len(column), 0, self.count, _valid(column)
        assert column.data is not None
        ends, data = plain(column.values), plain(column.data)
        hashes: Array = np.empty((count, 2), np.uint64)
        identity.mix_texts(ends, data, self._seeds, hashes)
        numbers = self.room.of(count)
        rows = np.full(len(self._known), -1, np.int64)
        lane = np.ascontiguousarray(hashes[:, 0])
        kept = self._kept.values, self._kept.data
        while row < count:
            place = ends, data, lane, valid, row, self._table, self._known
            row = group.number_texts(*place, *kept, self._counts, numbers, rows)
            if row < count:
                self._make_room()
                rows = np.concatenate([rows, np.full(len(self._known) - len(rows), -1, np.int64)])
                self._table = self._new_table(self._table_size())
                group.place_texts(self._known, self.count, self.null, self._table)
        if self.count > before:
            self._keep(Column(column.type, ends, None, data), rows[before : self.count])
        return numbers

    def _keep(self, column: Column, rows: Array) -> None:
        """Keep the texts of new numbers; a row of -1 is NULL, an empty text."""
        lengths = np.where(rows < 0, 0, np.diff(column.values)[rows])
        first = int(self._kept.values[-1])
        size = int(lengths.sum())
        self._hold(size + 8 * len(rows))
        ends = np.append(self._kept.values, first + np.cumsum(lengths))
        assert self._kept.data is not None
        assert column.data is not None
        data = self._kept.data
        if len(data) < first + size:  # room for as many again, so that all are copied a few times only
            data = np.concatenate([data[:first], np.empty(first + 2 * size, np.uint8)])
        taken = np.empty(size, np.uint8)
        some = rows[rows >= 0]
        take_texts(column.values, column.data, some, np.append(0, np.cumsum(lengths[rows >= 0])), taken)
        data[first : first + size] = taken
        self._kept = Column(column.type, ends, None, data)

    def order(self) -> Array:
        """The numbers in the order of the bytes of their texts, NULL last: int64[count]."""
        lengths = np.diff(self._kept.values)
        words = -(-int(lengths.max(initial=0)) // _WORD)
        if self.count < _SORTED_BY_WORDS or words > _MOST_WORDS:
            texts = self._kept.to_arrow().cast(pa.large_binary())
            return self._nulls_last(pc.array_sort_indices(texts).to_numpy().astype(np.int64))
        order = in_order(lengths)  # of texts that differ in zeros at their end the shorter ones come first
        for word in reversed(range(words)):
            self._hold(0)
            order = order[in_order(self._words(word, lengths)[order])]
        return self._nulls_last(order)

    def _words(self, word: int, lengths: Array) -> Array:
        """The bytes of each text from word * 8 on, zeros after its end, as integers in their order: int64[count]."""
        assert self._kept.data is not None
        ends = self._kept.values
        data = np.zeros(int(ends[-1]) + _WORD, np.uint8)
        data[: ends[-1]] = self._kept.data[: ends[-1]]
        every = np.ndarray(len(data) - _WORD + 1, ">u8", data, 0, (1,))
        left = np.clip(lengths - _WORD * word, 0, _WORD)
        values = every[np.minimum(ends[:-1] + _WORD * word, len(every) - 1)].astype(np.uint64)
        beyond = (64 - 8 * left).astype(np.uint64)
        values = np.where(left == 0, np.uint64(0), values >> beyond % np.uint64(64) << beyond % np.uint64(64))
        return (values ^ np.uint64(1 << 63)).view(np.int64)

    def text_bytes(self, numbers: Array) -> int:
        """Bytes of the texts with some numbers (int64[k]). O(k)."""
        return int(np.diff(self._kept.values)[numbers].sum())

    def column(self, numbers: Array) -> Column:
        """The texts with some numbers (int64[k])."""
        column = self._kept.take(numbers)
        return Column(self.type, column.values, self._valid_of(numbers), column.data)


def numbers_of(data_type: DataType, most: int, hold: Hold) -> Numbers:
    """Make the numbers of a key of some type."""
    return (Texts if data_type.kind is Kind.TEXT else Integers)(data_type, most, hold)


def in_order(keys: Array) -> Array:
    """The places of keys (int64[n]) in ascending order, equal ones in theirs."""
    order: Array = np.empty(len(keys), np.int64)
    order_keys(keys, order, np.empty(len(keys), np.int64))
    return order


def _valid(column: Column) -> Array:
    """Which rows are not NULL, as kernels take it."""
    return ALL if column.valid is None else plain(column.valid).view(np.uint8)
