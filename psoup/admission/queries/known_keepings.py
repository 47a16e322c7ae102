"""The keeping of every query, in arrays: a byte for each query of a page. Pages of usual queries are left out.

page 0     query IDs 0 to 4,095      [0 0 1 1 9 …]      codes of `psoup.plan.amounts`; 0: PARTIAL and active
page 2     query IDs 8,192 …         a page without any other code is not there
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.admission.budget import charged_less, codes_of
from psoup.config import Shape
from psoup.events.events import QueriesAltered, Registered, RegisteredMany
from psoup.plan.amounts import Keeping
from psoup.values.columns import Array


class KnownKeepings:
    """The keeping of all queries, by their IDs. Sides of joins are not in it."""

    def __init__(self, page: int = Shape().owner_page) -> None:
        self._page = page
        self._pages: dict[int, Array] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the pages."""
        return sum(page.nbytes for page in self._pages.values())

    def codes(self, query_ids: Array) -> Array:
        """The codes of some queries (int64[k], ascending): uint8[k]. O(k), and a step of Python for each page."""
        codes: Array = np.zeros(len(query_ids), np.uint8)
        for page, at in self._parts(query_ids):
            if page in self._pages:
                codes[at] = self._pages[page][query_ids[at] - page * self._page]
        return codes

    def registered(self, event: Registered | RegisteredMany) -> None:
        """Add the queries of an event."""
        codes = codes_of(event)
        if not codes.any():
            return
        first = event.query_id if isinstance(event, Registered) else event.first_id
        self._set(np.arange(first, first + len(codes)), codes)

    def altered(self, event: QueriesAltered, query_ids: Array) -> int:
        """Change the registered queries (int64[k], ascending) of an event. Returns by how many bytes more they are
        charged now."""
        before = self.codes(query_ids)
        after = event.codes_after(query_ids, before)
        self._set(query_ids, after)
        return charged_less(before) - charged_less(after)

    def removed(self, query_ids: Sequence[int]) -> int:
        """Forget removed queries (ascending). Returns by how many bytes they were charged less than usual ones."""
        if not self._pages:
            return 0
        ids = np.array(query_ids, np.int64)
        less = charged_less(self.codes(ids))
        self._set(ids, np.zeros(len(ids), np.uint8))
        return less

    def items(self) -> Iterator[tuple[int, Keeping]]:
        """Yield the queries that are not kept as usual, ascending."""
        for number in sorted(self._pages):
            page = self._pages[number]
            for at in np.flatnonzero(page).tolist():
                yield number * self._page + at, Keeping.of(int(page[at]))

    def _set(self, query_ids: Array, codes: Array) -> None:
        for number, at in self._parts(query_ids):
            page = self._pages.get(number)
            if page is None:
                if not codes[at].any():
                    continue
                page = self._pages[number] = np.zeros(self._page, np.uint8)
            page[query_ids[at] - number * self._page] = codes[at]
            if not page.any():
                del self._pages[number]

    def _parts(self, query_ids: Array) -> Iterator[tuple[int, slice]]:
        """Yield the pages of some queries, and the places of the queries of each page."""
        if not len(query_ids):
            return
        numbers, starts = np.unique(query_ids // self._page, return_index=True)
        ends = [*starts.tolist(), len(query_ids)][1:]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            yield number, slice(start, end)
