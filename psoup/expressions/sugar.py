"""Functions that are others, written in another way: after binding nothing is left of them.

year(t)  ->  extract('year', t)        if(c, a, b)  ->  CASE WHEN c THEN a ELSE b END        typeof(x)  ->  'BIGINT'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psoup.expressions.conversion import is_null_literal
from psoup.expressions.tree import Expr, Literal
from psoup.model import TEXT

Resolve = Callable[[str, Sequence[Expr]], Expr]
"""Types a call of another function: `functions.resolve`."""


@dataclass(frozen=True, slots=True)
class Sugar:
    """How many arguments a function takes, and what it is."""

    least: int
    most: int
    made: Callable[[Resolve, Sequence[Expr]], Expr]


def _part(part: str) -> Sugar:
    return Sugar(1, 1, lambda resolve, args: resolve("extract", [Literal(TEXT, part), *args]))


def _type_name(_: Resolve, args: Sequence[Expr]) -> Expr:
    """The type's name in DuckDB; whole constants are BIGINT here."""
    if isinstance(args[0], Literal) and is_null_literal(args[0]):
        return Literal(TEXT, '"NULL"')
    return Literal(TEXT, "VARCHAR" if args[0].type == TEXT else str(args[0].type))


_PARTS = {
    **{name: name for name in ("year", "month", "day", "quarter", "week", "hour", "minute", "second", "isodow")},
    **{name: name for name in ("millisecond", "microsecond", "isoyear", "decade", "century", "millennium", "julian")},
    "dayofmonth": "day",
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "weekofyear": "week",
    "epoch": "epoch",
}

SUGAR: dict[str, Sugar] = {
    **{name: _part(part) for name, part in _PARTS.items()},
    "if": Sugar(3, 3, lambda resolve, args: resolve("case", args)),
    "typeof": Sugar(1, 1, _type_name),
}
