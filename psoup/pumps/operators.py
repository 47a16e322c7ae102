"""Bindings: an operator with state, the plans of its inputs, and the nodes of the query above it.

    Distinct                     part 0   Project _time0, k, w   the times of the tuples, then the operator's columns
      Project k, w               make     psoup.delta.Distinct
        Source r                 above    nothing

The rows of a part become spans (`psoup.pumps.spans`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from psoup.delta import Distinct as DistinctValues
from psoup.delta import GroupMeasure, Groups, Operator, SetCounts, SetKind
from psoup.expressions.tree import Expr
from psoup.invariants import corrupt
from psoup.plan.derived_shape import Shape
from psoup.plan.nodes import Aggregate, Distinct, Filter, Node, Output, PartnerJoin, Project, SetOperation, SetOperator
from psoup.pumps.part import Part, id_output, part_of
from psoup.pumps.partner_parts import partner_parts
from psoup.pumps.plain_rows import PlainRows

_KINDS: Mapping[tuple[SetOperator, bool], SetKind] = {
    (SetOperator.EXCEPT, False): "except",
    (SetOperator.EXCEPT, True): "except all",
    (SetOperator.INTERSECT, False): "intersect",
    (SetOperator.INTERSECT, True): "intersect all",
}


class Binding(NamedTuple):
    """The operator with state of a query. `make`: makes a new operator without rows.

    `above`: the nodes above the operator, the lowest first. They read its columns by their positions. `settles`:
    whether the first column identifies a row, and rows only enter (`psoup.plan.derived_stays`). `forgets`: whether the
    operator does not keep rows that never leave.
    """

    parts: tuple[Part, ...]
    make: Callable[[], Operator]
    above: tuple[Node, ...] = ()
    settles: bool = False
    forgets: bool = False


def binding_of(shape: Shape, settles: int | None = None) -> Binding:
    """The binding of a plan. The rows of a plan without an operator with state are taken as they are.

    `settles`: as in `psoup.plan.derived_stays.Stays`.
    """
    match shape.operator:
        case Distinct() | SetOperation(operator=SetOperator.UNION, all=False):
            parts = _projected(shape.inputs)
            return Binding(parts, partial(DistinctValues, parts[0].types), shape.above)
        case None | SetOperation(operator=SetOperator.UNION):
            parts = _projected(shape.inputs)
            return Binding(parts, partial(PlainRows, parts[0].types), shape.above, forgets=True)
        case SetOperation():
            parts, kind = _projected(shape.inputs), _KINDS[shape.operator.operator, shape.operator.all]
            return Binding(parts, partial(SetCounts, parts[0].types, kind), shape.above)
        case Aggregate():
            return _of_groups(shape.operator, shape.above)
        case PartnerJoin():
            return _of_partners(shape.operator, shape.above, settles)
        case _:
            raise corrupt("derivation", "its plan has an operator that no pump has", shape=shape)


def _projected(inputs: Iterable[Node]) -> tuple[Part, ...]:
    """The parts with the columns of SELECTs."""
    return tuple([part_of(node.input, node.outputs) for node in inputs if isinstance(node, Project)])


def _of_groups(node: Aggregate, above: tuple[Node, ...]) -> Binding:
    """The binding of groups: the keys, then the arguments and the FILTER of each measure."""
    columns, measures = [*node.keys], list[GroupMeasure]()
    for each in node.measures:
        args = tuple(range(len(columns), len(columns) + len(each.args)))
        columns += each.args
        measures.append(GroupMeasure(each, args, None if each.condition is None else len(columns)))
        columns += [] if each.condition is None else [each.condition]
    part = part_of(node.input, [Output(f"_{at}", column) for at, column in enumerate(columns)])
    make = partial(Groups, part.types, range(len(node.keys)), measures, buffer=part.buffer)
    return Binding((part,), make, above)


def _of_partners(node: PartnerJoin, above: tuple[Node, ...], settles: int | None) -> Binding:
    """The binding of a partner join. Nodes above it, up to the SELECT list, read tuples. They belong to the parts."""
    conditions, at = list[Expr](), 0
    while isinstance(each := above[at], Filter):
        conditions.append(each.condition)
        at += 1
    if not isinstance(each, Project):
        raise corrupt("derivation", "its plan shows no columns", node=node.label)
    shown = [*([] if settles is None else [id_output(settles)]), *each.outputs]
    parts, meeting = partner_parts(node, conditions, shown)
    make = partial(meeting.operator, parts[0], parts[1], kind=node.kind)
    return Binding(parts, make, above[at + 1 :], settles is not None)
