"""Facts about a plan with aggregates, and the way that shows its only row if SELECT has plain measures.

    SELECT count(*), sum(v)    Project ─> Aggregate ─> Source     one row: the measures at some places, in some order
    SELECT sum(v) / 2, GROUP BY, HAVING, LIMIT …                  the common way, `psoup.execution.plan`

A plan lives as long as its queries, and queries of one template share it. Facts about plans are stored by the plan's
identity. To hash its expressions would take as long as to fold the match bits of a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from psoup.aggregates.recipes import Recipe, recipe_of
from psoup.execution.aggregate.pane_facts import combines_panes
from psoup.execution.aggregate.window_ends import fits_ends, row_of
from psoup.execution.rows.answer_case import AnswerCase
from psoup.expressions.tree import AttributeRef
from psoup.plan.nodes import Aggregate, Hop, Node, Project, Source
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Column


class StreamAggregate(NamedTuple):
    """The Aggregate of a plan over one stream, and the recipe of its folds.

    `shown`: the places of the measures in the order of SELECT. None if the plan has GROUP BY, HAVING, LIMIT or
    expressions over measures.
    """

    node: Aggregate
    recipe: Recipe
    shown: tuple[int, ...] | None


def aggregate_of(plan: Node) -> Aggregate | None:
    """The Aggregate of a plan over one stream. None if the plan has a join or no aggregate.

    None also if the plan has a HOP whose rows cannot be folded by pane.
    """
    while not isinstance(plan, Aggregate):
        if isinstance(plan, Source) or len(plan.inputs) != 1:
            return None
        if isinstance(plan, Hop) and not combines_panes(plan):
            return None
        (plan,) = plan.inputs
    return plan if isinstance(plan.input, Source) else None


@plan_fact
def folding_of(plan: Node) -> StreamAggregate | None:
    """The Aggregate of a plan and the recipe of its folds. None if the plan has no Aggregate that can be folded."""
    node = aggregate_of(plan)
    recipe = None if node is None else recipe_of(node.measures, node.keys)
    return None if node is None or recipe is None else StreamAggregate(node, recipe, _shown(plan, node))


def serves(plan: Node) -> bool:
    """Whether the plan has one row, and SELECT has nothing but measures of it."""
    folding = folding_of(plan)
    return folding is not None and folding.shown is not None


def accepts(case: AnswerCase) -> bool:
    """Whether the window was read for an aggregate, and its matches lie in at most four chunks, all in memory."""
    between = case.reading.between
    return between is not None and fits_ends(between, case.reading.matches[0])


def single_row(case: AnswerCase) -> Iterator[list[Column]]:
    """Return the only row, as one part. O(matches at the ends)."""
    between, folding = case.reading.between, folding_of(case.plan)
    assert between is not None and folding is not None and folding.shown is not None
    case.reading.budget.check()
    row = row_of(between, case.reading.matches[0])
    return iter([[row[place] for place in folding.shown]])


def _shown(plan: Node, node: Aggregate) -> tuple[int, ...] | None:
    """Compute `StreamAggregate.shown` of a plan and its Aggregate."""
    if node.keys or not isinstance(plan, Project) or plan.input is not node:
        return None
    exprs = [output.expr for output in plan.schema]
    places = [expr.index for expr in exprs if isinstance(expr, AttributeRef)]
    return tuple(places) if len(places) == len(exprs) else None
