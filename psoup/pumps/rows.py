"""The rows of a step: they enter the answer after one instant, up to another.

    tuples up to `at`     ┌─────────┐      new rows: at least one of their tuples came after `after`
                          │    │ new│      their instant is the greatest time of their tuples
    tuples up to `after`  │────┘    │      a row counts only if each tuple was in its window at that instant
                          └─────────┘

The evaluators are the ones of an invocation. They read only new tuples, and the tuples that new ones may meet.
Rows come in the order of their instants. Rows of one instant come in the order of their tuple IDs, source by source as
in FROM. So the rows of two steps are the rows of one step over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from psoup.answer.answer import Answer
from psoup.answer.completeness import Completeness
from psoup.answer.copies.id_boxes import steps
from psoup.config import EngineConfig
from psoup.data.versions import begins_of
from psoup.errors import ResourceExhausted
from psoup.execution.join.located_side import found_sides
from psoup.execution.plan import Reading
from psoup.execution.select.clause_matches import matches_in
from psoup.execution.select.many_matches import parts_of
from psoup.execution.select.match_forms import Matches
from psoup.model import TIMESTAMP, Schema, StreamSpec, time_text
from psoup.phrases import counted
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.extents import Extent
from psoup.pumps.form import Form
from psoup.values.columns import Array, Batch, Column
from psoup.values.from_arrow import columns_from_arrow
from psoup.work.read_budget import NO_LIMIT, ReadBudget

STEP_BYTES = "STEP_BYTES"
"""The reason of the error if joined rows of a step take too many bytes: the step needs fewer tuples."""
_STEP_BYTES = 64 * 2**20
"""The most bytes of a join's rows in a step, unless it has one instant. They include tuple IDs and times."""


class DerivedRows(NamedTuple):
    """The rows of a step, as tuples of the derived stream.

    `errors`: values that are NULL, or conditions that are not satisfied, because they could not be computed.
    `unknown`: rows that lack a version of a table, because it is older than HISTORY.
    """

    batch: Batch
    errors: int
    unknown: int


def rows_of_step(
    form: Form, spec: StreamSpec, snapshot: Snapshot, tenant: str, extent: Extent, budget: ReadBudget
) -> DerivedRows:
    """Make the rows of a step. `spec`: the derived stream. Raises the errors of an invocation.

    Raises ResourceExhausted, reason STEP_BYTES, once the rows of a join of streams take too many bytes: then the step
    needs fewer tuples. O(new tuples, and the tuples that they may meet).
    """
    views, parts = form.views(snapshot), list[pa.RecordBatch]()
    errors, unknown, size = 0, 0, 0
    limit = most_bytes(form, range(len(views)), views, extent, snapshot.config)
    for answer in _answers(form, views, snapshot, tenant, extent, budget):
        for batch in answer.batches():
            size += batch.nbytes
            if size > limit:
                raise too_large(spec, extent, limit)
            if batch.num_rows:
                parts.append(batch)
        errors += answer.errors + answer.select_errors
        unknown += answer.unknown
    sources = len(views)
    if not parts:
        return DerivedRows(no_rows(spec), errors, unknown)
    rows = pa.Table.from_batches(parts)
    ids, times = _integers(rows, 0, sources), _integers(rows, sources, 2 * sources)
    starts = [each + form.lates[place] for place, each in enumerate(times) if not form.is_timeless(place)]
    instants = np.maximum.reduce(starts)
    stays = np.ones(len(instants), np.bool_)
    for width, each in zip(form.widths, times, strict=True):
        if width is not None and (sources > 1 or form.lates[0]):
            stays &= instants - each <= width
    shown = rows.select(range(2 * sources, rows.num_columns))
    if not (stays.all() and _are_in_order(ids, instants)):
        order = np.lexsort([*reversed(ids), instants])
        order = order[stays[order]]
        shown, instants = shown.take(pa.array(order)), instants[order]
    return DerivedRows(_batch(spec, shown, instants), errors, unknown)


def _are_in_order(ids: Sequence[Array], instants: Array) -> bool:
    """Whether rows are certainly in order: no instant falls, and each row has a later tuple of the first source."""
    first = ids[0]
    return bool((instants[1:] >= instants[:-1]).all()) and bool((first[1:] > first[:-1]).all())


def most_bytes(
    form: Form, places: Iterable[int], views: Sequence[StreamView], extent: Extent, config: EngineConfig
) -> int:
    """The most bytes of the rows of a step, with their tuple IDs and times. One instant may have as many as an answer.

    `places`: the sources that are joined, by their places in FROM.

    There is no limit for a selection, and for a join of a stream with tables: each tuple has one row at most.
    """
    streams = [place for place in places if form.sources[place].as_of is None]
    if len(streams) < 2:
        return NO_LIMIT
    new = [(views[place].timeline(), extent.base[place][1], extent.target[place][1]) for place in streams]
    times = {timeline.time_of(at) for timeline, low, high in new if low < high for at in (low, high - 1)}
    return config.answer_bytes if len(times) < 2 else min(_STEP_BYTES, config.answer_bytes)


