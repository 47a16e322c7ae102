"""The room of all key indexes: who may make one of a column, and which one leaves for another.

    looked through   a: 1 2 … 8 times ──make──> there is room: it is the chunk's
                                                there is none: the oldest that were not used leave, or it is not made
    results need more memory ─────give_up─────> the oldest leave
    folds of a tenant beyond its quota ───────> the oldest of this tenant leave

    joined by      k: many rows ──shorten──> 32 bits a value beside it, if there is room; as long as the chunk

Readers make indexes beside the writer, which sets the limit and takes them back: all are noted by references that do
not keep them. One is dropped by taking it out of its chunk, and is gone when the last reader has left it. A stream has
the room of its tenant (`KeyRoom.of`): an index must have room in its quota too, and takes that of no other's indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import islice
from typing import NamedTuple
from weakref import ref

from psoup.config import Shape
from psoup.data.archived import Chunk
from psoup.data.chunk import DECODED, ChunkView
from psoup.data.coded import ASKED
from psoup.data.keyed import USELESS, Keyed, KeyIndex, key_index
from psoup.data.narrow import Short, short
from psoup.data.zones import Zones
from psoup.reading import NO_LIMIT

_ASKED = 16
"""Indexes that are asked at once whether they were used."""


class _Note(NamedTuple):
    """An index: where it is, how large, and whose."""

    keyed: ref[Keyed]
    column: int
    size: int
    tenant: str


class _Held:
    """Bytes held in a room, by all tenants. `of`: bytes by tenant, a little behind until they are counted anew."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.made: dict[ref[KeyIndex], _Note] = {}
        self.short: dict[ref[Short], tuple[int, str]] = {}
        self.of: dict[str, int] = {}

    def grow(self, tenant: str, size: int) -> None:
        """Count bytes that came, or went. O(1)."""
        self.of[tenant] = self.of.get(tenant, 0) + size

    def count(self) -> None:
        """Count the bytes anew: threads that count at once may have miscounted. O(indexes)."""
        of = dict[str, int]()
        for note in list(self.made.values()):
            of[note.tenant] = of.get(note.tenant, 0) + note.size
        for size, tenant in list(self.short.values()):
            of[tenant] = of.get(tenant, 0) + size
        self.of = of

    def lost(self, gone: ref[Short]) -> None:
        """Note that a column in 32 bits is gone."""
        if (entry := self.short.pop(gone, None)) is not None:
            self.grow(entry[1], -entry[0])

    def gone(self, gone: ref[KeyIndex]) -> None:
        """Note that an index is gone."""
        if (note := self.made.pop(gone, None)) is not None:
            self.grow(note.tenant, -note.size)


