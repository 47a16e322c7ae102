"""The pool of key indexes: the columns that get one, and the indexes that are dropped for another.

    searches         a: 1 2 … 8 times ──make──> with room: the chunk gets the index
                                                without: the oldest unused indexes are dropped, or it is not made
    results need more memory ─────give_up─────> the oldest indexes are dropped
    folds of a tenant beyond its quota ───────> the oldest indexes of this tenant are dropped

    joins            k: many rows ──shorten──> 32 bits a value beside the column, if there is room; kept with the chunk

Readers make indexes. The writer sets the limit and drops indexes. The pool has only weak references to them. Dropping
an index removes it from its chunk; its memory is freed after the last reader. A stream uses the pool of its tenant
(`KeyRoom.of`), and its indexes must also fit into the tenant's quota. To meet the quota, the pool drops only indexes of
the same tenant.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import islice
from typing import NamedTuple
from weakref import ref

from psoup.config import Shape
from psoup.data.archived_chunk import Chunk
from psoup.data.chunk import DECODED, ChunkView
from psoup.data.dictionary_column import ASKED
from psoup.data.key_index import USELESS, KeyIndex, KeyIndexes, key_index
from psoup.data.narrow import Short, short
from psoup.data.zones import Zones
from psoup.work.read_budget import NO_LIMIT

_ASKED = 16
"""The most indexes that one call checks for recent use."""


class _Note(NamedTuple):
    """An index: its chunk and column, its size, and its tenant."""

    keyed: ref[KeyIndexes]
    column: int
    size: int
    tenant: str


class _HeldBytes:
    """The entries of the pool with their bytes: `made`, key indexes, and `short`, columns in 32 bits.

    `of`: the bytes of each tenant, which may be wrong until the next `count`.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.made: dict[ref[KeyIndex], _Note] = {}
        self.short: dict[ref[Short], tuple[int, str]] = {}
        self.of: dict[str, int] = {}

    def grow(self, tenant: str, size: int) -> None:
        """Add `size` to the bytes of a tenant. It is negative for freed bytes. O(1)."""
        self.of[tenant] = self.of.get(tenant, 0) + size

    def count(self) -> None:
        """Count the bytes again, as concurrent changes may have miscounted them. O(indexes)."""
        bytes_of = dict[str, int]()
        for note in list(self.made.values()):
            bytes_of[note.tenant] = bytes_of.get(note.tenant, 0) + note.size
        for size, tenant in list(self.short.values()):
            bytes_of[tenant] = bytes_of.get(tenant, 0) + size
        self.of = bytes_of

    def lost(self, gone: ref[Short]) -> None:
        """Record that a column in 32 bits was freed."""
        if (entry := self.short.pop(gone, None)) is not None:
            self.grow(entry[1], -entry[0])

    def gone(self, gone: ref[KeyIndex]) -> None:
        """Record that an index was freed."""
        if (note := self.made.pop(gone, None)) is not None:
            self.grow(note.tenant, -note.size)


class KeyRoom:
    """The pool of key indexes and of columns in 32 bits. Any thread may use it; counts may lag a little.

    `limit`: the most bytes. `shape`: the thresholds for making and for using an index. `free`: returns the bytes that a
    tenant may still use for caches.
    """

    def __init__(self, limit: int, shape: Shape = Shape(), free: Callable[[str], int] = lambda _: NO_LIMIT) -> None:
        self.shape = shape
        self.tenant = ""
        self._free = free
        self._all = _HeldBytes(limit)

    def of(self, tenant: str) -> KeyRoom:
        """The same pool, for the streams of a tenant."""
        room = copy(self)
        room.tenant = tenant
        return room

    @property
    def limit(self) -> int:
        """The most bytes that the entries of all tenants may have."""
        return self._all.limit

    def bound(self, limit: int) -> None:
        """Set the limit. Entries above a lower limit stay until the pool needs room, or the writer drops some."""
        self._all.limit = limit

    @property
    def held(self) -> int:
        """Bytes of all indexes in use, and of columns in 32 bits. O(indexes)."""
        made, short = list(self._all.made.values()), list(self._all.short.values())
        return sum([note.size for note in made]) + sum([size for size, _ in short])

    def held_by(self, tenant: str) -> int:
        """Bytes of one tenant. O(1)."""
        return self._all.of.get(tenant, 0)

    def probed(self, chunk: Chunk, column: int, weight: int) -> bool:
        """Count a search of a closed chunk's column as `weight` searches. O(1).

        Returns whether there were enough searches for an index.
        """
        times = chunk.caches.keyed.get(column, 0)
        if not isinstance(times, int) or times == USELESS:
            return False
        chunk.caches.keyed[column] = times + weight
        return times + weight >= self.shape.key_probes

    def make(self, chunk: Chunk, column: int) -> bool:
        """Give a column of a closed chunk its index, if there is room for it. O(rows): about 700 us, and the reading.

        Returns False if the column has too few distinct values for an index.
        """
        index = key_index(chunk.columns[column], self.shape.key_values)
        if index is None:
            chunk.caches.keyed[column] = USELESS
        elif self._has_room(index.nbytes):
            note = _Note(ref(chunk.caches.keyed), column, index.nbytes, self.tenant)
            self._all.made[ref(index, self._all.gone)] = note
            self._all.grow(self.tenant, index.nbytes)
            chunk.caches.keyed[column] = index
        elif column in chunk.caches.keyed:
            chunk.caches.keyed[column] = 0  # tried again after as many searches
        return index is not None

    def shorten(self, chunk: ChunkView, column: int) -> bool:
        """Count a read of many values of a closed chunk's column. The second read stores them in 32 bits.

        They are stored if they fit and no other entry must be dropped. Returns whether the column needs no further
        call. O(rows): about 80 us.
        """
        form = chunk.caches.short.get(column)
        if form is None:
            chunk.caches.short[column] = ASKED
        if form != ASKED:
            return form is not None
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
        """Drop the oldest indexes, of `tenant` if given, until `wanted` bytes are free. Returns the freed bytes."""
        freed = 0
        for note, entry in list(self._all.made.items()):
            if freed >= wanted:
                break
            if tenant is None or entry.tenant == tenant:
                freed += self._drop(note)
        return freed

    def _has_room(self, size: int) -> bool:
        """Whether `size` more bytes fit into the limit and the tenant's quota. Drops unused indexes to make room.

        If the quota is reached, unused indexes of the tenant are dropped first.
        """
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
        """Drop indexes that no reader used since their last check, until `wanted` bytes are free. Returns freed bytes.

        Checks at most `_ASKED` indexes, of `tenant` if it is given.
        """
        freed, made = 0, self._all.made
        some = (note for note, entry in made.copy().items() if tenant is None or entry.tenant == tenant)
        for note in list(islice(some, _ASKED)):
            index = note()
            if index is not None and index.used:
                index.used = False
                if (entry := made.pop(note, None)) is not None:
                    made[note] = entry  # checked again after all others
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
