"""Which queries matched a tuple, for one tuple or for many: percolation, with the answers kept.

    tuple IDs ── by chunk ──> covered clauses: one pass over the Results Structure      (psoup.results.by_tuple)
                         └──> the others: an index of them, joined with just these tuples

The windows of the queries are not applied. Nothing before the retention edge is shown, although it may still be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from psoup.answer.matches import chunk_matches, search_of
from psoup.answer.members import since
from psoup.answer.records import ClauseRecord
from psoup.answer.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.columns import Array
from psoup.config import EngineConfig
from psoup.errors import OutOfRange
from psoup.expressions.tree import TIME_INDEX, AttributeRef
from psoup.results.by_tuple import open_pairs_at, pairs_at
from psoup.results.open import OpenResults
from psoup.stems.evaluation import every_row
from psoup.stems.piece import Piece
from psoup.stems.query_stem import QuerySteM
from psoup.stems.windows import retention_edge

_INDEXED_FROM = 8
"""Clauses from which on an index over them beats a scan for each."""


def matches(
    snapshot: Snapshot, stream: str, tuple_id: int, *, tenant: str, now: int, after: int = -1, limit: int = 1_000
) -> list[int]:
    """IDs of the queries whose WHERE a tuple satisfies, ascending, greater than `after`, at most `limit`.

    `now` is the clock, by which retention counts. Raises as `matches_many`, and costs as much.
    """
    sqc_ids = _clauses_of(snapshot, stream, [tuple_id], tenant, now)[0]
    return _queries_of(snapshot, sqc_ids, after, limit)


def matches_many(
    snapshot: Snapshot, stream: str, tuple_ids: Sequence[int], *, tenant: str, now: int, limit: int = 1_000
) -> list[list[int]]:
    """For each of some tuples the IDs of the queries whose WHERE it satisfies, ascending, at most `limit` of each.

    Raises NotFound for the stream, OutOfRange for a tuple that is not (or no longer) there. O(columns of the chunks +
    uncovered clauses + result).
    """
    found = _clauses_of(snapshot, stream, tuple_ids, tenant, now)
    return [_queries_of(snapshot, sqc_ids, -1, limit) for sqc_ids in found]


def _clauses_of(
    snapshot: Snapshot, stream: str, tuple_ids: Sequence[int], tenant: str, now: int
) -> list[list[ClauseRecord]]:
    """The live clauses that each tuple satisfies, each once."""
    view = snapshot.stream(stream, tenant)
    _check_there(view, stream, tuple_ids, now)
    found: list[dict[int, ClauseRecord]] = [{} for _ in tuple_ids]
    by_chunk: dict[int, tuple[ChunkEntry, dict[int, list[int]]]] = {}
    for position, tuple_id in enumerate(tuple_ids):
        entry = view.chunk_of(tuple_id)
        _, wanted = by_chunk.setdefault(entry.data.first_id, (entry, {}))
        wanted.setdefault(tuple_id - entry.data.first_id, []).append(position)
    for entry, wanted in by_chunk.values():
        offsets = np.array(sorted(wanted), np.int64)
        for clause, which in _satisfied(snapshot, view, entry, offsets):
            for position in wanted[int(offsets[which])]:
                found[position][clause.sqc_id] = clause
    return [list(clauses.values()) for clauses in found]


def _check_there(view: StreamView, stream: str, tuple_ids: Sequence[int], now: int) -> None:
    first = retention_edge(view.timeline(), view.spec.retention, view.now(now))
    for tuple_id in tuple_ids:
        if not first <= tuple_id < view.next_id:
            kept = f"{first} to {view.next_id - 1}" if view.next_id > first else "none"
            raise OutOfRange(
                f"tuple {tuple_id} is not in stream {stream!r}; tuple IDs kept: {kept}",
                reason="UNKNOWN_TUPLE",
                stream=stream,
            )


def _satisfied(
    snapshot: Snapshot, view: StreamView, entry: ChunkEntry, offsets: Array
) -> Iterable[tuple[ClauseRecord, int]]:
    """(clause, position among `offsets`) of one chunk; a column of a clause that is gone is passed over."""
    results = entry.results
    ids, which = pairs_at(results, offsets)
    hidden = np.isin(ids, results.gaps.ids)
    ids, which = ids[~hidden], which[~hidden]
    for sqc_id, position in zip(ids.tolist(), which.tolist(), strict=True):
        clause = snapshot.clauses.get(sqc_id) if sqc_id >= 0 else None
        if clause is not None:
            yield clause, position
    uncovered = [
        clause
        for sqc_id, clause in snapshot.clauses.items(results.covered_before)
        if clause.stream_id == view.stream_id and not results.covers(sqc_id)
    ]
    excepted = map(snapshot.clauses.get, results.gaps.ids[results.gaps.ids < results.covered_before].tolist())
    uncovered += [clause for clause in excepted if clause is not None]
    if uncovered:
        yield from _evaluated(view, entry, uncovered, offsets, snapshot.config)


def _evaluated(
    view: StreamView, entry: ChunkEntry, clauses: Sequence[ClauseRecord], offsets: Array, config: EngineConfig
) -> Iterable[tuple[ClauseRecord, int]]:
    """Clauses that have not met the chunk, over just these tuples: set at a time where they are many."""
    if len(clauses) < _INDEXED_FROM and len(offsets) == 1:
        at = int(offsets[0])
        for clause in clauses:
            search = search_of(view, clause, config.texts)
            if len(chunk_matches(entry, clause, at, at + 1, search=search).offsets):
                yield clause, 0
        return
    schema = view.spec.schema
    size = replace(config, chunk_rows=(len(offsets) + 63) & ~63, piece_rows=len(offsets))
    index, results = QuerySteM(schema, size), OpenResults(size, len(clauses))
    index.add_many([(slot, clause.factors) for slot, clause in enumerate(clauses)])
    data = entry.data
    columns = tuple(data.take(column, offsets) for column in range(len(schema.attributes)))
    times = data.take(TIME_INDEX, offsets).values
    wary = {expr for expr in index.attributes.values() if not isinstance(expr, AttributeRef)}
    compute = every_row(wary=wary if len(view.outside.ids) else ())
    index.probe(Piece(columns, data.first_id + offsets, times, 0), results, compute=compute)
    seen = results.view(len(offsets), np.arange(len(clauses), dtype=np.int64))
    slots, which = open_pairs_at(seen, np.arange(len(offsets), dtype=np.int64))
    yield from ((clauses[slot], position) for slot, position in zip(slots.tolist(), which.tolist(), strict=True))


def _queries_of(snapshot: Snapshot, clauses: Sequence[ClauseRecord], after: int, limit: int) -> list[int]:
    found: list[int] = []
    for clause in clauses:
        for count, query_id in enumerate(since(clause.members, after + 1)):
            if count == limit:
                break
            found.append(query_id)
    return sorted(found)[:limit]
