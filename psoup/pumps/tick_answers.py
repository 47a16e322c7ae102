"""The answer of a derivation at an instant, and the tuples that it reads.

    instant t ──> the window of each source at t, as a range of tuple IDs ──> rows of the SELECT, in order

No tuple after t is in the answer, and retention and HISTORY count from t. So the answer does not depend on the time at
which it is made. A table in system time beside streams in event time is an exception: all of its versions count that
have come by now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from psoup.answer.answer import Answer
from psoup.answer.invoke import answer_over, answer_seen
from psoup.data.versions import EVER
from psoup.data.windows import WindowRange, apply_window, as_of_window
from psoup.execution.select.window import Reach
from psoup.invariants import ensure
from psoup.joins.pairs_store import NO_PAIRS
from psoup.model import Anchor, Bound, Schema, StreamSpec
from psoup.plan.nodes import Limit, Node, Sort
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.form import Form
from psoup.results.chunk_results import ALL
from psoup.values.columns import Column
from psoup.values.from_arrow import columns_from_arrow
from psoup.work.read_budget import NO_LIMIT, ReadBudget

Mark = tuple[int, ...]
"""A summary of the tuples and versions that an answer depends on. Instants with equal marks have equal answers."""

_NO_QUERY = -1


class TickAnswer(NamedTuple):
    """The answer at an instant. `columns`: of the derived stream, apart from the instant. `rows`: their number.

    `read`: the tuples in the windows. `errors`, `unknown`: as in `psoup.pumps.rows.DerivedRows`.
    """

    mark: Mark
    columns: tuple[Column, ...]
    rows: int
    read: int = 0
    errors: int = 0
    unknown: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return sum(column.nbytes for column in self.columns)


NO_ANSWER = TickAnswer((), (), 0)
"""The answer before the first tick."""


def reaches_at(form: Form, views: Sequence[StreamView], at: int) -> list[Reach]:
    """For each source, the tuples in its window at the instant `at`. O(log tuples)."""
    return [_reach(form, place, view, at) for place, view in enumerate(views)]


def _reach(form: Form, place: int, view: StreamView, at: int) -> Reach:
    source, table, timeline = form.sources[place], view.spec.table, view.timeline()
    if table is not None:
        seen = view.as_of(at) if source.as_of is None else view.as_of(EVER, table.history_edge(at))
        high = view.next_id if form.is_timeless(place) else max(view.first_id, timeline.through(at))
        return Reach(seen, source.window, WindowRange(view.first_id, high, None, at, False), at, at)
    then, window = timeline._replace(next_id=max(view.first_id, timeline.through(at))), source.window
    if form.lates[place] > window.end.offset:  # a row that waits for the end of a band
        window = replace(window, end=Bound(Anchor.NOW, offset=form.lates[place]))
    extent = apply_window(as_of_window(window, at), then, view.spec.retention, at, at)
    return Reach(view, window, extent, at, at)


class Marks:
    """The marks of instants, for the present tuples of the sources. `at` is O(log tuples), the second time O(1)."""

    def __init__(self, form: Form, views: Sequence[StreamView]) -> None:
        self.form, self.views = form, views
        self._known = dict[int, Mark]()

    def at(self, instant: int) -> Mark:
        """The mark of an instant. A later instant has no smaller element."""
        mark = self._known.get(instant)
        if mark is None:
            mark = self._known[instant] = _mark_of(reaches_at(self.form, self.views, instant), instant)
        return mark


def _mark_of(reaches: Sequence[Reach], at: int) -> Mark:
    mark = list[int]()
    for reach in reaches:
        mark += reach.range[:2]
        if reach.view.spec.table is not None:  # which versions hold, and which have been lost
            timeline = reach.view.timeline()
            mark += [timeline.through(at), timeline.before(reach.view.lost_before)]
    return tuple(mark)


def first_time(form: Form, views: Sequence[StreamView]) -> int | None:
    """The time of the first tuple of the sources. None without one. Skips sources whose times say nothing."""
    times = [
        view.timeline().time_of(view.left.first_from(view.first_id))
        for place, view in enumerate(views)
        if not form.is_timeless(place) and view.left.between(view.first_id, view.next_id)
    ]
    return min(times, default=None)


def answer_at(
    marks: Marks, spec: StreamSpec, snapshot: Snapshot, tenant: str, at: int, budget: ReadBudget
) -> TickAnswer:
    """Evaluate the SELECT at the instant `at`. Raises the errors of an invocation. O(tuples in the windows).

    `spec`: the derived stream.
    """
    form, seen = marks.form, reaches_at(marks.form, marks.views, at)
    answer = _answer(form, snapshot, tenant, seen, at, budget)
    batches = list(answer.batches())
    table = pa.Table.from_batches(batches) if batches else answer.schema.empty_table()
    declared = Schema(spec.declared)
    ensure(
        table.num_columns == len(declared.attributes), "derivation", "the SELECT has other columns", stream=spec.name
    )
    ordered = _in_order(form.query.plan, table.rename_columns(list(declared.names)))
    columns = columns_from_arrow(declared, ordered, spec.name)
    errors, read = answer.errors + answer.select_errors, sum(reach.range.high - reach.range.low for reach in seen)
    return TickAnswer(marks.at(at), columns, ordered.num_rows, read, errors, answer.unknown)


def _answer(form: Form, snapshot: Snapshot, tenant: str, seen: Sequence[Reach], at: int, budget: ReadBudget) -> Answer:
    query, first = form.query, form.derived.sources[0].stream_id
    unlimited = replace(snapshot, config=replace(snapshot.config, archive_rows=NO_LIMIT), pairs=NO_PAIRS)
    sqc_id = NO_CLAUSE if query.sides else ALL
    record = QueryRecord(_NO_QUERY, tenant, first, sqc_id, at, snapshot.sequence, (query,))
    clauses = form.clauses()
    if not query.sides:
        return answer_over(unlimited, record, clauses[0], seen[0], budget)
    sides = [(reach.view, clause) for reach, clause in zip(seen, clauses, strict=True)]
    return answer_seen(unlimited, record, sides, seen, budget)


def _in_order(plan: Node, rows: pa.Table) -> pa.Table:
    """The rows in the order of ORDER BY, or else by their values, column by column. NULL comes last."""
    while isinstance(plan, Limit):
        plan = plan.input
    if isinstance(plan, Sort) or rows.num_rows < 2:
        return rows
    keys = [(name, "ascending") for name in rows.column_names]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))
