"""The kept rows of a relation: chunks in memory, like the chunks of a stream.

    numbers   0 … 63 | 64 … 127 | 128 …      in the order in which the rows came
    drop               3, 70 remain          the rows that a sort may still need, in one chunk

Each chunk is charged to the budget of sorts when it comes. `sort_rows` bounds the rows that are kept at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.budgets import SORT_ROWS
from psoup.config import CHUNK_ROWS
from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.errors import ResourceExhausted
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.match_forms import Packed
from psoup.values.columns import Array, Column, concat_columns

_TIMES: Array = np.zeros(CHUNK_ROWS, np.int64)
"""The times of the rows of a chunk, which no expression reads."""


class KeptChunks:
    """The kept rows of one relation. `subject`: its name in messages."""

    def __init__(self, reading: Reading, subject: str) -> None:
        self.fresh_bytes = 0
        """The bytes of the rows that were added after the last call of `drop`."""
        self._reading = reading
        self._subject = subject
        self._chunks: list[ChunkView] = []
        self._numbers: list[Array] = []
        """The numbers of the rows of each chunk, int64, ascending."""
        self._next = 0
        self._rows = 0
        self._held = 0

    def add(self, chunk: ChunkView, offsets: Array) -> ChunkView:
        """Keep the rows of a chunk at some offsets. Returns them as a chunk whose first ID is their first number.

        Raises ResourceExhausted if the kept rows are too many, or too large.
        """
        columns = chunk.columns
        if len(offsets) < len(chunk):
            columns = tuple([column.take(offsets) for column in columns])
        added = chunk_of(columns, self._next)
        self._hold(added.nbytes)
        self.fresh_bytes += added.nbytes
        self._chunks.append(added)
        self._numbers.append(np.arange(self._next, self._next + len(added)))
        self._next += len(added)
        self._rows += len(added)
        return added

    def check_rows(self) -> None:
        """Raise ResourceExhausted if the kept rows are more than `sort_rows`."""
        if self._rows > self._reading.sort_rows:
            raise over_rows(self._subject, self._rows, self._reading.sort_rows)

    def drop(self, remaining: Array, last: int) -> None:
        """Drop the rows with numbers of at most `last`, except for `remaining` (int64, ascending). O(rows)."""
        numbers = np.concatenate(self._numbers)
        later = numbers[np.searchsorted(numbers, last, "right") :]
        rows = np.searchsorted(numbers, np.concatenate([remaining, later]))
        if len(rows) == len(numbers):
            self.fresh_bytes = 0
            return
        starts = np.cumsum([0, *map(len, self._chunks)])
        ends = np.searchsorted(rows, starts)
        parts = [
            [column.take(rows[first:stop] - start) for column in chunk.columns]
            for chunk, start, first, stop in zip(self._chunks, starts, ends, ends[1:], strict=False)
            if stop > first
        ]
        before = self._held
        self._hold(sum([column.nbytes for part in parts for column in part]))
        self._chunks, self._numbers = [], []
        whole = [concat_columns(columns) for columns in zip(*parts, strict=True)]
        for start in range(0, len(rows), CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, len(rows))
            self._chunks.append(chunk_of([column.slice(start, stop) for column in whole], start))
            self._numbers.append(numbers[rows[start:stop]])
        self._rows, self.fresh_bytes = len(rows), 0
        self._give_back(before)

    @property
    def matches(self) -> list[Packed]:
        """All kept rows, by their positions, in the form of the matches of a stream."""
        starts = np.cumsum([0, *map(len, self._chunks)]).tolist()
        chunks = [chunk_of(chunk.columns, start) for chunk, start in zip(self._chunks, starts, strict=False)]
        return [Packed(chunk, 0, len(chunk), None) for chunk in chunks]

    def positions(self, numbers: Array) -> Array:
        """The positions of rows among the kept rows. `numbers`: int64, in any order. O(numbers * log rows)."""
        if self._rows == self._next:
            return numbers
        return np.searchsorted(np.concatenate([np.zeros(0, np.int64), *self._numbers]), numbers)

    def close(self) -> None:
        """Drop all rows and return their bytes. Idempotent."""
        self._chunks, self._numbers = [], []
        self._give_back(self._held)

    def _hold(self, size: int) -> None:
        self._reading.budget.hold(size, self._subject)
        self._held += size

    def _give_back(self, size: int) -> None:
        self._reading.budget.give_back(size)
        self._held -= size


def chunk_of(columns: Sequence[Column], first_id: int) -> ChunkView:
    """Make a chunk of columns of at most `CHUNK_ROWS` rows. Their values are shared, and errors are dropped.

    The errors were counted when the columns were computed, and such values are NULL.
    """
    rows = len(columns[0])
    parts = tuple([_plain(column) for column in columns])
    return ChunkView(0, Places(first_id, rows), _TIMES[:rows], parts, sum([column.nbytes for column in parts]))


def _plain(column: Column) -> Column:
    """The column without errors, and with contiguous arrays, as kernels need them."""
    values, valid = column.values, column.valid
    if not values.flags.c_contiguous:
        values = values.copy()
    if valid is not None and not valid.flags.c_contiguous:
        valid = valid.copy()
    return Column(column.type, values, valid, column.data)


def over_rows(subject: str, rows: int, limit: int) -> ResourceExhausted:
    """Make the error of a relation with more rows than one invocation may hold."""
    return ResourceExhausted(
        f"{subject} has {rows:,} rows and more, and one invocation may hold {limit:,} (sort_rows); narrow the windows"
        " or the WHERE clauses of its streams, or add a LIMIT to it",
        reason="SORT_BUDGET",
        rows=rows,
        **SORT_ROWS.over(rows, limit),
    )
