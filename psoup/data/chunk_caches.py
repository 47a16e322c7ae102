"""The caches of a chunk: statistics and encodings of its columns, which a reader computes on first use.

    ChunkView ──────> MemoryCaches   keyed  zones  narrow  short  coded  places
    ArchivedChunk ──> ChunkCaches    keyed

An entry depends only on the chunk. So two readers may compute the same entry at once, and either result may stay. A
thread adds or removes an entry in one atomic step, and a reader copies a table before it iterates. Each table has at
most one entry for a column. The description of each table names the module that decides which entries it has.
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
    """The least and the greatest order key of one attribute in a chunk. Both are None if all values are NULL."""

    least: Key | None
    greatest: Key | None
    has_null: bool


@dataclass(slots=True)
class ChunkAddresses:
    """The array that `ChunkView.addresses` returns.

    `coded`: the number of narrow and 32-bit encodings of the chunk when the array was computed. `kept`: arrays that
    must live as long as the addresses. `told`: the columns whose codes have their address in the array.
    """

    addresses: Array
    coded: int
    kept: list[Array]
    told: frozenset[int]


class ChunkCaches:
    """The caches of any chunk, in memory or on disk."""

    __slots__ = ("keyed",)

    def __init__(self) -> None:
        self.keyed = KeyIndexes()
        """Key indexes of columns that were searched often, or the number of searches. See `psoup.data.key_room`."""


class MemoryCaches(ChunkCaches):
    """The caches of a chunk in memory."""

    __slots__ = ("coded", "narrow", "places", "short", "zones")

    def __init__(self) -> None:
        self.keyed = KeyIndexes()
        self.zones: dict[int, Zone] = {}
        """The zones of columns; see `psoup.data.zones`."""
        self.narrow: dict[int, Narrow] = {}
        """Narrow codes of columns that were searched; see `psoup.data.narrow`."""
        self.short: dict[int, Short | int] = {}
        """32-bit codes of columns of which joins have read many rows; see `psoup.data.key_room`."""
        self.coded: dict[int, Coded | int] = {}
        """Dictionary-encoded columns that GROUP BYs have used; see `psoup.data.dictionary_column`."""
        self.places: list[ChunkAddresses] = []
        """Arrays of `ChunkView.addresses`, the newest last. All stay as long as the chunk, because readers use them."""

    def moved(self) -> MemoryCaches:
        """The caches for a copy of the chunk with other arrays. The copy shares all entries except the addresses."""
        caches = MemoryCaches()
        caches.keyed = self.keyed
        caches.zones = self.zones
        caches.narrow = self.narrow
        caches.short = self.short
        caches.coded = self.coded
        return caches

    def forget_codes(self) -> None:
        """Drop the narrow codes and the dictionary-encoded columns. The next reader that needs some computes them.

        Codes whose address `ChunkView.addresses` has returned stay as long as the chunk. Dropping them would free no
        memory.
        """
        told = frozenset[int]().union(*(places.told for places in self.places))
        for index in list(self.narrow):
            if index not in told:
                self.narrow.pop(index, None)
        self.coded.clear()
