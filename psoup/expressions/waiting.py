"""Expressions that may be evaluated only where their value decides: they read or make texts.

    n LIKE '%x_y%'      length(n) > 9      CAST(n AS BIGINT)        may wait
    a + b > 3           a column                                    cheaper than to find out where it is worth it

An error counts only where it decides, too (`psoup.results.failures`), so where it was evaluated changes neither matches
nor counts.
"""

from __future__ import annotations

from functools import lru_cache

from psoup.expressions.supplied import cost_of, is_supplied
from psoup.expressions.tree import Call, Expr
from psoup.model import Kind

LEAST_ROWS = 256
"""Tuples from which on it is worth looking where an expression decides: that takes some 100 us."""
WORTH = 4
"""An expression is evaluated only where it decides if that is at most 1 in so many tuples."""


@lru_cache(65_536)
def may_wait(expr: Expr) -> bool:
    """Whether the expression reads or makes a text, or calls a supplied function. O(its size)."""
    if not isinstance(expr, Call):
        return False
    return expr.type.kind is Kind.TEXT or is_supplied(expr.name) or any(map(_of_text, expr.args))


@lru_cache(65_536)
def weight(expr: Expr) -> int:
    """The number of functions of an expression, supplied ones by their costs: the costliest waits longest. O(size)."""
    return cost_of(expr.name) + sum(map(weight, expr.args)) if isinstance(expr, Call) else 0


def _of_text(expr: Expr) -> bool:
    return expr.type.kind is Kind.TEXT or may_wait(expr)
