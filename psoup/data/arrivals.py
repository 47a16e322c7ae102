"""The tuple IDs of the rows of recent pushes, found by the arrival numbers of the rows.

    pushes     event 41: rows 0 1 2     event 43: rows 3 4 5       each accepted row has a number, in order of arrival
    pages      tuple ID  0 1 2 3        the same order: a range, of any length
               number    0 2 3 1        another order: 8 bytes a tuple, for the newest million tuples
    waiting    number    4 5            not released yet

In system time, and while event times come in order, one page takes all tuples. The writer drops a page with its last
tuple. No budget charges the table. Pushes take half a megabyte. Pages take at most 8 MiB, and at most a third of the
least size of their tuples. The table is not on disk. After a start it has only the rows of events in the log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array

KEPT_PUSHES = 16_384
"""The least number of newest pushes that the table keeps."""

KEPT_PAGES = 16
"""The limit of the arrival numbers in memory, in pages of 65,536 numbers."""

_PAGE = 65_536
"""The most numbers of a page that several releases fill."""
_FIRST = 1_024
"""The least size of a new page's buffer, in arrival numbers."""
_LARGE = 16
"""A release of at least `_PAGE` / `_LARGE` numbers gets a page of its own."""
_MAX_PAGES = 256
"""The most pages that are kept."""

UNKNOWN = -(2**63)
"""Stands in place of a tuple ID that is no longer known."""
WAITS = -(2**63) + 1
"""Stands in place of the tuple ID of a row that waits for the watermark."""


Numbers = Array | range
"""The arrival numbers of some rows: int64, or a range if they are consecutive."""


def sorted_by(numbers: Numbers, order: Array) -> Numbers:
    """The numbers in another order. `order`: int64[n], a permutation, which this function may overwrite."""
    if isinstance(numbers, range):
        order += numbers.start
        return order
    return numbers[order]


def joined(parts: Sequence[Numbers]) -> Numbers:
    """The numbers of all parts (at least one), concatenated. O(n); O(parts) if they are consecutive ranges."""
    first = parts[0]
    if isinstance(first, range):
        end = first.stop
        for part in parts[1:]:
            if not isinstance(part, range) or part.start != end:
                break
            end = part.stop
        else:
            return range(first.start, end)
    return np.concatenate(parts)


class NumberPage(NamedTuple):
    """The arrival numbers of consecutive tuples, in the order of their IDs. The first tuple has the ID `first_id`."""

    first_id: int
    numbers: Numbers


class ArrivalView(NamedTuple):
    """A snapshot of the table for readers. `next_number`: the arrival number that the next row will get.

    `pushes`: two numbers for each push, the sequence of its event and the arrival number of its first row. The second
    is inverted (~) if some rows of the push are unknown. The view has the first `known` pushes. The writer appends to
    the same array, so no reader may export its memory.
    """

    pushes: array[int]
    known: int
    next_number: int
    pages: tuple[NumberPage, ...]
    waiting: tuple[Numbers, ...]

    @property
    def ends(self) -> tuple[int, int, int]:
        """The number of known pushes, the tuple ID after the last released one, and the number of waiting rows."""
        last = self.pages[-1]
        return self.known, last.first_id + len(last.numbers), sum(map(len, self.waiting))

    def push(self, sequence: int) -> tuple[int, int] | None:
        """The first arrival number and the row count of the push with this sequence. None if it is unknown. O(log k).

        The count is -1 if some of the rows were stored before the start.
        """
        pushes = self.pushes
        place = bisect_left(range(self.known), sequence, key=lambda place: pushes[2 * place])
        if place == self.known or pushes[2 * place] != sequence:
            return None
        first = pushes[2 * place + 1]
        if first < 0:
            return ~first, -1
        after = self.next_number if place + 1 == self.known else pushes[2 * place + 3]
        return first, max(after, ~after) - first

    @property
    def first_sequence(self) -> int | None:
        """The sequence of the oldest known push, or None."""
        return self.pushes[0] if self.known else None

    def ids(self, first: int, count: int) -> Array:
        """The tuple IDs of `count` rows with arrival numbers from `first` on: int64[count].

        A row may have UNKNOWN or WAITS in place of an ID. O(pages + waiting rows).
        """
        ids: Array = np.full(count, UNKNOWN, np.int64)
        for page in self.pages:
            _put(ids, page.numbers, first, page.first_id)
        for numbers in self.waiting:
            _put(ids, numbers, first, None)
        return ids


def _put(ids: Array, numbers: Numbers, first: int, first_id: int | None) -> None:
    """Write to `ids` the tuple IDs of the rows whose arrival numbers are in `numbers`.

    `first`: the arrival number of the first entry of `ids`. `first_id`: the tuple ID of `numbers[0]`; None if the rows
    wait.
    """
    if isinstance(numbers, range):
        low, high = max(first, numbers.start), min(first + len(ids), numbers.stop)
        if low < high:
            begin = None if first_id is None else first_id + low - numbers.start
            ids[low - first : high - first] = WAITS if begin is None else np.arange(begin, begin + high - low)
        return
    among = np.flatnonzero((numbers >= first) & (numbers < first + len(ids)))
    ids[numbers[among] - first] = WAITS if first_id is None else among + first_id


