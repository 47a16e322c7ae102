"""The queries that cost most (top-k), page by page. A page begins after the last place of the page before.

    slots ─ figure of each clause ─ clauses after the place ─ the costliest of them ─┐
    joins ─ figure of each ──────────────────────────────────────────────────────────┼─ merge ─ `limit` queries
    idle queries ─ 0 ────────────────────────────────────────────────────────────────┘

Queries are ordered by figure, greatest first, then by SQC ID, then by query ID. Each page takes the current figures. So
a query whose figure changes between two pages may be on both, or on neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.answer.figures.deletion_matches import deletion_matches
from psoup.answer.figures.query_costs import ClauseCount, QueryCost, StreamCosts, together
from psoup.errors import InvalidInput
from psoup.events.tags import Labels
from psoup.plan.sides import FIRST_SIDE, query_of
from psoup.published.idle_clauses import idle_clauses_of_queries
from psoup.published.members import since
from psoup.published.record_block import picked
from psoup.published.records import NO_CLAUSE
from psoup.published.snapshot import Snapshot
from psoup.results.sizes import sizes_by_slot
from psoup.values.columns import Array
from psoup.work.read_budget import UNBOUNDED, ReadBudget

ORDERS = ("cpu", "candidates", "matched", "bytes")
"""The orders of `top_queries`."""

_DIVIDED = ("cpu", "bytes")
"""Figures that are divided among the queries of a clause."""

_LAST_ID = 2**63 - 1
"""The greatest SQC ID that an array holds. A client may name a greater one."""

_GROWTH = 4
"""The factor by which `_Ranking.first` takes more clauses in its next attempt, while they give too few queries."""


class Rank(NamedTuple):
    """The sort key of a query. `less`: its figure, negated. `clause`: the SQC ID of its clause; NO_CLAUSE for
    a join.
    """

    less: float
    clause: int
    query_id: int


class Ranked(NamedTuple):
    """A query's place, and its costs."""

    place: Rank
    cost: QueryCost


class _Found(NamedTuple):
    place: Rank
    parts: Sequence[ClauseCount]


def top_queries(
    snapshot: Snapshot,
    *,
    tenant: str,
    by: str = "cpu",
    stream: str | None = None,
    limit: int = 20,
    labels: Labels = (),
    after: Rank | None = None,
    budget: ReadBudget = UNBOUNDED,
) -> list[Ranked]:
    """The tenant's queries that cost most, at most `limit`, of one stream if named; the costliest first.

    `by`: one of ORDERS. `labels`: only queries that have all of them. `after`: only queries after that place. Raises
    InvalidInput for an unknown order, NotFound for the stream. O(slots of the tenant's streams + its joins), without a
    step of Python for each slot; by `matched` or `bytes` also O(columns of their results).
    """
    if by not in ORDERS:
        raise InvalidInput(f"queries cannot be ordered by {by!r}; take one of {', '.join(ORDERS)}", field="by")
    wanted = None if stream is None else snapshot.stream(stream, tenant).stream_id
    chosen = _Chosen(snapshot, tenant, labels) if labels else None
    streams = [StreamCosts(snapshot, view) for view in snapshot.by_id.values() if view.tenant == tenant]
    total = sum(float(entry.counts.units.sum()) for entry in streams)
    lists: list[Iterable[_Found]] = [_joins(snapshot, streams, by, tenant, wanted, chosen, after)]
    for entry in streams:
        budget.check()
        if wanted in (None, entry.view.stream_id):
            lists += [_Ranking(entry, by, chosen, after).first(limit), _idle(entry, chosen, after)]
    dearest = islice(merge(*lists), limit)
    return [Ranked(place, together(parts, place.query_id, total)) for place, parts in dearest]


