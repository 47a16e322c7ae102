"""Expressions that may be evaluated only where their value decides: they read texts, and have no errors.

    n LIKE '%x_y%'      length(n) > 9      lower(n) = 'ab'          may wait
    a + b > 3           a column                                    cheaper than to find out where it is worth it
    CAST(n AS BIGINT)                                               has errors, which are counted in all tuples

An expression has no errors if none of its functions makes one, and its texts stay far below what a text may take.
Should its evaluation raise all the same, that counts where it was evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from psoup.columns import Column
from psoup.config import TextLimits
from psoup.expressions.like import tokenize, too_long
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal, attributes_of
from psoup.model import TEXT, Kind

LEAST_ROWS = 256
"""Tuples from which on it is worth looking where an expression decides: that takes some 100 us."""
WORTH = 4
"""An expression is evaluated only where it decides if that is at most 1 in so many tuples."""
_TESTS = frozenset(
    {"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "in", "is_null", "is_not_null", "is_distinct", "length"}
)
_SAME_SIZE = frozenset({"lower", "upper", "trim", "ltrim", "rtrim"})
"""Functions of text whose result is at most twice as long as the text."""
_SEARCHES = frozenset({"contains", "starts_with", "regexp_matches", "regexp_full_match"})
_MOST_CALLS, _GROWTH, _TOGETHER = 16, 16, 64
"""Most functions of an expression, so that its texts grow at most so many times (four deep), and take together at most
so many times what one of them may take."""
_DEPTH = 4
_NO_ESCAPE = Literal(TEXT, "")


@lru_cache(65_536)
def may_wait(expr: Expr) -> bool:
    """Whether the expression reads texts and cannot have an error, if `short` is true of them. O(its size)."""
    return isinstance(expr, Call) and _calls(expr) <= _MOST_CALLS and _sound(expr, 0) and _reads_text(expr)


def short(expr: Expr, columns: Sequence[Column], texts: TextLimits) -> bool:
    """Whether the texts that `expr` reads are so short that it cannot make a text that is too long. O(tuples)."""
    most = min(texts.value, texts.together // _TOGETHER) // _GROWTH
    read = [columns[index] for index in attributes_of(expr) if index >= 0]
    return all(
        int(np.diff(column.values).max(initial=0)) <= most for column in read if column.type.kind is Kind.TEXT
    ) and (texts.together >= 1 << 20)


def _calls(expr: Expr) -> int:
    return 1 + sum(map(_calls, expr.args)) if isinstance(expr, Call) else 0


def _reads_text(expr: Expr) -> bool:
    if isinstance(expr, Call):
        return any(map(_reads_text, expr.args))
    return isinstance(expr, AttributeRef) and expr.type.kind is Kind.TEXT


def _sound(expr: Expr, made: int) -> bool:
    """Whether no value makes an error of it; `made`: functions of text around it."""
    if not isinstance(expr, Call):
        return isinstance(expr, AttributeRef | Literal)
    if expr.name in _TESTS:
        return all(_sound(arg, made) for arg in expr.args)
    if expr.name in _SAME_SIZE:
        return made < _DEPTH and all(_sound(arg, made + 1) for arg in expr.args)
    if expr.name == "like":
        return _sound(expr.args[0], made) and _well_formed(*expr.args[1:])
    return expr.name in _SEARCHES and _sound(expr.args[0], made) and isinstance(expr.args[1], Literal)


def _well_formed(pattern: Expr, escape: Expr = _NO_ESCAPE) -> bool:
    if not isinstance(pattern, Literal) or not isinstance(escape, Literal):
        return False
    tokens = None if pattern.value is None else tokenize(str(pattern.value), str(escape.value or ""))
    return tokens is not None and not too_long(tokens)
