"""A piece: consecutive tuples of one chunk on their way into the join.

    chunk   |...........................................|
    pieces  |---------|-----|--                             start: where in the chunk the piece begins

A piece has up to `EngineConfig.piece_rows` tuples; it never crosses a chunk's end.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.columns import Array, Column


@dataclass(frozen=True, slots=True)
class Piece:
    """`n` consecutive tuples of a chunk.

    `columns`: in schema order. `ids`: tuple IDs, int64[n]. `times`: physical IDs, int64[n]. `start`: the offset of
    the first tuple in its chunk.
    """

    columns: tuple[Column, ...]
    ids: Array
    times: Array
    start: int

    def __len__(self) -> int:
        return len(self.ids)

    def slice(self, start: int, stop: int) -> Piece:
        """Some of the tuples; memory is shared."""
        columns = tuple(column.slice(start, stop) for column in self.columns)
        return Piece(columns, self.ids[start:stop], self.times[start:stop], self.start + start)