class _Chosen:
    """The queries that may have all of the labels, sorted by clause and query ID. `holds` tells whether one
    has them.
    """

    def __init__(self, snapshot: Snapshot, tenant: str, labels: Labels) -> None:
        self._snapshot = snapshot
        self._labels = frozenset(labels)
        queries = snapshot.queries.find(np.unique(snapshot.tags.with_labels(tenant, labels)))
        parts = [
            np.array([(record.sqc_id, query_id) for query_id, record in queries.records.items()], np.int64).reshape(
                -1, 2
            )
        ]
        for block, at in queries.blocks:
            parts.append(np.column_stack((picked(block.sqc_ids, at), picked(block.ids, at))))
        both = np.concatenate(parts)
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        self.clauses = both[:, 0]
        self._ids = both[:, 1]

    def of(self, sqc_id: int, start: int) -> Iterator[int]:
        """The queries of a clause from ID `start` on, ascending."""
        at, end = np.searchsorted(self.clauses, (sqc_id, sqc_id + 1)).tolist()
        at += int(np.searchsorted(self._ids[at:end], start))
        return filter(self.holds, map(int, self._ids[at:end]))

    def holds(self, query_id: int) -> bool:
        """Whether a query is registered, and has the labels."""
        record = self._snapshot.queries.get(query_id)
        return record is not None and self._labels <= set(record.tag.labels)


class _Ranking:
    """The clauses of one stream, ordered by figure. `chosen`: takes only clauses of these queries. None takes all
    clauses.
    """

    def __init__(self, stream: StreamCosts, by: str, chosen: _Chosen | None, after: Rank | None) -> None:
        self._stream = stream
        self._chosen = chosen
        self._after = after
        self._divided = by in _DIVIDED
        self._values = _figures(stream, by)
        owners = self._owners = stream.owners[: len(self._values)]  # a clause may have its slot before its counters
        slots = np.flatnonzero(owners >= 0)
        if chosen is not None:
            slots = slots[np.isin(owners[slots], chosen.clauses)]
        if not self._divided:
            slots = slots[_behind(self._values[slots], owners[slots], after)]
        self._slots = slots

    def first(self, limit: int) -> list[_Found]:
        """The first `limit` queries in order."""
        owners, slots, size = self._owners, self._slots, limit
        figures, ids = np.zeros(0), np.zeros(0, np.int64)
        while True:
            taken, slots = _split(self._values, owners, slots, size)
            size *= _GROWTH
            values, clauses = self._values[taken], owners[taken]
            if self._divided:
                values = values / self._users(clauses)
                behind = _behind(values, clauses, self._after)
                values, clauses = values[behind], clauses[behind]
            figures, ids = np.concatenate((figures, values)), np.concatenate((ids, clauses))
            order = np.lexsort((ids, -figures))
            queries = [*islice(self._queries(figures[order], ids[order]), limit)]
            if not len(slots):
                return queries
            if len(queries) == limit:  # the clauses left are cheaper, even with a single query each
                value = self._values[slots].max()
                clause = owners[slots[self._values[slots] == value]].min()
                if queries[-1].place[:2] <= (-value, clause):
                    return queries

    def _users(self, clauses: Array) -> Array:
        """The number of queries of each clause, int64[k]; a clause of a block has one."""
        users: Array = np.ones(len(clauses), np.int64)
        order = np.argsort(clauses)
        for sqc_id, record in self._stream.snapshot.clauses.find(clauses[order]).records.items():
            users[order[np.searchsorted(clauses, sqc_id, sorter=order)]] = len(record.members) or 1
        return users

    def _queries(self, figures: Array, ids: Array) -> Iterator[_Found]:
        """The queries of the clauses, clause after clause."""
        stream, after = self._stream, self._after
        for figure, sqc_id in zip(figures.tolist(), ids.tolist(), strict=True):
            clause = stream.snapshot.clauses.get(sqc_id)
            if clause is None or clause.stream_id != stream.view.stream_id:
                continue
            begun = after is not None and (-figure, sqc_id) == after[:2]
            start = after.query_id + 1 if begun and after is not None else 0
            members = since(clause.members, start) if self._chosen is None else self._chosen.of(sqc_id, start)
            for query_id in members:
                yield _Found(Rank(-figure, sqc_id, query_id), [(stream, clause)])


