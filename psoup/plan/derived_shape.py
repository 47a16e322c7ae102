"""The shape of a plan that a derived stream may have: at most one operator with state, over inputs without state.

    Project n * 2         above: columns of the operator's rows
      Having n > 3        above
        Aggregate         the operator with state
          Join            an input: selections, inner joins, joins AS OF
            Source …

A row of an input is in its relation as long as all of its tuples are in their windows. So the times of its tuples say
when it enters and when it leaves (`psoup.pumps`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from psoup.plan.inputs import Source
from psoup.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Having,
    Join,
    JoinKind,
    Node,
    PartnerJoin,
    Project,
    Relation,
    SetOperation,
    SetOperator,
    walk,
)

Stateful = Distinct | SetOperation | PartnerJoin | Aggregate
"""A node whose result depends on earlier rows, apart from UNION ALL."""

_PARTNERS = (JoinKind.SEMI, JoinKind.ANTI, JoinKind.LEFT, JoinKind.NOT_IN)


class Shape(NamedTuple):
    """The operator with state of a plan, its inputs, and the nodes above it, the lowest first.

    `operator` is None for a plan without state. The plan itself is then the only input. A UNION has one input for each
    of its statements. The nodes above are Project, Filter and Having.
    """

    operator: Stateful | None
    inputs: tuple[Node, ...]
    above: tuple[Node, ...] = ()


def is_stateless(node: Node) -> bool:
    """Whether the rows of a node are combinations of tuples that enter and leave with their tuples. O(nodes)."""
    return all(_is_stateless(below) for _, below in walk(node))


def _is_stateless(node: Node) -> bool:
    return isinstance(node, Project | Filter | Source | Join) or (
        isinstance(node, PartnerJoin) and node.kind is JoinKind.AS_OF
    )


def shape_of(plan: Node) -> Shape | None:
    """The shape of a plan. None if it has two operators with state, or one that no pump can have. O(nodes)."""
    if is_stateless(plan):
        return Shape(None, (plan,))
    above, node = list[Node](), plan
    while isinstance(node, Project | Filter | Having) or (isinstance(node, Relation) and not node.single):
        if not isinstance(node, Relation):
            above.append(node)
        node = node.input
    inputs = _inputs(node)
    if not inputs or not all(map(is_stateless, inputs)):
        return None
    assert isinstance(node, Stateful)
    return Shape(node, inputs, tuple(reversed(above)))


def _inputs(node: Node) -> tuple[Node, ...]:
    """The inputs of an operator with state. () for other nodes."""
    match node:
        case Distinct() | Aggregate():
            return node.inputs
        case PartnerJoin():
            return node.inputs if is_admitted(node) else ()
        case SetOperation():
            return tuple(operands(node))
        case _:
            return ()


def is_admitted(node: PartnerJoin) -> bool:
    """Whether a pump can run a join. A NOT IN must have only equal keys of one type, because NULL counts in it."""
    if node.kind is JoinKind.NOT_IN:
        pairs = [(each.left, each.right) for each in node.keys] + ([] if node.member is None else [node.member])
        return not (node.bands or node.rest) and all(left.type == right.type for left, right in pairs)
    return node.kind in _PARTNERS


def operands(node: SetOperation) -> Iterator[Node]:
    """The statements of a set operation. A UNION within a UNION of the same kind is replaced by its statements."""
    for side in node.inputs:
        same = isinstance(side, SetOperation) and (side.operator, side.all) == (node.operator, node.all)
        if same and node.operator is SetOperator.UNION:
            assert isinstance(side, SetOperation)
            yield from operands(side)
        else:
            yield side


def stateful_nodes(plan: Node) -> Sequence[Stateful]:
    """The nodes of a plan that keep state, the outermost first."""
    return [node for _, node in walk(plan) if isinstance(node, Stateful) and not _is_stateless(node)]
