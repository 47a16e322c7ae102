"""The share of the writer's time that each query takes for arriving tuples, between two calls of `look`.

    seconds of a stream's joins ─┬─ of each expression ────── divided among the clauses that read it ──┐
                                 └─ the rest ──────────────── by counted work (`psoup.clauses.costs`) ─┴─ clause
    clause ── divided among its queries; sides of a join count for the join ──────────────────────────── query

The writer is one thread, so all shares add up to at most 1. `look` also notes the share of a query among the counters
of its streams, where EXPLAIN reads it. It skips a stream whose joins take so little time that no query can reach the
smallest share. Shares are estimates, as in `psoup.answer.figures.query_costs`. The evaluation of older tuples is not
counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from psoup.expressions.tree import Expr
from psoup.plan.sides import MOST_SOURCES, query_of
from psoup.published.members import with_sides
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class DearClause:
    """A costly clause of a query. `share`: the share of the writer's time that the query takes for it.

    `exprs`: the expressions that take most of that time; empty if the index takes most.
    """

    clause: ClauseRecord
    share: float
    exprs: frozenset[Expr]


@dataclass(slots=True)
class ArrivalShare:
    """A query and its share of the writer's time, 0 to 1, with its costly clauses."""

    query_id: int
    share: float = 0.0
    clauses: list[DearClause] = field(default_factory=list)

    @property
    def dearest(self) -> DearClause:
        """The clause that takes the most time."""
        return max(self.clauses, key=lambda dear: dear.share)


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """The counters of a stream at one look. `joined`: seconds of its joins. `computed`: seconds of each expression.

    `units`: the counted work of each slot, float64. `owners`: the SQC ID of each slot, int64. Both are empty if the
    stream was not busy.
    """

    joined: float
    computed: Mapping[Expr, float]
    units: Array
    owners: Array


class ArrivalShares:
    """Shares of all streams of a service. `smallest`: the smallest share to report. One thread at a time."""

    def __init__(self, smallest: float) -> None:
        self._smallest = smallest
        self._before: dict[int, StreamCounters] = {}

    def look(self, snapshot: Snapshot, seconds: float) -> list[ArrivalShare]:
        """The queries with at least the smallest share in the `seconds` since the last look, the costliest first.

        The first busy look at a stream only reads its counters; the next one reports shares. O(streams), and O(slots +
        entries of the index) for each busy stream.
        """
        totals = dict[int, ArrivalShare]()
        for view in snapshot.by_id.values():
            for share in self._of_stream(snapshot, view, seconds):
                total = totals.setdefault(share.query_id, ArrivalShare(share.query_id))
                total.share += share.share
                total.clauses += share.clauses
        self._before = {
            stream_id: reading for stream_id, reading in self._before.items() if stream_id in snapshot.by_id
        }
        return sorted((s for s in totals.values() if s.share >= self._smallest), key=lambda s: (-s.share, s.query_id))

    def _of_stream(self, snapshot: Snapshot, view: StreamView, seconds: float) -> list[ArrivalShare]:
        """The shares of the queries of one stream. They are also noted among the counters of that stream.

        The threshold is lower than the smallest share, because a join adds the shares of its sides.
        """
        costs, before = view.index.costs, self._before.get(view.stream_id)
        matters = seconds * self._smallest / MOST_SOURCES
        busy = before is not None and costs.joined - before.joined >= matters
        now = self._before[view.stream_id] = (
            read_counters(view) if busy else StreamCounters(costs.joined, {}, _NONE, _NO_SLOTS)
        )
        shares = _taken(snapshot, view, before, now, seconds, matters) if before and len(before.owners) and busy else {}
        if shares or costs.noted:
            costs.noted = {query_id: share.share for query_id, share in shares.items()}
        return [*shares.values()]


_NONE: Array = np.zeros(0)
_NO_SLOTS: Array = np.zeros(0, np.int64)


def read_counters(view: StreamView) -> StreamCounters:
    """The present counters of a stream. O(slots + entries of the index)."""
    costs, last = view.index.costs, view.chunks[-1].results.open
    assert last is not None, "the last chunk is open"
    joined, computed = costs.joined, costs.computed.copy()
    units = costs.read(last.sqc_of_slot).units
    size = min(len(units), len(last.sqc_of_slot))  # the table of slots shrinks when clauses leave, the counters do not
    return StreamCounters(joined, computed, units[:size], last.sqc_of_slot[:size].copy())


def _taken(
    snapshot: Snapshot, view: StreamView, before: StreamCounters, now: StreamCounters, seconds: float, matters: float
) -> dict[int, ArrivalShare]:
    """The share of each query in the `seconds` between two readings, for clauses that took at least `matters`
    seconds.
    """
    expressions = _expressions(before, now, matters)
    by_expressions, by_index = seconds_by_slot(view, before, now, expressions)
    shares = dict[int, ArrivalShare]()
    for slot in np.flatnonzero(by_expressions + by_index >= matters).tolist():
        clause = snapshot.clauses.get(int(now.owners[slot]))
        if clause is None or clause.slot != slot:
            continue
        each = float(by_expressions[slot] + by_index[slot]) / seconds / len(clause.members)
        if each * seconds < matters:
            continue
        dear = by_expressions[slot] >= by_index[slot]
        exprs = frozenset(expressions if dear else ())
        for member in with_sides(clause.members, 0):
            share = shares.setdefault(query_of(member), ArrivalShare(query_of(member)))
            share.share += each
            share.clauses.append(DearClause(clause, each, exprs))
    return shares


def _expressions(before: StreamCounters, now: StreamCounters, matters: float) -> dict[Expr, float]:
    """The expressions that took at least `matters` seconds between two readings, with their seconds."""
    took = {expr: spent - before.computed.get(expr, 0.0) for expr, spent in now.computed.items()}
    return {expr: spent for expr, spent in took.items() if spent >= matters}


def seconds_by_slot(
    view: StreamView, before: StreamCounters, now: StreamCounters, expressions: Mapping[Expr, float] | None = None
) -> tuple[Array, Array]:
    """The seconds of the joins between two readings, divided among the slots: float64[slots] each, for expressions and
    for the rest. `expressions`: those that count apart, None for all."""
    expressions, size = _expressions(before, now, 0.0) if expressions is None else expressions, len(now.owners)
    by_expressions: Array = np.zeros(size)
    for expr, spent in expressions.items():
        slots = view.clauses.readers(expr)
        by_expressions[slots[slots < size]] += spent / max(len(slots), 1)
    return by_expressions, _worked(before, now) * max(now.joined - before.joined - sum(expressions.values()), 0.0)


def units_by_slot(before: StreamCounters, now: StreamCounters) -> Array:
    """The counted work between two readings, for each slot: float64, in tests of a tuple in a list."""
    same = min(len(before.owners), len(now.owners))
    began: Array = np.zeros(len(now.owners))
    mine = before.owners[:same] == now.owners[:same]
    began[:same] = np.where(mine, before.units[:same], 0.0)
    done: Array = np.maximum(now.units - began, 0.0)
    return done


def _worked(before: StreamCounters, now: StreamCounters) -> Array:
    """The part of the counted work between two readings, for each slot: float64, 0 to 1."""
    done = units_by_slot(before, now)
    total = float(done.sum())
    return done / total if total else done
