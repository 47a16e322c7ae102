"""Trees of joins for tests, and their rows by nested loops in plain Python.

    node   PartnerJoin LEFT (Join (a, b), c)        made by hand, over the leaves of one reading
    rows   (3, 0, 7) (3, 1, -)                      a position in each leaf, or None; in the order of FROM

No code of the engine evaluates a condition here.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.plan.nodes import Filter, Join, JoinKind, Node, PairFactor, PartnerJoin, Source

Row = dict[int, int | None]
"""The position of a row in each leaf, by place."""
Tables = Mapping[int, Sequence[Sequence[Any]]]
"""The rows of each leaf, by place."""

_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "add": operator.add,
    "sub": operator.sub,
}


def value_of(expr: Expr, row: Row, tables: Tables) -> Any:
    """The value of an expression. None is NULL."""
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, AttributeRef):
        position = row[expr.source]
        return None if position is None else tables[expr.source][position][expr.index]
    assert isinstance(expr, Call)
    values = [value_of(arg, row, tables) for arg in expr.args]
    if expr.name == "is_null":
        return values[0] is None
    if expr.name == "or":
        return True if True in values else None if None in values else False
    return None if None in values else _COMPARED[expr.name](*values)


def rows_by_looking(node: Node, tables: Tables) -> list[Row]:
    """The rows of a tree of joins and filters, in the order of FROM."""
    if isinstance(node, Source):
        return [{node.place: at} for at in range(len(tables[node.place]))]
    if isinstance(node, Filter):
        return [row for row in rows_by_looking(node.input, tables) if value_of(node.condition, row, tables) is True]
    inputs = [rows_by_looking(below, tables) for below in node.inputs]
    if isinstance(node, Join):
        merged = [dict(itertools.chain(*(row.items() for row in rows))) for rows in itertools.product(*inputs)]
        return _in_order(node, [row for row in merged if _satisfied(node, row, tables)])
    assert isinstance(node, PartnerJoin)
    return _in_order(node, _partners(node, *inputs, tables))


def _satisfied(node: Join | PartnerJoin, row: Row, tables: Tables) -> bool:
    factors = [Call(f.left.type, f.operator, (f.left, f.right)) for f in (*node.keys, *node.bands)]
    return all(value_of(condition, row, tables) is True for condition in (*factors, *node.rest))


def _partners(node: PartnerJoin, left: list[Row], right: list[Row], tables: Tables) -> list[Row]:
    partners = [[other for other in right if _satisfied(node, row | other, tables)] for row in left]
    kind = node.kind
    if kind is JoinKind.NOT_IN:
        return [row for row, rows in zip(left, partners, strict=True) if _is_not_in(node, row, rows, tables)]
    if kind.filters:
        return [row for row, rows in zip(left, partners, strict=True) if bool(rows) is (kind is JoinKind.SEMI)]
    if kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
        partners = [_closest(node.bands[0], rows, tables, node) for rows in partners]
    nothing = dict.fromkeys((leaf.place for leaf in node.right.leaves), None)
    result = [row | other for row, rows in zip(left, partners, strict=True) for other in rows]
    if kind.keeps_left:
        result += [row | nothing for row, rows in zip(left, partners, strict=True) if not rows]
    if kind.keeps_right:
        nothing = dict.fromkeys((leaf.place for leaf in node.left.leaves), None)
        some = [other for rows in partners for other in rows]
        result += [nothing | other for other in right if other not in some]
    return result


def _is_not_in(node: PartnerJoin, row: Row, rows: list[Row], tables: Tables) -> bool:
    assert node.member is not None
    value, column = node.member
    values = [value_of(column, other, tables) for other in rows]
    x = value_of(value, row, tables)
    return not values or (x is not None and None not in values and x not in values)


def _closest(band: PairFactor, rows: list[Row], tables: Tables, node: PartnerJoin) -> list[Row]:
    if not rows:
        return []
    places = {leaf.place for leaf in node.right.leaves}
    is_right = band.right.source in places if isinstance(band.right, AttributeRef) else False
    column = band.right if is_right else band.left
    name = band.operator if is_right else {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[band.operator]
    sign = 1 if name in ("ge", "gt") else -1
    return [max(enumerate(rows), key=lambda at: (sign * value_of(column, at[1], tables), at[0]))[1]]


def _in_order(node: Node, rows: list[Row]) -> list[Row]:
    """The rows by position in the first leaf, then in the second, and so on. A missing tuple comes last."""
    places = [leaf.place for leaf in node.leaves]
    return sorted(rows, key=lambda row: [(row[place] is None, row[place] or 0) for place in places])
