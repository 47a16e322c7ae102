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
from psoup.plan.hop import Hop
from psoup.plan.inputs import Join, OrderKey, Output, PairFactor, Source, names_of
from psoup.plan.last_rows import LastRows, partitioned, windowed
from psoup.plan.over import Over, WindowFunction
from psoup.plan.partners import MISSING, JoinKind, PartnerJoin
from psoup.plan.relations import Filter, Relation, SetOperation, SetOperator, Values

__all__ = [
    "MISSING",
    "Aggregate",
    "Distinct",
    "Filter",
    "Having",
    "Hop",
    "Join",
    "JoinKind",
    "LastRows",
    "Leaf",
    "Limit",
    "Measure",
    "Node",
    "OrderKey",
    "Output",
    "Over",
    "PairFactor",
    "PartnerJoin",
    "Project",
    "Relation",
    "SetOperation",
    "SetOperator",
    "Sort",
    "Source",
    "Values",
    "WindowFunction",
    "as_leaf",
    "names_of",
    "partitioned",
    "plan_text",
    "walk",
    "windowed",
]

Node = (
    Source
    | LastRows
    | Join
    | PartnerJoin
    | Relation
    | SetOperation
    | Values
    | Filter
    | Over
    | Aggregate
    | Hop
    | Having
    | Project
    | Distinct
    | Sort
    | Limit
)

Leaf = Source | Relation
"""A leaf whose columns expressions can read, by its place."""


def as_leaf(node: Node) -> Leaf | None:
    """The leaf whose rows a node gives, perhaps only those in a partitioned window. None for other nodes."""
    node = node.input if isinstance(node, LastRows) else node
    return node if isinstance(node, Source | Relation) else None


def plan_text(plan: Node) -> str:
    """The canonical text of a plan: plans over the same streams are equal if, and only if, their texts are."""
    inputs = ", ".join(map(plan_text, plan.inputs))
    return f"{plan.label} ({inputs})" if inputs else plan.label


def walk(plan: Node, depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Yield all nodes with their depth. Each node comes before its inputs."""
    yield depth, plan
    for node in plan.inputs:
        yield from walk(node, depth + 1)
