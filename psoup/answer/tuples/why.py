"""The reasons for or against a tuple in the answer of a query: every condition, with its verdict.

    tuple 7, or a row that is not pushed
      factor      price > 100         price = 99.50          no      <── the first "no" keeps the tuple out
      factor      symbol = 'ACME'     symbol = 'ACME'        yes
      window      _time >= … AND _time <= …                  yes
      retention   _id >= 0                                   yes
      arrival     it was not too late or too far ahead       yes

A version of a table has no window; instead it must hold at the time of the answer.

Every factor is evaluated, also after a "no". For a query over several sources, the conditions are on the tuple's
source; its partners follow (`psoup.answer.tuples.partners`). GROUP BY, HAVING, ORDER BY, DISTINCT and LIMIT
depend on other tuples, and are not evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.answer.tuples.conditions import MatchCondition
from psoup.answer.tuples.partners import Subject, partner_steps
from psoup.answer.tuples.queries_of_tuple import check_left
from psoup.answer.tuples.version_conditions import is_deletion, times_of_version, version_condition
from psoup.data.windows import retention_edge
from psoup.errors import InvalidInput, OutOfRange
from psoup.execution.join.located_side import found_sides
from psoup.execution.rows.last_rows import Limits, in_window, in_windows, limits_of
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.clause_matches import matches_in
from psoup.execution.select.match_forms import ChunkMatches, Known
from psoup.execution.select.window import Reach, instant, reach, reaches, windows_of
from psoup.expressions.error_guard import every_row
from psoup.expressions.tree import TIME_INDEX, Expr, Literal, columns_of
from psoup.matching.scan import scan
from psoup.model import TIMESTAMP, Kind
from psoup.plan.canonical import exact_name, literal_text, written_window
from psoup.plan.nodes import Source, partitioned
from psoup.plan.standing_query import StandingQuery
from psoup.plan.written_text import guards, is_difference, written_expr, written_factor
from psoup.published.records import NO_CLAUSE, ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Column
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_SHOWN = 200
"""The most characters of a text in a reason."""


@dataclass(frozen=True, slots=True)
class Why:
    """All conditions, in the order of evaluation."""

    steps: tuple[MatchCondition, ...]

    @property
    def kept_out(self) -> MatchCondition | None:
        """The first condition that the tuple fails. None if the tuple meets all conditions."""
        return next((step for step in self.steps if not step.passed), None)


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple: its columns, of one value each, its time, and its ID if it has one.

    `refused`: the reason why a push would refuse the tuple; empty if it is accepted.
    """

    columns: Sequence[Column]
    time: int
    tuple_id: int | None = None
    refused: str = ""


def why(
    snapshot: Snapshot,
    query_id: int,
    subject: int | Row,
    *,
    tenant: str,
    now: int,
    as_of: int | None = None,
    source: str = "",
    budget: ReadBudget = UNBOUNDED,
) -> Why:
    """Explain whether a tuple is in the answer of a query at NOW, or at `as_of`.

    `subject`: a tuple ID, or a row that is not pushed; such a row has no partners. `source`: the name of the tuple's
    source, if the query has several. Raises NotFound for the query, InvalidInput for the source. Raises OutOfRange for
    a tuple that does not exist or still waits, or an `as_of` after NOW. O(factors), and a read of columns on disk. For
    several sources, it costs an invocation too.
    """
    record = snapshot.query(query_id, tenant)
    place = source_called(record.query, source)
    side = snapshot.sides_of(record)[place]
    seen = _seen(snapshot, record, now, as_of)
    part = seen[place]
    budget.examine(1)
    edge = retention_edge(part.view.timeline(), part.view.spec.retention, part.current)
    row = subject if isinstance(subject, Row) else _stored(part.view, subject, edge)
    version = _version(part, row)
    if version is not None and row is not None and is_deletion(row.columns):
        return Why((version,))
    if row is None:
        return Why((MatchCondition("retention", f"_id >= {edge}", passed=False, values=(("_id", str(subject)),)),))
    steps = [*_of_clause(snapshot, part.view, snapshot.clause(side.sqc_id), row, budget)]
    per_key = record.query.sources[place] if place in partitioned(record.query.plan) else None
    limits = limits_of(snapshot, tenant, budget)
    window = _of_window(part, row) if per_key is None else _of_key(snapshot, side, per_key, part, row, limits)
    steps += [window, *_of_time(row, edge)] if version is None else [version, _arrival(row)]
    if record.sqc_id == NO_CLAUSE and row.tuple_id is not None:
        steps += _of_partners(snapshot, record, place, row.tuple_id, seen, budget)
    return Why(tuple(steps))


