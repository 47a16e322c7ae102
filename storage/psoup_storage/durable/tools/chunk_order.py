"""Checks that each manifest row continues the row before, and that the tuples of a chunk agree with its row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from psoup.model import time_text
from psoup.phrases import counted
from psoup_storage.durable.chunks.folder import ChunkRow
from psoup_storage.durable.chunks.place_list import WrongPlaces, decode_places


def out_of_line(row: ChunkRow, before: ChunkRow | None) -> Iterator[str]:
    """The facts of a manifest row that do not continue the row before, in words."""
    if before is None:
        return
    if row.number != before.number + 1:
        yield f"it is chunk {row.number} after chunk {before.number}"
    if row.first_id != before.end_id:
        yield f"it begins with tuple {row.first_id}, and the one before ends with {before.end_id - 1}"
    if row.last_time < before.last_time:
        yield "it goes back in time"


def wrong_places(row: ChunkRow) -> Iterator[str]:
    """The fault of the place list of a manifest row, in words."""
    try:
        decode_places(row.first_id, row.rows, row.places, row.places_left)
    except WrongPlaces as problem:
        yield str(problem)


def wrong_rows(times: Any, row: ChunkRow, before: ChunkRow | None) -> Iterator[str]:
    """The differences between the tuples of a chunk and its manifest row, in words."""
    if len(times) != row.rows:
        yield f"it has {counted(len(times), 'row')}, not {row.rows:,}"
    if not len(times):
        return
    if (np.diff(times) < 0).any() or (before is not None and times[0] < before.last_time):
        yield "its tuples are out of the order of time"
    if times[-1] > row.last_time or (times[-1] < row.last_time and not row.thinned):
        yield f"its last tuple has the time {time_text(int(times[-1]))}, not {time_text(row.last_time)}"
    if row.attached:
        return
    count = int((times == row.last_time).sum())
    earlier = before.ties if before is not None and before.last_time == row.last_time else 0
    expired = before is None and row.number > 0 and count == len(times)  # chunks before may have ended at this time
    gone = expired or row.thinned  # and so may tuples that left
    if row.ties < count + earlier or (row.ties > count + earlier and not gone):
        yield f"the manifest counts {counted(row.ties, 'tuple')} of its last time, wrongly"
