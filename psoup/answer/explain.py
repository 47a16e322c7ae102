"""Explaining a query: its factors, its window now, and the form of its results chunk by chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from psoup.answer.archive_work import ArchiveWork
from psoup.answer.costs import QueryCost, query_cost
from psoup.answer.coverage import Span, form_of, spans
from psoup.answer.matches import ChunkMatches, chunk_matches, search_of
from psoup.answer.window import instant, reach
from psoup.clauses.describe import evaluations
from psoup.clauses.quarantine import Reason
from psoup.columns import key_float
from psoup.config import TextLimits
from psoup.data.windows import WindowRange
from psoup.expressions.render import render
from psoup.expressions.tree import AttributeRef, Expr
from psoup.matching.search import Search
from psoup.model import SECOND, DataType, Kind, WindowClause, time_text
from psoup.plan.canonical import describe_window
from psoup.plan.factors import Factor, Term
from psoup.plan.nodes import walk
from psoup.plan.patterns import Pattern
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.reading import UNBOUNDED, ReadBudget
from psoup.wording import counted, verb


@dataclass(frozen=True, slots=True)
class FactorExplanation:
    """One boolean factor. `kind`: `interval`, `union` (several intervals or attributes), `opaque` or `never`.

    `derived`: expressions that are evaluated once for all queries and indexed like columns. `evaluated`: for each of
    them the new tuples that came since it is in use, and those for which it was evaluated: for the others another
    factor of each query had decided.
    """

    text: str
    kind: str
    derived: tuple[str, ...]
    evaluated: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A node of the plan; its inputs are steps below it, one level deeper. `pattern`: how its rows come and leave."""

    depth: int
    text: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one query. Times are text in UTC; counts are of tuples or chunks kept.

    `uncovered`: chunks on disk that were not evaluated for the query; `to_evaluate`: tuples of them that lie in the
    window and that an invocation would look at, in `chunks_to_evaluate`, which would take `expected_seconds` (None:
    without a clock). `problem`: why an invocation is refused, if it is. Chunks that take longer than a moment are
    not counted (`counted` is false): then `matches_in_window` is the number without them.
    """

    query_id: int
    sql: str
    stream: str
    time_domain: str
    clause: str
    shared_by: int
    window: str
    window_kind: str
    begin: str
    end: str
    factors: tuple[FactorExplanation, ...]
    tuples_in_window: int
    matches_in_window: int
    chunks: int
    chunks_covered: int
    chunks_archived: int
    column_forms: dict[str, int]
    errors: int
    archived_in_window: int
    archived_covered: int
    uncovered: tuple[Span, ...]
    to_evaluate: int
    chunks_to_evaluate: int
    expected_seconds: float | None
    problem: str
    counted: bool
    cost: QueryCost
    plan: tuple[PlanStep, ...]
    outside: tuple[str, ...] = ()
    """The reasons why the query is not in the index, if it is not: what it computes, and what that has done."""

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain values, for JSON."""
        return asdict(self)

    def lines(self, name: str = "") -> list[str]:
        """The explanation as text for a terminal; `name`: that of the query there, if not its number."""
        name = name or str(self.query_id)
        forms = ", ".join(f"{count} {form}" for form, count in sorted(self.column_forms.items()))
        lines = [
            f"query {name} on stream {self.stream} ({self.time_domain})",
            f"  window   {self.window}  ({self.window_kind})",
            f"           now from {self.begin} to {self.end}",
            f"  clause   {self.clause}",
            f"           shared by {counted(self.shared_by, 'query')}",
        ]
        for number, factor in enumerate(self.factors, 1):
            lines.append(f"  factor {number} [{factor.kind}] {factor.text}")
            for text, (seen, evaluated) in zip(factor.derived, factor.evaluated, strict=True):
                counts = f", evaluated for {evaluated:,} of {counted(seen, 'new tuple')}" if seen else ""
                lines.append(f"           derived attribute: {text}{counts}")
        lines += self._plan_lines()
        least = "" if self.counted and not self.outside else "at least "
        lines.append(
            f"  window holds {counted(self.tuples_in_window, 'tuple')}, {least}{self.matches_in_window:,}"
            f" {verb(self.matches_in_window, 'matches', 'match')}; {counted(self.errors, 'evaluation error')}"
        )
        covered = f"{self.chunks_covered:,} of {counted(self.chunks, 'chunk')} covered"
        lines.append(f"  results  {covered}; kept as {forms or 'nothing'}")
        if self.outside:
            lines += [f"  outside  {self.outside[0]}", *(f"           {text}" for text in self.outside[1:])]
            lines.append("           not in the index: new tuples do not meet it, each answer evaluates it row by row")
        return [*lines, *self._archive_lines(name), *self.cost.lines()]

    @property
    def refused(self) -> bool:
        """Whether an invocation would have to evaluate more on disk than it may."""
        return bool(self.problem)

    def _plan_lines(self) -> list[str]:
        """The plan from its last step to the first, and how the rows of the answer come and leave."""
        lines = []
        for number, step in enumerate(self.plan):
            text = step.text if len(step.text) <= _STEP else f"{step.text[:_STEP]}…"
            head = "plan  " if not number else ""
            lines.append(f"  {head:9}{'  ' * step.depth}{text} [{step.pattern}]")
        pattern = Pattern[self.plan[0].pattern.upper()]
        return [*lines, f"  updates  {pattern.title}: {pattern.meaning}"]

    def _archive_lines(self, name: str) -> list[str]:
        if not self.chunks_archived:
            return []
        lines = [
            f"  archive  {self.chunks_archived:,} of the chunks {verb(self.chunks_archived, 'is', 'are')} on disk,"
            f" {self.archived_covered:,} of them covered; {counted(self.archived_in_window, 'tuple')} of the window"
            f" {verb(self.archived_in_window, 'is', 'are')} in them"
        ]
        if self.uncovered:
            lines += [f"           not covered: {span}" for span in self.uncovered[:_SHOWN]]
            if len(self.uncovered) > _SHOWN:
                lines.append(f"           and {len(self.uncovered) - _SHOWN:,} more such parts")
            lines.append(f"           {self._work(name)}")
        return lines

    def _work(self, name: str) -> str:
        """The work of an invocation on disk, and the job that could do it instead, if it is worth a job."""
        if not self.to_evaluate:
            return "an invocation evaluates none of these tuples"
        job = f"; psoup spark cover {name} has a job do it once"
        work = f"{self.to_evaluate:,} of these tuples, in {counted(self.chunks_to_evaluate, 'chunk')}"
        if self.refused:
            return f"an invocation is refused: it would have to evaluate {work}, and {self.problem}{job}"
        if self.expected_seconds is None:
            return f"an invocation evaluates {work}{job}"
        if self.expected_seconds < _WORTH_A_JOB_S:
            return f"an invocation evaluates {work}, in less than {_WORTH_A_JOB_S} s"
        return f"an invocation evaluates {work}, in about {self.expected_seconds:.1f} s{job}"


