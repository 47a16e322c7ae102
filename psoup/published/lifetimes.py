"""The queries that expire when they are not asked: for each the day on which it was asked last, and its days to live.

    page 3    days    [  0   90   90    0   7 … ]       0: it does not expire
              last    [  -  412  430    -  433 … ]      days since 1970, in UTC
              asked   [  0    0    1    0   0 … ]       since the last `tick`: readers set it, without a clock or a lock

A query that is asked on day 430 with 90 days to live expires when day 521 begins: never before 90 days have passed, and
at most a day later. The days are no part of the log: a process leaves them to the next one when it ends (`save`). What
a crash loses makes lives longer only: all queries count as asked on the day of the next start then.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from psoup.columns import Array
from psoup.invariants import ensure
from psoup.plan.canonical import UNITS

_PAGE = 4_096
DAY = UNITS["DAY"]
"""Microseconds of a day."""
_NEVER = 2**31 - 1


def day_of(time: int) -> int:
    """The day of a time (microseconds)."""
    return time // DAY


class _Page:
    """The queries of `_PAGE` IDs."""

    __slots__ = ("asked", "days", "last")

    def __init__(self) -> None:
        self.days = np.zeros(_PAGE, np.int32)
        self.last = np.zeros(_PAGE, np.int32)
        self.asked = np.zeros(_PAGE, np.bool_)

    def ends(self) -> Array:
        """The day on which each query expires if it is not asked from now on; int64."""
        return np.where(self.days > 0, self.last.astype(np.int64) + self.days + 1, _NEVER)


class Lifetimes:
    """The queries that expire. The writer adds and removes them; any reader notes that queries are asked."""

    def __init__(self) -> None:
        self._pages: dict[int, _Page] = {}

    def __bool__(self) -> bool:
        return bool(self._pages)

    def add(self, first: int, count: int, days: int, time: int) -> None:
        """Add queries with IDs from `first` on that live for `days` without being asked, registered at `time`."""
        for number, start, stop in _parts(first, count):
            page = self._pages.setdefault(number, _Page())
            page.days[start:stop], page.last[start:stop] = days, day_of(time)

    def remove(self, query_ids: Array) -> None:
        """Forget queries (int64[k]) that are gone; a page goes with the last that expires. O(k), in pages."""
        for page, number, places in self._on_pages(query_ids):
            page.days[places] = 0
            if not page.days.any():
                del self._pages[number]

    def _on_pages(self, query_ids: Array) -> Iterator[tuple[_Page, int, Array]]:
        """The pages on which some queries are, their numbers, and the places of these queries."""
        if not self._pages or not len(query_ids):
            return
        numbers = query_ids // _PAGE
        numbers -= (least := int(numbers.min()))
        order = np.argsort(numbers.astype(np.uint16) if int(numbers.max()) < 1 << 16 else numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))  # 16 bits are sorted by counting
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            number = least + int(numbers[order[start]])
            page = self._pages.get(number)
            if page is not None:
                yield page, number, query_ids[order[start:end]] - number * _PAGE

    def note(self, query_id: int) -> None:
        """Note that a query is asked. O(1), from any thread."""
        page = self._pages.get(query_id // _PAGE)
        if page is not None:
            page.asked[query_id % _PAGE] = True

    def note_all(self, queries: Array | Sequence[int]) -> None:
        """Note that queries are asked. O(k), in pages; O(1) if no query expires."""
        if self._pages:
            for page, _, places in self._on_pages(np.asarray(queries, np.int64)):
                page.asked[places] = True

    def tick(self, now: int) -> None:
        """Take over which queries were asked since the last call, as asked on the day of `now`. O(queries)."""
        today = day_of(now)
        for page in list(self._pages.values()):
            asked = np.flatnonzero(page.asked)
            page.asked[asked] = False  # first: who asks meanwhile is asked today or later
            page.last[asked] = np.maximum(page.last[asked], today)

    def due(self, now: int) -> Array:
        """The queries whose time is over at `now` (microseconds); int64, ascending. O(queries)."""
        today = day_of(now)
        pages = sorted(self._pages.items())
        places = [np.flatnonzero((page.ends() <= today) & ~page.asked) + number * _PAGE for number, page in pages]
        return np.concatenate([np.zeros(0, np.int64), *places])

    def end(self, query_id: int) -> int | None:
        """The time (microseconds) at which a query expires if it is not asked from now on; None if it does not."""
        page = self._pages.get(query_id // _PAGE)
        at = query_id % _PAGE
        if page is None or not page.days[at]:
            return None
        return (int(page.last[at]) + int(page.days[at]) + 1) * DAY

    # From one process to the next -----------------------------------------------------------------------------

    def save(self, now: int) -> str:
        """The days of all queries as a line of text, for `restore`; "" if none expires. O(queries)."""
        if not self._pages:
            return ""
        self.tick(now)
        parts = [np.array([[day_of(now)], [0]], np.int64)]
        for number, page in sorted(self._pages.items()):
            places = np.flatnonzero(page.days)
            parts.append(np.stack([places + number * _PAGE, page.last[places].astype(np.int64)]))
        content = np.concatenate(parts, axis=1).astype("<i8").tobytes()
        return base64.b64encode(zlib.compress(content)).decode()

    def restore(self, saved: str, now: int) -> bool:
        """Take over the days that a process saved when it ended; days on which none ran do not count.

        Without a valid text all queries count as asked on the day of `now`; returns whether it was valid.
        """
        today = day_of(now)
        try:
            content = np.frombuffer(zlib.decompress(base64.b64decode(saved, validate=True)), "<i8").reshape(2, -1)
            (ended, *ids), (_, *days) = content.tolist()
        except (binascii.Error, zlib.error, ValueError):
            for page in self._pages.values():
                page.last[:] = np.maximum(page.last, today)
            return False
        away = max(0, today - ended)
        for query_id, day in zip(ids, days, strict=True):
            known = self._pages.get(query_id // _PAGE)
            if known is not None:
                known.last[query_id % _PAGE] = max(int(known.last[query_id % _PAGE]), day + away)
        return True

    def check(self, expiring: dict[int, int]) -> None:
        """Check that the queries that expire are those that stand: `expiring` has the days of each."""
        known = {
            number * _PAGE + at: int(page.days[at])
            for number, page in self._pages.items()
            for at in np.flatnonzero(page.days).tolist()
        }
        ensure(known == expiring, self, "queries expire otherwise than they say", known=[*known], queries=[*expiring])


def _parts(first: int, count: int) -> Iterator[tuple[int, int, int]]:
    """The pages of consecutive queries: number, first place, the place behind the last."""
    end = first + count
    while first < end:
        number, start = divmod(first, _PAGE)
        stop = min(start + end - first, _PAGE)
        yield number, start, stop
        first += stop - start
