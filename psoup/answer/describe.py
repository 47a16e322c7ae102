"""Descriptions of streams and queries, and the bill, from one snapshot. Neither tuples nor results are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from psoup.data.archived_chunk import ENTRY_BYTES
from psoup.events.tags import Labels
from psoup.model import StreamSpec
from psoup.plan.sides import is_side
from psoup.published.parked_queries import ParkedQueries
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_CHECKED = 1_024
"""The number of queries between two checks of the budget."""


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """Description of a stream. Times are in microseconds. `tuples`: the number of tuples that the stream keeps.

    `bytes`: the size of the tuples in memory. `archived_tuples`, `archived_chunks`: the numbers of tuples and chunks on
    disk, which are the oldest. They take `archived_bytes` there. `first_time`: the time of the oldest kept tuple.
    `first_time_in_memory`: the time of the oldest tuple in memory. Both are None if there is no such tuple.
    """

    stream_id: int
    spec: StreamSpec
    sql: str
    watermark: int | None
    now: int | None
    tuples: int
    first_id: int
    next_id: int
    pending: int
    late: int
    ahead: int
    chunks: int
    bytes: int
    queries: int
    created: int
    archived_tuples: int
    archived_chunks: int
    archived_bytes: int
    first_time: int | None
    first_time_in_memory: int | None
    live: bool
    """Whether the watermark follows the clock at present (WATERMARK BY CLOCK)."""


def describe_stream(snapshot: Snapshot, name: str, *, tenant: str, now: int) -> StreamDescription:
    """The description of a stream. Raises NotFound, with the nearest name."""
    return _describe(snapshot.stream(name, tenant), now)


def list_streams(
    snapshot: Snapshot, *, tenant: str, now: int, after: str = "", limit: int = 1_000
) -> list[StreamDescription]:
    """The tenant's streams, sorted by lower-case name, with names after `after`. Returns at most `limit` streams."""
    names = sorted(name for owner, name in snapshot.streams if owner == tenant and name > after.lower())
    return [_describe(snapshot.streams[tenant, name], now) for name in names[:limit]]


def get_query(snapshot: Snapshot, query_id: int, *, tenant: str) -> QueryRecord:
    """The query with an ID. Raises NotFound if no such query is registered."""
    return snapshot.query(query_id, tenant)


@dataclass(frozen=True, slots=True)
class QueryFilter:
    """The conditions of a list of queries.

    `stream`: a stream that each query reads, as its only stream or as one of a join. `labels`: labels that each query
    has. `expiring`: microseconds; each query expires before this time. `joins`: False leaves joins out. `sides`: True
    replaces joins by their sides, listed after all queries. Neither `labels` nor `expiring` finds a side.
    """

    stream: str | None = None
    labels: Labels = ()
    expiring: int | None = None
    joins: bool = True
    sides: bool = False


ALL_QUERIES = QueryFilter()


def list_queries(
    snapshot: Snapshot,
    *,
    tenant: str,
    after: int = -1,
    limit: int = 1_000,
    only: QueryFilter = ALL_QUERIES,
    budget: ReadBudget = UNBOUNDED,
) -> list[QueryRecord]:
    """The tenant's queries with IDs greater than `after`, ascending, at most `limit`. With labels: O(log n + k)."""
    stream, labels, sides = only.stream, only.labels, only.sides
    stream_id = None if stream is None else snapshot.stream(stream, tenant).stream_id
    page: list[QueryRecord] = []
    if only.expiring is not None:
        due = snapshot.lifetimes.due(only.expiring)
        ending = map(snapshot.queries.get, due[due > after].tolist())
        records = (record for record in ending if record is not None and set(labels) <= set(record.tag.labels))
    elif labels:
        named = map(snapshot.queries.get, snapshot.tags.queries_of(tenant, labels, after))
        records = (record for record in named if record is not None and set(labels) <= set(record.tag.labels))
    else:
        every = snapshot.queries.items(after + 1)
        records = (record for _, record in takewhile(lambda item: sides or not is_side(item[0]), every))
    for number, record in enumerate(records):
        if number % _CHECKED == 0:
            budget.check()
        if record.tenant != tenant or (record.sqc_id == NO_CLAUSE and (sides or not only.joins)):
            continue
        if stream_id is None or stream_id in snapshot.streams_of(record):
            page.append(record)
            if len(page) == limit:
                break
    return page


def recall(records: Sequence[QueryRecord]) -> None:
    """Read the parked queries among some, ascending, from the log. Queries of one block are read at once.

    O(bytes of their blocks). Raises NotFound, reason UNKNOWN_QUERY, if one of them was unregistered meanwhile.
    """
    rows: dict[int, tuple[ParkedQueries, list[int]]] = {}
    for record in records:
        if record.keeping.parked and isinstance(record.queries, ParkedQueries):
            rows.setdefault(id(record.queries), (record.queries, []))[1].append(record.row)
    for queries, places in rows.values():
        queries.remember(np.array(places, np.int64))


def bill(snapshot: Snapshot, tenant: str | None = None) -> dict[str, int]:
    """Counts, and bytes of tuples and results, over all published streams, or the streams of a tenant. O(chunks)."""
    views = [view for view in snapshot.by_id.values() if tenant in (None, view.tenant)]
    total = {
        "streams": len(views),
        "queries": snapshot.count if tenant is None else sum(view.queries for view in views),
        "clauses": len(snapshot.clauses),
        "tuples": 0,
        "archived_tuples": 0,
        "archive_bytes": 0,
        "pending": 0,
        "tuples_bytes": 0,
        "results_bytes": 0,
    }
    for view in views:
        total["tuples"] += view.left.between(view.first_id, view.next_id)
        total["archived_tuples"] += view.left.between(view.first_id, view.hot_id)
        total["archive_bytes"] += view.archived * ENTRY_BYTES
        total["pending"] += view.pending
        total["tuples_bytes"] += view.nbytes
        total["results_bytes"] += sum(entry.results.nbytes for entry in view.chunks[view.archived :])
    return total


def _describe(view: StreamView, now: int) -> StreamDescription:
    return StreamDescription(
        stream_id=view.stream_id,
        spec=view.spec,
        sql=view.sql,
        watermark=view.watermark if view.spec.event_time else view.last_time,
        now=view.now(now),
        tuples=view.left.between(view.first_id, view.next_id),
        first_id=view.first_id,
        next_id=view.next_id,
        pending=view.pending,
        late=view.late.count,
        ahead=view.ahead.count,
        chunks=len(view.chunks),
        bytes=view.nbytes,
        queries=view.queries,
        created=view.created,
        archived_tuples=view.left.between(view.first_id, view.hot_id),
        archived_chunks=view.archived,
        archived_bytes=view.archived_bytes,
        first_time=_first_time(view.chunks[0]),
        first_time_in_memory=_first_time(view.chunks[view.archived]),
        live=view.live,
    )


def _first_time(entry: ChunkEntry) -> int | None:
    """The time of the first tuple of a chunk. Returns None for an empty open chunk. Reads no archived chunk."""
    return entry.data.first_time if entry.data.end_id > entry.data.first_id else None
