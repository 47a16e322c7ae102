"""Keys of groups as dense numbers, given as the keys come; NULL is a key, NaN is one, and -0.0 is 0.0.

    sym   price              numbers of sym     of price     of the pair
    IBM   10.0               0                  0            0
    SUN   NaN                1                  1            1
    IBM   NULL               0                  2            2            0 << 32 | 2, numbered like any integer

Numbers of integers lie in an array by key while the keys are near one another, else in a table by a secret hash; so do
those of texts, which are compared in full. In the end `order` says in which order the groups are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.aggregates.state import ALL, plain
from psoup.columns import Array, Column, empty_column
from psoup.data.chunk import ChunkView
from psoup.data.coded import ASKED, USELESS, Coded, is_worth_keeping
from psoup.errors import ResourceExhausted
from psoup.kernels import group, identity
from psoup.kernels.gather import take_texts
from psoup.kernels.order import order_keys
from psoup.kinds import LEAST, TYPES
from psoup.model import BIGINT, DataType, Kind

_MASK = 2**64 - 1
_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_FIRST = 1_024
_NEAR, _MOST_NEAR = 1 << 16, 1 << 22
_NEAR_SHARE = 8
"""Places of an array by key for each row, up to which the array is worth its memory."""

Hold = Callable[[int], None]
"""Told of bytes before they are taken; may refuse them by raising."""


def _seeds() -> Array:
    """Secrets of the process, those of Python's own hashes: no client can choose keys that collide."""
    return np.array([hash(("psoup", "group", lane)) & _MASK for lane in (1, 2)], np.uint64)


def over_keys(most: int) -> ResourceExhausted:
    """The error of more groups than one read may hold."""
    return ResourceExhausted(
        f"GROUP BY, or an aggregate of DISTINCT values, has more than {most:,} keys, as many as one invocation may hold"
        " (group_keys); narrow the window or the WHERE clause, or group by fewer or coarser keys",
        reason="GROUP_BUDGET",
        limit=most,
    )


class Room:
    """Memory for the numbers of one part after the other: memory that is new costs more than to number the rows."""

    def __init__(self, dtype: type) -> None:
        self._array: Array = np.empty(0, dtype)

    def of(self, size: int) -> Array:
        """So many elements, arbitrary; they are those of the call before."""
        if len(self._array) < size:
            self._array = np.empty(size, self._array.dtype)
        return self._array[:size]


class _Numbers:
    """Numbers that are given so far, and room for more; `most`: beyond that they are refused."""

    def __init__(self, most: int, hold: Hold, dtype: type) -> None:
        self._most, self.hold = most, hold
        self.known: Array = np.zeros(min(_FIRST, most), dtype)
        self.counts: Array = np.array([0, -1], np.int64)
        hold(self.known.nbytes)

    @property
    def count(self) -> int:
        return int(self.counts[0])

    @property
    def null(self) -> int:
        """The number of NULL, -1 if none has come."""
        return int(self.counts[1])

    def make_room(self) -> None:
        """Make room for twice as many numbers."""
        room = len(self.known)
        if room >= self._most:
            raise over_keys(self._most)
        more = min(2 * room, self._most) - room
        self.hold(more * self.known.itemsize)
        self.known = np.concatenate([self.known, np.zeros(more, self.known.dtype)])

    def new_table(self, size: int) -> Array:
        """An empty table of numbers."""
        self.hold(4 * size)
        return np.full(size, -1, np.int32)

    def table_size(self) -> int:
        """The size of a table with open addressing: at most half of it is used."""
        return 1 << (2 * len(self.known) - 1).bit_length()

    def nulls_last(self, order: Array) -> Array:
        """An order of all numbers, with that of NULL moved to the end."""
        return order if self.null < 0 else np.append(order[order != self.null], self.null)


