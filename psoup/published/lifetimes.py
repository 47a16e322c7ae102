"""Lifetimes of queries that expire when unused: for each the day of its last use, and its days to live.

    page 3    days    [  0   90   90    0   7 … ]       0: the query does not expire
              last    [  -  412  430    -  433 … ]      days since 1970, in UTC
              asked   [  0    0    1    0   0 … ]       flags since the last `tick`, set by readers without a lock

A query used on day 430 with 90 days to live expires when day 521 begins: after at least 90 days, and at most a day
later. The days are not in the log: a process saves them when it ends (`save`). After a crash, all queries count as used
on the day of the next start. So a crash can only lengthen their lives.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from psoup.invariants import ensure
from psoup.plan.canonical import UNITS
from psoup.published.asked_queries import AskedQueries
from psoup.values.columns import Array

_PAGE = 4_096
"""The number of query IDs that a page covers."""
DAY = UNITS["DAY"]
"""Microseconds of a day."""
_NEVER = 2**31 - 1
"""The day on which queries without a lifetime expire."""


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
        """The day on which each query expires if it is not used from now on; int64."""
        return np.where(self.days > 0, self.last.astype(np.int64) + self.days + 1, _NEVER)


class Lifetimes:
    """The queries that expire. The writer adds and removes them; any reader records their use."""

    def __init__(self) -> None:
        self._pages: dict[int, _Page] = {}
        self.asked = AskedQueries()
        """The inactive queries that were asked since they were last looked at, also those that do not expire."""

    def __bool__(self) -> bool:
        return bool(self._pages)

    def add(self, first: int, count: int, days: int, time: int) -> None:
        """Add queries with IDs from `first` on, registered at `time`, that expire after `days` without use."""
        for number, start, stop in _parts(first, count):
            page = self._pages.setdefault(number, _Page())
            page.days[start:stop], page.last[start:stop] = days, day_of(time)

    def remove(self, query_ids: Array) -> None:
        """Remove queries, int64[k]. A page is dropped with the last of its queries that expire. O(k), in pages."""
        for page, number, places in self._on_pages(query_ids):
            page.days[places] = 0
            if not page.days.any():
                del self._pages[number]

    def _on_pages(self, query_ids: Array) -> Iterator[tuple[_Page, int, Array]]:
        """Yield each page of some queries, the number of the page, and the places of the queries on it."""
        if not self._pages or not len(query_ids):
            return
        numbers = query_ids // _PAGE
        numbers -= (first_page := int(numbers.min()))
        order = np.argsort(numbers.astype(np.uint16) if int(numbers.max()) < 1 << 16 else numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))  # NumPy sorts 16-bit integers by radix
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            number = first_page + int(numbers[order[start]])
            page = self._pages.get(number)
            if page is not None:
                yield page, number, query_ids[order[start:end]] - number * _PAGE

    def note(self, query_id: int) -> None:
        """Record the use of a query. O(1), from any thread."""
        page = self._pages.get(query_id // _PAGE)
        if page is not None:
            page.asked[query_id % _PAGE] = True

    def note_all(self, queries: Array | Sequence[int]) -> None:
        """Record the use of queries. O(k), in pages; O(1) if no query expires."""
        if self._pages:
            for page, _, places in self._on_pages(np.asarray(queries, np.int64)):
                page.asked[places] = True

    def tick(self, now: int) -> None:
        """Store the day of `now` for all queries used since the last call. O(queries)."""
        today = day_of(now)
        for page in list(self._pages.values()):
            used = np.flatnonzero(page.asked)
            page.asked[used] = False  # cleared first, so that a use meanwhile counts today or later
            page.last[used] = np.maximum(page.last[used], today)

    def due(self, now: int) -> Array:
        """The queries that have expired at `now` (microseconds). int64, ascending. O(queries)."""
        today = day_of(now)
        pages = sorted(self._pages.items())
        places = [np.flatnonzero((page.ends() <= today) & ~page.asked) + number * _PAGE for number, page in pages]
        return np.concatenate([np.zeros(0, np.int64), *places])

    def end(self, query_id: int) -> int | None:
        """The time (microseconds) at which a query expires if it is not used from now on. Returns None if it never
        expires.
        """
        page = self._pages.get(query_id // _PAGE)
        at = query_id % _PAGE
        if page is None or not page.days[at]:
            return None
        return (int(page.last[at]) + int(page.days[at]) + 1) * DAY

    # From one process to the next -----------------------------------------------------------------------------

    def save(self, now: int) -> str:
        """The days of all queries as a line of text, for `restore`; "" if no query expires. O(queries)."""
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
        """Load the days that a process saved when it ended. The days until this start do not count as unused.

        Returns whether the text was valid. If not, all queries count as used on the day of `now`.
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
            page_of_query = self._pages.get(query_id // _PAGE)
            if page_of_query is not None:
                page_of_query.last[query_id % _PAGE] = max(int(page_of_query.last[query_id % _PAGE]), day + away)
        return True

    def check(self, expiring: dict[int, int]) -> None:
        """Check that the pages list exactly the registered queries that expire. `expiring`: the days of each, by query
        ID.
        """
        listed = {
            number * _PAGE + at: int(page.days[at])
            for number, page in self._pages.items()
            for at in np.flatnonzero(page.days).tolist()
        }
        ensure(listed == expiring, self, "queries expire otherwise than they say", known=[*listed], queries=[*expiring])


def _parts(first: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield the pages of `count` consecutive IDs: the number of the page, the first place, and the end of the
    places.
    """
    end = first + count
    while first < end:
        number, start = divmod(first, _PAGE)
        stop = min(start + end - first, _PAGE)
        yield number, start, stop
        first += stop - start
