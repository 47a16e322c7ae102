"""The rows that are left of a stream with thinned chunks, counted in the order of their tuple IDs.

    chunk      0: IDs 0-7, all left     1: IDs 8-15, left 9 12     2: open, IDs 16-18
    ranks      0 1 2 3 4 5 6 7          8 9                        10 11 12
    back(19, 4) = 12                    four rows before the end: 12, 16, 17, 18

Windows and retention by rows count these. A stream without thinned chunks counts by subtraction.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.values.columns import Array


class RowsLeft(Protocol):
    """Counts the rows of a stream. Tuple IDs are of kept chunks, or the end of the stream."""

    def between(self, low: int, high: int) -> int:
        """The number of rows with tuple IDs in [low, high). 0 if low is not below high."""
        ...

    def back(self, tuple_id: int, rows: int) -> int:
        """The tuple ID that is `rows` rows before `tuple_id`.

        With fewer rows before it, the result is below the first ID, by the number of missing rows.
        """
        ...

    def first_from(self, tuple_id: int) -> int:
        """The first tuple ID from `tuple_id` on that is left, or the end of the stream."""
        ...

    def last_to(self, tuple_id: int) -> int:
        """The last tuple ID up to `tuple_id` that is left. It is below the first one if there is none."""
        ...


class _AllRows:
    """The rows of a stream without thinned chunks: each tuple ID has one. All calls are O(1)."""

    def between(self, low: int, high: int) -> int:
        """See RowsLeft."""
        return max(high - low, 0)

    def back(self, tuple_id: int, rows: int) -> int:
        """See RowsLeft."""
        return tuple_id - rows

    def first_from(self, tuple_id: int) -> int:
        """See RowsLeft."""
        return tuple_id

    def last_to(self, tuple_id: int) -> int:
        """See RowsLeft."""
        return tuple_id


ALL_ROWS: RowsLeft = _AllRows()
"""The count of any stream without thinned chunks."""


class SomeRows:
    """The rows of all chunks of a stream, oldest first. The first call takes O(chunks), a later one O(log chunks)."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks

    @cached_property
    def _firsts(self) -> list[int]:
        return [chunk.first_id for chunk in self._chunks]

    @cached_property
    def _ends(self) -> Array:
        return np.cumsum([0, *map(len, self._chunks)])

    def between(self, low: int, high: int) -> int:
        """See RowsLeft."""
        return max(self._rank(high) - self._rank(low), 0)

    def back(self, tuple_id: int, rows: int) -> int:
        """See RowsLeft."""
        return self._nth(self._rank(tuple_id) - rows) if rows else tuple_id

    def first_from(self, tuple_id: int) -> int:
        """See RowsLeft."""
        return self._nth(self._rank(tuple_id))

    def last_to(self, tuple_id: int) -> int:
        """See RowsLeft."""
        return self._nth(self._rank(tuple_id + 1) - 1)

    def _rank(self, tuple_id: int) -> int:
        """The number of rows before a tuple ID."""
        at = max(bisect_right(self._firsts, tuple_id) - 1, 0)
        return int(self._ends[at]) + self._chunks[at].places.row_from(tuple_id)

    def _nth(self, rank: int) -> int:
        """The tuple ID of a row by its rank. Ranks below 0 go on below the first ID; the last is the stream's end."""
        if rank < 0:
            return self._firsts[0] + rank
        if rank == self._ends[-1]:
            return self._chunks[-1].end_id
        at = int(np.searchsorted(self._ends, rank, "right")) - 1
        return self._chunks[at].places.id_of(rank - int(self._ends[at]))
