"""Functions that binding replaces by other functions.

year(t)  ->  extract('year', t)        if(c, a, b)  ->  CASE WHEN c THEN a ELSE b END        typeof(x)  ->  'BIGINT'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psoup.expressions.conversion import cast, is_null_literal
from psoup.expressions.tree import Expr, Literal
from psoup.model import DATE, DOUBLE, TEXT

Resolve = Callable[[str, Sequence[Expr]], Expr]
"""The type of `functions.resolve`, which types a call of a function."""


@dataclass(frozen=True, slots=True)
class Sugar:
    """A function that binding replaces. `least`, `most`: bounds of the number of its arguments.

    `made`: makes the replacement from the arguments.
    """

    least: int
    most: int
    made: Callable[[Resolve, Sequence[Expr]], Expr]


def _part(part: str) -> Sugar:
    return Sugar(1, 1, lambda resolve, args: resolve("extract", [Literal(TEXT, part), *args]))


def _type_name(_: Resolve, args: Sequence[Expr]) -> Expr:
    """The name of the type in DuckDB. A whole constant is a BIGINT here."""
    if isinstance(args[0], Literal) and is_null_literal(args[0]):
        return Literal(TEXT, '"NULL"')
    return Literal(TEXT, "VARCHAR" if args[0].type == TEXT else str(args[0].type))


def _scaled(resolve: Resolve, angle: Expr, factor: float) -> Expr:
    return resolve("mul", [angle, Literal(DOUBLE, factor)])


def _logarithm(resolve: Resolve, args: Sequence[Expr]) -> Expr:
    """Compute log(x), which is log10, and log(base, x), as DuckDB does."""
    if len(args) == 1:
        return resolve("log10", args)
    return resolve("div", [resolve("log10", args[1:]), resolve("log10", args[:1])])


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
    "pi": Sugar(0, 0, lambda resolve, args: Literal(DOUBLE, math.pi)),
    "degrees": Sugar(1, 1, lambda resolve, args: _scaled(resolve, args[0], 180 / math.pi)),
    "radians": Sugar(1, 1, lambda resolve, args: _scaled(resolve, args[0], math.pi / 180)),
    "cot": Sugar(1, 1, lambda resolve, args: resolve("div", [Literal(DOUBLE, 1.0), resolve("tan", args)])),
    "log": Sugar(1, 2, _logarithm),
    "if": Sugar(3, 3, lambda resolve, args: resolve("case", args)),
    "date": Sugar(1, 1, lambda resolve, args: cast(args[0], DATE)),
    "typeof": Sugar(1, 1, _type_name),
}