_MOMENT_S = 0.5
"""Seconds that counting matches on disk may take: the question is what an invocation would take."""

_WORTH_A_JOB_S = 0.1
"""Seconds of evaluation below which Spark is not worth its start."""

_STEP = 160
"""Characters of a step of the plan that are shown."""

_SHOWN = 8
"""Uncovered parts that the text lists."""


def explain(snapshot: Snapshot, query_id: int, *, tenant: str, now: int, budget: ReadBudget = UNBOUNDED) -> Explanation:
    """Explain a query at the clock's `now`. Cost of counting its answer; no rows are gathered."""
    record = snapshot.query(query_id, tenant)
    view = snapshot.by_id[record.stream_id]
    clause = snapshot.clause(record.sqc_id)
    window = record.query.window
    current = view.now(now)
    extent = reach(view, window, current, instant((current,))).range
    begin, end = _ends(window, view, extent)
    forms = [form_of(entry, clause) for entry in view.chunks]
    unknown = [k for k in range(view.archived) if forms[k] == "uncovered"]
    on_disk = _on_disk(_to_evaluate(view, clause, unknown, extent), snapshot.config.archive_rows, budget)
    outside = view.outside.reasons(clause.sqc_id, clause.attributes)
    left_out = _not_counted(forms, outside) if on_disk["counted"] else set(unknown)
    parts = _parts(view, clause, extent, left_out, budget, snapshot.config.texts)
    return Explanation(
        query_id=query_id,
        sql=record.query.text,
        stream=view.spec.name,
        time_domain="event time" if view.spec.event_time else "system time",
        clause=record.query.clause,
        shared_by=len(clause.members),
        window=describe_window(window),
        window_kind=window.kind,
        begin=begin,
        end=end,
        factors=_factors(record.query.factors, view, clause),
        tuples_in_window=extent.high - extent.low,
        matches_in_window=sum(len(part.offsets) for part in parts),
        chunks=len(view.chunks),
        chunks_covered=len(view.chunks) - forms.count("uncovered"),
        chunks_archived=view.archived,
        column_forms=dict(Counter(forms)),
        errors=sum(part.errors for part in parts),
        archived_in_window=max(0, min(extent.high, view.hot_id) - extent.low),
        archived_covered=view.archived - len(unknown),
        uncovered=spans(view.chunks[k] for k in unknown),
        **on_disk,
        cost=query_cost(snapshot, query_id, tenant=tenant),
        plan=tuple(PlanStep(depth, node.label, node.pattern.name.lower()) for depth, node in walk(record.query.plan)),
        outside=tuple(map(str, outside)),
    )


def _not_counted(forms: Sequence[str], outside: Sequence[Reason]) -> set[int]:
    """Chunks whose matches are not counted, as that would evaluate expressions that cannot be evaluated."""
    return {k for k, form in enumerate(forms) if form == "uncovered"} if outside else set()


