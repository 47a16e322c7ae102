"""The choice of expressions whose evaluation is delayed: those that read or make texts.

    n LIKE '%x_y%'      length(n) > 9      CAST(n AS BIGINT)        may be delayed
    a + b > 3           a column                                    cheaper than finding the tuples that need it

A delayed expression is evaluated only for tuples whose match it decides. An error counts only for such tuples too
(`psoup.results.failures`), so the delay changes neither matches nor counts.
"""

from __future__ import annotations

from functools import lru_cache

from psoup.expressions.supplied_functions import cost_of, is_supplied
from psoup.expressions.tree import Call, Expr
from psoup.model import Kind

LEAST_ROWS = 256
"""The fewest tuples for which a delay pays. Finding the tuples that need an expression takes some 100 us."""
WORTH = 4
"""The least ratio of all tuples to the tuples that need an expression, for which a delay pays."""


@lru_cache(65_536)
def may_wait(expr: Expr) -> bool:
    """Whether the expression reads or makes a text, or calls a supplied function. O(its size)."""
    if not isinstance(expr, Call):
        return False
    return expr.type.kind is Kind.TEXT or is_supplied(expr.name) or any(map(_of_text, expr.args))


@lru_cache(65_536)
def weight(expr: Expr) -> int:
    """The number of functions in an expression, where a supplied function counts by its cost. O(size).

    The expression with the greatest weight is delayed longest.
    """
    return cost_of(expr.name) + sum(map(weight, expr.args)) if isinstance(expr, Call) else 0


def _of_text(expr: Expr) -> bool:
    return expr.type.kind is Kind.TEXT or may_wait(expr)
