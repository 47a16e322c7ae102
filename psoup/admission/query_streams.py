"""The stream ID of every standing query, as arrays: 8 bytes a query.

    page 0   query IDs 0 to 4,095       [ -  7  7  7  -  9 … ]        - : no such query, or it is gone
    page 2   query IDs 8,192 to 12,287  [ 7  7  … ]                   a page goes with its last query

IDs are given out in order and never again, so pages are filled one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.columns import Array
from psoup.config import Shape
from psoup.invariants import ensure

_NO_STREAM = -1


class Owners:
    """A map query ID -> stream ID."""

    def __init__(self, page: int = Shape().owner_page) -> None:
        self._page = page
        self._pages: dict[int, Array] = {}
        self._counts: dict[int, int] = {}
        """Queries on each page."""
        self._streams: dict[int, int] = {}
        """Queries of each stream."""

    def __len__(self) -> int:
        return sum(self._counts.values())

    @property
    def nbytes(self) -> int:
        """Bytes of the pages."""
        return sum(page.nbytes for page in self._pages.values())

    def get(self, query_id: int) -> int | None:
        """The stream ID of a query that stands, or None. O(1)."""
        page = self._pages.get(query_id // self._page)
        stream_id = _NO_STREAM if page is None else int(page[query_id % self._page])
        return None if stream_id == _NO_STREAM else stream_id

    def stand(self, query_ids: Array) -> Array:
        """Whether each of some queries stands: bool[n]. O(n), in pages."""
        standing: Array = np.zeros(len(query_ids), np.bool_)
        numbers = query_ids // self._page
        for number in np.unique(numbers).tolist():
            page = self._pages.get(number)
            if page is not None:
                on_page = np.flatnonzero(numbers == number)
                standing[on_page] = page[query_ids[on_page] - number * self._page] != _NO_STREAM
        return standing

    def streams(self, query_ids: Array) -> Array:
        """The stream ID of each of some queries (int64[k], ascending), int64[k]; -1 for those that do not stand."""
        found: Array = np.full(len(query_ids), _NO_STREAM, np.int64)
        if not len(query_ids):
            return found
        numbers, starts = np.unique(query_ids // self._page, return_index=True)
        for number, start, own_ids in zip(numbers.tolist(), starts, np.split(query_ids, starts[1:]), strict=True):
            if number in self._pages:
                found[start : start + len(own_ids)] = self._pages[number][own_ids - number * self._page]
        return found

    def standing(self, first_id: int, count: int) -> int:
        """The number of queries among first_id, first_id + 1, ... that stand. O(count), in pages."""
        return sum(int((part != _NO_STREAM).sum()) for part in self._parts(first_id, count))

    def stands_any(self, first_id: int, count: int) -> bool:
        """Whether any of them stands."""
        return any(bool((part != _NO_STREAM).any()) for part in self._parts(first_id, count))

    def _parts(self, first_id: int, count: int) -> Iterator[Array]:
        """The entries of these queries on the pages that exist."""
        for number in range(first_id // self._page, (first_id + count - 1) // self._page + 1):
            page = self._pages.get(number)
            if page is not None:
                yield page[max(first_id - number * self._page, 0) : first_id + count - number * self._page]

    def count(self, stream_id: int) -> int:
        """How many queries are on a stream. O(1)."""
        return self._streams.get(stream_id, 0)

    def add(self, first_id: int, count: int, stream_id: int) -> None:
        """Add the queries first_id, first_id + 1, ... of one stream. O(count), in pages."""
        self._streams[stream_id] = self.count(stream_id) + count
        end = first_id + count
        while first_id < end:
            number, start = divmod(first_id, self._page)
            stop = min(start + end - first_id, self._page)
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = np.full(self._page, _NO_STREAM, np.int64)
            page[start:stop] = stream_id
            self._counts[number] = self._counts.get(number, 0) + stop - start
            first_id += stop - start

    def add_block(self, first_id: int, count: int, stream_ids: Sequence[int]) -> None:
        """Add queries that have a stream each, or all the same. O(count) bytes, and a step for each change."""
        ids = np.array(stream_ids, np.int64)
        starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))
        ends = [*starts[1:].tolist(), count]
        for start, end in zip(starts.tolist(), ends, strict=True):
            self.add(first_id + start, end - start, int(ids[start]))

    def remove(self, query_id: int) -> None:
        """Remove a query that is gone; it must be there. O(1)."""
        number, at = divmod(query_id, self._page)
        page = self._pages[number]
        stream_id = int(page[at])
        ensure(stream_id != _NO_STREAM, self, "a query is removed that is not there", query=query_id)
        page[at] = _NO_STREAM
        self._streams[stream_id] -= 1
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._pages[number], self._counts[number]
        if not self._streams[stream_id]:
            del self._streams[stream_id]

    def remove_all(self, query_ids: Array) -> None:
        """`remove` for some queries (int64[k], ascending). O(k), in pages."""
        numbers, starts = np.unique(query_ids // self._page, return_index=True)
        for number, own_ids in zip(numbers.tolist(), np.split(query_ids, starts[1:]), strict=True):
            page, places = self._pages[number], own_ids - number * self._page
            streams, counts = np.unique(page[places], return_counts=True)
            ensure(streams[0] != _NO_STREAM, self, "a query is removed that is not there", page=number, places=places)
            page[places] = _NO_STREAM
            self._counts[number] -= len(places)
            if not self._counts[number]:
                del self._pages[number], self._counts[number]
            for stream_id, count in zip(streams.tolist(), counts.tolist(), strict=True):
                self._streams[stream_id] -= count
                if not self._streams[stream_id]:
                    del self._streams[stream_id]

    def of_stream(self, stream_id: int) -> Array:
        """The IDs of a stream's queries, int64, ascending. O(pages)."""
        pages = sorted(self._pages.items()) if stream_id in self._streams else []
        places = [np.flatnonzero(page == stream_id) + number * self._page for number, page in pages]
        return np.concatenate([np.zeros(0, np.int64), *places])

    def items(self) -> Iterator[tuple[int, int]]:
        """(query ID, stream ID) of all queries, ascending."""
        for number in sorted(self._pages):
            page = self._pages[number]
            for at in np.flatnonzero(page != _NO_STREAM).tolist():
                yield number * self._page + at, int(page[at])

    def check(self) -> None:
        """Check the counts against the pages."""
        counts = {number: int((page != _NO_STREAM).sum()) for number, page in self._pages.items()}
        ensure(counts == self._counts, self, "queries of a page are miscounted", found=counts, counted=self._counts)
        streams: dict[int, int] = {}
        for _, stream_id in self.items():
            streams[stream_id] = streams.get(stream_id, 0) + 1
        ensure(
            streams == self._streams, self, "queries of a stream are miscounted", found=streams, counted=self._streams
        )
