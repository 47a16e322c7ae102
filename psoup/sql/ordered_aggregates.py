"""ORDER BY inside aggregates, and STRING_AGG.

first(x ORDER BY y DESC)          ->   the key y is an argument of the measure, and its direction is in `order`
sum(x ORDER BY y)                 ->   sum(x): the order of rows does not change the result
string_agg(x, '; ' ORDER BY y)    ->   texts with a separator, which is a constant
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from psoup.expressions.conversion import cast, is_null_literal, mismatch
from psoup.expressions.tree import Expr, Literal
from psoup.model import TEXT
from psoup.plan.nodes import Measure
from psoup.sql.source import StatementText

_ORDERED = frozenset({"first", "last", "any_value", "arg_min", "arg_max", "string_agg"})
"""Aggregates whose result depends on the order of rows."""

_SEPARATOR = ","
"""The separator of STRING_AGG with one argument."""


def without_order(nodes: Sequence[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The arguments of a function without ORDER BY, and the keys of ORDER BY."""
    last = nodes[-1] if nodes else None
    if not isinstance(last, exp.Order) or last.this is None:
        return list(nodes), []
    return [*nodes[:-1], last.this], list(last.expressions)


def ordered(
    source: StatementText, measure: Measure, args: Sequence[Expr], keys: Sequence[tuple[exp.Expr, Expr]]
) -> Measure:
    """The measure with the keys of ORDER BY. A key that cannot change the result is left out. Raises SqlError.

    `args`: the arguments as written. `keys`: for each key its node, and the key itself.
    """
    if measure.distinct:
        for node, key in keys:
            if key not in args:
                hint = "order by an argument, or leave DISTINCT out"
                raise source.error("with DISTINCT, ORDER BY in an aggregate takes its arguments only", node, hint=hint)
    if measure.function not in _ORDERED:
        return measure
    used = [(node, key) for node, key in keys if not isinstance(key, Literal)]
    order = tuple([(bool(node.args.get("desc")), bool(node.args.get("nulls_first"))) for node, _ in used])
    return replace(measure, args=(*measure.args, *[key for _, key in used]), order=order)


def string_agg(name: str, args: Sequence[Expr]) -> Measure:
    """The measure of STRING_AGG, without its order."""
    value, separator = args[0], Literal(TEXT, _SEPARATOR) if len(args) == 1 else cast(args[1], TEXT)
    if not isinstance(separator, Literal):
        raise mismatch(f"the separator of {name} must be a constant")
    if is_null_literal(separator) or separator.value is None:
        return Measure("string_agg", (Literal(TEXT, None),), TEXT)
    return Measure("string_agg", (cast(value, TEXT),), TEXT, separator=str(separator.value))
