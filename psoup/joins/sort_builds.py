"""A side's rows in an order in which the partners of a key are adjacent.

    KeyBuckets  for an equality: counting sort, without comparing keys; rows ascend in a bucket
    Sorted      for a band: the partners of a row are one range
    Everything  for a product: all rows are partners

For each left row, `ranges` gives the range of places of its partners, or of candidates that need a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from psoup.joins.budget import JoinBudget
from psoup.kernels.join.hash_buckets import fill_buckets, find_buckets
from psoup.kernels.join.small_pairs import SPREADING, choose_buckets
from psoup.kernels.rows.radix_sort import order_keys
from psoup.values.columns import Array, scratch_array

_NONE = np.zeros(0, np.int64)
_CACHED: Array = np.arange(65_536, dtype=np.int32)
_ROW_BYTES = 20
"""Bytes of a row in a build."""
_SHARE = 8
"""With at most this many keys for each row, the bounds of all keys are used. Selecting the rows' keys takes longer."""
_FULL = 64
"""A bucket with more rows is faster to search by bisection than row by row."""


def all_rows(count: int) -> Array:
    """The rows of a side, int32; read-only. O(1) for up to 65,536 rows."""
    return _CACHED[:count] if count <= len(_CACHED) else np.arange(count, dtype=np.int32)


class Build(Protocol):
    """The rows of a side in some order. `rows`: int32, the row at each place.

    `keys`: int64, the key at each place; empty if no key of a range must be compared.
    """

    rows: Array
    keys: Array
    ascending: bool
    """Whether the rows of each range ascend."""

    def ranges(self, keys: Array, begin: Array, end: Array) -> int:
        """Write the range of places of each key to `begin` and `end` (int32[n]).

        Returns the number of places in all ranges.
        """
        ...


class KeyBuckets:
    """Rows (int32) in buckets, which are chosen by their keys (int64, by row). 20 bytes a row."""

    ascending = True

    def __init__(self, keys: Array, rows: Array, room: JoinBudget, bounds: tuple[int, int] | None = None) -> None:
        """`bounds`: a lower and an upper bound of the keys."""
        count = len(rows)
        room.hold(_ROW_BYTES * count, "a side sorted by its key")
        if bounds is None:
            row_keys = keys if _SHARE * count >= len(keys) else keys[rows]
            bounds = int(row_keys.min()), int(row_keys.max())
        base, factor, shift, buckets, self.exact = choose_buckets(*bounds, count)
        self._base = np.uint64(base)
        self._factor = np.uint64(factor)
        self._shift = np.uint64(shift)
        self._starts: Array = scratch_array(buckets + 2, np.int32)
        self.rows: Array = scratch_array(count, np.int32)
        self.keys: Array = _NONE if self.exact else scratch_array(count, np.int64)
        fill_buckets(keys, rows, self._base, self._factor, self._shift, self._starts, self.rows, self.keys)

    @property
    def places(self) -> tuple[np.uint64, np.uint64, np.uint64, Array, Array, Array]:
        """The arguments by which kernels of joins get the buckets."""
        return self._base, self._factor, self._shift, self._starts, self.keys, self.rows

    @property
    def full(self) -> bool:
        """Whether some bucket has more than `_FULL` rows. O(buckets)."""
        return int(np.diff(self._starts[:-1]).max()) > _FULL

    def ranges(self, keys: Array, begin: Array, end: Array) -> int:
        """Write the range of places of each key's bucket."""
        places: int = find_buckets(keys, self._base, self._factor, self._shift, self._starts, begin, end)
        return places


class Sorted:
    """Rows (int32) in the order of their keys (int64, by row). 20 bytes a row, and 16 more while sorting."""

    keys = _NONE

    def __init__(self, keys: Array, rows: Array, room: JoinBudget) -> None:
        count = len(rows)
        room.hold(_ROW_BYTES * count, "a side sorted by its band")
        row_keys = keys if count == len(keys) else keys[rows]
        order, spare = scratch_array(count, np.int64), scratch_array(count, np.int64)
        order_keys(row_keys, order, spare)
        self.rows: Array = rows[order]
        self.ascending = bool((self.rows[1:] > self.rows[:-1]).all())

    def ranges(self, keys: Array, begin: Array, end: Array) -> int:
        """Write the range of all places for each key. The caller narrows the ranges."""
        begin[:], end[:] = 0, len(self.rows)
        return len(begin) * len(self.rows)


class Everything:
    """All rows (int32, ascending) in their order."""

    keys = _NONE
    ascending = True

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    def ranges(self, keys: Array, begin: Array, end: Array) -> int:
        """Write the range of all places for each key."""
        begin[:], end[:] = 0, len(self.rows)
        return len(begin) * len(self.rows)


class Builds:
    """The builds of each source, over its rows (int32) that take part. Each build is made once."""

    def __init__(self, rows: Sequence[Array], room: JoinBudget) -> None:
        self.rows = rows
        self.room = room
        self._made: dict[tuple[int, str, tuple[int, ...]], Build] = {}
        self._hashes: dict[tuple[int, ...], Array] = {}

    def buckets(self, source: int, keys: Sequence[Array]) -> KeyBuckets:
        """The build of a source by one key, or by the hash of several keys."""
        name = (source, "buckets", tuple(map(id, keys)))
        build = self._made.get(name)
        if build is None:
            if len(keys) > 1:
                self.room.hold(8 * len(keys[0]), "hashes of its keys")
            build = self._made[name] = KeyBuckets(hashed(keys), self.rows[source], self.room)
        assert isinstance(build, KeyBuckets)
        return build

    def sorted(self, source: int, keys: Array) -> Build:
        """The build of a source in the order of a key."""
        name = (source, "sorted", (id(keys),))
        build = self._made.get(name)
        if build is None:
            build = self._made[name] = Sorted(keys, self.rows[source], self.room)
        return build

    def everything(self, source: int) -> Build:
        """The build of a source in the order of its rows."""
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
