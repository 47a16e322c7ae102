"""Conditions that a missing tuple cannot satisfy. They turn outer joins into simpler ones.

a LEFT JOIN b ON … WHERE b.x > 5        b.x is NULL where b is missing, and NULL > 5 is not true: an inner join
a LEFT JOIN b ON … WHERE b.x IS NULL    true where b is missing: stays a LEFT JOIN
a FULL JOIN b ON … WHERE a.x = 1        the rows without a leave: a LEFT JOIN
"""

from __future__ import annotations

from psoup.expressions.functions import FUNCTIONS
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal, sources_of

_NOT_STRICT = frozenset(
    {
        *("and", "or", "is_null", "is_not_null", "is_distinct", "case", "coalesce", "greatest", "least"),
        *("concat", "concat_ws", "nullif", "in"),
    }
)
_STRICT = (frozenset(FUNCTIONS) - _NOT_STRICT) | {"cast", "try_cast"}
"""The functions that are NULL if an argument is NULL."""
_FIRST = frozenset({"in", "nullif"})
"""The functions that are NULL if their first argument is NULL."""


def rejected_by(condition: Expr) -> frozenset[int]:
    """The places whose missing tuple can never satisfy `condition`."""
    return frozenset(place for place in sources_of(condition) if place >= 0 and _rejects(condition, place))


def _rejects(condition: Expr, place: int) -> bool:
    """Whether a condition is FALSE or NULL in each row in which the tuple of a place is missing."""
    if isinstance(condition, Call):
        if condition.name == "and":
            return any(_rejects(part, place) for part in condition.args)
        if condition.name == "or":
            return all(_rejects(part, place) for part in condition.args)
        if condition.name == "is_not_null":
            return is_null(condition.args[0], place)
        if condition.name == "not":
            return _accepts(condition.args[0], place)
    if isinstance(condition, Literal):
        return not condition.value
    return is_null(condition, place)


def _accepts(condition: Expr, place: int) -> bool:
    """Whether a condition is TRUE or NULL in each row in which the tuple of a place is missing."""
    if isinstance(condition, Call):
        if condition.name == "or":
            return any(_accepts(part, place) for part in condition.args)
        if condition.name == "and":
            return all(_accepts(part, place) for part in condition.args)
        if condition.name == "is_null":
            return is_null(condition.args[0], place)
        if condition.name == "not":
            return _rejects(condition.args[0], place)
    return is_null(condition, place)


def is_null(expr: Expr, place: int) -> bool:
    """Whether an expression is NULL in each row in which the tuple of a place is missing."""
    if isinstance(expr, AttributeRef):
        return expr.source == place
    if isinstance(expr, Literal):
        return expr.value is None
    if not isinstance(expr, Call):
        return False
    if expr.name in _FIRST:
        return is_null(expr.args[0], place)
    if expr.name in ("and", "or", "coalesce"):
        return all(is_null(arg, place) for arg in expr.args)
    return expr.name in _STRICT and any(is_null(arg, place) for arg in expr.args)
