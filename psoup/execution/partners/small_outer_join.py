"""The way that answers a LEFT JOIN of two small sides, with one kernel call for its pairs.

    two clauses, chunks ─ answer_located ─> pairs, as codes of tuples
                                             │ merge_missing: rows of the left without a partner
    the null row of the right ───────────────┴─> messages (`psoup.execution.join.small_join`)

It serves one equality of columns or one band, and a SELECT list of columns other than texts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from psoup.execution.join.located_side import Located
from psoup.execution.join.pair_form import SMALL, PairForm, pair_form
from psoup.execution.join.small_join import PairedRows, allows_call, found_pairs
from psoup.execution.partners.null_row import null_code, with_null_row
from psoup.execution.partners.numbered import numbered
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.record_batch import Message
from psoup.expressions.tree import AttributeRef
from psoup.kernels.join.outer_pairs import merge_missing
from psoup.kernels.join.small_pairs import CODE_SHIFT
from psoup.plan.nodes import JoinKind, Node, PartnerJoin, Project, Source
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array


@plan_fact
def outer_form(plan: Node) -> PairForm | None:
    """The facts about the inner join with the keys of a LEFT JOIN of two streams. None if the way does not serve it."""
    if not (isinstance(plan, Project) and isinstance(plan.input, PartnerJoin)):
        return None
    node = plan.input
    if node.kind is not JoinKind.LEFT or node.rest or len(plan.sources) != 2:
        return None
    if not (isinstance(node.left, Source) and isinstance(node.right, Source) and node.left.place == 0):
        return None
    if not all(isinstance(output.expr, AttributeRef) for output in plan.outputs):
        return None
    return pair_form(Project(numbered(node).join, plan.outputs))


def serves(plan: Node) -> bool:
    """Whether a plan is a LEFT JOIN by one equality or band, whose SELECT list has columns other than texts."""
    return outer_form(plan) is not None


def accepts(case: AnswerCase) -> bool:
    """Whether both sides are located and may be small, and the limits allow one call."""
    one, other = case.reading.matches
    return (
        isinstance(one, Located)
        and isinstance(other, Located)
        and max(one.known_size, other.known_size) <= SMALL
        and allows_call(case.reading.joins)
    )


def small_outer_join(case: AnswerCase) -> Iterator[Message]:
    """Find the rows, in order. Raises ResourceExhausted (JOIN_BUDGET).

    Raises TryNext if the rows or the pairs are too many for one call, or the budget has no room.
    """
    known = outer_form(case.plan)
    one, other = case.reading.matches
    assert known is not None and isinstance(one, Located) and isinstance(other, Located)
    left, right = found_pairs(known, one, other, case, ready_bytes=0).codes
    if not one.size:
        return iter(())
    rows = _codes(one)
    out = np.empty(len(rows) + len(left), np.int32), np.empty(len(rows) + len(left), np.int32)
    count = merge_missing(rows, left, right, null_code(other.chunks), *out)
    tables, most = (one.table, with_null_row(other.table)), case.most_rows
    parts = [(out[0][at : min(at + most, count)], out[1][at : min(at + most, count)]) for at in range(0, count, most)]
    return iter([PairedRows(known, (one, other), tables, part) for part in parts])


def _codes(side: Located) -> Array:
    """The codes of all tuples of a side, ascending: int32[size]."""
    stops = side.stops
    parts = np.repeat(np.arange(len(stops), dtype=np.int32) << np.int32(CODE_SHIFT), np.diff(stops, prepend=0))
    codes: Array = side.rows + parts
    return codes
