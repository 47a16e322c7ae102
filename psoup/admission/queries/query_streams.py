"""The stream ID of every standing query, in arrays: 4 bytes for each query, and for each side of a join.

    page 0       query IDs 0 to 4,095       [ -  7  7  7  -  9 … ]        - : the query does not exist
    page 2       query IDs 8,192 to 12,287  [ 7  7  … ]                   a page is dropped with its last query
    page 2**28   sides of 0 to 4,095        [ -  -  7  -  -  - … ]        query 2 is a join; its first side is on 7

IDs are assigned in order and never reused, so pages are filled one after the other. A join belongs to the streams of
its sides, which are added and removed with it. Callers use only IDs of queries, not of sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.config import Shape
from psoup.events.events import Registered, RegisteredMany
from psoup.invariants import ensure
from psoup.plan.sides import FIRST_SIDE, side_id
from psoup.values.columns import Array

_NO_STREAM = -1


class Owners:
    """A map from query IDs to stream IDs."""

    def __init__(self, page: int = Shape().owner_page) -> None:
        self._page = page
        self._pages: dict[int, Array] = {}
        self._counts: dict[int, int] = {}
        """The number of queries, or of sides, on each page."""
        self._streams: dict[int, int] = {}
        """The number of queries and sides of each stream."""
        self._places = 0
        """The greatest number of sides that a query has had so far."""

    def __len__(self) -> int:
        return sum(self._counts.values())

    @property
    def nbytes(self) -> int:
        """Bytes of the pages."""
        return sum(page.nbytes for page in self._pages.values())

    def get(self, query_id: int) -> int | None:
        """The stream ID of a standing query, or None. O(1)."""
        page = self._pages.get(query_id // self._page) if query_id < FIRST_SIDE else None
        stream_id = _NO_STREAM if page is None else int(page[query_id % self._page])
        return None if stream_id == _NO_STREAM else stream_id

    def stand(self, query_ids: Array) -> Array:
        """For each query ID (int64[n]), whether it is registered: bool[n]. O(n) in NumPy, a step for each page."""
        standing: Array = np.zeros(len(query_ids), np.bool_)
        numbers = query_ids // self._page
        for number in np.unique(numbers).tolist():
            page = self._pages.get(number)
            if page is not None:
                on_page = np.flatnonzero(numbers == number)
                standing[on_page] = page[query_ids[on_page] - number * self._page] != _NO_STREAM
        return standing

    def streams(self, query_ids: Array) -> Array:
        """The stream ID of each query (int64[k], ascending): int64[k], -1 for queries that do not exist."""
        owners: Array = np.full(len(query_ids), _NO_STREAM, np.int64)
        if not len(query_ids):
            return owners
        numbers, starts = np.unique(query_ids // self._page, return_index=True)
        for number, start, own_ids in zip(numbers.tolist(), starts, np.split(query_ids, starts[1:]), strict=True):
            if number in self._pages:
                owners[start : start + len(own_ids)] = self._pages[number][own_ids - number * self._page]
        owners[query_ids >= FIRST_SIDE] = _NO_STREAM
        return owners

    def standing(self, first_id: int, count: int) -> int:
        """The number of registered queries among the `count` IDs from `first_id` on. O(count) in NumPy."""
        return sum(int((part != _NO_STREAM).sum()) for part in self._parts(first_id, count))

    def stands_any(self, first_id: int, count: int) -> bool:
        """Whether a query with one of the `count` IDs from `first_id` on is registered."""
        return any(bool((part != _NO_STREAM).any()) for part in self._parts(first_id, count))

    def _parts(self, first_id: int, count: int) -> Iterator[Array]:
        """Yield the parts of existing pages with the `count` IDs from `first_id` on."""
        for number in range(first_id // self._page, (first_id + count - 1) // self._page + 1):
            page = self._pages.get(number)
            if page is not None:
                yield page[max(first_id - number * self._page, 0) : first_id + count - number * self._page]

    def count(self, stream_id: int) -> int:
        """The number of queries and sides of a stream. O(1)."""
        return self._streams.get(stream_id, 0)

    def adopt(self, event: Registered | RegisteredMany) -> None:
        """Add the queries of an event, and the sides of its joins. O(queries) in NumPy, a step for each page."""
        if isinstance(event, Registered):
            self.add(event.query_id, 1, event.stream_id)
            if event.side_streams:
                self._add_sides(event.query_id, 1, event.side_streams)
            return
        count = len(event.queries)
        self.add_block(event.first_id, count, event.stream_ids)
        together = count if len(event.side_streams) == 1 else 1
        for row, streams in enumerate(event.side_streams):
            self._add_sides(event.first_id + row, together, streams)

    def _add_sides(self, first_id: int, count: int, streams: Sequence[int]) -> None:
        for place, stream_id in enumerate(streams):
            self.add(side_id(first_id, place), count, stream_id)
        self._places = max(self._places, len(streams))

    def _with_sides(self, query_ids: Array) -> Array:
        """The IDs of queries (int64[k], ascending) and of their sides, ascending. O(k)."""
        sides = [query_ids + side_id(0, place) for place in range(self._places)]
        return np.concatenate([query_ids, *(ids[self.stand(ids)] for ids in sides)])

    def add(self, first_id: int, count: int, stream_id: int) -> None:
        """Add the `count` queries with the IDs from `first_id` on, all of one stream. O(count) in NumPy."""
        self._streams[stream_id] = self.count(stream_id) + count
        end = first_id + count
        while first_id < end:
            number, start = divmod(first_id, self._page)
            stop = min(start + end - first_id, self._page)
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = np.full(self._page, _NO_STREAM, np.int32)
            page[start:stop] = stream_id
            self._counts[number] = self._counts.get(number, 0) + stop - start
            first_id += stop - start

    def add_block(self, first_id: int, count: int, stream_ids: Sequence[int]) -> None:
        """Add the `count` queries with the IDs from `first_id` on. O(count) in NumPy, and a step for each stream.

        `stream_ids`: the stream of each query, or a single one for all.
        """
        ids = np.array(stream_ids, np.int64)
        starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))
        ends = [*starts[1:].tolist(), count]
        for start, end in zip(starts.tolist(), ends, strict=True):
            self.add(first_id + start, end - start, int(ids[start]))

    def remove(self, query_id: int) -> None:
        """Remove a query, which must exist. O(1)."""
        if self._places:
            self.remove_all(np.array([query_id]))
            return
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
        """Remove some queries (int64[k], ascending), which must exist. O(k) in NumPy, a step for each page."""
        query_ids = self._with_sides(query_ids) if self._places else query_ids
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
        """The IDs of the queries over a stream, and of joins with a side on it: int64, ascending. O(pages)."""
        pages = sorted(self._pages.items()) if stream_id in self._streams else []
        places = [np.flatnonzero(page == stream_id) + number * self._page for number, page in pages]
        ids = np.concatenate([np.zeros(0, np.int64), *places])
        return np.unique(ids % FIRST_SIDE) if self._places else ids

    def items(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of an ID and its stream ID: of all queries, ascending, then of all sides."""
        for number in sorted(self._pages):
            page = self._pages[number]
            for at in np.flatnonzero(page != _NO_STREAM).tolist():
                yield number * self._page + at, int(page[at])

    def check(self) -> None:
        """Check that the counts agree with the pages. Raises Corrupt."""
        counts = {number: int((page != _NO_STREAM).sum()) for number, page in self._pages.items()}
        ensure(counts == self._counts, self, "queries of a page are miscounted", found=counts, counted=self._counts)
        streams: dict[int, int] = {}
        for _, stream_id in self.items():
            streams[stream_id] = streams.get(stream_id, 0) + 1
        ensure(
            streams == self._streams, self, "queries of a stream are miscounted", found=streams, counted=self._streams
        )
