"""The rows of a join AS OF whose version is not certain. Answers count them as `unknown`.

    row of the left without a version
      its time lies before HISTORY         the version may be lost
      its key has no version (TIMESTAMP BY) the first version of the key may come late, below the watermark

A row with a NULL in its key meets no version for certain. The hash table of keys needs a value of the left for each
column of the key, in its type. For other joins a key counts as new if the join has no version of it.
"""

from __future__ import annotations

import numpy as np

from psoup.data.newest_versions import key_lanes
from psoup.data.versions import NOTHING_LOST
from psoup.execution.partners.evaluation import Evaluation
from psoup.execution.partners.join_inputs import JoinInput
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.tree import AttributeRef, Expr, sources_of
from psoup.plan.nodes import PartnerJoin, Source
from psoup.plan.partners import MISSING
from psoup.published.new_keys import are_new
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array


def is_certain(reading: Reading, left: Source, table: Source) -> bool:
    """Whether each row of a stream meets its version, or no version, for certain. O(1)."""
    if not reading.tables:
        return True
    streams, view = reading.tables[left.place].chunks, reading.tables[table.place]
    oldest = streams[0].data
    return not view.spec.event_time and (not len(oldest) or oldest.first_time >= view.lost_before)


def count_without_versions(evaluation: Evaluation, node: PartnerJoin, left: JoinInput) -> None:
    """Count the rows of the left if the table has no version that satisfies the conditions. O(rows)."""
    reading = evaluation.reading
    view, lost_before = _table(evaluation, node)
    if lost_before == NOTHING_LOST and view is None:
        return
    alive: Array = np.ones(left.rows, np.bool_)
    for _, value in _operands(node):
        column = left.values(value, reading, evaluation.room)
        alive &= True if column.valid is None else column.valid
    (time,) = (factor.left for factor in node.bands)
    unknown = alive & (left.values(time, reading, evaluation.room).values < lost_before)
    rest = np.flatnonzero(alive & ~unknown)
    new = np.zeros(0, np.bool_) if view is None else _new_keys(evaluation, node, left, rest, view)
    reading.unknown += int(unknown.sum()) + (len(rest) if new is None else int(new.sum()))


def count_missing(
    evaluation: Evaluation,
    node: PartnerJoin,
    left: JoinInput,
    rows: Array | None,
    times: Array,
    met: Array,
    keys: tuple[Array, Array],
) -> None:
    """Count the rows of the left without a version whose version is not certain. O(rows without a version).

    `rows`: the rows of the left that have a key; None for all. `times`, `met`: int64[n], int32[n], their times and
    versions. `keys`: int64[n] and int64[m], their keys and the keys of all versions of the join.
    """
    view, lost_before = _table(evaluation, node)
    if lost_before == NOTHING_LOST and view is None:
        return
    missing = np.flatnonzero(met == MISSING)
    lost = times[missing] < lost_before
    rest = missing[~lost]
    unknown = int(lost.sum())
    if view is not None and len(rest):
        new = _new_keys(evaluation, node, left, rest if rows is None else rows[rest], view)
        unknown += int((~np.isin(keys[0][rest], keys[1]) if new is None else new).sum())
    evaluation.reading.unknown += unknown


def _table(evaluation: Evaluation, node: PartnerJoin) -> tuple[StreamView | None, int]:
    """The view of a table in event time, else None. Also the end before which its versions count as lost."""
    reading, table = evaluation.reading, node.right
    assert isinstance(table, Source)
    lost_before = reading.lost_before[table.place] if reading.lost_before else NOTHING_LOST
    view = reading.tables[table.place] if reading.tables else None
    return None if view is None or not view.spec.event_time else view, lost_before


def _new_keys(
    evaluation: Evaluation, node: PartnerJoin, left: JoinInput, rows: Array, view: StreamView
) -> Array | None:
    """Whether the keys of some rows (int64[k]) of the left have no version: bool[k]. None if the join does not say.

    O(k).
    """
    table, values = view.spec.table, dict[int, Expr]()
    assert table is not None
    for column, value in _operands(node):
        if isinstance(column, AttributeRef) and column.type == value.type:
            values.setdefault(column.index, value)
    if view.watermark is None or not set(table.key) <= values.keys():
        return None
    some = left.some(rows)
    columns = [some.values(values[place], evaluation.reading, evaluation.room) for place in table.key]
    return are_new(view, key_lanes(columns), view.watermark)


def _operands(node: PartnerJoin) -> list[tuple[Expr, Expr]]:
    """For each key of the join, the operand over the table, and the operand over the left."""
    assert isinstance(node.right, Source)
    place = node.right.place
    pairs = [(factor.left, factor.right) for factor in node.keys]
    return [(first, second) if place in sources_of(first) else (second, first) for first, second in pairs]
