"""A page of rows that a copy of a join lacks: as many of the first as a reply has room for.

pieces of rows, in order ──> written, and cut until they fit ──> what the client then holds: up to the last row
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from psoup.answer.copies.join_since import HeldBox, JoinedSince, StepRows
from psoup_service.sync.reply_parts import WrittenRows

_MORE = 2
"""The bytes in Arrow that are gathered for each byte of room. As JSON columns, most rows take less."""


@dataclass(frozen=True, slots=True)
class JoinedPage:
    """The serialized rows of a page (`written`). `left`: found rows that had no room; 0 on the last page."""

    written: WrittenRows
    rows: int
    left: int
    held: HeldBox


def page_of(
    changes: JoinedSince, room: int, most_rows: int, write: Callable[[Sequence[pa.RecordBatch]], WrittenRows]
) -> JoinedPage:
    """The first found rows that fit into `room`, at most `most_rows`.

    The page has at least one row, if there is any.
    """
    pieces, size, rows = list[StepRows](), 0, 0
    with closing(changes.pieces(most_rows, room)) as stream:
        for piece in stream:
            pieces.append(piece)
            size, rows = size + piece.size, rows + piece.rows.num_rows
            if size >= _MORE * room or rows >= most_rows:
                break
        all_rows, rows = rows, min(rows, most_rows)
        written = write(list(_first(pieces, rows)))
        while written.size > room and rows > 1:
            rows = max(min(9 * rows * room // (10 * written.size), rows - 1), 1)
            written = write(list(_first(pieces, rows)))
        ahead = next(stream, None) if rows == all_rows else None
    left = all_rows - rows + (0 if ahead is None else ahead.rows.num_rows)
    return JoinedPage(written, rows, left, _held_after(changes, pieces, rows) if left else changes.all_held)


def _first(pieces: Sequence[StepRows], rows: int) -> Iterator[pa.RecordBatch]:
    """The first `rows` rows of some pieces."""
    for piece in pieces:
        if rows > 0:
            yield piece.rows if piece.rows.num_rows <= rows else piece.rows.slice(0, rows)
        rows -= piece.rows.num_rows


def _held_after(changes: JoinedSince, pieces: Sequence[StepRows], rows: int) -> HeldBox:
    for piece in pieces:
        if rows <= piece.rows.num_rows:
            break
        rows -= piece.rows.num_rows
    return changes.held_after(piece, rows)
