"""Buffers: the rows of an operator's state, found by the instant at which they expire.

    fifo       a queue: ends are put in their order, so the first rows expire first
    calendar   partitions by expiry: ends come in any order
    keyed      an end for each row number: rows can be dropped, and their ends changed, before they expire

A buffer knows a row by its number in the owner's arrays. `psoup.plan.patterns` has the update pattern of each edge of a
plan. An edge with the weakest pattern can use `fifo`. The weak pattern needs `calendar`, the strict one `keyed` (update
patterns, section 5.3.2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import numpy as np

from psoup.aggregates.numbers import in_order
from psoup.delta.spans import FOREVER
from psoup.invariants import ensure
from psoup.values.columns import Array

_MOST_PARTITIONS = 64
"""The most partitions of a calendar. With more, neighbours are merged."""
_FEWER = 1
"""The binary logarithm of the number of partitions that are merged into one."""
_DIVIDED = 2
"""The binary logarithm of the number of partitions into which each one is divided."""
_LARGE = 4_096
"""If more rows than this remain of a partition that is only partly due, all partitions are divided."""

BufferKind = Literal["fifo", "calendar", "keyed"]


class Entries(NamedTuple):
    """Rows of a buffer. `rows`: their numbers, int32[n]. `ends`: the last instant of each, int64[n]."""

    rows: Array
    ends: Array

    @classmethod
    def empty(cls) -> Entries:
        """No rows."""
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int64))

    @classmethod
    def joined(cls, parts: list[Entries]) -> Entries:
        """The rows of some parts, in order."""
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        return cls(np.concatenate([part.rows for part in parts]), np.concatenate([part.ends for part in parts]))

    def take(self, places: Array) -> Entries:
        """The rows at some positions, or with a flag (bool[n])."""
        return Entries(self.rows[places], self.ends[places])

    def slice(self, start: int, stop: int) -> Entries:
        """The rows from start to stop, as views of the same memory."""
        return Entries(self.rows[start:stop], self.ends[start:stop])

    def renumbered(self, places: Array) -> Entries:
        """The rows with new numbers, without those whose new number is -1. `places`: the new number of each row."""
        rows = places[self.rows]
        return self if not len(rows) else Entries(rows, self.ends).take(rows >= 0)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return self.rows.nbytes + self.ends.nbytes


class Buffer(Protocol):
    """Rows of an operator's state. A row whose end is FOREVER never expires, so no buffer keeps it."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of the buffer."""
        ...

    def put(self, rows: Array, ends: Array) -> None:
        """Add rows (int32[k]), which are not in the buffer, with their ends (int64[k])."""
        ...

    def due(self, before: int) -> Entries:
        """Remove and return the rows that end before an instant."""
        ...

    def renumber(self, places: Array) -> None:
        """Give all rows new numbers. `places`: int32, the new number of each old one; -1 removes the row."""
        ...

    def entries(self) -> Entries:
        """All rows, in any order."""
        ...


class Fifo:
    """A queue of rows whose ends come in order. Raises Corrupt for an end that is less than an earlier one."""

    def __init__(self) -> None:
        self._parts = deque[Entries]()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(len(part.rows) for part in self._parts)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        return sum(part.nbytes for part in self._parts)

    def put(self, rows: Array, ends: Array) -> None:
        """Add rows. O(k)."""
        entries = Entries(rows, ends).take(ends != FOREVER)
        if not len(entries.rows):
            return
        ensure(self._in_order(entries.ends), self, "a row ends before an earlier row, so it needs a calendar")
        self._parts.append(entries)

    def _in_order(self, ends: Array) -> bool:
        last = ends[0] if not self._parts else self._parts[-1].ends[-1]
        return bool(last <= ends[0] and (ends[1:] >= ends[:-1]).all())

    def due(self, before: int) -> Entries:
        """Remove and return the rows that end before an instant. O(result)."""
        due = list[Entries]()
        while self._parts and self._parts[0].ends[0] < before:
            part = self._parts.popleft()
            stop = int(np.searchsorted(part.ends, before))
            due.append(part.slice(0, stop))
            if stop < len(part.rows):
                self._parts.appendleft(part.slice(stop, len(part.rows)))
        return Entries.joined(due)

    def renumber(self, places: Array) -> None:
        """Give all rows new numbers. O(rows)."""
        whole = self.entries().renumbered(places)
        self._parts = deque([whole] if len(whole.rows) else [])

    def entries(self) -> Entries:
        """All rows, in the order of their ends."""
        return Entries.joined(list(self._parts))


