"""Offers of readers: the matches of a clause in a chunk whose results were given up, which the writer may keep again.

    reader   chunk 7 lacks clause 12 ─> evaluates, answers, offers the column ─┐
    writer   room for twice the bytes, between two runs ─> clause 12 is covered <┘     no room: nothing is offered

Each eviction of a chunk doubles the room that its columns need: results that come and go cost more than they save. An
offer may be lost at any time. Nothing depends on it but the time of later answers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from psoup.columns import Array
from psoup.results.chunk_results import ChunkResults
from psoup.results.sealed import Pack

PIECES, PIECE_BYTES = 32, 256 * 1024
"""Pieces of offers that may wait for the writer, and bytes of each."""
MOST_LATE = 1_024
"""Clauses of an evicted chunk that are covered one by one, at most."""
_COLUMN_BYTES = 200
"""Bytes of a column beside its offsets: about."""


class Offer(NamedTuple):
    """The matches of a clause in the chunk `number`: `offsets`, uint16, ascending, or `bits` if they are many."""

    number: int
    sqc_id: int
    matched: int
    offsets: Array | None
    bits: Array | None

    @property
    def nbytes(self) -> int:
        """Bytes, about."""
        return _COLUMN_BYTES + sum(array.nbytes for array in (self.offsets, self.bits) if array is not None)


Listener = Callable[[int, Sequence[Offer]], None]
"""Is given the ID of a stream, and offers for its chunks; on the reader's thread."""


class OfferBox:
    """The offers of one engine's readers. Any thread. `free`: bytes that results may still take, as the writer saw it.

    `list_limit`: matches up to which a column is a list; `words`: of its bits, if they are more.
    """

    def __init__(self, list_limit: int, words: int) -> None:
        self._list_limit, self._words = list_limit, words
        self._kept = deque[tuple[int, Sequence[Offer]]]()
        self._waiting = deque[None]()
        """An element for each piece that the writer has not looked at."""
        self._listener: Listener | None = None
        self.free = 0
        self.installed = 0
        """Columns that the writer has kept."""

    def listen(self, listener: Listener) -> None:
        """Have `listener` called for offers; without one they wait for `take`, the writer's."""
        self._listener = listener

    def wants(self, results: ChunkResults) -> bool:
        """Whether a column for a chunk would be kept now, if it is small. O(1)."""
        return results.evicted and results.open is None and self.free >= needed(results, _COLUMN_BYTES)

    def offer(self, number: int, sqc_id: int, offsets: Array) -> Offer:
        """An offer of the matches (int64[n], ascending) of a clause in a chunk. O(n)."""
        if len(offsets) <= self._list_limit:
            return Offer(number, sqc_id, len(offsets), offsets.astype(np.uint16), None)
        marks: Array = np.zeros(self._words * 64, np.bool_)
        marks[offsets] = True
        return Offer(number, sqc_id, len(offsets), None, np.packbits(marks, bitorder="little").view(np.uint64))

    def put(self, stream_id: int, offers: Sequence[Offer]) -> None:
        """Offer columns of one stream; the first of them, if they are many, and none if many pieces wait."""
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
        """The offers that have waited longest, if they have no listener; None without any. O(1)."""
        return self._kept.popleft() if self._kept else None

    def bound(self, free: int) -> None:
        """Set the bytes that results may still take."""
        self.free = max(free, 0)

    def took(self, columns: int, room: int) -> None:
        """Note that the writer has kept columns, for which so many bytes of room are set aside."""
        self.installed += columns
        self.free -= room

    def done(self) -> None:
        """Note that the writer has looked at a piece."""
        with suppress(IndexError):
            self._waiting.popleft()

    def pack(self, offers: Sequence[Offer]) -> Pack:
        """The columns of some offers for one chunk, of different clauses, as a pack. O(bytes)."""
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
    """Offers by the numbers of their chunks, each clause once."""
    found = defaultdict[int, dict[int, Offer]](dict)
    for offer in offers:
        found[offer.number][offer.sqc_id] = offer
    return {number: list(own.values()) for number, own in found.items()}


def needed(results: ChunkResults, size: int) -> int:
    """The room that `size` bytes more for an evicted chunk need: twice as much, and twice again for each eviction."""
    return size << min(max(results.evictions, 1), 32)
