"""Plans: what an answer makes of the tuples that satisfy WHERE, as a tree of frozen nodes that queries of a form share.

    Limit 10                               the first ten
      Sort price DESC                      in another order
        Distinct                           the first of those that show the same
          Project sym, price               what a row shows
            Source trades BEGIN … END …    the tuples of a stream that are in its window and satisfy WHERE

Rows are references to tuples all the way up, and columns are gathered last; so a Sort may order by what no row shows.
No constant of WHERE is in a plan: what a query selects of a source is beside it, in its `Selection`.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.plan.above import Distinct, Limit, Project, Sort
from psoup.plan.grouped import Aggregate, Having, Measure
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
    """All nodes with their depth, each before its inputs."""
    yield depth, plan
    for node in plan.inputs:
        yield from walk(node, depth + 1)
