"""The rows of an input of an operator with state as spans: from the instant at which a row enters to its last one.

    row of a join    times 10 and 14, windows of 8 and 20     start = 14, the greatest time; end = 18, the least end
    END (NOW - 3)    time 10, window of 8                     start = 13; end = 18

    EVERY 5          start = 14, end = 18                 start = 15, end = 19: it leaves at the tick 20

A row whose tuples are never in their windows at one time has no span. A row that leaves before the next tick has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.delta import FOREVER, Spans
from psoup.execution.plan import rows_of
from psoup.model import Kind, StreamSpec
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.extents import Extent
from psoup.pumps.form import Form
from psoup.pumps.part import Part, id_output
from psoup.pumps.rows import most_bytes, readings, too_large
from psoup.values.columns import Array, Column, concat_columns
from psoup.work.read_budget import ReadBudget

_ROWS = 65_536
"""The most rows of a piece."""


class PartRows(NamedTuple):
    """The spans of a part in a step. `errors`, `unknown`: as in `psoup.pumps.rows.DerivedRows`."""

    spans: Spans
    errors: int
    unknown: int


def spans_of(
    form: Form,
    part: Part,
    spec: StreamSpec,
    views: Sequence[StreamView],
    snapshot: Snapshot,
    tenant: str,
    extent: Extent,
    budget: ReadBudget,
) -> PartRows:
    """The rows of a part that enter in a step, in order of instant and tuple IDs. `spec`: the derived stream.

    Raises the errors of an invocation. Raises ResourceExhausted, reason STEP_BYTES, as
    `psoup.pumps.rows.rows_of_step`. O(new tuples, and the tuples that they may meet).
    """
    id_columns = [id_output(place).expr for place in part.places] if len(part.places) > 1 else []
    outputs = [*id_columns, *[output.expr for output in part.plan.outputs]]
    pieces, errors, unknown, size = list[list[Column]](), 0, 0, 0
    limit = most_bytes(form, part.places, views, extent, snapshot.config)
    for reading in readings(form, part.places, views, snapshot, tenant, extent, budget):
        for columns in rows_of(part.plan, reading).columns(outputs, _ROWS):
            reading.count(columns)
            size += sum([column.nbytes for column in columns])
            if size > limit:
                raise too_large(spec, extent, limit)
            pieces.append(columns)
        errors, unknown = errors + reading.errors + reading.join_errors, unknown + reading.unknown
    if not pieces:
        return PartRows(Spans.empty(part.types), errors, unknown)
    whole = [concat_columns(group) for group in zip(*pieces, strict=True)]
    ids, whole = [column.values for column in whole[: len(id_columns)]], whole[len(id_columns) :]
    count = len(part.places)
    start, end = _ends(form, part.places, [column.values for column in whole[:count]])
    spans = Spans(tuple(map(_plain, whole[count:])), start, end)
    lives = start <= end
    order = np.lexsort([*reversed(ids), start]) if len(ids) > 1 else np.argsort(start, kind="stable")
    return PartRows(spans.take(order if lives.all() else order[lives[order]]), errors, unknown)


def _ends(form: Form, places: Sequence[int], times: Sequence[Array]) -> tuple[Array, Array]:
    """The first and the last instant of rows, int64[n] each. `times`: the times of their tuples, source by source."""
    end: Array = np.full(len(times[0]), FOREVER)
    starts = list[Array]()
    for place, each in zip(places, times, strict=True):
        width = form.widths[place]
        if not form.is_timeless(place):
            starts.append(each + form.lates[place])
        if width is not None:
            np.minimum(end, each + width, out=end)
    start = np.maximum.reduce(starts)
    return (start, end) if form.derived.every is None else _at_ticks(start, end, form.derived.every)


def _at_ticks(start: Array, end: Array, every: int) -> tuple[Array, Array]:
    """Round spans to ticks, the multiples of `every`. Returns starts and ends, int64[n] each.

    A row starts at the first tick from `start` on, and ends just before the first tick after `end`. A row that is in
    the answer at no tick starts after its end.
    """
    until = np.where(end == FOREVER, FOREVER, (np.minimum(end, FOREVER - every) // every + 1) * every - 1)
    return -(-start // every) * every, until


def _plain(column: Column) -> Column:
    """The column with one form of equal numbers: 0.0 for -0.0. So rows do not depend on which of them came first."""
    if column.type.kind is not Kind.DOUBLE:
        return column
    return Column(column.type, column.values + 0.0, column.valid, None, column.error)