def _idle(stream: StreamCosts, chosen: _Chosen | None, after: Rank | None) -> Iterator[_Found]:
    """The idle queries of a stream, in order. They cost nothing, so they come last. See `_Ranking`."""
    clauses = stream.snapshot.clauses
    ids = idle_clauses_of_queries(clauses, stream.view.stream_id)
    begun = after is not None and after.less >= 0
    if after is not None and begun:
        ids = ids[np.searchsorted(ids, min(after.clause, _LAST_ID)) :] if after.less == 0 else ids[:0]
    if chosen is not None:
        ids = ids[np.isin(ids, chosen.clauses)]
    for sqc_id in ids.tolist():
        clause = clauses.get(sqc_id)
        if clause is None:
            continue
        start = after.query_id + 1 if after is not None and begun and sqc_id == after.clause else 0
        members = since(clause.members, start) if chosen is None else chosen.of(sqc_id, start)
        for query_id in members:
            yield _Found(Rank(0.0, sqc_id, query_id), [(stream, clause)])


def _behind(figures: Array, clauses: Array, after: Rank | None) -> Array:
    """For each clause, whether it may have queries after the place `after`. The clause of that place itself may.
    bool[k].
    """
    if after is None:
        return np.ones(len(figures), np.bool_)
    return (-figures > after.less) | ((-figures == after.less) & (clauses >= after.clause))


def _split(values: Array, owners: Array, slots: Array, size: int) -> tuple[Array, Array]:
    """The first `size` slots by descending value, then by clause, and the remaining slots. O(slots log size)."""
    if len(slots) <= size:
        return slots, slots[:0]
    by_place = pa.record_batch({"value": values[slots], "clause": owners[slots]})
    at = pc.select_k_unstable(by_place, size, sort_keys=[("value", "descending"), ("clause", "ascending")]).to_numpy()
    rest = np.ones(len(slots), np.bool_)
    rest[at] = False
    return slots[at], slots[rest]


def _figures(stream: StreamCosts, by: str) -> Array:
    """The figure of each slot's clause in an order, before it is divided among queries: float64."""
    counts = stream.counts
    if by == "cpu":
        return counts.units
    if by == "candidates":
        return counts.candidates.astype(np.float64)
    owners = stream.owners[: len(counts.units)]
    matched, size = sizes_by_slot((entry.results for entry in stream.chunks), owners)
    if by == "matched" and stream.view.spec.table is not None:
        matched = matched - deletion_matches(stream.chunks, owners)
    return (matched + counts.matched[: len(owners)] if by == "matched" else size + stream.spare) * 1.0


def _joins(
    snapshot: Snapshot,
    streams: Sequence[StreamCosts],
    by: str,
    tenant: str,
    wanted: int | None,
    chosen: _Chosen | None,
    after: Rank | None,
) -> list[_Found]:
    """The joins of a tenant, in order. `wanted`: takes only joins with a side on that stream. None takes all joins."""
    if not snapshot.sides:
        return []
    by_id = {entry.view.stream_id: entry for entry in streams}
    values = {stream_id: _figures(entry, by) for stream_id, entry in by_id.items()}
    figures, parts = defaultdict[int, float](float), defaultdict[int, list[ClauseCount]](list)
    for side, record in snapshot.queries.items(FIRST_SIDE):
        if record.tenant != tenant:
            continue
        clause = snapshot.clause(record.sqc_id)
        figures_of_slots = values[record.stream_id]
        value = float(figures_of_slots[clause.slot]) if clause.slot < len(figures_of_slots) else 0.0
        figures[query_of(side)] += value / len(clause.members) if by in _DIVIDED else value
        parts[query_of(side)].append((by_id[record.stream_id], clause))
    places = []
    for query_id, of_query in parts.items():
        place = Rank(-figures[query_id], NO_CLAUSE, query_id)
        on = wanted is None or any(stream.view.stream_id == wanted for stream, _ in of_query)
        if on and (after is None or place > after) and (chosen is None or chosen.holds(query_id)):
            places.append(_Found(place, of_query))
    return sorted(places, key=lambda each: each.place)