def source_called(query: StandingQuery, name: str) -> int:
    """The place of the source with a name in the statement, in any letter case; "" for the only source.

    Raises InvalidInput if there is no such source, or several.
    """
    names = [source.alias or source.spec.name for source in query.sources]
    places = [place for place, each in enumerate(names) if not name or each.lower() == name.lower()]
    if not places:  # the name of a stream will do, if it is only once in the statement
        places = [place for place, each in enumerate(query.sources) if each.spec.name.lower() == name.lower()]
    if len(places) == 1:
        return places[0]
    problem = f"has no source {name[:_SHOWN]!r}" if name and not places else "has several sources"
    message = f"the query {problem}; its sources are called {', '.join(names)}: say whose tuple it is"
    raise InvalidInput(message, reason="UNKNOWN_SOURCE", field="source")


def stream_of_source(snapshot: Snapshot, query_id: int, tenant: str, source: str) -> StreamView:
    """The stream of a query's source with a name. Raises NotFound, and InvalidInput for the name."""
    record = snapshot.query(query_id, tenant)
    return snapshot.views_of(record)[source_called(record.query, source)]


def _seen(snapshot: Snapshot, record: QueryRecord, now: int, as_of: int | None) -> list[Reach]:
    """The window of each source."""
    views = snapshot.views_of(record)
    if record.sqc_id == NO_CLAUSE:
        return reaches(views, windows_of(record.query, None), now, as_of)
    current = views[0].now(now)
    return [reach(views[0], record.query.window, current, instant(current, as_of), as_of)]


def _of_partners(
    snapshot: Snapshot, record: QueryRecord, place: int, tuple_id: int, seen: list[Reach], budget: ReadBudget
) -> Iterator[MatchCondition]:
    """The conditions over several sources, for a tuple of one source. Raises as an invocation."""
    config, sides = snapshot.config, snapshot.sides_of(record)
    wanted = [
        (part.view, snapshot.clause(side.sqc_id), *part.range[:2]) for part, side in zip(seen, sides, strict=True)
    ]
    matches = found_sides(wanted, snapshot.run, config.archive_rows, budget, config.texts)
    if windows := partitioned(record.query.plan):
        matches = in_windows(windows, wanted, matches, limits_of(snapshot, record.tenant, budget))
    groups, view = snapshot.groups_of(record.tenant), seen[place].view
    limits = config.sort_rows, config.joins, groups, snapshot.run, seen[0].view.keys
    reading = Reading(matches, seen[0].now, config.texts, budget, *limits)
    entry = view.chunk_of(tuple_id)
    rows = entry.data.places.rows(np.array([tuple_id], np.int64))
    alone = ChunkMatches(entry, rows, 0, covered=True)
    yield from partner_steps(record.query.plan, Subject(place, tuple_id, [alone], reading))


def _of_clause(
    snapshot: Snapshot, view: StreamView, clause: ClauseRecord, row: Row, budget: ReadBudget
) -> Iterator[MatchCondition]:
    """The factors of the clause, each with the values that it reads."""
    wary = frozenset[Expr]()
    if view.outside.reasons(clause.sqc_id, clause.attributes):
        wary = frozenset(term.attribute for factor in clause.factors for term in factor.terms)
    ids, times = np.array([row.tuple_id or 0], np.int64), np.array([row.time], np.int64)
    compute, texts = every_row(budget, wary), snapshot.config.texts
    silent = guards(clause.factors)
    for factor in clause.factors:
        read = {term.attribute: compute(term.attribute, row.columns, ids, times, texts) for term in factor.terms}
        result = scan((factor,), row.columns, ids, times, texts, compute)
        for column in (column for expr in tuple(read) for column in columns_of(expr)):
            read.setdefault(column, compute(column, row.columns, ids, times, texts))
        passed, shown = bool(result.mask[0]), [expr for expr in read if not is_difference(expr)]
        if not (passed and factor in silent):
            values = tuple((written_expr(expr), value_text(read[expr])) for expr in shown)
            yield MatchCondition("factor", written_factor(factor), passed, values)


