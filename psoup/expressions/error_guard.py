"""Guarded evaluation: the port between join and expressions, for evaluations that may raise.

    guarded      on arrival and in covering: all rows at once; raises ─> Raised: the clauses that read the expression
                 have not met these tuples (`psoup.clauses.quarantine`)
    every_row    for readers: all rows, halved again and again while it raises; a single row that raises is an error
                 of that row; `every_value` is the same for the SELECT list of an answer

"Raises" does not mean an error of a value, which the evaluator marks in its row. It means too little memory, an array
too long for its type, a tree too deep, or a defect. A missing or broken supplied function (FailedPrecondition) is not
turned into errors of rows: readers get the exception. Nothing here remembers exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa

from psoup.config import TextLimits
from psoup.errors import FailedPrecondition
from psoup.expressions.evaluate import Scope, TooMuchText, evaluate
from psoup.expressions.frame import TooMuchWork, null_column, text_bytes
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Expr, attributes_of
from psoup.model import BIGINT, TIMESTAMP
from psoup.values.columns import Array, Column, concat_columns, empty_column
from psoup.work.read_budget import UNBOUNDED, ReadBudget

Compute = Callable[[Expr, Sequence[Column], Array, Array, TextLimits], Column]
"""The port: a function that returns the values of an attribute for some tuples, from their columns, IDs and times.

It raises TooMuchText; the caller must then use fewer tuples.
"""

WARY_ROWS = 256
"""The rows of one evaluation, for an expression that raised, or ended a process, when it was evaluated over more rows.

So few rows take little memory. An evaluation of each row by itself would cost some fifty microseconds a row.
"""

MOST_PARTS = 16
"""The most parts into which the rows of a join may be cut because of their texts.

They make at most a gigabyte of text, which takes the writer some seconds while all clients wait.
"""

_SHOWN = 200
"""The most characters of a reason."""
_UNREAD = empty_column(BIGINT)


class Raised(Exception):
    """An expression could not be evaluated over some tuples. `reason`: one line."""

    def __init__(self, expr: Expr, reason: str) -> None:
        super().__init__(reason)
        self.expr = expr
        self.reason = reason


def column_of(
    expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits = TextLimits()
) -> Column:
    """The values of an attribute for some tuples: one of their columns, or the computed values of an expression.

    Raises as `evaluate`.
    """
    if isinstance(expr, AttributeRef):
        if expr.index == ID_INDEX:
            return Column(BIGINT, ids)
        if expr.index == TIME_INDEX:
            return Column(TIMESTAMP, times)
        return columns[expr.index]
    return evaluate(expr, Scope(columns, len(ids), ids, times, None, texts))


def guarded(expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits) -> Column:
    """`column_of` for the writer and maintenance. An exception becomes `Raised`, with the expression.

    TooMuchText passes through, unless the rows would need more than MOST_PARTS parts.
    """
    if isinstance(expr, AttributeRef):
        return column_of(expr, columns, ids, times)
    try:
        return column_of(expr, columns, ids, times, _bounded(texts))
    except TooMuchText as problem:
        if problem.parts > MOST_PARTS and len(ids) > MOST_PARTS:
            raise Raised(expr, reason_of(TooMuchWork(len(ids), problem.parts, _bounded(texts)))) from None
        raise
    except Exception as problem:
        raise Raised(expr, reason_of(problem)) from None


def every_row(budget: ReadBudget = UNBOUNDED, wary: Collection[Expr] = ()) -> Compute:
    """A `Compute` that has a value or an error for each row. It evaluates `wary` expressions over WARY_ROWS rows at a
    time.

    Rows that are evaluated again are counted again. Exceptions of columns and of `budget`, and TooMuchText, pass
    through.
    """

    def compute(expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits) -> Column:
        if isinstance(expr, AttributeRef):
            return column_of(expr, columns, ids, times)
        used = attributes_of(expr)
        inputs = {index: columns[index] for index in used if index >= 0}  # reads from disk, if need be
        whole = [inputs.get(index, _UNREAD) for index in range(max(inputs, default=-1) + 1)]
        timed = TIME_INDEX in used

        def part(start: int, stop: int) -> Column:
            some = [whole[k].slice(start, stop) if k in inputs else _UNREAD for k in range(len(whole))]
            return column_of(expr, some, ids[start:stop], times[start:stop] if timed else times, _bounded(texts))

        rows = WARY_ROWS if expr in wary else max(len(ids), 1)
        pieces = [(at, min(at + rows, len(ids))) for at in range(0, len(ids), rows)]
        parts = [column for piece in pieces for column in _halved(expr, *piece, part, budget)]
        whole_column = concat_columns(parts) if parts else null_column(expr.type, 0)
        if whole_column.data is not None and len(parts) > 1 and text_bytes(whole_column) > texts.together:
            raise TooMuchText(2)
        return whole_column

    return compute


def every_value(expr: Expr, scope: Scope, budget: ReadBudget) -> Column:
    """The values of `expr` in the rows of `scope`, for an answer: as `evaluate`, but a row that raises is an error.

    Rows that are evaluated again are counted again. Exceptions of `budget`, and TooMuchText, pass through.
    """

    def part(start: int, stop: int) -> Column:
        return evaluate(expr, scope if stop - start == scope.rows else scope.slice(start, stop))

    parts = _halved(expr, 0, scope.rows, part, budget)
    return parts[0] if len(parts) == 1 else concat_columns(parts)


def _halved(expr: Expr, start: int, stop: int, part: Callable[[int, int], Column], budget: ReadBudget) -> list[Column]:
    """The columns of `part` over the rows, or their halves while it raises. A single row that raises is an error."""
    budget.check()
    try:
        return [part(start, stop)]
    except (TooMuchText, FailedPrecondition):
        raise
    except Exception:
        if stop - start < 2:
            return [null_column(expr.type, stop - start, np.ones(stop - start, np.bool_))]
    budget.examine(stop - start)
    middle = (start + stop) // 2
    return _halved(expr, start, middle, part, budget) + _halved(expr, middle, stop, part, budget)


def _bounded(texts: TextLimits) -> TextLimits:
    return TextLimits(texts.value, texts.together, MOST_PARTS)


EVERY_ROW = every_row()
"""The `Compute` for readers without a budget, and for expressions that have not raised so far."""


def reason_of(problem: BaseException) -> str:
    """A line about an exception: the exhausted resource, or the place in the code.

    The messages of other exceptions are left out, because they could contain values.
    """
    name = type(problem).__name__
    if isinstance(problem, TooMuchWork | MemoryError | RecursionError | FailedPrecondition | pa.ArrowCapacityError):
        text = " ".join(str(problem).split())[:_SHOWN]
        return f"{name}: {text}" if text else name
    frames = problem.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    if frames is None:
        return name
    return f"{name} in {frames.tb_frame.f_code.co_name}, line {frames.tb_lineno}"
