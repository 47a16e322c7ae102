"""The eager queries: COMPLETE queries whose kept answers are updated after new tuples, before anybody asks.

    writer     set, remove: flags of query IDs, in pages
    reader     note: the query was asked                  O(1), without a lock
    updater    changes, asked: what has changed since the last look; facts: what EXPLAIN shows of each query

The updater (`psoup.answer.eager`) runs on one thread at a time. Flags may be newer than a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array

_PAGE = 4_096
"""The number of query IDs that a page covers."""
_NONE: Array = np.zeros(0, np.int64)


@dataclass(slots=True, eq=False)
class EagerFacts:
    """Facts about the updates of an eager answer. `updated`: the clock at the last one, microseconds, or None.

    `updates`: their number since the start of the process. `why_not`: the reason why it is not updated now, else "".
    """

    updated: int | None = None
    updates: int = 0
    why_not: str = ""


class _Page:
    """The queries of `_PAGE` IDs. `version`: the number of its last change. `noted`: whether `asked` may have a flag.

    `marks`: for each eager query, the number of the change that set it last; else 0.
    """

    __slots__ = ("asked", "marks", "noted", "version")

    def __init__(self) -> None:
        self.marks = np.zeros(_PAGE, np.int64)
        self.asked = np.zeros(_PAGE, np.bool_)
        self.version = 0
        self.noted = False


class EagerQueries:
    """The eager queries of all tenants. The writer sets them; any reader notes that one was asked."""

    def __init__(self) -> None:
        self._pages: dict[int, _Page] = {}
        self._changes = 0
        self._seen: dict[int, tuple[_Page, int]] = {}
        """The pages with the versions that the updater has looked at."""
        self.facts: dict[int, EagerFacts] = {}
        """The facts about each query that the updater knows. Only the updater changes it."""
        self.updates = 0
        """The number of updates since the start of the process."""
        self.refused = 0
        """The number of updates that a budget or an error has ended."""

    def __bool__(self) -> bool:
        return bool(self._pages)

    @property
    def has_work(self) -> bool:
        """Whether there are eager queries, or queries that the updater must forget. O(1)."""
        return bool(self._pages or self._seen)

    def set(self, query_ids: Array, flags: Array) -> None:
        """Set whether queries (int64[k], ascending) are eager (bool[k]). O(k), in pages; O(1) if none is or was."""
        if not len(query_ids) or (not self._pages and not flags.any()):
            return
        for number, places, of_page in _on_pages(query_ids, flags):
            page = self._pages.get(number)
            if page is None:
                if not of_page.any():
                    continue
                page = self._pages[number] = _Page()
            self._changes += 1
            page.marks[places] = np.where(of_page, self._changes, 0)
            page.version = self._changes
            if not page.marks.any():
                del self._pages[number]

    def remove(self, query_ids: Array) -> None:
        """Remove queries, int64[k] ascending. O(k), in pages; O(1) if no query is eager."""
        if self._pages:
            self.set(query_ids, np.zeros(len(query_ids), np.bool_))

    def note(self, query_id: int) -> None:
        """Note that a query was asked. O(1), from any thread."""
        page = self._pages.get(query_id // _PAGE)
        if page is not None:
            page.asked[query_id % _PAGE] = True
            page.noted = True

    def ids(self) -> Array:
        """The IDs of all eager queries, int64, ascending. O(pages)."""
        pages = sorted(self._pages.items())
        return np.concatenate([_NONE, *[np.flatnonzero(page.marks) + number * _PAGE for number, page in pages]])

    # Of the updater -----------------------------------------------------------------------------------------

    def changes(self) -> Iterator[tuple[int, int, Array, Array]]:
        """Yield the pages that have changed since the last call: the first ID, the end, the eager IDs among them, and
        the mark of each. A query with another mark was set anew. O(pages) if nothing has changed.
        """
        pages = dict(self._pages)
        for number in [number for number in self._seen if number not in pages]:
            del self._seen[number]
            yield number * _PAGE, (number + 1) * _PAGE, _NONE, _NONE
        for number, page in pages.items():
            version = page.version  # read first: a change meanwhile is seen by the next call
            if self._seen.get(number) != (page, version):
                self._seen[number] = page, version
                marks = page.marks.copy()
                places = np.flatnonzero(marks)
                yield number * _PAGE, (number + 1) * _PAGE, places + number * _PAGE, marks[places]

    def asked(self) -> Array:
        """The eager queries that were asked since the last call, int64. O(pages)."""
        noted = list[Array]()
        for number, page in list(self._pages.items()):
            if page.noted:
                page.noted = False  # cleared first, so that a note meanwhile is found by the next call
                places = np.flatnonzero(page.asked)
                page.asked[places] = False
                noted.append(places[page.marks[places] > 0] + number * _PAGE)
        return np.concatenate([_NONE, *noted])

    def check(self, eager: list[int]) -> None:
        """Check that exactly these registered queries are eager. `eager`: ascending."""
        ensure(self.ids().tolist() == eager, self, "other queries are eager", known=self.ids(), queries=eager)


def _on_pages(query_ids: Array, flags: Array) -> Iterator[tuple[int, Array, Array]]:
    """Yield the number of each page of some queries (ascending), their places on it, and their flags."""
    numbers = query_ids // _PAGE
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(query_ids)], strict=True):
        number = int(numbers[start])
        yield number, query_ids[start:end] - number * _PAGE, flags[start:end]
