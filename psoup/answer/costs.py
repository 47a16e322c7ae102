"""Costs of a query: how much is looked at for it, how much of that matched, its share of the work, its bytes.

    tuples        came since its clause joined (or since the service started, if that was later)
    candidates    of these, looked at for the clause: one by one, as bits, or in a list of the index
    matched new   of the candidates, matched
    matched       all that matched: beside them those of older tuples, which it was evaluated over, and not a candidate
    share         of the work of joining new tuples, from counts of what was looked at and how; an estimate
    bytes         of its results, and its part of index and catalog; an estimate but for the results

Queries of one clause are evaluated once: counts are those of the clause, share and bytes are divided among them. The
costs of a join are those of its sides together. Many candidates and few matches mean that the most selective factor
of the query is not selective.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappush, heapreplace
from itertools import islice
from operator import attrgetter, itemgetter

import numpy as np

from psoup.answer.describe import list_queries
from psoup.answer.matches import chunk_matches
from psoup.clauses.costs import SlotCosts
from psoup.columns import Array
from psoup.errors import InvalidInput
from psoup.events.tags import Labels
from psoup.plan.sides import FIRST_SIDE, query_of
from psoup.published.members import since
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.reading import UNBOUNDED, ReadBudget
from psoup.results.sizes import column_size, sizes_by_slot
from psoup.wording import counted, verb

ORDERS = ("cpu", "candidates", "matched", "bytes")
"""The orders of `top_queries`."""

_VAIN_FROM, _VAIN_SHARE = 10_000, 0.001
"""Candidates from which on, with fewer matches than this share of them, a query is said to be tested in vain."""


@dataclass(frozen=True, slots=True)
class QueryCost:
    """Costs of one query; see the module. `share`: 0 to 1, of all queries of the tenant."""

    query_id: int
    tuples: int
    candidates: int
    matched_new: int
    matched: int
    share: float
    bytes: int

    @property
    def selectivity(self) -> float:
        """Matches for each candidate, 0 to 1; 0 if there was no candidate."""
        return self.matched_new / self.candidates if self.candidates else 0.0

    def lines(self) -> list[str]:
        """The costs as text for a terminal."""
        lines = [
            f"  cost     {self.candidates:,} of {counted(self.tuples, 'new tuple')} looked at,"
            f" {self.matched_new:,} matched; {self.share:.1%} of the work of all queries, {counted(self.bytes, 'byte')}"
        ]
        if self.matched > self.matched_new:
            older = self.matched - self.matched_new
            lines.append(f"           {counted(older, 'older tuple')} {verb(older, 'matches', 'match')} besides")
        if self.candidates >= _VAIN_FROM and self.selectivity < _VAIN_SHARE:
            lines.append("           much is looked at and little matches: no condition of the query is selective")
        return lines


class _Stream:
    """The counters of one stream, read once. `spare`: bytes of index and catalog for each query."""

    def __init__(self, snapshot: Snapshot, view: StreamView) -> None:
        self.snapshot, self.view = snapshot, view
        self.spare = view.index.nbytes // max(len(view.index), 1)
        self.chunks = view.chunks[view.archived :]
        last = view.chunks[-1].results.open
        assert last is not None, "the last chunk is open"
        self.owners = last.sqc_of_slot
        self.counts: SlotCosts = view.index.costs.read(self.owners)

    def cost(self, clause: ClauseRecord, query_id: int, total: float) -> QueryCost:
        """The costs of one query of a clause; `total`: units of all streams of its tenant."""
        slot, users, counts = clause.slot, len(clause.members), self.counts
        covered = [e for e in self.chunks if e.results.covers(clause.sqc_id)]
        sizes = [column_size(e.results, clause.sqc_id, slot) for e in covered]
        matched, size = sum(amount for amount, _ in sizes), sum(amount for _, amount in sizes)
        new = self._new(clause, covered, [matches for matches, _ in sizes])
        return QueryCost(
            query_id,
            int(counts.tuples[slot]),
            int(counts.candidates[slot]),
            min(new, int(counts.candidates[slot])),
            matched + int(counts.matched[slot]),
            float(counts.units[slot]) / total / users if total else 0.0,
            (size + self.spare) // users,
        )

    def _new(self, clause: ClauseRecord, covered: list[ChunkEntry], matched: list[int]) -> int:
        """The number of matches among tuples that came since the clause joined: those are its latest matches.

        Matches in chunks that have left the memory all count as new, unless all older tuples are gone by now.
        """
        born = self.view.next_id - int(self.counts.tuples[clause.slot])
        matches = int(self.counts.matched[clause.slot]) if born < self.view.hot_id else 0
        for entry, count in zip(covered, matched, strict=True):
            first, rows = entry.data.first_id, len(entry.data)
            if born <= first:
                matches += count
            elif born < first + rows:
                matches += len(chunk_matches(entry, clause, born - first, rows).offsets)
        return matches

    def by(self, order: str) -> Array:
        """The figure, by slot, that clauses are ordered by, before it is divided among their queries."""
        if order == "cpu":
            return self.counts.units
        if order == "candidates":
            return self.counts.candidates.astype(np.float64)
        owners = self.owners[: len(self.counts.units)]
        matched, size = sizes_by_slot((entry.results for entry in self.chunks), owners)
        return (matched + self.counts.matched[: len(owners)] if order == "matched" else size + self.spare) * 1.0


_Parts = Sequence[tuple[_Stream, ClauseRecord]]
"""The clauses of a query with their streams: one, or those of a join's sides."""
_Costly = tuple[float, int, _Parts]
"""The figure of a query, less its ID, its clauses; no two are equal in the first two."""
_RANK: Callable[[_Costly], tuple[float, int]] = itemgetter(0, 1)
_figures = attrgetter("tuples", "candidates", "matched_new", "matched", "share", "bytes")
_DIVIDED = ("cpu", "bytes")
"""Figures that are divided among the queries of a clause."""


