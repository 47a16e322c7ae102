"""Offers: a reader passes the matches that it computed for an evicted chunk to the writer, which may keep them.

    reader   chunk 7 lacks clause 12 ─> evaluates, answers, offers the column ─┐
    writer   room for twice the bytes, between two runs ─> clause 12 is covered <┘     no room: nothing is offered

Each eviction of a chunk doubles the room that its columns need: results that come and go cost more than they save.
An offer may be lost at any time; only the time of later answers depends on it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from psoup.results.chunk_results import ChunkResults
from psoup.results.pack import Pack
from psoup.values.columns import Array

PIECES = 32
"""The most pieces of offers that wait for the writer."""
PIECE_BYTES = 256 * 1024
"""The most bytes of a piece."""
MOST_LATE = 1_024
"""The most clauses of an evicted chunk that offers cover, as `ChunkResults.late`."""
_COLUMN_BYTES = 200
"""Approximate bytes of a column without its offsets."""


class Offer(NamedTuple):
    """The `matched` matches of a clause in the chunk `number`: `offsets`, uint16, ascending, or `bits` if many."""

    number: int
    sqc_id: int
    matched: int
    offsets: Array | None
    bits: Array | None

    @property
    def nbytes(self) -> int:
        """The approximate bytes of the offer."""
        return _COLUMN_BYTES + sum(array.nbytes for array in (self.offsets, self.bits) if array is not None)


Listener = Callable[[int, Sequence[Offer]], None]
"""Called on the reader's thread with the ID of a stream, and offers for its chunks."""


class OfferBox:
    """The offers of one engine's readers. Any thread may use it.

    `free`: the bytes that results may still take, set by the writer. `list_limit`: the most matches of a column that is
    a list of offsets. `words`: the number of uint64 words of other columns, which are bits.
    """

    def __init__(self, list_limit: int, words: int) -> None:
        self._list_limit = list_limit
        self._words = words
        self._kept = deque[tuple[int, Sequence[Offer]]]()
        self._waiting = deque[None]()
        """An element for each piece that the writer has not processed."""
        self._listener: Listener | None = None
        self.free = 0
        self.installed = 0
        """The number of columns that the writer has kept."""

    def listen(self, listener: Listener) -> None:
        """Pass offers to `listener` from now on. Without a listener, offers wait until the writer calls `take`."""
        self._listener = listener

    def wants(self, results: ChunkResults) -> bool:
        """Whether the writer would keep a small column for this chunk now. O(1)."""
        return results.evicted and results.open is None and self.free >= needed(results, _COLUMN_BYTES)

    def offer(self, number: int, sqc_id: int, offsets: Array) -> Offer:
        """An offer of the matches (int64[n], ascending) of a clause in a chunk. O(n)."""
        if len(offsets) <= self._list_limit:
            return Offer(number, sqc_id, len(offsets), offsets.astype(np.uint16), None)
        marks: Array = np.zeros(self._words * 64, np.bool_)
        marks[offsets] = True
        return Offer(number, sqc_id, len(offsets), None, np.packbits(marks, bitorder="little").view(np.uint64))

    def put(self, stream_id: int, offers: Sequence[Offer]) -> None:
        """Offer columns of one stream to the writer.

        Takes only the first ones, up to `PIECE_BYTES`, and none while `PIECES` pieces wait.
        """
        if not offers or len(self._waiting) >= PIECES:
            return
        sizes = np.cumsum([offer.nbytes for offer in offers])
        offers = offers[: max(int(np.searchsorted(sizes, PIECE_BYTES)), 1)]
        self._waiting.append(None)
        if self._listener is None:
            self._kept.append((stream_id, offers))
        else:
            self._listener(stream_id, offers)

    def take(self) -> tuple[int, Sequence[Offer]] | None:
        """The oldest waiting offers, if there is no listener; None if nothing waits. O(1)."""
        return self._kept.popleft() if self._kept else None

    def bound(self, free: int) -> None:
        """Set the bytes that results may still take."""
        self.free = max(free, 0)

    def took(self, columns: int, room: int) -> None:
        """Record that the writer has kept columns, and reserved `room` bytes for them."""
        self.installed += columns
        self.free -= room

    def done(self) -> None:
        """Record that the writer has processed a piece."""
        with suppress(IndexError):
            self._waiting.popleft()

    def pack(self, offers: Sequence[Offer]) -> Pack:
        """A pack with the columns of some offers, which are for one chunk and of different clauses. O(bytes)."""
        some = sorted((offer for offer in offers if offer.matched), key=lambda offer: offer.sqc_id)
        lists = [offer.offsets for offer in some if offer.offsets is not None]
        bitmaps = [offer.bits for offer in some if offer.bits is not None]
        place: Array = np.zeros(len(some), np.int64)
        listed = np.array([offer.offsets is not None for offer in some], np.bool_)
        place[listed] = np.cumsum([0, *map(len, lists)])[:-1]
        place[~listed] = ~np.arange(len(bitmaps))
        return Pack(
            np.array([offer.sqc_id for offer in some], np.int64),
            np.array([offer.matched for offer in some], np.int32),
            place,
            np.concatenate([np.zeros(0, np.uint16), *lists]),
            np.concatenate([np.zeros((0, self._words), np.uint64), *[bits.reshape(1, -1) for bits in bitmaps]]),
        )


def by_chunk(offers: Iterable[Offer]) -> dict[int, list[Offer]]:
    """The offers by the numbers of their chunks. For each clause and chunk only the last offer is kept."""
    by_number = defaultdict[int, dict[int, Offer]](dict)
    for offer in offers:
        by_number[offer.number][offer.sqc_id] = offer
    return {number: list(by_clause.values()) for number, by_clause in by_number.items()}


def needed(results: ChunkResults, size: int) -> int:
    """The free bytes that a column of `size` bytes needs in an evicted chunk.

    It is twice `size` after the first eviction, and doubles with each further eviction.
    """
    return size << min(max(results.evictions, 1), 32)