class Arrivals:
    """The table as the writer keeps it. The writer only appends to arrays, or replaces them, so views never change."""

    def __init__(self, kept_pushes: int = KEPT_PUSHES, page: int = _PAGE) -> None:
        self._kept = kept_pushes
        self._page = page
        self._pushes = array("q")
        self._next = 0
        """The arrival number of the next row."""
        self._released = 0
        """The number of released rows."""
        self._closed: tuple[NumberPage, ...] = ()
        self._held = 0
        """The arrival numbers that closed pages have in arrays."""
        self._open = NumberPage(0, range(0))
        """The newest page: a range, or the first numbers of `_buffer`."""
        self._buffer: Array = np.zeros(0, np.int64)

    def add(self, sequence: int, count: int, *, whole: bool = True) -> int:
        """Give arrival numbers to `count` rows of a push. Returns the first number.

        `whole`: False if the push had more rows.
        """
        first, self._next = self._next, self._next + count
        if len(self._pushes) >= 4 * self._kept:
            self._pushes = self._pushes[-2 * self._kept :]  # views keep the earlier array
        self._pushes.extend((sequence, first if whole else ~first))
        return first

    def release(self, first_id: int, numbers: Numbers) -> None:
        """Record that the rows with these arrival numbers got the tuple IDs from `first_id` on.

        O(n), or O(1) for a range that continues the newest page.
        """
        page, before = self._open, self._open.numbers
        if (
            type(numbers) is type(before) is range
            and numbers.start == before.stop
            and first_id - page.first_id == before.stop - before.start
        ):  # always so in system time
            self._released += numbers.stop - numbers.start
            self._open = NumberPage(page.first_id, range(before.start, numbers.stop))
            return
        self._released += len(numbers)
        if first_id != page.first_id + len(page.numbers):
            page = self._turn(first_id)
        if isinstance(numbers, range) and isinstance(page.numbers, range) and page.numbers.stop in (numbers.start, 0):
            first = page.numbers.start if len(page.numbers) else numbers.start
            self._open = NumberPage(page.first_id, range(first, numbers.stop))
        elif len(numbers) >= self._page // _LARGE:
            self._turn(first_id)
            self._open = NumberPage(first_id, numbers)
            self._turn(first_id + len(numbers))
        else:
            self._write(first_id, numbers)

    def forget_before(self, tuple_id: int) -> None:
        """Drop pages of tuples with smaller IDs. O(pages dropped)."""
        while self._closed and self._closed[0].first_id + len(self._closed[0].numbers) <= tuple_id:
            self._drop_page()

    def view(self, waiting: tuple[Numbers, ...]) -> ArrivalView:
        """A snapshot of the table for readers, which later changes of the table do not change. O(pages).

        `waiting`: the arrival numbers of the rows that wait for the watermark.
        """
        return ArrivalView(self._pushes, len(self._pushes) // 2, self._next, (*self._closed, self._open), waiting)

    def check(self, waiting: Sequence[Numbers]) -> None:
        """Check that each row is released or waits, and that pages do not overlap."""
        waits = sum(map(len, waiting))
        ensure(self._released + waits == self._next, self, "rows are miscounted", waiting=waits, taken=self._next)
        pages = (*self._closed, self._open)
        apart = all(page.first_id + len(page.numbers) <= later.first_id for page, later in pairwise(pages))
        ensure(apart, self, "pages overlap", begins=[page.first_id for page in pages])
        ensure(self._held == sum(map(_held, self._closed)), self, "numbers are miscounted", counted=self._held)

    def _write(self, first_id: int, numbers: Numbers) -> None:
        """Append a few numbers to the newest page. If it is full or a range, begin a new page first."""
        page = self._open
        length = len(page.numbers)
        if length and (isinstance(page.numbers, range) or length + len(numbers) > self._page):
            page, length = self._turn(first_id), 0
        end = length + len(numbers)
        if end > len(self._buffer) or not length:
            grown: Array = np.zeros(min(max(4 * end, _FIRST), self._page), np.int64)
            grown[:length] = self._buffer[:length]
            self._buffer = grown
        self._buffer[length:end] = numbers
        self._open = NumberPage(page.first_id, self._buffer[:end])

    def _turn(self, first_id: int) -> NumberPage:
        """Begin a page, and drop the oldest pages beyond the limits KEPT_PAGES and _MAX_PAGES."""
        if len(self._open.numbers):
            self._closed = (*self._closed, self._open)
            self._held += _held(self._open)
            while self._held > KEPT_PAGES * self._page or len(self._closed) > _MAX_PAGES:
                self._drop_page()
        self._open = NumberPage(first_id, range(0))
        return self._open

    def _drop_page(self) -> None:
        self._held -= _held(self._closed[0])
        self._closed = self._closed[1:]


def _held(page: NumberPage) -> int:
    """The number of arrival numbers in the array of a page; 0 for a range."""
    return 0 if isinstance(page.numbers, range) else len(page.numbers)