def too_large(spec: StreamSpec, extent: Extent, limit: int) -> ResourceExhausted:
    """The error of a step whose rows have more than `limit` bytes. `spec`: the derived stream."""
    return ResourceExhausted(
        f"the rows of stream {spec.name!r} from {counted(extent.new, 'new tuple')} up to {time_text(extent.at)} have"
        f" more than {limit:,} bytes: give the SELECT more conditions, or shorter windows",
        reason=STEP_BYTES,
        stream=spec.name,
        limit=limit,
    )


def _answers(
    form: Form, views: Sequence[StreamView], snapshot: Snapshot, tenant: str, extent: Extent, budget: ReadBudget
) -> Iterator[Answer]:
    """The new rows of a query without state, piece by piece."""
    completeness = Completeness(snapshot.sequence, extent.at, 0, ())
    streams = [view.stream_id for view in views]
    for reading in readings(form, range(len(views)), views, snapshot, tenant, extent, budget):
        record = form.record(snapshot, tenant, extent.at)
        yield Answer(record, completeness, reading, streams, extent.target, form.plan)


def readings(
    form: Form,
    places: Sequence[int],
    views: Sequence[StreamView],
    snapshot: Snapshot,
    tenant: str,
    extent: Extent,
    budget: ReadBudget,
) -> Iterator[Reading]:
    """Yield the tuples of new rows over the sources at some places, in pieces. Each row is in one piece."""
    clauses, config = form.clauses(), snapshot.config
    target, base = [tuple([box[place] for place in places]) for box in (extent.target, extent.base)]
    for step, box in steps(target, base):
        if len(places) > 1 and _meets_nothing(views, places[step // 2], box[step // 2], form):
            continue
        matches: list[Sequence[Matches]] = [()] * len(views)
        wanted = [(views[place], clauses[place], *ends) for place, ends in zip(places, box, strict=True)]
        if len(places) == 1:
            (side,) = wanted
            matches[places[0]] = matches_in(*side, snapshot.run, NO_LIMIT, budget, config.texts)
        else:
            sides = found_sides(wanted, snapshot.run, NO_LIMIT, budget, config.texts)
            for place, side_matches in zip(places, sides, strict=True):
                matches[place] = side_matches
        limits = config.sort_rows, config.joins, snapshot.groups_of(tenant), snapshot.run, views[0].keys
        reading = Reading(matches, extent.at, config.texts, budget, *limits)
        reading.tables = views
        reading.lost_before = [_lost_before(view, extent) for view in views]
        yield reading


def _lost_before(view: StreamView, extent: Extent) -> int:
    """The instant such that versions that ended before it may have been dropped."""
    table = view.spec.table
    if table is None:
        return view.lost_before
    return table.history_edge(extent.at if extent.after is None else extent.after)


def _meets_nothing(views: Sequence[StreamView], source: int, new: tuple[int, int], form: Form) -> bool:
    """Whether new tuples of a source meet no old ones: all are versions that hold only from their arrival on.

    `new`: the tuple IDs of the new versions. A first version may meet old tuples: it holds from the beginning, or its
    own time is below the watermark at which it came. O(new versions).
    """
    view = views[source]
    table = view.spec.table
    if table is None or form.sources[source].as_of is None:
        return False
    for entry, start, stop in parts_of(view, *new):
        rows = np.arange(start, stop)
        if bool((begins_of(entry.data, table, rows) < entry.data.times[start:stop]).any()):
            return False
    return True


def _integers(rows: pa.Table, first: int, stop: int) -> list[Array]:
    """Columns of IDs or times as int64[rows] each."""
    return [rows.column(at).combine_chunks().cast(pa.int64()).to_numpy() for at in range(first, stop)]


def no_rows(spec: StreamSpec) -> Batch:
    """No tuple of the derived stream."""
    return _batch(spec, pa.table({}), np.zeros(0, np.int64))


def _batch(spec: StreamSpec, shown: pa.Table, instants: Array) -> Batch:
    """The tuples of the derived stream from the columns of the SELECT."""
    declared = Schema(spec.declared)
    named = shown.rename_columns(list(declared.names)) if shown.num_columns else shown
    columns = columns_from_arrow(declared, named, spec.name)
    return Batch((*columns, Column(TIMESTAMP, instants)), instants)
