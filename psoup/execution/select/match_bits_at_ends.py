"""The matches at an end of a window as a stored bitmap, which aggregates read without a list of offsets.

    bits of the chunk   …0100110|1011010…        start = 7, stop = 14: four matches
                                └──────┘

An aggregate without GROUP BY adds the values at these bits to its state in one pass
(`psoup.execution.aggregate.window_ends`). Other readers ask for the offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.kernels.rows.bitmaps import bits_to_offsets, count_bits
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry
from psoup.results.failures import NO_FAILURES
from psoup.values.columns import Array


@dataclass(slots=True, eq=False)
class EndBits:
    """The `count` matches of a clause in the rows [start, stop) of a chunk. `bits`: the bitmap of all rows, uint64.

    Nothing changes an object. The class is not frozen, as making a frozen object takes five times as long.
    """

    entry: ChunkEntry
    bits: Array
    start: int
    stop: int
    count: int

    errors = 0

    @property
    def data(self) -> Chunk:
        """The chunk's tuples."""
        return self.entry.data

    @property
    def offsets(self) -> Array:
        """The offsets, int64, ascending. Each call makes a new array. O(rows / 64 + matches)."""
        return offsets_of(self.bits, self.start, self.stop, self.count)


def offsets_of(bits: Array, start: int, stop: int, count: int) -> Array:
    """The offsets in [start, stop) of the `count` set bits there, int64, ascending. O(rows / 64 + count)."""
    offsets: Array = np.empty(count, np.int64)
    bits_to_offsets(bits, start, stop, offsets)
    return offsets


def end_bits(entry: ChunkEntry, clause: ClauseRecord, start: int, stop: int) -> EndBits | None:
    """The matches of a clause in a part of a chunk. None unless they are stored as a bitmap, and have no errors."""
    results, sqc_id = entry.results, clause.sqc_id
    if results.errors or results.failures is not NO_FAILURES or stop > results.covered_to(sqc_id):
        return None
    bits = results.bits(sqc_id, clause.slot) if clause.factors else None
    return None if bits is None else EndBits(entry, bits, start, stop, count_bits(bits, start, stop))