class Calendar:
    """Rows in partitions by their end. The width of the partitions adapts to the ends.

    `limit`: the most partitions. `large`: partitions are divided if more rows than this remain of a partly due one.
    """

    def __init__(self, limit: int = _MOST_PARTITIONS, large: int = _LARGE) -> None:
        self._limit, self._large = limit, large
        self._shift = 0
        """The binary logarithm of the width of a partition."""
        self._partitions = dict[int, list[Entries]]()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(len(part.rows) for parts in self._partitions.values() for part in parts)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        return sum(part.nbytes for parts in self._partitions.values() for part in parts)

    def put(self, rows: Array, ends: Array) -> None:
        """Add rows. O(k log k), and at times O(rows)."""
        finite = ends != FOREVER
        entries = Entries(rows, ends) if finite.all() else Entries(rows, ends).take(finite)
        if (shift := self._fitting(entries.ends)) > self._shift:
            self._divide(shift)
        self._place(entries)

    def _fitting(self, ends: Array) -> int:
        """The least width, not below the present one, with which all rows and new ones have few enough partitions."""
        shift, present = self._shift, np.fromiter(self._partitions, np.int64, len(self._partitions))
        numbers = np.unique(np.concatenate([present, ends >> shift]))
        while len(numbers) > self._limit:
            shift, numbers = shift + _FEWER, np.unique(numbers >> _FEWER)
        return shift

    def _place(self, entries: Entries) -> None:
        if not len(entries.rows):
            return
        numbers = entries.ends >> self._shift
        if (numbers[1:] < numbers[:-1]).any():
            order = in_order(numbers)
            entries, numbers = entries.take(order), numbers[order]
        first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])).tolist()
        for start, stop in zip(first, [*first[1:], len(numbers)], strict=True):
            self._partitions.setdefault(int(numbers[start]), []).append(entries.slice(start, stop))

    def _divide(self, shift: int) -> None:
        """Change the width of all partitions."""
        whole = self.entries()
        self._partitions, self._shift = {}, shift
        self._place(whole)

    def due(self, before: int) -> Entries:
        """Remove and return the rows that end before an instant. O(result + one partition)."""
        last, due = before >> self._shift, list[Entries]()
        for number in [number for number in self._partitions if number <= last]:
            due += self._partitions.pop(number)
        entries = Entries.joined(due)
        later = entries.ends >= before
        if not later.any():
            return entries
        self._place(rest := entries.take(later))
        if len(rest.rows) > self._large and self._shift and len(self._partitions) << _DIVIDED <= self._limit:
            self._divide(max(self._shift - _DIVIDED, 0))
        return entries.take(~later)

    def renumber(self, places: Array) -> None:
        """Give all rows new numbers. O(rows)."""
        whole = self.entries().renumbered(places)
        self._partitions = {}
        self._place(whole)

    def entries(self) -> Entries:
        """All rows."""
        return Entries.joined([part for parts in self._partitions.values() for part in parts])


class Keyed:
    """The end of each row by its number. A row may be put again with another end, or dropped."""

    def __init__(self) -> None:
        self._ends: Array = np.zeros(0, np.int64)
        """The end of each row; FOREVER for numbers without a row."""

    @property
    def rows(self) -> int:
        """The number of rows. O(row numbers)."""
        return int(np.count_nonzero(self._ends != FOREVER))

    @property
    def nbytes(self) -> int:
        """The bytes of the ends."""
        return self._ends.nbytes

    def put(self, rows: Array, ends: Array) -> None:
        """Add rows, or change their ends. O(k)."""
        if not len(rows):
            return
        if (room := int(rows.max()) + 1) > len(self._ends):
            more = np.full(max(room, 2 * len(self._ends)) - len(self._ends), FOREVER)
            self._ends = np.concatenate([self._ends, more])
        self._ends[rows] = ends

    def drop(self, rows: Array) -> None:
        """Remove rows before they expire. O(k)."""
        self._ends[rows] = FOREVER

    def due(self, before: int) -> Entries:
        """Remove and return the rows that end before an instant. O(row numbers)."""
        rows = np.flatnonzero(self._ends < before).astype(np.int32)
        due = Entries(rows, self._ends[rows])
        self.drop(rows)
        return due

    def renumber(self, places: Array) -> None:
        """Give all rows new numbers. O(row numbers)."""
        whole = self.entries().renumbered(places)
        self._ends = np.zeros(0, np.int64)
        self.put(*whole)

    def entries(self) -> Entries:
        """All rows, in the order of their numbers."""
        rows = np.flatnonzero(self._ends != FOREVER).astype(np.int32)
        return Entries(rows, self._ends[rows])


BUFFERS: dict[BufferKind, Callable[[], Buffer]] = {"fifo": Fifo, "calendar": Calendar, "keyed": Keyed}
"""The class of each kind of buffer."""