class KeyRoom:
    """Any thread: what is kept is changed in single steps, and counts may be a little behind. `limit`: bytes.

    `shape`: when a column has an index, how many indexes one read makes, and when rows are looked up; `free`: the bytes
    that a tenant may still have of what is kept.
    """

    def __init__(self, limit: int, shape: Shape = Shape(), free: Callable[[str], int] = lambda _: NO_LIMIT) -> None:
        self.shape = shape
        self.tenant = ""
        self._free, self._all = free, _Held(limit)

    def of(self, tenant: str) -> KeyRoom:
        """The same room, for the streams of a tenant."""
        own = copy(self)
        own.tenant = tenant
        return own

    @property
    def limit(self) -> int:
        """Bytes that all may have together."""
        return self._all.limit

    def bound(self, limit: int) -> None:
        """Set the limit; what is there already stays until room is wanted, or it is given up."""
        self._all.limit = limit

    @property
    def held(self) -> int:
        """Bytes of all indexes that are somewhere in use, and of columns in 32 bits. O(indexes)."""
        made, short = list(self._all.made.values()), list(self._all.short.values())
        return sum([note.size for note in made]) + sum([size for size, _ in short])

    def held_by(self, tenant: str) -> int:
        """Bytes of one tenant. O(1)."""
        return self._all.of.get(tenant, 0)

    def probed(self, chunk: Chunk, column: int, weight: int) -> bool:
        """Note that a column of a closed chunk was looked through; whether it should have an index by now. O(1)."""
        times = chunk.caches.keyed.get(column, 0)
        if not isinstance(times, int) or times == USELESS:
            return False
        chunk.caches.keyed[column] = times + weight
        return times + weight >= self.shape.key_probes

    def make(self, chunk: Chunk, column: int) -> bool:
        """Give a column of a closed chunk its index, if there is room for it. O(rows): some 700 us, and reading."""
        index = key_index(chunk.columns[column], self.shape.key_values)
        if index is None:
            chunk.caches.keyed[column] = USELESS
        elif self._has_room(index.nbytes):
            note = _Note(ref(chunk.caches.keyed), column, index.nbytes, self.tenant)
            self._all.made[ref(index, self._all.gone)] = note
            self._all.grow(self.tenant, index.nbytes)
            chunk.caches.keyed[column] = index
        elif column in chunk.caches.keyed:
            chunk.caches.keyed[column] = 0  # it is tried again after as many searches
        return index is not None

    def shorten(self, chunk: ChunkView, column: int) -> bool:
        """Note that many values of a column of a closed chunk were read; the second time it gets them in 32 bits, if
        they fit and nothing needs to leave for them. Whether nothing more is to be done. O(rows): some 80 us.
        """
        known = chunk.caches.short.get(column)
        if known is None:
            chunk.caches.short[column] = ASKED
        if known != ASKED:
            return known is not None
        codes, size = None, 4 * len(chunk)
        if chunk.columns[column].type.kind in DECODED and size <= self._free(self.tenant):
            zone = Zones(chunk)[column]
            if isinstance(zone.least, int) and isinstance(zone.greatest, int) and self.held + size <= self.limit:
                codes = short(chunk.columns[column], zone.least, zone.greatest)
        if codes is not None:
            self._all.short[ref(codes, self._all.lost)] = size, self.tenant
            self._all.grow(self.tenant, size)
        chunk.caches.short[column] = USELESS if codes is None else codes
        return True

    def give_up(self, wanted: int, tenant: str | None = None) -> int:
        """Drop the oldest indexes, of one tenant if it is given, until `wanted` bytes are free; returns those freed."""
        freed = 0
        for note, entry in list(self._all.made.items()):
            if freed >= wanted:
                break
            if tenant is None or entry.tenant == tenant:
                freed += self._drop(note)
        return freed

    def _has_room(self, size: int) -> bool:
        """Whether there is room, or is as soon as some are gone that were not used of late: of the tenant first, where
        its quota is what lacks."""
        self._all.count()
        lacking = size - self._free(self.tenant)
        over = self.held + size - self.limit
        if lacking > 0:
            dropped = self._drop_unused(lacking, self.tenant)
            lacking -= dropped
            over -= dropped
        if over > 0 >= lacking:
            over -= self._drop_unused(over)
        return over <= 0 and lacking <= 0

    def _drop_unused(self, wanted: int, tenant: str | None = None) -> int:
        """Drop some that were not used of late, of one tenant if it is given; returns the bytes freed."""
        freed, made = 0, self._all.made
        some = (note for note, entry in made.copy().items() if tenant is None or entry.tenant == tenant)
        for note in list(islice(some, _ASKED)):
            index = note()
            if index is not None and index.used:
                index.used = False
                if (entry := made.pop(note, None)) is not None:
                    made[note] = entry  # asked again after all others
            elif freed < wanted:
                freed += self._drop(note)
        return freed

    def _drop(self, note: ref[KeyIndex]) -> int:
        index, entry = note(), self._all.made.get(note)
        keyed = None if entry is None else entry.keyed()
        if index is None or entry is None or keyed is None or keyed.get(entry.column) is not index:
            return 0
        keyed.pop(entry.column, None)
        return entry.size
