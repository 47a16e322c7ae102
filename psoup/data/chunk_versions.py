"""The successors and ends of the rows of one chunk of a table, in arrays beside its columns."""

from __future__ import annotations

import numpy as np

from psoup.model import TableSpec
from psoup.values.columns import Array


class ChunkVersions:
    """The successors and ends of the rows of one chunk. Only the writer writes; each element changes once.

    `before`, `successors`: int64[n], the IDs of the entries before and after the row's own, -1 and 0 if there is none.
    `ends`: int64[n], the time of the successor. `ended`: the number of rows with a successor. `ended_bits`: a bit for
    each of them, in int64 words. `deletions`: the number of deletions, or -1 if they are not counted. `worth`: a note
    of `psoup.engine.maintenance.lost`. `relinked`: whether the links were made at a start. Then `before` passes over
    entries that had left their chunks by then.
    """

    __slots__ = ("before", "deletions", "ended", "ended_bits", "ends", "relinked", "successors", "worth")

    def __init__(self, rows: int) -> None:
        self.successors: Array = np.zeros(rows, np.int64)
        self.ends: Array = np.zeros(rows, np.int64)
        self.before: Array = np.full(rows, -1, np.int64)
        self.ended_bits: Array = np.zeros(-(-rows // 64), np.int64)
        self.ended, self.deletions = 0, -1
        self.relinked = False
        self.worth: tuple[TableSpec, int] | None = None

    def take(self, rows: Array) -> ChunkVersions:
        """The entries of `rows` (int64[k]), copied. Only the writer may call it; it must install the result at once."""
        taken = ChunkVersions(0)
        taken.successors, taken.ends, taken.before = self.successors[rows], self.ends[rows], self.before[rows]
        taken.count_ended()
        taken.relinked = self.relinked
        return taken

    def count_ended(self) -> None:
        """Compute `ended` and `ended_bits` from the successors. Only for arrays that no reader has."""
        self.ended, self.ended_bits = int(np.count_nonzero(self.successors)), bits_of(self.successors != 0)

    def note_worth(self, table: TableSpec, edge: int) -> int:
        """Note the least edge with which the chunk is worth a look, for the options of `table`. Returns the edge."""
        self.worth = table, edge
        return edge

    def cut(self, rows: int) -> ChunkVersions:
        """The entries of the first `rows` rows, copied if fewer than all. As `take`, only for the writer."""
        return self if rows == len(self.successors) else self.take(np.arange(rows))

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return self.successors.nbytes + self.ends.nbytes + self.before.nbytes + self.ended_bits.nbytes


def bits_of(flags: Array) -> Array:
    """The bits of flags (bool[n]), the first in the lowest bit: int64[n / 64]."""
    padded: Array = np.zeros(-(-len(flags) // 64) * 64, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view(np.int64)
