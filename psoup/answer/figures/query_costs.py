"""Costs of a query: its candidates, its matches, its share of the work, and its bytes.

    tuples        tuples that arrived since its clause was registered, or since the service started, if that was later
    candidates    tuples among them that the index tested for the clause: one by one, as bits, or in a list
    matched new   candidates that matched
    matched       all matches: also matches among older tuples, which are not candidates
    share         share of the work of matching new tuples; an estimate from counts of tests
    arrival       recent share of the writer's time, 0 if it is small (`psoup.answer.figures.arrival_shares`)
    bytes         bytes of its results, which are exact, and of its part of index and catalog, which are estimates

A clause is evaluated once for all of its queries. Each query has the counts of its clause; share and bytes are divided
among the queries. The costs of a join are the sums over its sides. Many candidates and few matches mean that the most
selective factor of the query is not selective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from psoup.clauses.costs import SlotCosts
from psoup.data.versions import without_deletions
from psoup.execution.select.clause_matches import chunk_matches
from psoup.phrases import counted, verb
from psoup.published.idle_clauses import is_idle
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.results.sizes import column_size

_VAIN_FROM = 10_000
"""The fewest candidates for a warning that a query has no selective condition."""
_VAIN_SHARE = 0.001
"""The share of matches among the candidates below which `QueryCost.lines` gives the warning."""


@dataclass(frozen=True, slots=True)
class QueryCost:
    """Costs of one query, as the module defines them. `share`: 0 to 1, of the work for all queries of the tenant."""

    query_id: int
    tuples: int
    candidates: int
    matched_new: int
    matched: int
    share: float
    bytes: int
    arrival: float = 0.0

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
        if self.arrival:
            lines.append(f"           takes {self.arrival:.0%} of the time in which tuples arrive, of late")
        if self.matched > self.matched_new:
            older = self.matched - self.matched_new
            lines.append(f"           {counted(older, 'older tuple')} {verb(older, 'matches', 'match')} besides")
        if self.candidates >= _VAIN_FROM and self.selectivity < _VAIN_SHARE:
            lines.append("           much is looked at and little matches: no condition of the query is selective")
        return lines


class StreamCosts:
    """The counters of one stream, read once. `spare`: the mean bytes of the predicate index for one of its clauses."""

    def __init__(self, snapshot: Snapshot, view: StreamView) -> None:
        self.snapshot = snapshot
        self.view = view
        self.spare = view.index.nbytes // max(len(view.index), 1)
        self.chunks = view.chunks[view.archived :]
        last = view.chunks[-1].results.open
        assert last is not None, "the last chunk is open"
        self.owners = last.sqc_of_slot
        self.counts: SlotCosts = view.index.costs.read(self.owners)

    def cost(self, clause: ClauseRecord, query_id: int, total: float) -> QueryCost:
        """The costs of one query of a clause; `total`: units of all streams of its tenant. An idle clause has none."""
        slot, users, counts = clause.slot, len(clause.members), self.counts
        if is_idle(clause.sqc_id):
            return QueryCost(query_id, 0, 0, 0, 0, 0.0, 0)
        covered = [e for e in self.chunks if e.results.covers(clause.sqc_id)]
        sizes = [column_size(e.results, clause.sqc_id, slot) for e in covered]
        if self.view.spec.table is not None:
            sizes = [(self._versions(e, clause, 0), size) for e, (_, size) in zip(covered, sizes, strict=True)]
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
            self.view.index.costs.noted.get(query_id, 0.0),
        )

    def _new(self, clause: ClauseRecord, covered: list[ChunkEntry], matched: list[int]) -> int:
        """The number of matches among tuples that arrived since the clause was registered.

        Matches in chunks that left memory count as new, if the clause is older than all chunks in memory.
        """
        born = self.view.next_id - int(self.counts.tuples[clause.slot])
        matches = int(self.counts.matched[clause.slot]) if born < self.view.hot_id else 0
        for entry, count in zip(covered, matched, strict=True):
            data = entry.data
            if born <= data.first_id:
                matches += count
            elif born < data.end_id:
                matches += self._versions(entry, clause, data.places.row_from(born))
        return matches

    def _versions(self, entry: ChunkEntry, clause: ClauseRecord, start: int) -> int:
        """The number of matches among the rows of a chunk from `start` on. A deletion is not a match."""
        offsets = chunk_matches(entry, clause, start, len(entry.data)).offsets
        return len(offsets if self.view.spec.table is None else without_deletions(entry.data, offsets))


ClauseCount = tuple[StreamCosts, ClauseRecord]
"""A clause with the counters of its stream. A query has one, a join has one for each side."""

_figures = attrgetter("tuples", "candidates", "matched_new", "matched", "share", "bytes")


def query_cost(snapshot: Snapshot, query_id: int, *, tenant: str) -> QueryCost:
    """The costs of one query. Raises NotFound if it is not registered. O(slots of the tenant's streams)."""
    sides = snapshot.sides_of(snapshot.query(query_id, tenant))
    streams = {side.stream_id: StreamCosts(snapshot, snapshot.by_id[side.stream_id]) for side in sides}
    total = sum(float(stream.counts.units.sum()) for stream in streams.values())
    further = (v for i, v in snapshot.by_id.items() if i not in streams and v.tenant == tenant)
    total += sum(float(view.index.costs.read().units.sum()) for view in further)
    return together([(streams[side.stream_id], snapshot.clause(side.sqc_id)) for side in sides], query_id, total)


def together(parts: Sequence[ClauseCount], query_id: int, total: float) -> QueryCost:
    """The costs of a query: the sums over its clauses, one for each side of a join."""
    costs = [stream.cost(clause, query_id, total) for stream, clause in parts]
    if len(costs) == 1:
        return costs[0]
    noted = {stream.view.stream_id: cost.arrival for (stream, _), cost in zip(parts, costs, strict=True)}
    summed = QueryCost(query_id, *map(sum, zip(*map(_figures, costs), strict=True)))
    return replace(summed, arrival=sum(noted.values()))