def query_cost(snapshot: Snapshot, query_id: int, *, tenant: str) -> QueryCost:
    """The costs of one query; NotFound if it does not stand. O(slots of the tenant's streams)."""
    sides = snapshot.sides_of(snapshot.query(query_id, tenant))
    streams = {side.stream_id: _Stream(snapshot, snapshot.by_id[side.stream_id]) for side in sides}
    total = sum(float(stream.counts.units.sum()) for stream in streams.values())
    others = (v for i, v in snapshot.by_id.items() if i not in streams and v.tenant == tenant)
    total += sum(float(view.index.costs.read().units.sum()) for view in others)
    return _together([(streams[side.stream_id], snapshot.clause(side.sqc_id)) for side in sides], query_id, total)


def top_queries(
    snapshot: Snapshot,
    *,
    tenant: str,
    by: str = "cpu",
    stream: str | None = None,
    limit: int = 20,
    labels: Labels = (),
    budget: ReadBudget = UNBOUNDED,
) -> list[QueryCost]:
    """The tenant's queries that cost most, at most `limit`, of one stream if named; the costliest first.

    `by`: one of ORDERS; InvalidInput for another, NotFound for the stream. O(slots of the tenant's streams); by
    `matched` or `bytes` O(columns of their results) too. With `labels`, of the queries that have all of them.
    """
    if by not in ORDERS:
        raise InvalidInput(f"queries cannot be ordered by {by!r}; take one of {', '.join(ORDERS)}", field="by")
    wanted = None if stream is None else snapshot.stream(stream, tenant).stream_id
    streams = [_Stream(snapshot, view) for view in snapshot.by_id.values() if view.tenant == tenant]
    total = sum(float(entry.counts.units.sum()) for entry in streams)
    best: list[_Costly] = []
    chosen = None
    if labels:
        found = list_queries(snapshot, tenant=tenant, limit=2**62, stream=stream, labels=labels, budget=budget)
        chosen = {record.query_id: record.sqc_id for record in found}
    for entry in streams:
        if wanted is not None and entry.view.stream_id != wanted:
            continue
        for value, clause in _descending(entry, by, chosen):
            if len(best) == limit and value <= best[0][0]:
                break
            value = value / len(clause.members) if by in _DIVIDED else value
            _take(best, entry, clause, value, tenant, limit, chosen)
    for value, query_id, parts in _joins(snapshot, streams, by, tenant, wanted):
        if chosen is None or query_id in chosen:
            _keep(best, (value, -query_id, parts), limit)
    return [_together(parts, -query_id, total) for _, query_id, parts in sorted(best, key=_RANK, reverse=True)]


