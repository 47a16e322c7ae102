"""Evaluation of bound trees, column by column: numbers and times with NumPy, text with Arrow.

    evaluate(price * 2 > volume, rows)  ->  mul  ->  gt  ->  Column(BOOLEAN): values, valid, error

Every subtree is computed once for all rows of the scope. CASE and COALESCE choose among the computed values. So an
error in a branch that is not taken leaves no trace. No evaluator loops over rows in Python. If intermediate texts would
take too much memory, the rows are evaluated in parts:

    TooMuchText in 4 parts   ->   |part 0|part 1|part 2|part 3|   ->   one Column

A tree without attributes is folded into a literal: it is evaluated over one row. So folding always agrees with
evaluation. Nothing here knows SQL text or typing rules.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from psoup.config import TextLimits
from psoup.errors import InvalidInput
from psoup.expressions import casts, comparisons, conditional, logic, supplied_functions
from psoup.expressions.frame import Evaluator, Frame, Scope, Sizes, TooMuchText, TooMuchWork, null_column, text_bytes
from psoup.expressions.numbers import mathematics, numeric, rounding, wide
from psoup.expressions.render import render
from psoup.expressions.texts import like, regex, text, text_pieces
from psoup.expressions.times import moments, strptime, temporal
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal, Now
from psoup.model import DATE, TIMESTAMP, Kind
from psoup.values.columns import Column, concat_columns
from psoup.values.limbs import number_of

_SHOWN = 120
"""The most characters of an expression in a message. A longer one keeps its end, which shows the type."""


_WRITTEN = {TIMESTAMP: "'2013-07-04 12:00:00'", DATE: "'2013-07-04'"}
"""Example texts of these types."""


def constant(expr: Expr, longest: int = 2**20) -> Literal | None:
    """The value of `expr`, or None if it reads an attribute or NOW.

    Raises InvalidInput (INVALID_VALUE) if its evaluation is an error, such as 1 // 0 or CAST('x' AS BIGINT), or makes a
    text of more than `longest` bytes.
    """
    if isinstance(expr, Literal):
        return expr
    if _varies(expr):
        return None
    column = evaluate(expr, Scope((), 1, texts=TextLimits(longest, 64 * longest)))
    if column.error is not None and column.error[0]:
        text = _cast_text(expr)
        shown = render(expr if text is None else text)
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN // 2]}...{shown[-_SHOWN // 2 :]}"
        why = "has no value: it is out of range or malformed" if text is None else f"is not a valid {expr.type}"
        written = f"; write it as {_WRITTEN[expr.type]}" if expr.type in _WRITTEN else ""
        raise InvalidInput(f"{shown} {why}{written}", reason="INVALID_VALUE")
    return Literal(expr.type, first_value(column))


def _cast_text(expr: Expr) -> Literal | None:
    """The constant text that `expr` casts, as a comparison with a column does; None for another expression."""
    if isinstance(expr, Call) and expr.name == "cast" and isinstance(expr.args[0], Literal):
        return expr.args[0] if expr.args[0].type.kind is Kind.TEXT else None
    return None


def first_value(column: Column) -> bool | int | float | str | None:
    """The value of row 0 in engine form."""
    if column.valid is not None and not column.valid[0]:
        return None
    if column.type.kind is Kind.TEXT:
        assert column.data is not None
        return bytes(column.data[column.values[0] : column.values[1]]).decode()
    if column.type.kind is Kind.WIDE:
        return number_of(column.values[0].item())
    value: bool | int | float = np.asarray(column.values)[0].item()
    return value


def _varies(expr: Expr) -> bool:
    """Whether the value is unknown before evaluation: the tree reads an attribute or NOW, or calls a supplied
    function.
    """
    if isinstance(expr, AttributeRef | Now):
        return True
    return not isinstance(expr, Literal) and (supplied_functions.is_supplied(expr.name) or any(map(_varies, expr.args)))


__all__ = ["EVALUATORS", "Scope", "TooMuchText", "evaluate"]


class _Evaluators(dict[str, Evaluator]):
    """The evaluators of all functions; supplied functions share one."""

    def __missing__(self, name: str) -> Evaluator:
        if supplied_functions.is_supplied(name):
            return supplied_functions.column_of_call
        raise KeyError(name)


_NARROW = {**numeric.EVALUATORS, **rounding.EVALUATORS, **mathematics.EVALUATORS}

EVALUATORS: dict[str, Evaluator] = _Evaluators(
    {
        **logic.EVALUATORS,
        **comparisons.EVALUATORS,
        **_NARROW,
        **wide.over(_NARROW),
        **moments.EVALUATORS,
        **strptime.EVALUATORS,
        **conditional.EVALUATORS,
        **casts.EVALUATORS,
        **text.EVALUATORS,
        **text_pieces.EVALUATORS,
        **like.EVALUATORS,
        **regex.EVALUATORS,
        **temporal.EVALUATORS,
    }
)
"""The evaluator of each function, by its canonical name: all of `functions.FUNCTIONS`, and the two casts."""


def evaluate(expr: Expr, scope: Scope) -> Column:
    """The value of `expr` in every row of `scope`. A failed value marks its row in `error` and raises nothing.

    Raises TooMuchText before the bytes are made, if the TEXT of several rows exceeds `scope.texts.together`. The caller
    must then use fewer rows. Raises TooMuchWork if rows had to be cut into too many parts. Numbers and times cost
    O(rows * nodes); texts cost O(bytes).
    """
    with np.errstate(all="ignore"):
        return _evaluate(expr, scope, scope.texts.parts)


def _evaluate(expr: Expr, scope: Scope, part_limit: int | None) -> Column:
    """Evaluate in at most `part_limit` parts."""
    try:
        return Frame(scope, EVALUATORS, Sizes(scope.texts, scope.rows)).column(expr)
    except TooMuchText as problem:
        parts = min(problem.parts, scope.rows)
    scope.memo.clear()
    if parts < 2:  # a single row that exceeds the limit of all
        return null_column(expr.type, scope.rows, np.ones(scope.rows, np.bool_))
    if part_limit is not None and parts > part_limit:
        raise TooMuchWork(scope.rows, parts, scope.texts)
    return _in_parts(expr, scope, parts, None if part_limit is None else part_limit // parts)


def _in_parts(expr: Expr, scope: Scope, parts: int, part_limit: int | None) -> Column:
    columns, made = [], 0
    for start, stop in pairwise(scope.rows * part // parts for part in range(parts + 1)):
        columns.append(_evaluate(expr, scope.slice(start, stop), part_limit))
        if expr.type.kind is Kind.TEXT:
            made += text_bytes(columns[-1])
            if made > scope.texts.of(scope.rows):
                raise TooMuchText(parts)
    return concat_columns(columns)
