"""A page of the change of a recomputed answer: as many of its new rows as a reply has room for.

new rows, in order ──> written, as many as fit ──> what the client then holds: the first rows of the answer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from psoup.answer.copies.answer_again import Compared, Earlier
from psoup.answer.copies.id_intervals import Intervals
from psoup_service.sync.reply_parts import WrittenRows

_LARGER = 2
"""The most attempts to send more rows than the first guess."""

_ATTEMPTS = 20
"""The most attempts to find the number of rows that fit."""


@dataclass(frozen=True, slots=True)
class ComparedPage:
    """The serialized rows of a page (`written`), and the positions of rows that leave, move and come.

    `left`: new rows that had no room. `dropped`: the number of these that the client held before. `held`: the client's
    rows afterwards.
    """

    written: WrittenRows
    rows: int
    removed: Intervals
    moved: Sequence[tuple[int, int]]
    places: Intervals
    left: int
    dropped: int
    held: Earlier


def compared_page(
    comparison: Compared, room: int, most_rows: int, write: Callable[[Sequence[pa.RecordBatch]], WrittenRows]
) -> ComparedPage:
    """The first new rows that fit into `room`, at most `most_rows`. The page has at least one row, if there is any."""
    limit = min(comparison.came, most_rows)
    rows = min(max(limit * room // max(comparison.bytes_coming, 1), 1), limit)
    for attempt in range(_ATTEMPTS):
        page = comparison.page(rows)
        written = write(page.rows.to_batches())
        fits = rows <= 1 or written.size <= room
        if fits and (rows == limit or 2 * written.size > room or attempt >= _LARGER):
            break
        rows = min(max(rows * room * 9 // (10 * max(written.size, 1)), 1), limit)
    return ComparedPage(
        written,
        page.rows.num_rows,
        page.removed,
        page.moved,
        page.places,
        page.left,
        page.dropped,
        comparison.first(page.end),
    )
