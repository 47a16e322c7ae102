"""The facts of a source of a query for its explanation: its window now, its clause, and its stored results.

    window, clause ── chunks, a sample, the matches in the window ──> SourceExplanation

Rows are counted, but none is gathered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from psoup.answer.coverage import form_of, spans
from psoup.answer.explain.factors import explain_factors
from psoup.answer.explain.sample import NO_SAMPLE, sample_of
from psoup.answer.explain.source import SourceExplanation
from psoup.clauses.quarantine import Reason
from psoup.config import EngineConfig, TextLimits
from psoup.data.windows import WindowRange
from psoup.execution.select.archive_work import ArchiveWork
from psoup.execution.select.clause_matches import chunk_matches, search_of
from psoup.execution.select.match_forms import ChunkMatches
from psoup.execution.select.window import Reach
from psoup.matching.search import Search
from psoup.model import WindowClause, time_text
from psoup.plan.absences import absences
from psoup.plan.nodes import Node
from psoup.plan.source_roles import SourceRole, source_roles
from psoup.plan.standing_query import Selection
from psoup.published.records import ClauseRecord
from psoup.published.shown_rows import count_shown, shown_rows
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.sql.time_domains import time_domain
from psoup.work.read_budget import ReadBudget

_MOMENT_S = 0.5
"""The most seconds that an explanation spends on counting matches on disk, so that it stays quick."""

DerivedLines = Callable[[StreamView], Sequence[str]]
"""Makes the lines about the pump of a derived stream."""


def no_lines(_view: StreamView) -> Sequence[str]:
    """No lines, for a caller without pumps."""
    return ()


def explain_source(
    seen: Reach,
    selection: Selection,
    clause: ClauseRecord,
    config: EngineConfig,
    budget: ReadBudget,
    folded: frozenset[int] = frozenset(),
    plan: Node | None = None,
    derived_status: DerivedLines = no_lines,
) -> SourceExplanation:
    """Explain the selection of a query from one source. `seen`: its window now. Costs what counting matches costs.

    `folded`: the places of folded chunks, whose tuples an invocation does not read. `plan`: the plan that has the
    source, for its role. `derived_status`: makes the lines about a derived stream.
    """
    view, extent = seen.view, seen.range
    forms = [form_of(entry, clause) for entry in view.chunks]
    unknown = frozenset(k for k in range(view.archived) if forms[k] == "uncovered")
    on_disk = _on_disk(_to_evaluate(view, clause, sorted(unknown - folded), extent), config.archive_rows, budget)
    outside = view.outside.reasons(clause.sqc_id, clause.attributes)
    left_out = folded.intersection(unknown).union(_not_counted(forms, outside) if on_disk["counted"] else unknown)
    return SourceExplanation(
        **_selection(seen, selection, clause),
        **_derivation(view, derived_status),
        **_factors(view, selection, clause, outside, config, budget),
        **_chunks(view, forms, unknown, folded, extent),
        **_matches(view, clause, extent, left_out, budget, config.texts),
        **on_disk,
        **_place_in(plan, selection.source.place),
    )


def _selection(seen: Reach, selection: Selection, clause: ClauseRecord) -> dict[str, Any]:
    """The names of a source, its window now, and its clause."""
    view, source = seen.view, replace(selection.source, window=seen.window)
    begin, end = _ends(seen.window, view, seen.range)
    return {
        "stream": view.spec.name,
        "kind": view.spec.noun,
        "alias": source.alias,
        "time_domain": time_domain(view.spec),
        "clause": selection.written,
        "shared_by": len(clause.members),
        "window": source.window_text,
        "window_kind": source.window_kind,
        "begin": begin,
        "end": end,
        "idle": seen.idle,
    }


def _factors(
    view: StreamView,
    selection: Selection,
    clause: ClauseRecord,
    outside: Sequence[Reason],
    config: EngineConfig,
    budget: ReadBudget,
) -> dict[str, Any]:
    """The factors of a clause, measured with a sample of tuples, and why the clause is outside of the index."""
    sample = NO_SAMPLE if outside else sample_of(selection.factors, view, config.texts, budget)
    factors = explain_factors(selection.factors, view, clause, sample)
    return {"factors": factors, "sample": sample.rows, "outside": tuple(map(str, outside))}


def _chunks(
    view: StreamView, forms: Sequence[str], unknown: frozenset[int], folded: frozenset[int], extent: WindowRange
) -> dict[str, Any]:
    """The stored results by chunk. `forms`: of each chunk. `unknown`: the chunks on disk without results."""
    return {
        "chunks": len(view.chunks),
        "chunks_covered": len(view.chunks) - forms.count("uncovered"),
        "chunks_archived": view.archived,
        "column_forms": dict(Counter(forms)),
        "archived_in_window": max(0, min(extent.high, view.hot_id) - extent.low),
        "archived_covered": view.archived - len(unknown),
        "uncovered": spans(view.chunks[k] for k in sorted(unknown)),
        "folded": sum(len(view.chunks[k].data) for k in folded & unknown),
    }


def _matches(
    view: StreamView,
    clause: ClauseRecord,
    extent: WindowRange,
    left_out: frozenset[int],
    budget: ReadBudget,
    texts: TextLimits,
) -> dict[str, Any]:
    """The numbers of tuples and matches in the window, except for matches in the chunks `left_out`."""
    parts = _parts(view, clause, extent, left_out, budget, texts)
    return {
        "tuples_in_window": count_shown(view, extent.low, extent.high),
        "matches_in_window": sum(len(part.offsets) for part in parts),
        "errors": sum(part.errors for part in parts),
    }


def _place_in(plan: Node | None, place: int) -> dict[str, Any]:
    """The fields of a SourceExplanation that depend on the plan. None: the source has no plan above it."""
    if plan is None:
        return {"role": SourceRole.ROWS.value, "may_take_away": False}
    return {"role": source_roles(plan)[place].value, "may_take_away": place in absences(plan)}


def _derivation(view: StreamView, derived_status: DerivedLines) -> dict[str, Any]:
    """The SELECT of a derived stream, and the lines about its pump. Nothing for any other stream."""
    if view.spec.derived is None:
        return {}
    return {"derived_by": view.spec.select, "derived_status": tuple(derived_status(view))}


def _not_counted(forms: Sequence[str], outside: Sequence[Reason]) -> set[int]:
    """The uncovered chunks of a clause outside of the index: its expressions are not safe to evaluate here."""
    return {k for k, form in enumerate(forms) if form == "uncovered"} if outside else set()


def _rows(entry: ChunkEntry, extent: WindowRange) -> tuple[int, int]:
    """The rows [low, high) of a chunk that are in the window; low >= high if none are."""
    places = entry.data.places
    return places.row_from(extent.low), places.row_from(extent.high)


def _parts(
    view: StreamView,
    clause: ClauseRecord,
    extent: WindowRange,
    left_out: frozenset[int],
    budget: ReadBudget,
    texts: TextLimits,
) -> list[ChunkMatches]:
    """The matches in the window, except in the chunks `left_out`."""
    search = search_of(view, clause, texts)
    parts = []
    for k, entry in enumerate(view.chunks):
        start, stop = _rows(entry, extent)
        if start < stop and k not in left_out:
            match = chunk_matches(entry, clause, start, stop, budget, search)
            parts.append(replace(match, offsets=shown_rows(view, entry.data, match.offsets)))
    return parts


def _to_evaluate(view: StreamView, clause: ClauseRecord, unknown: list[int], extent: WindowRange) -> ArchiveWork:
    """The tuples on disk that an invocation would evaluate."""
    search, sizes = Search(clause.factors), list[int]()
    for k in unknown:
        start, stop = _rows(view.chunks[k], extent)
        if start < stop and search.reads(view.chunks[k].data):
            sizes.append(stop - start)
    return ArchiveWork(search.kind, sum(sizes), len(sizes))


def _on_disk(work: ArchiveWork, archive_rows: int, budget: ReadBudget) -> dict[str, Any]:
    """The work on disk, as fields of SourceExplanation."""
    problem, seconds = work.problem(archive_rows, budget), work.expected(budget)
    return {
        "to_evaluate": work.tuples,
        "chunks_to_evaluate": work.chunks,
        "expected_seconds": seconds,
        "problem": problem,
        "counted": not problem and (seconds or 0.0) < _MOMENT_S,
    }


def _ends(window: WindowClause, view: StreamView, extent: WindowRange) -> tuple[str, str]:
    """Begin and end of the window now. For a window of rows: the times of its first and last tuple."""
    begin = "the oldest tuple kept" if extent.begin is None else time_text(extent.begin)
    end = "no tuple yet" if extent.end is None else time_text(extent.end)
    if window.by_rows and extent.end is not None:
        time_of = view.timeline().time_of
        empty = not view.left.between(extent.low, extent.high)
        if window.begin.rows is not None:
            begin = "no tuple" if empty else time_text(time_of(view.left.first_from(extent.low)))
        if window.end.rows is not None:
            end = "no tuple" if empty else time_text(time_of(view.left.last_to(extent.high - 1)))
    return begin, end
