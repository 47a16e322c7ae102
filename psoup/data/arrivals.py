"""The tuple IDs of the rows of recent pushes: the order of arrival beside the order of the stream.

    pushes     event 41: rows 0 1 2     event 43: rows 3 4 5       each accepted row has a number, in order of arrival
    pages      tuple ID  0 1 2 3        the same order: a range, of any length
               number    0 2 3 1        another order: 8 bytes a tuple, for the newest million tuples
    waiting    number    4 5            not released yet

In system time, and where event times come in order, a page never ends. Pages are dropped with their tuples. The memory
is not charged: half a megabyte for pushes, and at most a third of the least size of these tuples, 8 MiB at most.
Nothing is on disk: after a start the table begins with the events of the log.
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
"""The newest pushes whose rows are known."""

KEPT_PAGES = 16
"""Pages of 65,536 numbers that are kept, or as many numbers in more pages."""

_PAGE = 65_536
"""Numbers of a page."""
_FIRST = 1_024
"""Numbers for which a new page has room."""
_LARGE = 16
"""Numbers of at least this part of a page become a page."""
_MAX_PAGES = 256
"""The most pages that are kept."""

UNKNOWN = -(2**63)
"""In place of a tuple ID: it is no longer known."""
WAITS = -(2**63) + 1
"""In place of a tuple ID: the row waits for the watermark."""


Numbers = Array | range
"""Numbers of rows, int64; a range if they are consecutive."""


def sorted_by(numbers: Numbers, order: Array) -> Numbers:
    """The numbers at the places of `order`, int64[n], a permutation that may be overwritten."""
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
    """The table as readers see it. `next_number`: the number of the next row to come.

    `pushes`: for each push its sequence and the number of its first row, which is inverted (~) if some of its rows are
    unknown. The first `known` pushes belong to the view. The writer appends others, so no reader may export the array's
    memory.
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
        """The first number and the row count of the push of an event; None if the push is not known. O(log k).

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
        """The event of the oldest known push, or None."""
        return self.pushes[0] if self.known else None

    def ids(self, first: int, count: int) -> Array:
        """The tuple IDs of the rows numbered from `first` on, or UNKNOWN or WAITS: int64[count]. O(pages, waiting)."""
        ids: Array = np.full(count, UNKNOWN, np.int64)
        for page in self.pages:
            _put(ids, page.numbers, first, page.first_id)
        for numbers in self.waiting:
            _put(ids, numbers, first, None)
        return ids


def _put(ids: Array, numbers: Numbers, first: int, first_id: int | None) -> None:
    """Write the IDs of the rows among `numbers`, counted from `first_id`; None: the rows wait."""
    if isinstance(numbers, range):
        low, high = max(first, numbers.start), min(first + len(ids), numbers.stop)
        if low < high:
            begin = None if first_id is None else first_id + low - numbers.start
            ids[low - first : high - first] = WAITS if begin is None else np.arange(begin, begin + high - low)
        return
    among = np.flatnonzero((numbers >= first) & (numbers < first + len(ids)))
    ids[numbers[among] - first] = WAITS if first_id is None else among + first_id


class Arrivals:
    """The writer's side: arrays that only grow until they are replaced, so that views never change."""

    def __init__(self, kept_pushes: int = KEPT_PUSHES, page: int = _PAGE) -> None:
        self._kept = kept_pushes
        self._page = page
        self._pushes = array("q")
        self._next = 0
        """The number of the next row."""
        self._released = 0
        """The count of released numbers."""
        self._closed: tuple[NumberPage, ...] = ()
        self._held = 0
        """Numbers in memory of the closed pages."""
        self._open = NumberPage(0, range(0))
        """The newest page: a range, or the first numbers of `_buffer`."""
        self._buffer: Array = np.zeros(0, np.int64)

    def add(self, sequence: int, count: int, *, whole: bool = True) -> int:
        """Number the rows of a push; returns the first number. Not `whole`: the push had more rows than these."""
        first, self._next = self._next, self._next + count
        if len(self._pushes) >= 4 * self._kept:
            self._pushes = self._pushes[-2 * self._kept :]  # views keep the earlier array
        self._pushes.extend((sequence, first if whole else ~first))
        return first

    def release(self, first_id: int, numbers: Numbers) -> None:
        """Record that the rows with these numbers got the tuple IDs from `first_id` on; O(n) if it is not a range."""
        page, before = self._open, self._open.numbers
        if (
            type(numbers) is type(before) is range
            and numbers.start == before.stop
            and first_id - page.first_id == before.stop - before.start
        ):  # in system time always
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
        """The table for readers; later changes do not change the view. O(pages)."""
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
        """Append few numbers to the newest page that is not a range."""
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
        """Begin a page. Of earlier pages the newest stay, with numbers for KEPT_PAGES whole pages."""
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
    """The numbers that a page stores in memory."""
    return 0 if isinstance(page.numbers, range) else len(page.numbers)
