"""The shape of a template: the types of its parameters, and the form of its WHERE. It does not depend on values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from psoup.expressions.conversion import is_null_literal
from psoup.expressions.tree import Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DATE, MAX_DECIMAL_PRECISION, TEXT, DataType, Kind, decimal
from psoup.sql.binder import Binder
from psoup.sql.over_plan import in_qualify
from psoup.sql.row_values import compared_with, row_of
from psoup.sql.select import bind_in_having
from psoup.sql.select_list import listed_outputs
from psoup.sql.templates.conjuncts import Condition, Conjuncts, conjuncts
from psoup.sql.templates.holes import Holes
from psoup.sql.where.intervals import FLIPPED
from psoup.sql.where.monotone import grows
from psoup.values.kinds import TYPES

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_CONDITIONS = (exp.Where, exp.Having, exp.Qualify, exp.And, exp.Or, exp.Not)
NULL = Literal(BIGINT, None)


class TemplateShape:
    """The types of a template's parameters, and the form of its WHERE."""

    def __init__(self, select: exp.Select, binder: Binder, holes: Holes) -> None:
        self._select = select
        self._binder = binder
        self._order = {hole.start: position for position, hole in enumerate(holes.places)}
        self._where: exp.Expr | None = select.args.get("where")
        conditions = [self._where, *(join.args.get("on") for join in select.args.get("joins") or ())]
        self._nodes = _placeholders(conditions)
        self._of_having = _placeholders([select.args.get("having")])
        self._of_qualify = _placeholders([select.args.get("qualify")])

    @property
    def in_plan(self) -> bool:
        """Whether HAVING or QUALIFY has parameters. Their conditions are in the plan."""
        return bool(self._of_having or self._of_qualify)

    def expected(self) -> list[DataType | None]:
        """The expected type of the value in each hole, in order."""
        return [self._type_at(start) for start in self._order]

    def _type_at(self, start: int) -> DataType | None:
        if start in self._nodes:
            return self._type(self._nodes[start], self._binder.operand)
        if start in self._of_having:
            expected = self._type(self._of_having[start], bind_in_having(self._select, self._binder))
        elif start in self._of_qualify:
            outputs = listed_outputs(self._binder.source, self._select, self._binder)
            expected = self._type(self._of_qualify[start], in_qualify(self._binder, outputs))
        else:
            return None
        return (
            expected
            if expected is None or expected.kind is not Kind.WIDE
            else decimal(MAX_DECIMAL_PRECISION, expected.scale)
        )

    def _type(self, node: exp.Expr, bind: Callable[[exp.Expr], Expr]) -> DataType | None:
        parent = node.parent
        while isinstance(parent, exp.Paren | exp.Neg):
            node, parent = parent, parent.parent
        if isinstance(parent, exp.Tuple):
            partners = [bind(other) for other in compared_with(parent, node) if not self._open(other)]
            return next((value.type for value in partners if not is_null_literal(value)), None)
        if isinstance(parent, _CONDITIONS):
            return BOOLEAN
        if isinstance(parent, exp.Like | exp.ILike | exp.RegexpLike | exp.Escape):
            return TEXT
        if parent is None or not isinstance(parent, (*_COMPARISONS, *_ARITHMETIC, exp.In, exp.Between)):
            return None
        others = [other for other in parent.iter_expressions() if other is not node]
        for other in sorted(others, key=self._open):
            if isinstance(other, exp.Interval | exp.Placeholder):
                continue
            operand, counts = bind(other), isinstance(parent, _ARITHMETIC)
            if is_null_literal(operand) and not (counts or self._open(other)):
                continue  # NULL takes the type of what it meets
            return BIGINT if counts and operand.type == DATE else operand.type
        return None

    def _open(self, node: exp.Expr) -> bool:
        """Whether the node contains a parameter."""
        return node.find(exp.Placeholder) is not None

    def conjuncts(self) -> Conjuncts | None:
        """WHERE as conditions with parameters and conditions without, joined by AND. None if it has another form."""
        if self._where is None:
            return None
        conditions: list[Condition] = []
        constants: list[Expr] = []
        waiting = [self._where.this]
        while waiting:
            node = waiting.pop()
            if not self._open(node):
                constants.append(self._binder.operand(node))
            elif isinstance(node, exp.And):
                waiting += [node.this, node.expression]
            elif isinstance(node, exp.Paren):
                waiting.append(node.this)
            else:
                condition = self._condition(node)
                if condition is None:
                    return None
                conditions.append(condition)
        return conjuncts(conditions, constants)

    def _condition(self, node: exp.Expr) -> Condition | None:
        operator = _COMPARISONS.get(type(node))
        if operator is not None:
            left, right = node.this, node.expression
            if self._open(left):
                left, right, operator = right, left, FLIPPED[operator]
            return self._made(operator, left, [right])
        if isinstance(node, exp.Between):
            return self._made("between", node.this, [node.args["low"], node.args["high"]])
        if isinstance(node, exp.In):
            return self._made("in", node.this, node.expressions)
        if isinstance(node, exp.Like) and not node.args.get("negate"):
            return self._made("like", node.this, [node.expression])
        return None

    def _made(self, operator: str, attribute: exp.Expr, operands: Sequence[exp.Expr]) -> Condition | None:
        if self._open(attribute) or row_of(attribute) is not None:
            return None
        compared = self._binder.operand(attribute)
        if is_null_literal(compared) or grows(compared):
            return None
        bound: list[int | Literal] = []
        for node in operands:
            if isinstance(node, exp.Placeholder):
                bound.append(self._order[int(node.meta["start"])])
                continue
            constant = None if self._open(node) else self._binder.operand(node)
            if not isinstance(constant, Literal):
                return None
            bound.append(constant)
        return Condition(compared, operator, tuple(bound))


def _placeholders(conditions: Sequence[exp.Expr | None]) -> dict[int, exp.Expr]:
    """The nodes of the parameters in conditions, by their offsets in the text."""
    placeholders = [node for root in conditions if root is not None for node in root.find_all(exp.Placeholder)]
    return {int(node.meta["start"]): node for node in placeholders}


def sample(expected: DataType) -> Literal:
    """An example constant for a parameter of this type. For a DECIMAL it is an integer."""
    value: Any = TYPES[expected.kind].sample
    return Literal(BIGINT if expected.kind is Kind.DECIMAL else expected, value)
