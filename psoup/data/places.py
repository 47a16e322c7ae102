"""The places of a chunk: which tuple IDs its rows have.

    first_id 100, count 8, left None        rows 0 1 2 3 4 5 6 7  <->  IDs 100 … 107
    first_id 100, count 8, left [1, 4, 7]   rows 0 1 2            <->  IDs 101, 104, 107

A chunk is *thinned* if some of its tuples have left. It keeps its first ID and its number of places, so all chunks of
a stream stay consecutive. Its columns, results, folds and key indexes hold only the rows that are left.

Only this module computes tuple IDs from rows, and rows from tuple IDs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array

MOST_PLACES = 1 << 16
"""The most places of a thinned chunk, whose places are 16-bit numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """`count` places with the tuple IDs from `first_id` on. `left`: uint16[n], ascending: the places that have a row.

    `left` is None if all places have a row. A chunk with `left` has at most MOST_PLACES places.
    """

    first_id: int
    count: int
    left: Array | None = None

    def __len__(self) -> int:
        """The number of rows."""
        return self.count if self.left is None else len(self.left)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Places) or (self.first_id, self.count) != (other.first_id, other.count):
            return False
        if self.left is None or other.left is None:
            return self.left is other.left
        return np.array_equal(self.left, other.left)

    def __hash__(self) -> int:
        return hash((self.first_id, self.count, len(self)))

    @property
    def end_id(self) -> int:
        """The tuple ID after the last place."""
        return self.first_id + self.count

    def id_of(self, row: int) -> int:
        """The tuple ID of a row."""
        return self.first_id + (row if self.left is None else int(self.left[row]))

    def ids(self, rows: Array) -> Array:
        """The tuple IDs of rows (int64[k]), int64[k]."""
        return self.first_id + (rows if self.left is None else self.left[rows].astype(np.int64))

    def ids_between(self, start: int, stop: int) -> Array:
        """The tuple IDs of rows `start` to `stop`, int64[stop - start]."""
        if self.left is None:
            return np.arange(self.first_id + start, self.first_id + stop, dtype=np.int64)
        return self.first_id + self.left[start:stop].astype(np.int64)

    def row_from(self, tuple_id: int) -> int:
        """The first row with a tuple ID of at least `tuple_id`; `len` if there is none. O(log n)."""
        offset = tuple_id - self.first_id
        if offset <= 0:
            return 0
        if offset >= self.count:
            return len(self)
        return offset if self.left is None else int(np.searchsorted(self.left, np.uint16(offset)))

    def row_of(self, tuple_id: int) -> int | None:
        """The row with this tuple ID. None if the tuple is in another chunk or has left. O(log n)."""
        row = self.row_from(tuple_id)
        return row if tuple_id >= self.first_id and row < len(self) and self.id_of(row) == tuple_id else None

    def rows(self, ids: Array) -> Array:
        """The rows of tuple IDs (int64[k]) that are all left, int64[k]. O(k log n)."""
        offsets = ids - self.first_id
        return offsets if self.left is None else np.searchsorted(self.left, offsets.astype(np.uint16))

    def has(self, ids: Array) -> Array:
        """Whether each tuple ID (int64[k]) has a row, bool[k]. O(k log n)."""
        offsets = ids - self.first_id
        inside = (offsets >= 0) & (offsets < self.count)
        if self.left is None or not len(self.left):
            return inside if self.left is None else np.zeros(len(ids), np.bool_)
        wanted = np.where(inside, offsets, 0).astype(np.uint16)
        rows = np.minimum(np.searchsorted(self.left, wanted), len(self.left) - 1)
        return inside & (self.left[rows] == wanted)

    def keep(self, rows: Array) -> Places:
        """The same places with only these rows (int64[k], ascending) left."""
        left = rows.astype(np.uint16) if self.left is None else self.left[rows]
        return Places(self.first_id, self.count, left)

    def moved(self, by: int) -> Places:
        """The same places with all tuple IDs moved up by `by`."""
        return replace(self, first_id=self.first_id + by)

    def check(self) -> None:
        """Check that the places left are 16-bit numbers, ascending, and inside the chunk."""
        left = self.left
        if left is None:
            return
        ensure(left.dtype == np.uint16, self, "the places left are not 16-bit numbers", dtype=left.dtype)
        ensure(bool((left[:-1] < left[1:]).all()), self, "the places left do not ascend", left=left)
        ensure(self.count <= MOST_PLACES, self, "a thinned chunk has too many places", count=self.count)
        ensure(not len(left) or int(left[-1]) < self.count, self, "a place is outside the chunk", left=left)