def _together(parts: _Parts, query_id: int, total: float) -> QueryCost:
    """The costs of a query with these clauses."""
    costs = [stream.cost(clause, query_id, total) for stream, clause in parts]
    return costs[0] if len(costs) == 1 else QueryCost(query_id, *map(sum, zip(*map(_figures, costs), strict=True)))


def _joins(
    snapshot: Snapshot, streams: Sequence[_Stream], by: str, tenant: str, wanted: int | None
) -> Iterator[tuple[float, int, _Parts]]:
    """(figure, query ID, clauses) of the joins of a tenant, of those with a side on the stream `wanted`."""
    if not snapshot.sides:
        return
    by_id = {entry.view.stream_id: entry for entry in streams}
    values = {stream_id: entry.by(by) for stream_id, entry in by_id.items()}
    figures, parts = defaultdict[int, float](float), defaultdict[int, list[tuple[_Stream, ClauseRecord]]](list)
    for side, record in snapshot.queries.items(FIRST_SIDE):
        if record.tenant != tenant:
            continue
        clause = snapshot.clause(record.sqc_id)
        known = values[record.stream_id]
        value = float(known[clause.slot]) if clause.slot < len(known) else 0.0
        figures[query_of(side)] += value / len(clause.members) if by in _DIVIDED else value
        parts[query_of(side)].append((by_id[record.stream_id], clause))
    for query_id, of_query in parts.items():
        if wanted is None or any(stream.view.stream_id == wanted for stream, _ in of_query):
            yield figures[query_id], query_id, of_query


def _descending(stream: _Stream, by: str, chosen: Mapping[int, int] | None) -> Iterator[tuple[float, ClauseRecord]]:
    """Clauses in descending order of the figure that each would have with one query; of `chosen` queries only."""
    values = stream.by(by)
    slots = np.argsort(-values, kind="stable")
    slots = slots[slots < len(stream.owners)]
    if chosen is not None:
        slots = slots[np.isin(stream.owners[slots], list(chosen.values()))]
    for slot in slots.tolist():
        if stream.owners[slot] < 0:
            continue
        clause = stream.snapshot.clauses.get(int(stream.owners[slot]))
        if clause is not None and clause.slot == slot and clause.stream_id == stream.view.stream_id:
            yield float(values[slot]), clause


def _take(
    best: list[_Costly],
    stream: _Stream,
    clause: ClauseRecord,
    value: float,
    tenant: str,
    limit: int,
    chosen: Mapping[int, int] | None,
) -> None:
    """Let the queries of a clause in, or the `chosen` of them; older queries first where they are equal."""
    members = since(clause.members, 0)
    if chosen is not None:
        members = (query_id for query_id in members if query_id in chosen)
    for query_id in islice(members, limit):
        record = stream.snapshot.queries.get(query_id)
        if record is None or record.tenant != tenant:
            continue
        _keep(best, (value, -query_id, [(stream, clause)]), limit)


def _keep(best: list[_Costly], item: _Costly, limit: int) -> None:
    """Let a query in if it is among the costliest."""
    if len(best) < limit:
        heappush(best, item)
    elif item[:2] > best[0][:2]:
        heapreplace(best, item)
