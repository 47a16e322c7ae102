"""The way that answers a LEFT JOIN of two small sides in one kernel call, as `psoup.execution.join.small_join`.

    two clauses, chunks ─ answer_outer ─> where the matches lie ─> pairs, and rows without a partner ─> the bytes

It serves one equality of columns or one band, and a SELECT list of columns other than texts.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.execution.join.located_side import Located
from psoup.execution.join.pair_form import SMALL, PairForm, pair_form
from psoup.execution.join.small_join import allows_call, one_call
from psoup.execution.partners.input_numbers import numbered
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.record_batch import Message
from psoup.expressions.tree import AttributeRef
from psoup.plan.nodes import JoinKind, Node, PartnerJoin, Project, Source
from psoup.plan.plan_facts import plan_fact


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
    left, right = case.reading.matches
    return (
        isinstance(left, Located)
        and isinstance(right, Located)
        and max(left.known_size, right.known_size) <= SMALL
        and allows_call(case.reading.joins)
    )


def small_outer_join(case: AnswerCase) -> Iterator[Message]:
    """Find the rows, in order. Raises ResourceExhausted (JOIN_BUDGET).

    Raises TryNext if the rows or the pairs are too many for one call, or the budget has no room.
    """
    return one_call(case, outer_form(case.plan), outer=True)
