"""Matches of an answer, chunk by chunk, as they are held while it is read.

ChunkMatches   as they were found: 8 bytes a row, and the results of the whole chunk behind them
Packed         for an answer that waits for its reader: a range, 2 bytes a row, or a bit for each row of the chunk
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.answer.matches import ChunkMatches
from psoup.columns import Array
from psoup.data.archived import Chunk

_FEW = 4_096
"""Rows up to which 2 bytes for each are fewer than a bit for each row of a full chunk."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Offsets in a chunk in little memory: `held` is uint16 offsets, or bits from `start` on; None: all of a range."""

    data: Chunk
    start: int
    count: int
    held: Array | None

    @property
    def offsets(self) -> Array:
        """As those of ChunkMatches: int64, ascending. O(rows of the chunk / 8)."""
        if self.held is None:
            return np.arange(self.start, self.start + self.count, dtype=np.int64)
        if self.held.dtype == np.uint16:
            return self.held.astype(np.int64)
        return np.flatnonzero(np.unpackbits(self.held)) + self.start


Matches = ChunkMatches | Packed


def packed(match: Matches) -> Packed:
    """The same rows, of which there must be one. O(rows)."""
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
