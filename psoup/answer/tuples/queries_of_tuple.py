"""Percolation: the queries that matched a tuple, mostly read from stored results.

    tuple IDs ── by chunk ──> covered clauses: one pass over the Results Structure      (psoup.results.by_tuple)
                         └──> uncovered and idle clauses: an index of them, joined with just these tuples

The windows of the queries are not applied. A tuple before the retention edge is refused, even if it is still stored.
A version of a table that has ended matches no query, and neither does a deletion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from psoup.answer.tuples.match_rows import Matched, PieceMatches, paged
from psoup.clauses.sides import Subset
from psoup.config import EngineConfig
from psoup.data.data_stem import Piece
from psoup.data.windows import retention_edge
from psoup.errors import NotFound, OutOfRange
from psoup.execution.select.clause_indexes import index_of, pieces_of
from psoup.execution.select.clause_matches import chunk_matches, search_of
from psoup.expressions.error_guard import every_row
from psoup.expressions.tree import TIME_INDEX, AttributeRef
from psoup.matching.new_tuples import probe
from psoup.published.idle_clauses import clauses_between, idle_clauses
from psoup.published.match_room import NamedClauses
from psoup.published.members import Members, since
from psoup.published.shown_rows import shown_rows
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.results.by_tuple import open_pairs_at, pairs_at
from psoup.results.chunk_results import ALL, ChunkResults
from psoup.results.open import OpenResults
from psoup.values.columns import Array
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_TOGETHER = 4_194_304
"""The most words of bits in one pass, which then takes some hundredths of a second."""
_LEAST = 64
"""The number of tuples that a pass may always take, even if they need more words."""

_BITS = 1 << 29
"""The most pairs of tuple and clause in one pass. A pair takes a bit if no clause was evaluated before."""

_CHECKED = 512
"""The number of clauses between two checks of the budget. They take some tenths of a millisecond of Python."""

_INDEXED_FROM = 8
"""The fewest clauses for which an index over them is quicker than a scan for each."""


def matches(
    snapshot: Snapshot,
    stream: str,
    tuple_id: int,
    *,
    tenant: str,
    now: int,
    after: int = -1,
    limit: int = 1_000,
    budget: ReadBudget = UNBOUNDED,
) -> list[int]:
    """IDs of the queries whose WHERE a tuple satisfies, ascending, greater than `after`, at most `limit`.

    `now`: the clock, for the retention. Errors and cost are as for `matches_many`.
    """
    view = snapshot.stream(stream, tenant)
    check_there(view, stream, [tuple_id], now)
    check_left(view, stream, [tuple_id])
    reader = _TupleReader(snapshot, view, budget)
    queries = reader.queries(reader.clauses([tuple_id])[0], after, limit)
    snapshot.lifetimes.note_all(queries)
    return queries


def matches_many(
    snapshot: Snapshot, stream: str, tuple_ids: Sequence[int], *, tenant: str, now: int, limit: int = 1_000
) -> list[list[int]]:
    """For each tuple the IDs of the queries whose WHERE it satisfies, ascending, at most `limit` for each.

    Raises NotFound for the stream, OutOfRange for a tuple that is not stored now. O(columns of the chunks + uncovered
    clauses + result).
    """
    return list(matches_each(snapshot, stream, tuple_ids, tenant=tenant, now=now, limit=limit))


def matches_each(
    snapshot: Snapshot,
    stream: str,
    tuple_ids: Sequence[int],
    *,
    tenant: str,
    now: int,
    limit: int = 1_000,
    budget: ReadBudget = UNBOUNDED,
) -> Iterator[list[int]]:
    """Yield the lists of `matches_many` tuple by tuple, for callers that may stop early."""
    view = snapshot.stream(stream, tenant)
    check_there(view, stream, tuple_ids, now)
    check_left(view, stream, tuple_ids)
    reader, start = _TupleReader(snapshot, view, budget), 0
    while start < len(tuple_ids):
        together = max(_TOGETHER // max(_bitmaps(view.chunk_of(tuple_ids[start]).results), 1), _LEAST)
        part = tuple_ids[start : start + together]
        for clauses in reader.clauses(part):
            queries = reader.queries(clauses, -1, limit)
            snapshot.lifetimes.note_all(queries)
            yield queries
        start += len(part)


def matches_between(
    snapshot: Snapshot,
    stream: str,
    first: int,
    count: int,
    *,
    tenant: str,
    now: int,
    after: int = -1,
    most: int = 2**62,
    budget: ReadBudget = UNBOUNDED,
) -> Matched:
    """The queries that matched each of `count` tuples, from the ID `first` on.

    The result has the form of `psoup.answer.tuples.match_rows.match`: the first tuples, with at most `most` queries
    in all. Raises as `matches_many`. O(columns of the chunks + uncovered clauses + result).
    """
    view = snapshot.stream(stream, tenant)
    check_there(view, stream, [first, first + count - 1] if count > 0 else [], now)

    def matched(start: int, upto: int) -> PieceMatches:
        entry = view.chunk_of(first + start)
        places, low = entry.data.places, first + start
        high = min(low + min(upto - start, pass_tuples(snapshot, entry)), entry.data.end_id)
        offsets = np.arange(places.row_from(low), places.row_from(high))
        budget.examine(len(offsets))
        shown = shown_rows(view, entry.data, offsets)
        pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for pair in clause_pairs(snapshot, view, entry, shown) if len(shown) else ():
            budget.check()
            pairs.append(pair)
        ids, which = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
        which = places.ids(shown[which]) - low  # the places of tuple IDs, also of tuples that have left
        order = np.argsort(which.astype(np.uint16), kind="stable")  # uint16: a radix sort
        named = NamedClauses(snapshot.clauses, ids[order])
        names = named.names.astype(np.int64)
        queries = np.where(names < 0, names, names + named.first)
        ends = np.cumsum(np.bincount(which + 1, minlength=high - low + 1))
        return PieceMatches(ends, queries, np.flatnonzero(names < 0), named)

    page = paged(matched, count, after, most)
    snapshot.lifetimes.note_all(page.queries)
    return page


class _TupleReader:
    """A search for the clauses that tuples of one stream satisfy, and for the queries of these clauses."""

    def __init__(self, snapshot: Snapshot, view: StreamView, budget: ReadBudget) -> None:
        self._snapshot = snapshot
        self._view = view
        self._budget = budget
        self._members: dict[int, Members] = {}
        """The queries of each clause, by SQC ID, without the sides of joins. Empty if the clause is gone."""

    def clauses(self, tuple_ids: Sequence[int]) -> list[list[Array]]:
        """For each tuple the SQC IDs of the clauses that it satisfies, as arrays. Dropped clauses are among them."""
        by_tuple: list[list[Array]] = [[] for _ in tuple_ids]
        by_chunk: dict[int, tuple[ChunkEntry, dict[int, list[int]]]] = {}
        for position, tuple_id in enumerate(tuple_ids):
            entry = self._view.chunk_of(tuple_id)
            _, wanted = by_chunk.setdefault(entry.data.first_id, (entry, {}))
            wanted.setdefault(entry.data.places.row_from(tuple_id), []).append(position)
        for entry, wanted in by_chunk.values():
            self._budget.check()
            offsets = shown_rows(self._view, entry.data, np.array(sorted(wanted), np.int64))
            for ids, which in clause_pairs(self._snapshot, self._view, entry, offsets):
                self._budget.check()
                order = np.argsort(which.astype(np.uint16), kind="stable")  # uint16: a radix sort
                ends = np.cumsum(np.bincount(which, minlength=len(offsets)))
                for offset, part in zip(offsets.tolist(), np.split(ids[order], ends[:-1]), strict=True):
                    for position in wanted[offset] if len(part) else ():
                        by_tuple[position].append(part)
        return by_tuple

    def queries(self, clauses: Sequence[Array], after: int, limit: int) -> list[int]:
        """The queries of some clauses, ascending, greater than `after`, at most `limit`."""
        self._budget.check()
        query_ids: list[int] = []
        for ids in clauses:
            for start in range(0, len(ids), _CHECKED):
                self._budget.check()
                for sqc_id in ids[start : start + _CHECKED].tolist():
                    members = self._members.get(sqc_id)
                    if members is None:
                        members = self._members[sqc_id] = self._shown(sqc_id)
                    if isinstance(members, tuple):
                        query_ids.extend(members)
                    else:
                        self._budget.check()
                        query_ids.extend(islice(since(members, after + 1), limit))
        query_ids.sort()
        return query_ids[bisect_right(query_ids, after) :][:limit]

    def _shown(self, sqc_id: int) -> Members:
        """The queries of a clause, without the sides of joins."""
        clause = self._snapshot.clauses.get(sqc_id) if sqc_id >= 0 else None
        members = () if clause is None else clause.members
        return tuple(since(members, 0)) if isinstance(members, tuple) else members


def pass_tuples(snapshot: Snapshot, entry: ChunkEntry) -> int:
    """The number of tuples of a chunk that one pass over its results may take."""
    count = min(_TOGETHER // max(_bitmaps(entry.results), 1), _BITS // max(len(snapshot.clauses), 1))
    return max(count, _LEAST)


def _bitmaps(results: ChunkResults) -> int:
    """The number of bitmaps of a chunk. A pass reads one word of each bitmap for each tuple."""
    return sum(len(pack.bitmaps) for pack in results.packs) + (0 if results.open is None else len(results.open.rows))


def check_there(view: StreamView, stream: str, tuple_ids: Sequence[int], now: int) -> None:
    """Raise OutOfRange for a tuple that is not stored, or lies before the retention edge."""
    first = retention_edge(view.timeline(), view.spec.retention, view.now(now))
    for tuple_id in tuple_ids:
        if not first <= tuple_id < view.next_id:
            ids = f"{first} to {view.next_id - 1}" if view.next_id > first else "none"
            raise OutOfRange(
                f"tuple {tuple_id} is not in stream {stream!r}; tuple IDs kept: {ids}",
                reason="UNKNOWN_TUPLE",
                stream=stream,
            )


def check_left(view: StreamView, stream: str, tuple_ids: Sequence[int]) -> None:
    """Raise NotFound for a kept tuple ID whose tuple has left its chunk. O(1) if no chunk of the stream is thinned."""
    for tuple_id in tuple_ids if view.thinned else ():
        if view.chunk_of(tuple_id).data.places.row_of(tuple_id) is None:
            raise NotFound(
                f"tuple {tuple_id} of stream {stream!r} is not kept any more; ask for a tuple ID of a present answer",
                reason="TUPLE_LEFT",
                stream=stream,
            )


def clause_pairs(
    snapshot: Snapshot, view: StreamView, entry: ChunkEntry, offsets: Array, idle: Array | None = None
) -> Iterator[tuple[Array, Array]]:
    """Find pairs (SQC ID, position among `offsets`) of one chunk, int64: covered clauses first, then uncovered ones.

    `idle`: the idle clauses, int64[k] ascending, whose pairs are found, too; None for all.
    """
    if not len(offsets):
        return
    results = entry.results
    for ids, which in pairs_at(results, offsets):
        shown = ~np.isin(ids, results.gaps.ids)
        yield ids[shown], which[shown]
    lacking = _lacking(snapshot, view, results)
    if len(lacking) < _INDEXED_FROM and len(offsets) == 1:
        yield _scanned(snapshot, view, entry, lacking, int(offsets[0]))
    else:
        pieces = pieces_of(lacking, from_end=True)  # a chunk meets its clauses in the order of their IDs
        yield from _evaluated(snapshot, view, entry, pieces, offsets, wary=len(view.outside.ids) > 0)
    sqc_ids = idle_clauses(snapshot.clauses, view.stream_id) if idle is None else idle
    yield from _evaluated(snapshot, view, entry, pieces_of(sqc_ids), offsets, wary=True)


def _lacking(snapshot: Snapshot, view: StreamView, results: ChunkResults) -> Array:
    """The SQC IDs of the clauses of the stream's index that were not evaluated over a chunk, int64, ascending.

    O(blocks + clauses since the chunk was covered), and a step of Python for each such clause outside blocks.
    """
    gaps = results.gaps.ids
    excepted = gaps[gaps < results.covered_before]
    if len(excepted):
        excepted = np.setdiff1d(excepted, snapshot.clauses.find(excepted).missing)
    if not results.closed:
        return excepted
    later = clauses_between(snapshot.clauses, view.stream_id, results.covered_before, ALL)
    if results.late and len(later):
        late = np.fromiter(results.late, np.int64, len(results.late))
        later = later[~np.isin(later, late) | np.isin(later, gaps)]
    return np.concatenate([excepted, later])


def _scanned(
    snapshot: Snapshot, view: StreamView, entry: ChunkEntry, sqc_ids: Array, offset: int
) -> tuple[Array, Array]:
    """Find the pairs of a few clauses and the tuple at an offset, each by a scan of its own."""
    matched = [False] * len(sqc_ids)
    for number, sqc_id in enumerate(sqc_ids.tolist()):
        clause = snapshot.clause(sqc_id)
        search = search_of(view, clause, snapshot.config.texts)
        matched[number] = len(chunk_matches(entry, clause, offset, offset + 1, search=search).offsets) > 0
    numbers = np.flatnonzero(matched)
    return sqc_ids[numbers], np.zeros(len(numbers), np.int64)


def _evaluated(
    snapshot: Snapshot, view: StreamView, entry: ChunkEntry, pieces: Sequence[Array], offsets: Array, *, wary: bool
) -> Iterator[tuple[Array, Array]]:
    """Find the pairs of some clauses and the tuples at `offsets`, by an index of each piece of the clauses.

    `pieces`: as `pieces_of` returns them. The caller checks its budget after each step.
    """
    for ids in pieces:
        index = index_of(snapshot, view, ids)
        numbers, which = _probed(view, entry, index, len(ids), offsets, snapshot.config, wary=wary)
        yield ids[numbers], which


def _probed(
    view: StreamView,
    entry: ChunkEntry,
    index: Subset,
    clauses: int,
    offsets: Array,
    config: EngineConfig,
    *,
    wary: bool,
) -> tuple[Array, Array]:
    """Find pairs (slot, position among `offsets`) of some clauses in an index. `wary`: compute few rows at a time."""
    size = replace(config, chunk_rows=(len(offsets) + 63) & ~63, piece_rows=len(offsets))
    results, data = OpenResults(size, clauses), entry.data
    columns = tuple(data.take(column, offsets) for column in range(len(view.spec.schema.attributes)))
    times = data.take(TIME_INDEX, offsets).values
    computed = {expr for expr in index.attributes.values() if not isinstance(expr, AttributeRef)}
    compute = every_row(wary=computed if wary else ())
    probe(index, Piece(columns, data.places.ids(offsets), times, 0), results, compute=compute)
    seen = results.view(len(offsets), np.arange(clauses, dtype=np.int64))
    return open_pairs_at(seen, np.arange(len(offsets), dtype=np.int64))
