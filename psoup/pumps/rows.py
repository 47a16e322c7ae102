"""The rows of a step: they enter the answer after one instant, up to another.

    tuples up to `at`     ┌─────────┐      new rows: at least one of their tuples came after `after`
                          │    │ new│      their instant is the greatest time of their tuples
    tuples up to `after`  │────┘    │      a row counts only if each tuple was in its window at that instant
                          └─────────┘

An invocation has the same evaluators. They read only the tuples that are new, and those that new ones may meet.
Rows come in the order of their instants. Rows of one instant come in the order of their tuple IDs, source by source as
in FROM. So the rows of two steps are the rows of one step over both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from psoup.answer.answer import Answer
from psoup.answer.completeness import Completeness
from psoup.answer.copies.id_boxes import Box, steps
from psoup.execution.join.located_side import found_sides
from psoup.execution.plan import Reading
from psoup.execution.select.clause_matches import matches_in
from psoup.execution.select.match_forms import Matches
from psoup.model import TIMESTAMP, Schema, StreamSpec
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.form import Form
from psoup.values.columns import Array, Batch, Column
from psoup.values.from_arrow import columns_from_arrow
from psoup.work.read_budget import NO_LIMIT, ReadBudget


class Extent(NamedTuple):
    """The instants of a step: after `after`, up to `at`. `after` is None at the beginning.

    `base`, `target`: for each source the tuple IDs of old rows, and of all rows up to `at`.
    """

    after: int | None
    at: int
    base: Box
    target: Box

    @property
    def new(self) -> int:
        """The number of new tuples in all sources."""
        pairs = zip(self.base, self.target, strict=True)
        return sum(high - low for (_, low), (_, high) in pairs)


class DerivedRows(NamedTuple):
    """The rows of a step, as tuples of the derived stream.

    `errors`: values that are NULL, or conditions that are not satisfied, because they could not be computed.
    `unknown`: rows without a version of a table, which is older than its HISTORY.
    """

    batch: Batch
    errors: int
    unknown: int


def extent_of(form: Form, views: Sequence[StreamView], after: int | None, at: int) -> Extent:
    """The tuples that a step reads. Reads at most the times of two chunks of each source."""
    base, target = [], []
    for place, (view, width, source) in enumerate(zip(views, form.widths, form.sources, strict=True)):
        timeline, low = view.timeline(), view.first_id
        if form.is_timeless(place):
            base.append((low, view.next_id))
            target.append((low, view.next_id))
            continue
        end = low if after is None else max(low, timeline.through(after))
        if len(views) == 1:
            low = end
        elif source.as_of is None and width is not None and after is not None:
            low = min(end, max(low, timeline.before(after - width)))
        base.append((low, end))
        target.append((low, max(end, timeline.through(at))))
    return Extent(after, at, tuple(base), tuple(target))


def rows_of_step(
    form: Form, spec: StreamSpec, snapshot: Snapshot, tenant: str, extent: Extent, budget: ReadBudget
) -> DerivedRows:
    """Make the rows of a step. `spec`: the derived stream. Raises the errors of an invocation.

    O(new tuples, and the tuples that they may meet).
    """
    views, parts = form.views(snapshot), list[pa.RecordBatch]()
    errors = unknown = 0
    for answer in _answers(form, views, snapshot, tenant, extent, budget):
        parts += [batch for batch in answer.batches() if batch.num_rows]
        errors += answer.errors + answer.select_errors
        unknown += answer.unknown
    sources = len(views)
    if not parts:
        return DerivedRows(_batch(spec, pa.table({}), np.zeros(0, np.int64)), errors, unknown)
    rows = pa.Table.from_batches(parts)
    ids, times = _integers(rows, 0, sources), _integers(rows, sources, 2 * sources)
    instants = np.maximum.reduce([each for place, each in enumerate(times) if not form.is_timeless(place)])
    stays = np.ones(len(instants), np.bool_)
    for width, each in zip(form.widths, times, strict=True):
        if width is not None and sources > 1:
            stays &= instants - each <= width
    order = np.lexsort([*reversed(ids), instants])
    order = order[stays[order]]
    shown = rows.select(range(2 * sources, rows.num_columns)).take(pa.array(order))
    return DerivedRows(_batch(spec, shown, instants[order]), errors, unknown)


def _answers(
    form: Form, views: Sequence[StreamView], snapshot: Snapshot, tenant: str, extent: Extent, budget: ReadBudget
) -> Iterator[Answer]:
    """The new rows, piece by piece."""
    clauses, config = form.clauses(), snapshot.config
    for step, box in steps(extent.target, extent.base):
        if _meets_nothing(views, step // 2, form):
            continue
        if len(views) == 1:
            (view,), (clause,), ((low, high),) = views, clauses, box
            matches: list[Sequence[Matches]] = [
                matches_in(view, clause, low, high, snapshot.run, NO_LIMIT, budget, config.texts)
            ]
        else:
            wanted = [(view, clause, *ends) for view, clause, ends in zip(views, clauses, box, strict=True)]
            matches = [*found_sides(wanted, snapshot.run, NO_LIMIT, budget, config.texts)]
        yield _answer(form, views, snapshot, tenant, extent, budget, matches, box)


def _answer(
    form: Form,
    views: Sequence[StreamView],
    snapshot: Snapshot,
    tenant: str,
    extent: Extent,
    budget: ReadBudget,
    matches: Sequence[Sequence[Matches]],
    box: Box,
) -> Answer:
    config = snapshot.config
    limits = config.sort_rows, config.joins, snapshot.groups_of(tenant), snapshot.run, views[0].keys
    reading = Reading(matches, extent.at, config.texts, budget, *limits)
    reading.tables = views
    reading.lost_before = [_lost_before(view, extent) for view in views]
    completeness = Completeness(snapshot.sequence, extent.at, 0, ())
    streams = [view.stream_id for view in views]
    return Answer(form.record(snapshot, tenant, extent.at), completeness, reading, streams, box, form.plan)


def _lost_before(view: StreamView, extent: Extent) -> int:
    """The end before which versions of a table may be lost."""
    table = view.spec.table
    if table is None:
        return view.lost_before
    return table.history_edge(extent.at if extent.after is None else extent.after)


def _meets_nothing(views: Sequence[StreamView], source: int, form: Form) -> bool:
    """Whether new tuples of a source meet no old ones: each later version of a table holds from its time.

    A first version that holds from the beginning may meet old tuples.
    """
    table = views[source].spec.table
    return table is not None and form.sources[source].as_of is not None and table.first_from_arrival


def _integers(rows: pa.Table, first: int, stop: int) -> list[Array]:
    """Columns of IDs or times as int64[rows] each."""
    return [rows.column(at).combine_chunks().cast(pa.int64()).to_numpy() for at in range(first, stop)]


def _batch(spec: StreamSpec, shown: pa.Table, instants: Array) -> Batch:
    """The tuples of the derived stream from the columns of the SELECT."""
    declared = Schema(spec.declared)
    named = shown.rename_columns(list(declared.names)) if shown.num_columns else shown
    columns = columns_from_arrow(declared, named, spec.name)
    return Batch((*columns, Column(TIMESTAMP, instants)), instants)
