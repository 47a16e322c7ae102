"""The rows of a relation: a subselect, a set operation, or constants. Their columns come piece by piece.

    pieces ──> columns: SELECT, LIMIT, GROUP BY      each piece is read once, and dropped
           └─> matches: ORDER BY, DISTINCT, joins    all pieces are kept as chunks in memory, like a stream

Expressions read a column by its position. A kept row has a number, as a tuple has an ID (`kept_chunks`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from psoup.config import CHUNK_ROWS
from psoup.data.chunk import ChunkView
from psoup.execution.relations.kept_chunks import KeptChunks, chunk_of
from psoup.execution.rows.source_rows import Reading, SourceRows
from psoup.execution.select.match_forms import Packed
from psoup.expressions.tree import Expr
from psoup.model import DataType
from psoup.values.columns import Array, Column, value_bytes

_LEAST_ROWS = 1_024
"""The least number of rows of a piece if LIMIT wants fewer. The pieces of its inputs then cost little."""
_PIECE_SHARE = 16
"""The rows of a piece take at most a sixteenth of the bytes that the budget allows, without their texts."""
_MOST_BYTES = 1 << 28
"""The bytes that a read without a limit assumes, to derive the size of a piece."""
_FEWEST = 64
"""The least number of rows of a piece, however few bytes the budget allows."""

Pieces = Callable[[int], Generator[list[Column], None, None]]
"""A function that yields all rows as columns, at most the given number of rows at a time. The caller closes it."""


@dataclass(slots=True)
class TableRows:
    """The rows of a relation. `limit`: the most rows that remain after the first `skip`.

    `subject`: the name of the relation in messages. `types`: the types of its columns.
    """

    reading: Reading
    subject: str
    types: Sequence[DataType]
    pieces: Pieces
    limit: int | None = None
    skip: int = 0
    conditions: tuple[Expr, ...] = ()
    """Conditions that remove rows, before LIMIT."""
    _kept: KeptChunks | None = None

    @property
    def count(self) -> int | None:
        """None, as the number of rows is not known before they have come."""
        return None

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1)."""
        self.limit = rows
        self.skip = skip

    def keep(self, condition: Expr) -> None:
        """Remove the rows that do not satisfy `condition`. Called before `cut`. O(1)."""
        self.conditions = (*self.conditions, condition)

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most `most` rows at a time. Keeps no piece."""
        try:
            with closing(self._chunks(most)) as chunks:
                for part in chunks:
                    self.reading.budget.check()
                    yield from self.reading.computed(outputs, [part])
        finally:
            self.close()

    def counts(self, most: int) -> Iterator[int]:
        """Yield counts that sum to the number of rows. Keeps no piece."""
        try:
            with closing(self._chunks(most)) as chunks:
                for _, offsets in chunks:
                    yield len(offsets)
        finally:
            self.close()

    def keyed(self, keys: list[Expr], most: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """Yield numbers of rows, at most `most` at once, with the values of `keys` in parts. Keeps all rows."""
        table = self._kept = KeptChunks(self.reading, self.subject)
        with closing(self._chunks(most)) as chunks:
            for whole, offsets in chunks:
                chunk = table.add(whole, offsets)
                rows = np.arange(len(chunk))
                yield chunk.places.ids(rows), self.reading.computed(keys, [(chunk, rows)])

    @property
    def fresh_bytes(self) -> int:
        """The bytes of the rows that `keyed` has kept after the last call of `drop`."""
        return 0 if self._kept is None else self._kept.fresh_bytes

    def drop(self, remaining: Array, last: int) -> None:
        """Drop the rows with numbers of at most `last`, except for `remaining` (int64, ascending)."""
        if self._kept is not None:
            self._kept.drop(remaining, last)

    def arranged(self, outputs: list[Expr], places: Array, most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows with the numbers `places`, in that order, at most `most` at a time."""
        table = self._kept
        if table is not None:
            yield from SourceRows(self.reading, table.matches).arranged(outputs, table.positions(places), most)

    def matches(self) -> list[Packed]:
        """All rows as chunks in memory, in the form of the matches of a stream. O(rows), once.

        `close` returns their bytes. Raises ResourceExhausted if the rows are too many, or too large.
        """
        if self._kept is None:
            table = self._kept = KeptChunks(self.reading, self.subject)
            try:
                with (
                    self.reading.texts_within(self.reading.texts.in_pieces(self._piece_bytes)),
                    closing(self._chunks(CHUNK_ROWS)) as chunks,
                ):
                    for whole, offsets in chunks:
                        table.add(whole, offsets)
                        table.check_rows()
            except BaseException:
                self.close()
                raise
        return self._kept.matches

    def close(self) -> None:
        """Drop the kept rows and return their bytes. After that no row can be shown. Idempotent."""
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    @property
    def _piece_bytes(self) -> int:
        """The most bytes of the rows of a piece, approximately, without their texts."""
        return max(min(self.reading.budget.sort_bytes, _MOST_BYTES) // _PIECE_SHARE, 1)

    def _chunks(self, size: int) -> Generator[tuple[ChunkView, Array], None, None]:
        """Yield the rows that remain: chunks of at most `size` rows, and offsets of rows in each."""
        skip, left, first = self.skip, self.limit, 0
        if left is not None:
            size = min(size, max(skip + left, _LEAST_ROWS))
        if left == 0:
            return
        size = min(size, CHUNK_ROWS, max(self._piece_bytes // sum(map(value_bytes, self.types)), _FEWEST))
        with closing(self.pieces(size)) as pieces:
            for columns in pieces:
                chunk = chunk_of(columns, first)
                rows = self._passed(chunk)
                offsets = rows[skip:] if left is None else rows[skip : skip + left]
                skip -= min(skip, len(rows))
                first += len(chunk)
                if len(offsets):
                    yield chunk, offsets
                if left is not None:
                    left -= len(offsets)
                    if not left:
                        return

    def _passed(self, chunk: ChunkView) -> Array:
        """The offsets of the rows that satisfy all conditions, int64, ascending. A failed condition is counted."""
        rows: Array = np.arange(len(chunk))
        for condition in self.conditions if len(chunk) else ():
            passed = [np.zeros(0, np.int64)]
            at = 0
            for (column,) in self.reading.computed([condition], [(chunk, rows)]):
                true = column.values if column.valid is None else column.values & column.valid
                passed.append(rows[at : at + len(column)][true])
                at += len(column)
                if column.error is not None:
                    self.reading.join_errors += int(np.count_nonzero(column.error))
            rows = np.concatenate(passed)
            if not len(rows):
                break
        return rows
