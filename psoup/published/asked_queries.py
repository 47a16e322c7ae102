"""The inactive queries that were asked since the last look. Queries that are not asked for long are parked.

page 3    [ 0 1 0 … ]     a flag for each of 4,096 query IDs
"""

from __future__ import annotations

import numpy as np

from psoup.values.columns import Array

_PAGE = 4_096
"""The number of query IDs that a page covers."""


class AskedQueries:
    """Queries that were asked since the last `take`. Readers note them without a lock; one thread takes them."""

    def __init__(self) -> None:
        self._pages: dict[int, Array] = {}

    def note(self, query_id: int) -> None:
        """Record the use of a query. O(1), from any thread."""
        number, place = divmod(query_id, _PAGE)
        page = self._pages.get(number)
        if page is None:
            page = self._pages.setdefault(number, np.zeros(_PAGE, np.bool_))
        page[place] = True

    def note_all(self, query_ids: Array) -> None:
        """Record the use of queries, int64[k]. O(k), in pages."""
        for number in np.unique(query_ids // _PAGE).tolist():
            page = self._pages.setdefault(number, np.zeros(_PAGE, np.bool_))
            page[query_ids[query_ids // _PAGE == number] % _PAGE] = True

    def take(self) -> Array:
        """The queries that were asked since the last call: int64[k], ascending. O(pages).

        A use at the same moment may be lost. Then a query counts as asked a little earlier.
        """
        pages, self._pages = self._pages, {}
        flagged = [np.flatnonzero(page) + number * _PAGE for number, page in sorted(pages.items())]
        return np.concatenate([np.zeros(0, np.int64), *flagged])
