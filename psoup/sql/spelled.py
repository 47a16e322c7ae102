"""Functions that have a syntax of their own: CASE, EXTRACT, TRIM, SUBSTRING, POSITION.

extract(year FROM t)   ->   extract('year', t)          trim(LEADING 'x' FROM t)   ->   ltrim(t, 'x')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from psoup.expressions.tree import Expr, Literal
from psoup.model import BIGINT, TEXT
from psoup.sql.source import StatementText


class Binding(Protocol):
    """A binder, as far as it is needed here."""

    source: StatementText

    def bind(self, node: exp.Expr) -> Expr:
        """Bind an expression."""

    def call(self, name: str, node: exp.Expr, args: list[Expr]) -> Expr:
        """Apply a function; errors are placed at `node`."""


def _case(binder: Binding, node: exp.Expr) -> Expr:
    subject = None if node.this is None else binder.bind(node.this)
    args: list[Expr] = []
    for branch in node.args["ifs"]:
        test = binder.bind(branch.this)
        args.append(test if subject is None else binder.call("eq", branch, [subject, test]))
        args.append(binder.bind(branch.args["true"]))
    default = node.args.get("default")
    args.append(Literal(BIGINT, None) if default is None else binder.bind(default))
    return binder.call("case", node, args)


def _extract(binder: Binding, node: exp.Expr) -> Expr:
    return binder.call("extract", node, [Literal(TEXT, node.this.name.lower()), binder.bind(node.expression)])


def _trim(binder: Binding, node: exp.Expr) -> Expr:
    if node.args.get("collation") is not None:
        raise binder.source.unsupported("COLLATE", node)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
    return binder.call(name, node, [binder.bind(part) for part in (node.this, node.expression) if part is not None])


def _substring(binder: Binding, node: exp.Expr) -> Expr:
    parts = (node.this, node.args.get("start"), node.args.get("length"))
    return binder.call("substr", node, [binder.bind(part) for part in parts if part is not None])


def position_arguments(node: exp.Expr) -> list[exp.Expr]:
    """The text and the part of `position(part IN text)`, or the arguments as they are."""
    first = node.expressions[0] if len(node.expressions) == 1 else None
    if not isinstance(first, exp.In):
        return list(node.expressions)
    whole = first.args.get("field") or (first.expressions[0] if len(first.expressions) == 1 else None)
    return list(node.expressions) if whole is None else [whole, first.this]


SPELLED: dict[type[exp.Expr], Callable[[Any, Any], Expr]] = {
    exp.Case: _case,
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Substring: _substring,
}
