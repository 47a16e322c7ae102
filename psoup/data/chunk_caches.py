"""The caches of a chunk: facts and forms of its columns, made by readers at the first need.

    ChunkView ──────> MemoryCaches   keyed  zones  narrow  short  coded  places
    ArchivedChunk ──> ChunkCaches    keyed

An entry follows from the chunk alone. So two readers may make the same entry at once, and either may stay. Entries come
and go in single steps, and a reader copies a table before it walks through it. Each table has at most one entry for a
column. The modules named below decide which entries are worth their memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.data.dictionary_column import Coded
from psoup.data.key_index import KeyIndexes
from psoup.data.narrow import Narrow, Short
from psoup.plan.factors import Key
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Zone:
    """The range of the values of one attribute in a chunk: order keys, both included (None: no value at all)."""

    least: Key | None
    greatest: Key | None
    has_null: bool


@dataclass(slots=True)
class ChunkAddresses:
    """Addresses as `ChunkView.addresses` returns them, made when `coded` columns were there in few bits; `kept`: arrays
    that the chunk itself does not keep alive; `told`: the columns whose codes are among them."""

    addresses: Array
    coded: int
    kept: list[Array]
    told: frozenset[int]


class ChunkCaches:
    """The caches of any chunk, in memory or on disk."""

    __slots__ = ("keyed",)

    def __init__(self) -> None:
        self.keyed = KeyIndexes()
        """Rows by value, of columns that were searched often; or the number of searches. See `psoup.data.key_room`."""


class MemoryCaches(ChunkCaches):
    """The caches of a chunk in memory."""

    __slots__ = ("coded", "narrow", "places", "short", "zones")

    def __init__(self) -> None:
        self.keyed = KeyIndexes()
        self.zones: dict[int, Zone] = {}
        """Ranges of the values; see `psoup.data.zones`."""
        self.narrow: dict[int, Narrow] = {}
        """The values in few bits, of columns that were searched; see `psoup.data.narrow`."""
        self.short: dict[int, Short | int] = {}
        """The values in 32 bits, of columns by which many rows were joined; see `psoup.data.key_room`."""
        self.coded: dict[int, Coded | int] = {}
        """Columns as numbers of their values, of those that were grouped by; see `psoup.data.dictionary_column`."""
        self.places: list[ChunkAddresses] = []
        """Arrays of `ChunkView.addresses`, the newest last. All stay as long as the chunk, as readers use them."""

    def moved(self) -> MemoryCaches:
        """The caches of the same tuples in other arrays: addresses are made anew, all other entries are shared."""
        caches = MemoryCaches()
        caches.keyed = self.keyed
        caches.zones = self.zones
        caches.narrow = self.narrow
        caches.short = self.short
        caches.coded = self.coded
        return caches

    def forget_codes(self) -> None:
        """Give back the memory of codes that searches and groups use; the next one that needs them makes them again.

        Codes that `ChunkView.addresses` has told stay as long as the chunk: new ones would be there beside them.
        """
        told = frozenset[int]().union(*(places.told for places in self.places))
        for index in list(self.narrow):
            if index not in told:
                self.narrow.pop(index, None)
        self.coded.clear()