class Integers:
    """Numbers of int64 keys."""

    def __init__(self, most: int, hold: Hold) -> None:
        self._numbers = _Numbers(most, hold, np.int64)
        self.room = Room(np.int32)
        self._seed = _seeds()[0]
        self._rows = 0
        self._base = 0
        self._near: Array | None = np.zeros(0, np.int32)
        """The numbers by key, from `_base` on; None: keys are too far apart."""
        self._table: Array = np.zeros(0, np.int32)

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return self._numbers.count

    @property
    def null(self) -> int:
        """The number of NULL, or -1."""
        return self._numbers.null

    def number(self, keys: Array, valid: Array = ALL) -> Array:
        """Number keys (int64[n], uint8[n]): int32[n], see `Room`. Raises ResourceExhausted (GROUP_BUDGET)."""
        numbers = self.room.of(len(keys))
        keys, row = plain(keys), 0
        self._rows += len(keys)
        if len(keys) and self._near is not None:
            self._reach(int(keys.min()), int(keys.max()))
        while row < len(keys):
            given = self._numbers
            if self._near is not None:
                place = keys, valid, row, self._base, self._near
                row = group.number_near(*place, given.known, given.counts, numbers)
            else:
                place = keys, valid, row, self._seed, self._table
                row = group.number_keys(*place, given.known, given.counts, numbers)
            if row < len(keys):
                given.make_room()
                if self._near is None:
                    self._fill()
        return numbers

    def _reach(self, least: int, greatest: int) -> None:
        """Let the array of near keys have places for these, or give it up."""
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
        wider = self._numbers.new_table(greatest - least + 1)
        wider[self._base - least :][: len(self._near)] = self._near
        self._base, self._near = least, wider

    def _fill(self) -> None:
        """Make the table by hash anew."""
        given = self._numbers
        self._table = given.new_table(given.table_size())
        group.place_keys(given.known, given.count, given.null, self._seed, self._table)

    def keys(self) -> Array:
        """The keys by number; 0 for NULL."""
        return self._numbers.known[: self.count]

    def order(self) -> Array:
        """The numbers in the order of their keys, NULL last: int64[count]."""
        if self._near is not None:
            order = self._near[self._near >= 0].astype(np.int64)
            return order if self.null < 0 else np.append(order, self.null)
        return self._numbers.nulls_last(_sorted(self.keys()))


class Texts:
    """Numbers of texts."""

    def __init__(self, most: int, hold: Hold) -> None:
        self._numbers = _Numbers(most, hold, np.uint64)
        self.room = Room(np.int32)
        self._seeds = _seeds()
        self._table = self._numbers.new_table(self._numbers.table_size())
        self._kept = empty_column(DataType(Kind.TEXT))

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return self._numbers.count

    @property
    def null(self) -> int:
        """The number of NULL, or -1."""
        return self._numbers.null

    def number(self, column: Column, valid: Array = ALL) -> Array:
        """Number the texts of a column: int32[n], see `Room`. Raises ResourceExhausted (GROUP_BUDGET)."""
        count, row, before = len(column), 0, self.count
        given = self._numbers
        assert column.data is not None
        ends, data = plain(column.values), plain(column.data)
        hashes: Array = np.empty((count, 2), np.uint64)
        identity.mix_texts(ends, data, self._seeds, hashes)
        numbers = self.room.of(count)
        rows = np.full(len(given.known), -1, np.int64)
        lane = np.ascontiguousarray(hashes[:, 0])
        kept = self._kept.values, self._kept.data
        while row < count:
            place = ends, data, lane, valid, row, self._table, given.known
            row = group.number_texts(*place, *kept, given.counts, numbers, rows)
            if row < count:
                given.make_room()
                rows = np.concatenate([rows, np.full(len(given.known) - len(rows), -1, np.int64)])
                self._table = given.new_table(given.table_size())
                group.place_texts(given.known, given.count, given.null, self._table)
        if self.count > before:
            self._keep(Column(column.type, ends, None, data), rows[before : self.count])
        return numbers

    def _keep(self, column: Column, rows: Array) -> None:
        """Keep the texts of new numbers; a row of -1 is NULL, an empty text."""
        lengths = np.where(rows < 0, 0, np.diff(column.values)[rows])
        first = int(self._kept.values[-1])
        size = int(lengths.sum())
        self._numbers.hold(size + 8 * len(rows))
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

    def keys(self) -> Column:
        """The texts by number; an empty one for NULL."""
        return self._kept

    def order(self) -> Array:
        """The numbers in the order of the bytes of their texts, NULL last: int64[count]."""
        texts = self._kept.to_arrow().cast(pa.large_binary())
        return self._numbers.nulls_last(pc.array_sort_indices(texts).to_numpy().astype(np.int64))


