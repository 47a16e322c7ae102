"""Expired rows: the open versions of tables whose time in the column of EXPIRES BY has come.

    chunk     until, of open versions            least      clock 12:05
      0       12:40  13:00  NULL                 12:40      not read
      1       12:04  12:06  12:04                12:04      two rows have expired
    open      12:30                              12:30      not read

A closed chunk gets no further rows, and its open versions only become fewer. So the least time of a closed chunk is
kept from look to look. A chunk is read only when its least time has come. Nothing is stored, and a start begins with
one look at all chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.versions import versions_of
from psoup.events.commands import ExpireRows
from psoup.model import DELETED_AT, StreamSpec
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array

MOST_ROWS = 10_000
"""The most rows that one event deletes, so that other commands come between."""
_NEVER = 2**63 - 1
"""The least time of a chunk without a version that expires, in microseconds."""


@dataclass(frozen=True, slots=True)
class _Least:
    """The least time at which a version of a chunk expires. `end_id`: the end of the chunk at that time."""

    end_id: int
    time: int


class ExpiredRows:
    """The looks for expired rows, over all tables of a service. One thread at a time may look."""

    def __init__(self) -> None:
        self._tables: dict[tuple[int, int], dict[int, _Least]] = {}
        """By stream ID and column: the least time of each chunk, by its number."""
        self.next_time: int | None = None
        """The time at which the next row of the last snapshot expires, at the earliest. None without such rows."""

    def due(self, snapshot: Snapshot, now: int) -> list[ExpireRows]:
        """The commands for the expired rows of each table at clock time `now` (microseconds).

        Each has at most `MOST_ROWS` rows. It may have none that is still expired when it is decided.

        O(streams + chunks), and O(rows) of each chunk whose least time has come.
        """
        due, present = list[ExpireRows](), dict[tuple[int, int], dict[int, _Least]]()
        for view in snapshot.by_id.values():
            place = None if view.spec.table is None else view.spec.table.expires
            if place is None:
                continue
            before = self._tables.get((view.stream_id, place), {})
            ids, present[view.stream_id, place] = _look(view, place, now, before)
            if len(ids):
                due.append(ExpireRows(view.stream_id, ids, view.tenant))
        self._tables = present
        self.next_time = min((bound.time for chunks in present.values() for bound in chunks.values()), default=None)
        return due


def _look(view: StreamView, place: int, now: int, before: dict[int, _Least]) -> tuple[Array, dict[int, _Least]]:
    """The IDs of expired versions, and the least time of each chunk. `before`: these times at the last look."""
    parts, count, times = list[Array](), 0, dict[int, _Least]()
    for entry in view.chunks:
        data, bound = entry.data, before.get(entry.data.number)
        if bound is None or bound.end_id != data.end_id:
            bound = _Least(data.end_id, -_NEVER)
        if bound.time <= now and count < MOST_ROWS:
            rows, time = _expired(data, place, now)
            parts.append(data.places.ids(rows[: MOST_ROWS - count]))
            count += len(parts[-1])
            bound = bound if len(rows) else _Least(data.end_id, time)
        times[data.number] = bound
    return np.concatenate([np.zeros(0, np.int64), *parts]), times


def _expired(data: Chunk, place: int, now: int) -> tuple[Array, int]:
    """The expired rows of a chunk, int64[k], and the least time at which another open version expires."""
    rows = np.flatnonzero(versions_of(data).successors[: len(data)] == 0)
    rows, times = _expiring(data, place, rows)
    is_due = times <= now
    later = times[~is_due]
    return rows[is_due], int(later.min()) if len(later) else _NEVER


def _expiring(data: Chunk, place: int, rows: Array) -> tuple[Array, Array]:
    """The elements of `rows` that are versions with a time of expiry, and these times."""
    column, keep = data.columns[place], ~data.columns[DELETED_AT].values[rows]
    if column.valid is not None:
        keep &= column.valid[rows]
    rows = rows[keep]
    return rows, column.values[rows]


def still_expired(view: StreamView, spec: StreamSpec, ids: Array, now: int) -> Iterator[tuple[Chunk, Array]]:
    """The rows of tuple IDs (int64[k], ascending) that are expired at clock time `now`, by chunk.

    `spec`: the definition of the table. A reader's view with another definition has no rows. O(ids + chunks).
    """
    if view.spec != spec or spec.table is None or spec.table.expires is None:
        return
    for data, some in _by_chunk([entry.data for entry in view.chunks], ids):
        rows = data.places.rows(some[data.places.has(some)])
        rows = rows[versions_of(data).successors[rows] == 0]
        rows, times = _expiring(data, spec.table.expires, rows)
        if len(rows := rows[times <= now]):
            yield data, rows


def _by_chunk(chunks: Sequence[Chunk], ids: Array) -> Iterator[tuple[Chunk, Array]]:
    ends = np.searchsorted(ids, [chunk.end_id for chunk in chunks])
    for chunk, start, end in zip(chunks, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        if end > start:
            yield chunk, ids[start:end]
