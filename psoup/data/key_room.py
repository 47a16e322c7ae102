"""The room of all key indexes: who may make one of a column, and which one leaves for another.

    looked through   a: 1 2 … 8 times ──make──> there is room: it is the chunk's
                                                there is none: the oldest that were not used leave, or it is not made
    results need more memory ─────give_up─────> the oldest leave

    joined by      k: many rows ──shorten──> 32 bits a value beside it, if there is room; as long as the chunk

Readers make indexes beside the writer, which sets the limit and takes them back: all are noted by references that do
not keep them. One is dropped by taking it out of its chunk, and is gone when the last reader has left it.
"""

from __future__ import annotations

from itertools import islice
from weakref import ref

from psoup.data.archived import Chunk
from psoup.data.chunk import DECODED, ChunkView
from psoup.data.coded import ASKED
from psoup.data.keyed import USELESS, Keyed, KeyIndex, key_index
from psoup.data.narrow import Short, short
from psoup.data.zones import Zones

_ASKED = 16
"""Indexes that are asked at once whether they were used."""


class KeyRoom:
    """Any thread: what is kept is changed in single steps, and counts may be a little behind. `limit`: bytes.

    `probes`: searches of a column after which it has an index; `at_once`: indexes that one read makes at most.
    """

    def __init__(self, limit: int, probes: int, at_once: int) -> None:
        self.limit, self.probes, self.at_once = limit, probes, at_once
        self._made: dict[ref[KeyIndex], tuple[ref[Keyed], int, int]] = {}
        self._short: dict[ref[Short], int] = {}

    def bound(self, limit: int) -> None:
        """Set the limit; what is there already stays until room is wanted, or it is given up."""
        self.limit = limit

    @property
    def held(self) -> int:
        """Bytes of all indexes that are somewhere in use, and of columns in 32 bits. O(indexes)."""
        return sum(size for *_, size in list(self._made.values())) + sum(list(self._short.values()))

    def probed(self, chunk: Chunk, column: int, weight: int) -> bool:
        """Note that a column of a closed chunk was looked through; whether it should have an index by now. O(1)."""
        times = chunk.keyed.get(column, 0)
        if not isinstance(times, int) or times == USELESS:
            return False
        chunk.keyed[column] = times + weight
        return times + weight >= self.probes

    def make(self, chunk: Chunk, column: int) -> bool:
        """Give a column of a closed chunk its index, if there is room for it. O(rows): some 700 us, and reading."""
        index = key_index(chunk.columns[column])
        if index is None:
            chunk.keyed[column] = USELESS
        elif self._has_room(index.nbytes):
            self._made[ref(index, self._gone)] = (ref(chunk.keyed), column, index.nbytes)
            chunk.keyed[column] = index
        return index is not None

    def shorten(self, chunk: ChunkView, column: int) -> bool:
        """Note that many values of a column of a closed chunk were read; the second time it gets them in 32 bits, if
        they fit and nothing needs to leave for them. Whether nothing more is to be done. O(rows): some 80 us.
        """
        known = chunk.short.get(column)
        if known is None:
            chunk.short[column] = ASKED
        if known != ASKED:
            return known is not None
        codes, size = None, 4 * len(chunk)
        if chunk.columns[column].type.kind in DECODED:
            zone = Zones(chunk)[column]
            if isinstance(zone.least, int) and isinstance(zone.greatest, int) and self.held + size <= self.limit:
                codes = short(chunk.columns[column], zone.least, zone.greatest)
        if codes is not None:
            self._short[ref(codes, self._lost)] = size
        chunk.short[column] = USELESS if codes is None else codes
        return True

    def give_up(self, wanted: int) -> int:
        """Drop the oldest indexes until `wanted` bytes are free; returns the bytes freed."""
        freed = 0
        for note in list(self._made):
            if freed >= wanted:
                break
            freed += self._drop(note)
        return freed

    def _has_room(self, size: int) -> bool:
        """Whether there is room, or is as soon as some are gone that were not used of late."""
        over = self.held + size - self.limit
        for note in list(islice(self._made.copy(), _ASKED)) if over > 0 else ():
            index = note()
            if index is not None and index.used:
                index.used = False
                if (entry := self._made.pop(note, None)) is not None:
                    self._made[note] = entry  # asked again after all others
            elif over > 0:
                over -= self._drop(note)
        return over <= 0

    def _drop(self, note: ref[KeyIndex]) -> int:
        index, entry = note(), self._made.get(note)
        keyed = None if entry is None else entry[0]()
        if index is None or entry is None or keyed is None or keyed.get(entry[1]) is not index:
            return 0
        keyed.pop(entry[1], None)
        return entry[2]

    def _lost(self, note: ref[Short]) -> None:
        self._short.pop(note, None)

    def _gone(self, note: ref[KeyIndex]) -> None:
        self._made.pop(note, None)
