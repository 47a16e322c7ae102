"""The forms of the matches of a clause in a chunk.

ChunkMatches   offsets, 8 bytes a row; holds the results of the whole chunk.
KeptBits       the stored bitmap of a whole chunk, for a side of a join that a semi-join may reduce.
Packed         compact, for an answer that waits for its client: a range, 2 bytes a row, or a bitmap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.execution.select.match_bits_at_ends import EndBits, offsets_of
from psoup.published.snapshot import ChunkEntry
from psoup.values.columns import Array

_FEW = 4_096
"""The most rows that take less memory as offsets of 2 bytes than as a bitmap of a full chunk."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The offsets of matches in a compact form. `start`: the first offset. `count`: the number of offsets.

    `packed_offsets`: the offsets as uint16, or a bitmap from `start` on as uint8. None: all rows of
    [start, start + count) match.
    """

    data: Chunk
    start: int
    count: int
    packed_offsets: Array | None

    @property
    def offsets(self) -> Array:
        """The offsets, int64, ascending. O(rows of the chunk / 8)."""
        if self.packed_offsets is None:
            return np.arange(self.start, self.start + self.count, dtype=np.int64)
        if self.packed_offsets.dtype == np.uint16:
            return self.packed_offsets.astype(np.int64)
        return np.flatnonzero(np.unpackbits(self.packed_offsets)) + self.start


def packed(match: Matches) -> Packed:
    """Convert matches to the compact form. `match` must have at least one row. O(rows)."""
    if isinstance(match, Packed):
        return match
    offsets, count = match.offsets, len(match.offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    if last - first + 1 == count:
        return Packed(match.data, first, count, None)
    if count <= _FEW:
        return Packed(match.data, first, count, offsets.astype(np.uint16))
    marks: Array = np.zeros(last - first + 1, np.bool_)
    marks[offsets - first] = True
    return Packed(match.data, first, count, np.packbits(marks))


@dataclass(frozen=True, slots=True)
class ChunkMatches:
    """The matches of a clause in one chunk, or a part of it. `offsets`: int64, ascending.

    `errors`: the number of tuples that the clause rejects because a value could not be computed. It counts the whole
    chunk if `covered`, else the evaluated part.
    """

    entry: ChunkEntry
    offsets: Array
    errors: int
    covered: bool

    @property
    def data(self) -> Chunk:
        """The chunk's tuples."""
        return self.entry.data

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class KeptBits:
    """The `count` matches of a clause in a whole chunk, as the stored bitmap: uint64[words]."""

    entry: ChunkEntry
    bits: Array
    count: int

    errors = 0

    @property
    def data(self) -> Chunk:
        """The chunk's tuples."""
        return self.entry.data

    @property
    def offsets(self) -> Array:
        """The offsets, int64, ascending. Each call makes a new array. O(rows of the chunk / 8)."""
        return offsets_of(self.bits, 0, len(self.data), self.count)

    def among(self, rows: Array) -> Array:
        """The elements of `rows`, int64 offsets, that match. O(rows)."""
        return rows[(self.bits[rows >> 6] >> (rows & 63).view(np.uint64)) & np.uint64(1) != 0]


Known = ChunkMatches | KeptBits

Matches = ChunkMatches | KeptBits | EndBits | Packed