def _stored(view: StreamView, tuple_id: int, edge: int) -> Row | None:
    """The tuple with an ID. Returns None if its retention has passed. Raises OutOfRange if the tuple does not exist."""
    if tuple_id >= view.next_id:
        waits = f"; {view.pending} wait for the watermark" if view.pending else ""
        raise OutOfRange(
            f"tuple {tuple_id} is not in {view.spec.noun} {view.spec.name!r}: the next one to come is"
            f" {view.next_id}{waits}",
            reason="UNKNOWN_TUPLE",
            stream=view.spec.name,
        )
    if tuple_id < 0:
        raise OutOfRange(
            f"tuple {tuple_id} is not in {view.spec.noun} {view.spec.name!r}: IDs count from 0",
            reason="UNKNOWN_TUPLE",
            stream=view.spec.name,
        )
    if tuple_id < edge:
        return None
    data = view.chunk_of(tuple_id).data
    check_left(view, view.spec.name, [tuple_id])
    at = data.places.rows(np.array([tuple_id], np.int64))
    columns = [data.take(index, at) for index in range(len(view.spec.schema.attributes))]
    return Row(columns, int(data.take(TIME_INDEX, at).values[0]), tuple_id)


def _of_window(seen: Reach, row: Row) -> MatchCondition:
    """The condition that a tuple is in the window."""
    extent, at = seen.range, (("_time", time_value(row.time)),)
    bounds = [(">=", extent.begin), ("<=", extent.end)]
    text = " AND ".join(f"_time {sign} {time_value(bound)}" for sign, bound in bounds if bound is not None)
    inside = (extent.begin is None or row.time >= extent.begin) and (extent.end is None or row.time <= extent.end)
    if seen.now is None:
        text, inside = "FALSE", False  # before the first tuple there is no NOW
    elif seen.window.by_rows:
        text = f"_id >= {extent.low} AND _id < {extent.high}"
        at = (("_id", "NULL" if row.tuple_id is None else str(row.tuple_id)),)
        inside = row.tuple_id is not None and extent.low <= row.tuple_id < extent.high
    return MatchCondition("window", text or "TRUE", inside, (*at, ("window", written_window(seen.window))))


def _of_key(
    snapshot: Snapshot, side: QueryRecord, source: Source, seen: Reach, row: Row, limits: Limits
) -> MatchCondition:
    """The condition that a tuple is among the last of its key. O(tuples that came after it)."""
    partition, view, tuple_id, high = source.partition, seen.view, row.tuple_id, seen.range.high
    assert partition is not None
    inside = False
    if tuple_id is not None and seen.range.low <= tuple_id < high:
        clause, config = snapshot.clause(side.sqc_id), snapshot.config
        entry = view.chunk_of(tuple_id)
        counted: list[Known] = [
            ChunkMatches(entry, entry.data.places.rows(np.array([tuple_id], np.int64)), 0, covered=True)
        ]
        if partition.matching:
            counted = [*matches_in(view, clause, tuple_id, high, snapshot.run, config.archive_rows, limits.budget)]
        matches = in_window(source, view, seen.range.low, high, counted, limits)
        inside = any(tuple_id in match.data.places.ids(match.offsets) for match in matches)
    keys = ", ".join(exact_name(key.name) for key in partition.keys)
    over = f"PARTITION BY {keys} ORDER BY _id DESC" if keys else "ORDER BY _id DESC"
    text = f"row_number() OVER ({over}) <= {partition.rows}"
    shown = ("_id", "NULL" if tuple_id is None else str(tuple_id))
    return MatchCondition("window", text, inside, (shown, ("window", partition.text)))


def _of_time(row: Row, edge: int) -> Iterator[MatchCondition]:
    """The conditions other than factors and the window: retention and arrival."""
    if row.tuple_id is not None:
        yield MatchCondition("retention", f"_id >= {edge}", row.tuple_id >= edge, (("_id", str(row.tuple_id)),))
    yield _arrival(row)


def _arrival(row: Row) -> MatchCondition:
    return MatchCondition("arrival", row.refused or "it is not too late, and not too far ahead", not row.refused)


def _version(seen: Reach, row: Row | None) -> MatchCondition | None:
    """The condition on a version of a table: that it holds at the time of the answer. None for a tuple of a stream."""
    table = seen.view.spec.table
    if table is None or row is None:
        return None
    times = None if row.tuple_id is None else times_of_version(seen.view, table, row.tuple_id)
    return version_condition(row.columns, times, seen.view.at)


def time_value(time: int) -> str:
    """A time as SQL."""
    return literal_text(Literal(TIMESTAMP, time))


def value_text(column: Column) -> str:
    """The only value of a column as SQL; "error" if it could not be computed."""
    if column.error is not None and column.error[0]:
        return "error"
    if column.valid is not None and not column.valid[0]:
        return "NULL"
    if column.type.kind is Kind.TEXT:
        assert column.data is not None
        text = bytes(column.data[column.values[0] : column.values[1]]).decode(errors="replace")
        return literal_text(Literal(column.type, text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"))
    return literal_text(Literal(column.type, column.values[0].item()))
