"""NOT IN with its rules for NULL. Each row of the left has its own set: the rows of the right that satisfy all
other conditions with it.

    x NOT IN set     the row remains    if the set is empty
                     the row is removed if x is in the set
                                        if the set has a NULL
                                        if x is NULL and the set is not empty
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from psoup.execution.partners.evaluation import Evaluation
from psoup.execution.partners.existence import partnered
from psoup.execution.partners.input_numbers import numbered, reads_both
from psoup.execution.partners.join_inputs import JoinInput
from psoup.execution.partners.partner_rows import positions_of
from psoup.expressions.conversion import comparable
from psoup.expressions.tree import Call
from psoup.model import BOOLEAN
from psoup.plan.nodes import PairFactor, PartnerJoin
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array, Column


def not_in_rows(
    evaluation: Evaluation, node: PartnerJoin, left: JoinInput, right: JoinInput
) -> Iterator[tuple[Array, ...]]:
    """Yield the rows of the left that remain, in pieces. O(rows + pairs by the other conditions that are NULL)."""
    assert node.member is not None
    reading, room = evaluation.reading, evaluation.room
    if not right.rows or not left.rows:
        return ((rows,) for rows in positions_of(np.ones(left.rows, np.bool_)))
    value, column = node.member
    left_nulls = _nulls(left.values(value, reading, room))
    right_nulls = _nulls(right.values(column, reading, room))
    if len(right_nulls) and not (node.keys or node.bands or node.rest):
        return iter(())
    whole = with_member(node)
    removed = partnered(evaluation, whole, left, right)
    for rows_of_left, other in ((None, right_nulls), (left_nulls, None)):
        if rows_of_left is None or len(rows_of_left):
            removed |= _related(evaluation, node, left, right, rows_of_left, other)
    return ((rows,) for rows in positions_of(~removed))


def _related(
    evaluation: Evaluation,
    node: PartnerJoin,
    left: JoinInput,
    right: JoinInput,
    left_rows: Array | None,
    right_rows: Array | None,
) -> Array:
    """Whether each row of the left is one of `left_rows`, and one of `right_rows` is in its set. None: all rows."""
    related: Array = np.zeros(left.rows, np.bool_)
    if right_rows is not None and not len(right_rows):
        return related
    some = left if left_rows is None else left.some(left_rows)
    set_rows = right if right_rows is None else right.some(right_rows)
    flags = partnered(evaluation, node, some, set_rows, numbered(node, True))
    related[slice(None) if left_rows is None else left_rows] = flags
    return related


def _nulls(column: Column) -> Array:
    """The rows in which a column is NULL."""
    return np.zeros(0, np.int64) if column.valid is None else np.flatnonzero(~column.valid)


@plan_fact
def with_member(node: PartnerJoin) -> PartnerJoin:
    """The join whose partners have equal operands of NOT IN, beside all other conditions."""
    assert node.member is not None
    value, column = node.member
    if reads_both(value, column, node.inputs):
        return replace(node, keys=(*node.keys, PairFactor("eq", value, column)))
    return replace(node, rest=(*node.rest, Call(BOOLEAN, "eq", comparable(value, column))))
