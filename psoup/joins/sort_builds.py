"""A side in an order in which the partners of a key lie side by side: its rows by place.

    Buckets     by an equality: counted and placed, no two keys compared; in a bucket rows ascend
    Sorted      by a band: the partners of a row are one range
    Everything  by nothing: all rows are partners, as of a product

`ranges` gives each row on the left the places of its partners, or of what may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from psoup.columns import Array, scratch_array
from psoup.joins.budget import Room
from psoup.kernels.buckets import fill_buckets, find_buckets
from psoup.kernels.order import order_keys
from psoup.kernels.paired import SPREADING, choose_buckets

_NONE = np.zeros(0, np.int64)
_CACHED: Array = np.arange(65_536, dtype=np.int32)
_ROW_BYTES = 20
_SHARE = 8
"""Keys for each row up to which the bounds of all are taken: to pick the rows' own takes longer."""
_FULL = 64
"""Rows of a bucket from which on it is worth while to search in it rather than to look at each."""


def all_rows(count: int) -> Array:
    """The rows of a side, int32: not to be written. O(1) for few."""
    return _CACHED[:count] if count <= len(_CACHED) else np.arange(count, dtype=np.int32)


class Build(Protocol):
    """An order of rows: `rows` int32, by place; `keys` int64, by place, if places of a range must be compared."""

    rows: Array
    keys: Array
    ascending: bool
    """Whether rows ascend in each range."""

    def ranges(self, keys: Array, begin: Array, end: Array) -> int:
        """Write the range of places of each key: int32[n]; returns how many places in all."""
        ...


class Buckets:
    """Rows (int32) by the buckets of their keys (int64, by row). 20 bytes a row."""

    ascending = True

    def __init__(self, keys: Array, rows: Array, room: Room, bounds: tuple[int, int] | None = None) -> None:
        """`bounds`: the least key and the greatest, or wider."""
        count = len(rows)
        room.hold(_ROW_BYTES * count, "a side sorted by its key")
        if bounds is None:
            own = keys if _SHARE * count >= len(keys) else keys[rows]
            bounds = int(own.min()), int(own.max())
        base, factor, shift, buckets, self.exact = choose_buckets(*bounds, count)
        self._base, self._factor, self._shift = np.uint64(base), np.uint64(factor), np.uint64(shift)
        self._starts: Array = scratch_array(buckets + 2, np.int32)
        self.rows: Array = scratch_array(count, np.int32)
        self.keys: Array = _NONE if self.exact else scratch_array(count, np.int64)
        fill_buckets(keys, rows, self._base, self._factor, self._shift, self._starts, self.rows, self.keys)

    @property
    def places(self) -> tuple[np.uint64, np.uint64, np.uint64, Array, Array, Array]:
        """What `kernels.joined.probe_buckets` asks: how keys become buckets, and what is in these."""
        return self._base, self._factor, self._shift, self._starts, self.keys, self.rows

    @property
    def full(self) -> bool:
        """Whether a bucket has many rows. O(buckets)."""
        return int(np.diff(self._starts[:-1]).max()) > _FULL

    def ranges(self, keys: Array, begin: Array, end: Array) -> int:
        """The buckets of keys."""
        places: int = find_buckets(keys, self._base, self._factor, self._shift, self._starts, begin, end)
        return places


class Sorted:
    """Rows (int32) in the order of their keys (int64, by row). 20 bytes a row, 16 more meanwhile."""

    keys = _NONE

    def __init__(self, keys: Array, rows: Array, room: Room) -> None:
        count = len(rows)
        room.hold(_ROW_BYTES * count, "a side sorted by its band")
        own = keys if count == len(keys) else keys[rows]
        order, spare = scratch_array(count, np.int64), scratch_array(count, np.int64)
        order_keys(own, order, spare)
        self.rows: Array = rows[order]
        self.ascending = bool((self.rows[1:] > self.rows[:-1]).all())

    def ranges(self, keys: Array, begin: Array, end: Array) -> int:
        """All places, to be narrowed."""
        begin[:], end[:] = 0, len(self.rows)
        return len(begin) * len(self.rows)


class Everything:
    """Rows (int32, ascending) as they are."""

    keys = _NONE
    ascending = True

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    def ranges(self, keys: Array, begin: Array, end: Array) -> int:
        """All places."""
        begin[:], end[:] = 0, len(self.rows)
        return len(begin) * len(self.rows)


class Builds:
    """The orders of the rows that take part (int32, by source), each made once."""

    def __init__(self, rows: Sequence[Array], room: Room) -> None:
        self.rows, self.room = rows, room
        self._made: dict[tuple[int, str, tuple[int, ...]], Build] = {}
        self._hashes: dict[tuple[int, ...], Array] = {}

    def buckets(self, source: int, keys: Sequence[Array]) -> Buckets:
        """The rows of a source by one key, or by the hash of several."""
        name = (source, "buckets", tuple(map(id, keys)))
        build = self._made.get(name)
        if build is None:
            if len(keys) > 1:
                self.room.hold(8 * len(keys[0]), "hashes of its keys")
            build = self._made[name] = Buckets(hashed(keys), self.rows[source], self.room)
        assert isinstance(build, Buckets)
        return build

    def sorted(self, source: int, keys: Array) -> Build:
        """The rows of a source in the order of a key."""
        name = (source, "sorted", (id(keys),))
        build = self._made.get(name)
        if build is None:
            build = self._made[name] = Sorted(keys, self.rows[source], self.room)
        return build

    def everything(self, source: int) -> Build:
        """The rows of a source."""
        return Everything(self.rows[source])


def hashed(keys: Sequence[Array]) -> Array:
    """A hash of several keys of each row (int64), or the only key itself."""
    if len(keys) == 1:
        return keys[0]
    mixed = keys[0].view(np.uint64)
    for key in keys[1:]:
        mixed = mixed * SPREADING
        mixed = (mixed ^ (mixed >> np.uint64(29))) + key.view(np.uint64)
    return mixed.view(np.int64)