class Keys:
    """The groups of rows by one or several key columns, numbered as they come."""

    def __init__(self, types: Sequence[DataType], most: int, hold: Hold) -> None:
        """`most`: groups, and different values of one key, at most."""
        self._types = types
        self._single = [(Texts if kind.kind is Kind.TEXT else Integers)(most, hold) for kind in types]
        self._pairs = [Integers(most, hold) for _ in types[1:]]
        self._room = Room(np.int64)

    @property
    def count(self) -> int:
        """How many groups there are."""
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
        numbers = self._of_each(groups)
        each = zip(self._single, self._types, numbers, strict=True)
        return [_column(own, kind, some) for own, kind, some in each]

    def order(self) -> Array:
        """The groups in the order of their keys, NULLs last: int64[count]."""
        if not self._pairs:
            return self._single[0].order()
        order = np.arange(self.count)
        for own, numbers in reversed(list(zip(self._single, self._of_each(order), strict=True))):
            ranks = np.empty(own.count, np.int64)
            ranks[own.order()] = np.arange(own.count)
            order = order[_sorted(ranks[numbers[order]])]
        return order

    def _of_each(self, groups: Array) -> list[Array]:
        """The number of each key of some groups."""
        numbers = []
        for pairs in reversed(self._pairs):
            joined = pairs.keys()[groups]
            numbers.append(joined & 0xFFFF_FFFF)
            groups = joined >> 32
        return [groups, *reversed(numbers)]


def _numbered(own: Integers | Texts, column: Column | Coded) -> Array:
    if isinstance(column, Coded):
        return _mapped(own, column)
    valid = ALL if column.valid is None else plain(column.valid).view(np.uint8)
    return own.number(column, valid) if isinstance(own, Texts) else own.number(column.order_keys(), valid)


def _mapped(own: Integers | Texts, column: Coded) -> Array:
    """The numbers of rows whose values are known by number: only values that occur in them are keys."""
    numbers: Array = np.zeros(len(column.values), np.int32)
    if column.whole:
        numbers[:] = _numbered(own, column.values)
    else:
        seen: Array = np.zeros(len(numbers), np.uint8)
        group.mark_codes(column.codes, seen)
        here = np.flatnonzero(seen)
        numbers[here] = _numbered(own, column.values.take(here))
    out = own.room.of(len(column))
    group.map_codes(column.codes, numbers, out)
    return out


def compile_kernels() -> None:
    """Compile what is used only of chunks that were grouped by before, so that their readers do not wait."""
    values = Column(BIGINT, np.arange(3))
    for whole in (True, False):
        Keys([BIGINT], 3, lambda size: None).number([Coded(np.zeros(3, np.uint16), values, whole)])
    Integers(3, lambda size: None).number(np.array([0, 2**62]))


def coded_column(chunk: ChunkView, index: int) -> Coded | None:
    """A column of a chunk as numbers of its values, made when it is asked for a second time and worth it; else None."""
    known = chunk.coded.get(index)
    if known is None:
        chunk.coded[index] = ASKED
    if not isinstance(known, Coded) and known == ASKED:
        column = chunk.columns[index]
        keys = Keys([column.type], len(column) + 1, lambda size: None)
        numbers = keys.number([column])
        known = chunk.coded[index] = USELESS
        if is_worth_keeping(keys.count, len(column)):
            values = keys.columns(np.arange(keys.count))[0]
            known = chunk.coded[index] = Coded(numbers.astype(np.uint16), values)
    return known if isinstance(known, Coded) else None


def _column(own: Integers | Texts, data_type: DataType, numbers: Array) -> Column:
    """The keys with some numbers."""
    valid = None if own.null < 0 else numbers != own.null
    if isinstance(own, Texts):
        column = own.keys().take(numbers)
        return Column(data_type, column.values, valid, column.data)
    keys = own.keys()[numbers]
    if data_type.kind is Kind.DOUBLE:
        return Column(data_type, np.where(keys < 0, keys ^ _SIGN, keys).view(np.float64), valid)
    return Column(data_type, keys.astype(TYPES[data_type.kind].dtype, copy=False), valid)


def _sorted(keys: Array) -> Array:
    """The places of keys (int64[n]) in ascending order, equal ones in theirs."""
    order: Array = np.empty(len(keys), np.int64)
    order_keys(keys, order, np.empty(len(keys), np.int64))
    return order
