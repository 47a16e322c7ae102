"""Plans whose answer is the matches of one range of tuple IDs: their copies need only the new rows.

    Project ─> Source              the matches in stream order
    Sort ─> Project ─> Source      the same rows with their sort keys, and the client sorts
    Limit ─> Project ─> Source     the first of them, not of a table

The form follows from the plan alone, without a window or a tuple.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, reads_now
from psoup.model import BIGINT, ID_COLUMN, TIME_COLUMN, TIMESTAMP
from psoup.plan.nodes import Limit, Node, OrderKey, Output, Project, Sort, Source
from psoup.plan.plan_facts import plan_fact

_NUMBERED = (
    Output(ID_COLUMN, AttributeRef(BIGINT, ID_INDEX, ID_COLUMN)),
    Output(TIME_COLUMN, AttributeRef(TIMESTAMP, TIME_INDEX, TIME_COLUMN)),
)


@dataclass(frozen=True, slots=True)
class Ranged:
    """A query whose answer is the matches of one range of tuple IDs. `limit`: the answer has only the first matches, at
    most this number; None for all.

    `plan` shows `_id`, `_time`, the columns of the query, and the keys of `order` (ORDER BY), one after the other.
    `attributes`: the attribute of the stream that each of these columns shows; None if one of them is computed.
    """

    plan: Project
    order: tuple[OrderKey, ...]
    limit: int | None
    attributes: tuple[int, ...] | None


@plan_fact
def ranged(plan: Node) -> Ranged | None:
    """The form in which the rows of a plan travel. Returns None unless the answer is the matches of one range of tuple
    IDs.
    """
    limit, order, node = None, tuple[OrderKey, ...](), plan
    if isinstance(node, Limit):
        if node.skip or node.rows is None:
            return None
        limit, node = node.rows, node.input
    if isinstance(node, Sort):
        if limit is not None:
            return None
        order, node = node.keys, node.input
    if not isinstance(node, Project) or not isinstance(node.input, Source):
        return None
    if limit is not None and node.input.spec.table is not None:
        return None  # rows enter at any place, as versions end
    if any(reads_now(expr) for expr in [*[o.expr for o in node.outputs], *[key.expr for key in order]]):
        return None
    hidden = [Output(f"_key{place}", key.expr) for place, key in enumerate(order)]
    shown = (*_NUMBERED, *node.outputs, *hidden)
    attributes = tuple([output.expr.index for output in shown if isinstance(output.expr, AttributeRef)])
    return Ranged(Project(node.input, shown), order, limit, attributes if len(attributes) == len(shown) else None)
