"""The matches of one clause within one range of tuples: from the Results Structure where covered, else evaluated.

This one rule serves late registration, eviction and recovery alike: an answer is exact whatever is covered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from psoup.answer.members import since
from psoup.answer.snapshot import ChunkEntry, ClauseRecord, Snapshot, StreamView
from psoup.columns import Array
from psoup.errors import OutOfRange
from psoup.stems.scan import scan
from psoup.stems.zones import cannot_match


@dataclass(frozen=True, slots=True)
class ChunkMatches:
    """Rows of one chunk that a clause matched: ascending int64 offsets.

    `errors`: of the whole chunk where covered, else of the part tested.
    """

    entry: ChunkEntry
    offsets: Array
    errors: int
    covered: bool


def matches_in(view: StreamView, clause: ClauseRecord, low: int, high: int) -> Iterator[ChunkMatches]:
    """The clause's matches with IDs in [low, high), chunk by chunk, oldest first; chunks without one are left out."""
    if low >= high:
        return
    first = max(bisect_right(view.chunks, low, key=lambda entry: entry.data.first_id) - 1, 0)
    for entry in islice(view.chunks, first, None):
        data = entry.data
        start, stop = max(low - data.first_id, 0), min(high - data.first_id, len(data))
        if start >= stop:
            return
        found = chunk_matches(entry, clause, start, stop)
        if len(found.offsets) or found.errors:
            yield found


def chunk_matches(entry: ChunkEntry, clause: ClauseRecord, start: int, stop: int) -> ChunkMatches:
    """The clause's matches among rows [start, stop) of one chunk."""
    results = entry.results
    if not clause.factors:
        return ChunkMatches(entry, np.arange(start, stop, dtype=np.int64), 0, True)
    if results.covers(clause.sqc_id):
        offsets = results.offsets(clause.sqc_id, clause.slot, start, stop)
        errors = sum(results.errors.get(a, 0) for a in clause.attributes) if results.errors else 0
        return ChunkMatches(entry, offsets, errors, True)
    data = entry.data
    if results.closed and cannot_match(clause.factors, data):
        return ChunkMatches(entry, np.zeros(0, np.int64), 0, False)
    columns = tuple(column.slice(start, stop) for column in data.columns)
    found = scan(clause.factors, columns, data.ids_of(start, stop), data.times[start:stop])
    return ChunkMatches(entry, np.flatnonzero(found.mask) + start, found.errors, False)


def matches(
    snapshot: Snapshot, stream: str, tuple_id: int, *, tenant: str, after: int = -1, limit: int = 1_000
) -> list[int]:
    """IDs of the queries whose WHERE a tuple satisfies, ascending, greater than `after`, at most `limit`.

    The windows of the queries are not applied. Raises NotFound for the stream, OutOfRange for a tuple that is not
    (or no longer) there. O(columns of the chunk + uncovered clauses).
    """
    view = snapshot.stream(stream, tenant)
    if not view.first_id <= tuple_id < view.next_id:
        kept = f"{view.first_id} to {view.next_id - 1}" if view.next_id > view.first_id else "none yet"
        raise OutOfRange(
            f"tuple {tuple_id} is not in stream {stream!r}; tuple IDs kept: {kept}",
            reason="UNKNOWN_TUPLE",
            stream=stream,
        )
    entry = view.chunk_of(tuple_id)
    offset = tuple_id - entry.data.first_id
    sqc_ids = _covered_at(snapshot, entry, offset) | _uncovered_at(snapshot, view, entry, offset)
    found: list[int] = []
    for sqc_id in sqc_ids:
        members = snapshot.clause(sqc_id).members
        for count, query_id in enumerate(since(members, after + 1)):
            if count == limit:
                break
            found.append(query_id)
    return sorted(found)[:limit]


def _covered_at(snapshot: Snapshot, entry: ChunkEntry, offset: int) -> set[int]:
    """Live clauses of which the Results Structure knows that they matched."""
    results = entry.results
    known = [pack.ids_at(offset) for pack in results.packs]
    if results.open is not None:
        known.append(results.open.sqc_ids_at(offset))
    return {int(i) for ids in known for i in ids if snapshot.clauses.get(int(i)) is not None}


def _uncovered_at(snapshot: Snapshot, view: StreamView, entry: ChunkEntry, offset: int) -> set[int]:
    """Live clauses that match the tuple and have not been evaluated over its chunk."""
    return {
        sqc_id
        for sqc_id, clause in snapshot.clauses.items(entry.results.covered_before)
        if clause.stream_id == view.stream_id
        and not entry.results.covers(sqc_id)
        and len(chunk_matches(entry, clause, offset, offset + 1).offsets)
    }
