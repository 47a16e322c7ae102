"""Rows of values in comparisons, and IN lists of values or of rows.

    (a, b) = (c, d)               a and c are the same, and b and d. As in DuckDB, two NULLs are the same here.
    (a, b) IN ((1, 2), (3, 4))    the row is the same as one of the list
    x IN (1, 2, 3)                one condition on x

A comparison of rows of two sources becomes keys of their join. A key equates columns that may be NULL in two steps:
`(x IS NULL) = (y IS NULL)`, and `coalesce(x, 0) = coalesce(y, 0)`.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from psoup.expressions.tree import Expr, Literal, sources_of
from psoup.model import BOOLEAN, DataType, Kind
from psoup.sql.source import StatementText
from psoup.sql.special_forms import refuse_bare

MAX_LIST = 10_000
"""The most values of one IN list."""

ROW = "a row of several values"


class RowBinder(Protocol):
    """The part of the binder that this module uses."""

    source: StatementText

    def bind(self, node: exp.Expr) -> Expr:
        """Bind one expression."""

    def call(self, name: str, node: exp.Expr, args: list[Expr]) -> Expr:
        """A typed call of a function."""

    def is_given(self, column: Expr) -> bool:
        """Whether an expression is a column that cannot be NULL."""


def row_of(node: exp.Expr) -> list[exp.Expr] | None:
    """The values of a row in parentheses. None for another expression."""
    while isinstance(node, exp.Paren):
        node = node.this
    return list(node.expressions) if isinstance(node, exp.Tuple) else None


def compared_with(row: exp.Expr, value: exp.Expr) -> list[exp.Expr]:
    """The values in other rows that a value of a row is compared with. [] if the row is not compared."""
    at, place, parent = row, row.expressions.index(value), row.parent
    while isinstance(parent, exp.Paren):
        at, parent = parent, parent.parent
    if not isinstance(parent, exp.EQ | exp.NEQ | exp.In):
        return []
    rows = [row_of(other) for other in parent.iter_expressions() if other is not at]
    return [values[place] for values in rows if values is not None and place < len(values)]


def compared_rows(binder: RowBinder, node: exp.Expr) -> Expr | None:
    """Bind a comparison of two rows. None if neither operand is a row. Raises SqlError."""
    left, right = row_of(node.this), row_of(node.expression)
    if left is None and right is None:
        return None
    if left is None or right is None or not isinstance(node, exp.EQ | exp.NEQ):
        hint = "rows are compared by =, <> and IN: (a, b) = (c, d); otherwise one value at a time"
        raise binder.source.unsupported(f"{ROW} here", node, hint=hint)
    same = _same(binder, node, left, right)
    return same if isinstance(node, exp.EQ) else binder.call("not", node, [same])


def in_list(binder: RowBinder, node: exp.Expr) -> Expr:
    """Bind IN with a list of values or rows. Raises SqlError."""
    source, items = binder.source, node.expressions
    if node.args.get("query") is not None or node.args.get("unnest") is not None:
        raise source.unsupported("IN (SELECT ...)", node, hint="list the values")
    if not items or node.args.get("field") is not None:
        raise source.error("IN needs a list of values in parentheses", node)
    if len(items) > MAX_LIST:
        raise source.error(f"IN lists at most {MAX_LIST:,} values, not {len(items):,}", node)
    row = row_of(node.this)
    if row is not None:
        return binder.call("or", node, [_same(binder, item, row, row_of(item)) for item in items])
    refuse_bare(source, node.this)
    value = binder.bind(node.this)
    bound = [binder.bind(item) for item in items]
    if all(isinstance(item, Literal) for item in bound):
        return binder.call("in", node, [value, *bound])
    equals = [binder.call("eq", part, [value, item]) for part, item in zip(items, bound, strict=True)]
    return binder.call("or", node, equals)


def _same(binder: RowBinder, node: exp.Expr, left: list[exp.Expr], right: list[exp.Expr] | None) -> Expr:
    """The condition that two rows are the same. Raises SqlError if they have different numbers of values."""
    if right is None or len(left) != len(right):
        count = "one value" if right is None else f"{len(right)} values"
        raise binder.source.error(
            f"a row of {len(left)} values is compared with {count}",
            node,
            hint="both rows need the same number of values: (a, b) = (1, 2)",
            reason="COLUMN_COUNT",
        )
    refuse_bare(binder.source, *left, *right)
    pairs = [(binder.bind(first), binder.bind(second)) for first, second in zip(left, right, strict=True)]
    return binder.call("and", node, [part for pair in pairs for part in _equal(binder, node, *pair)])


def _equal(binder: RowBinder, node: exp.Expr, left: Expr, right: Expr) -> list[Expr]:
    """The conditions that are true for two equal values and for two NULLs, and otherwise false."""
    distinct = binder.call("is_distinct", node, [left, right])
    first, second = sources_of(left), sources_of(right)
    if not (len(first) == len(second) == 1) or first == second or not _is_where(node):
        return [binder.call("not", node, [distinct])]
    if binder.is_given(left) or binder.is_given(right):
        return [binder.call("eq", node, [left, right])]
    values = [binder.call("coalesce", node, [side, _zero(side.type)]) for side in (left, right)]
    nulls = [binder.call("is_null", node, [side]) for side in (left, right)]
    return [binder.call("eq", node, values), binder.call("eq", node, nulls)]


def _zero(kind: DataType) -> Literal:
    """A value of a type that is not NULL."""
    if kind == BOOLEAN:
        return Literal(kind, False)
    return Literal(kind, "" if kind.kind is Kind.TEXT else 0.0 if kind.kind is Kind.DOUBLE else 0)


def _is_where(node: exp.Expr) -> bool:
    """Whether a condition stands in WHERE or ON, alone or under AND. There, false and NULL are the same."""
    at = node.parent
    while isinstance(at, exp.And | exp.Paren):
        at = at.parent
    return isinstance(at, exp.Where | exp.Join)
