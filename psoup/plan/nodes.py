"""Plans: trees of frozen nodes that turn the tuples that satisfy WHERE into the answer.

    Limit 10                               the first ten
      Sort price DESC                      in another order
        Distinct                           the first of rows with equal columns
          Project sym, price               the columns of a row
            Source trades BEGIN … END …    the tuples of a stream in its window that satisfy WHERE

Queries of one form share a plan. All nodes pass rows as references to tuples. Only the last step gathers the columns.
So a Sort may use values that are in no column. A plan has no constant of WHERE. The `Selection` of a source has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.plan.above import Distinct, Limit, Project, Sort
from psoup.plan.aggregate import Aggregate, Having, Measure
from psoup.plan.inputs import Join, OrderKey, Output, PairFactor, Source, names_of

__all__ = [
    "Aggregate",
    "Distinct",
    "Having",
    "Join",
    "Limit",
    "Measure",
    "Node",
    "OrderKey",
    "Output",
    "PairFactor",
    "Project",
    "Sort",
    "Source",
    "names_of",
    "plan_text",
    "walk",
]

Node = Source | Join | Aggregate | Having | Project | Distinct | Sort | Limit


def plan_text(plan: Node) -> str:
    """The canonical text of a plan: plans over the same streams are equal if, and only if, their texts are."""
    inputs = ", ".join(map(plan_text, plan.inputs))
    return f"{plan.label} ({inputs})" if inputs else plan.label


def walk(plan: Node, depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Yield all nodes with their depth. Each node comes before its inputs."""
    yield depth, plan
    for node in plan.inputs:
        yield from walk(node, depth + 1)