def _rows(entry: ChunkEntry, extent: WindowRange) -> tuple[int, int]:
    """The rows of a chunk that are in the window: from, to; from >= to if there are none."""
    low, high = (min(max(i - entry.data.first_id, 0), len(entry.data)) for i in (extent.low, extent.high))
    return low, high


def _parts(
    view: StreamView,
    clause: ClauseRecord,
    extent: WindowRange,
    left_out: set[int],
    budget: ReadBudget,
    texts: TextLimits,
) -> list[ChunkMatches]:
    """The matches in the window, without those of some chunks."""
    search = search_of(view, clause, texts)
    parts = []
    for k, entry in enumerate(view.chunks):
        start, stop = _rows(entry, extent)
        if start < stop and k not in left_out:
            parts.append(chunk_matches(entry, clause, start, stop, budget, search))
    return parts


def _to_evaluate(view: StreamView, clause: ClauseRecord, unknown: list[int], extent: WindowRange) -> ArchiveWork:
    """The tuples on disk that an invocation would look at."""
    search, sizes = Search(clause.factors), list[int]()
    for k in unknown:
        start, stop = _rows(view.chunks[k], extent)
        if start < stop and search.reads(view.chunks[k].data):
            sizes.append(stop - start)
    return ArchiveWork(search.kind, sum(sizes), len(sizes))


def _on_disk(work: ArchiveWork, archive_rows: int, budget: ReadBudget) -> dict[str, Any]:
    """The work on disk, by the names of the fields."""
    problem, seconds = work.problem(archive_rows, budget), work.expected(budget)
    return {
        "to_evaluate": work.tuples,
        "chunks_to_evaluate": work.chunks,
        "expected_seconds": seconds,
        "problem": problem,
        "counted": not problem and (seconds or 0.0) < _MOMENT_S,
    }


def _ends(window: WindowClause, view: StreamView, extent: WindowRange) -> tuple[str, str]:
    """Begin and end of the window now; those of a window of rows are the times of its first and its last tuple."""
    begin = "the oldest tuple kept" if extent.begin is None else time_text(extent.begin)
    end = "no tuple yet" if extent.end is None else time_text(extent.end)
    if window.by_rows and extent.end is not None:
        time_of = view.timeline().time_of
        empty = extent.low == extent.high
        if window.begin.rows is not None:
            begin = "no tuple" if empty else time_text(time_of(extent.low))
        if window.end.rows is not None:
            end = "no tuple" if empty else time_text(time_of(extent.high - 1))
    return begin, end


def _factors(factors: Sequence[Factor], view: StreamView, clause: ClauseRecord) -> tuple[FactorExplanation, ...]:
    index = view.index
    evaluated = evaluations(index.attributes, clause.attributes, index.waits, index.plans())
    return tuple(_factor(factor, evaluated) for factor in factors)


def _factor(factor: Factor, evaluated: Mapping[Expr, tuple[int, int]]) -> FactorExplanation:
    terms = factor.terms
    text = " OR ".join(_term(term) for term in terms) or "FALSE"
    computed = [t.attribute for t in terms if not isinstance(t.attribute, AttributeRef)]
    if not terms:
        kind = "never"
    elif len(terms) == 1 and _opaque(terms[0]):
        kind = "opaque"
    elif len(terms) == 1 and len(terms[0].intervals) + terms[0].nulls == 1:
        kind = "interval"
    else:
        kind = "union"
    counts = tuple(evaluated.get(expr, (0, 0)) for expr in computed)
    return FactorExplanation(text, kind, tuple(map(render, computed)), counts)


def _opaque(term: Term) -> bool:
    return not isinstance(term.attribute, AttributeRef) and str(term.attribute.type) == "BOOLEAN"


def _term(term: Term) -> str:
    data_type = term.attribute.type
    texts = [_key(data_type, i.low, "") for i in term.intervals if isinstance(i.low, bytes) and i.high == i.low + b"\0"]
    if len(texts) == len(term.intervals) == 1 and not term.nulls:
        return f"{render(term.attribute)} = {texts[0]}"
    ranges = [f"[{_key(data_type, i.low, '-inf')}, {_key(data_type, i.high, 'inf')})" for i in term.intervals]
    if len(texts) == len(ranges):
        ranges = texts
    if term.nulls:
        ranges.append("NULL")
    shown = ranges if len(ranges) <= 8 else [*ranges[:8], f"… {len(ranges) - 8} more"]
    return f"{render(term.attribute)} in {' or '.join(shown)}"


def _key(data_type: DataType, key: int | bytes | None, unbounded: str) -> str:
    """An order key as the value it stands for."""
    if key is None:
        return unbounded
    if isinstance(key, bytes):
        return repr(key.decode(errors="backslashreplace"))
    if data_type.kind is Kind.TIMESTAMP:
        return time_text(key)
    if data_type.kind is Kind.DATE:
        return time_text(key * 86_400 * SECOND)[:10]
    if data_type.kind is Kind.DECIMAL:
        return str(Decimal(key).scaleb(-data_type.scale))
    return str(key_float(key)) if data_type.kind is Kind.DOUBLE else str(key)
