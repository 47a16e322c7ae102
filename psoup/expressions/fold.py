"""Constant folding: a tree without attributes becomes the literal it always yields.

It is evaluated like any other, over one row, so folding can never disagree with evaluation.
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Column
from psoup.config import TextLimits
from psoup.errors import InvalidInput
from psoup.expressions.evaluate import Scope, evaluate
from psoup.expressions.render import render
from psoup.expressions.tree import AttributeRef, Expr, Literal, Now
from psoup.model import Kind

_SHOWN = 120
"""Characters of an expression that a message shows; its end tells the type."""


def constant(expr: Expr, most: int = 2**20) -> Literal | None:
    """The value of `expr`, or None if it reads an attribute or NOW.

    Raises InvalidInput (INVALID_VALUE) if evaluating it is an error, such as 1 // 0 or CAST('x' AS BIGINT), or makes a
    text of more than `most` bytes.
    """
    if isinstance(expr, Literal):
        return expr
    if _varies(expr):
        return None
    column = evaluate(expr, Scope((), 1, texts=TextLimits(most, 64 * most)))
    if column.error is not None and column.error[0]:
        shown = render(expr)
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN // 2]}...{shown[-_SHOWN // 2 :]}"
        raise InvalidInput(f"{shown} has no value: it is out of range or malformed", reason="INVALID_VALUE")
    return Literal(expr.type, first_value(column))


def first_value(column: Column) -> bool | int | float | str | None:
    """Row 0 in engine form."""
    if column.valid is not None and not column.valid[0]:
        return None
    if column.type.kind is Kind.TEXT:
        assert column.data is not None
        return bytes(column.data[column.values[0] : column.values[1]]).decode()
    value: bool | int | float = np.asarray(column.values)[0].item()
    return value


def _varies(expr: Expr) -> bool:
    if isinstance(expr, AttributeRef | Now):
        return True
    return not isinstance(expr, Literal) and any(_varies(arg) for arg in expr.args)
