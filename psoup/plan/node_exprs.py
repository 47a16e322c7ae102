"""The expressions of plan nodes, and whether a plan reads NOW outside of its windows."""

from __future__ import annotations

from collections.abc import Iterator

from psoup.expressions.tree import Expr, reads_now
from psoup.plan.nodes import Aggregate, Filter, Having, Join, LastRows, Node, Over, PartnerJoin, Project, Sort, walk
from psoup.plan.plan_facts import plan_fact


@plan_fact
def plan_reads_now(plan: Node) -> bool:
    """Whether an expression of the plan reads NOW, so that rows may change as NOW advances. O(size of the plan)."""
    return any(reads_now(expr) for _, node in walk(plan) for expr in exprs_of(node))


def exprs_of(node: Node) -> Iterator[Expr]:
    """Yield the expressions of a node alone, without its inputs."""
    match node:
        case Join() | PartnerJoin():
            for factor in (*node.keys, *node.bands):
                yield from (factor.left, factor.right)
            yield from node.rest
            if isinstance(node, PartnerJoin):
                yield from node.member or ()
        case LastRows():
            yield from () if node.input.partition is None else node.input.partition.keys
        case Filter() | Having():
            yield node.condition
        case Project():
            yield from (output.expr for output in node.outputs)
        case Sort():
            yield from (key.expr for key in node.keys)
        case Over():
            yield from _of_over(node)
        case Aggregate():
            yield from node.keys
            for measure in node.measures:
                yield from measure.args
                yield from () if measure.condition is None else (measure.condition,)
        case _:
            return


def _of_over(node: Over) -> Iterator[Expr]:
    for function in node.functions:
        yield from function.read
