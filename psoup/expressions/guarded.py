"""Guarded evaluation of expressions over tuples, for when it raises: the port between join and expressions.

    guarded      on arrival and in covering: all rows at once; raises ─> Raised: the clauses that read the expression
                 have not met these tuples (`psoup.clauses.quarantine`)
    every_row    for readers: all rows, halved where it raises, and so on; raises for one row alone ─> an error of
                 that row; `every_value` is the same for the SELECT list of an answer

"Raises" does not mean an error of a value, which the evaluator marks in its row: it means want of memory, an array too
long for its type, a tree too deep, or a defect. A supplied function that is missing or broken (FailedPrecondition)
makes no errors of rows: readers are told. Nothing here remembers what has raised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa

from psoup.columns import Array, Column, concat_columns, empty_column
from psoup.config import TextLimits
from psoup.errors import FailedPrecondition
from psoup.expressions.evaluate import Scope, TooMuchText, evaluate
from psoup.expressions.frame import TooMuchWork, null_column, text_bytes
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Expr, attributes_of
from psoup.model import BIGINT, TIMESTAMP
from psoup.reading import UNBOUNDED, ReadBudget

Compute = Callable[[Expr, Sequence[Column], Array, Array, TextLimits], Column]
"""The port: the values of an attribute for some tuples, of their columns, IDs and times. Raises TooMuchText, to be
asked for fewer tuples."""

WARY_ROWS = 256
"""Rows that are evaluated together where all rows have raised before, or ended a process: they take the least memory
then, and a row alone costs some fifty microseconds."""

MOST_PARTS = 16
"""Parts into which the rows that the join evaluates together may be cut because of their texts: a gigabyte of them
in all, some seconds of the writer, for which all clients wait."""

_SHOWN = 200
_UNREAD = empty_column(BIGINT)


class Raised(Exception):
    """Raised if an expression could not be evaluated over some tuples; `reason` says why, in a line."""

    def __init__(self, expr: Expr, reason: str) -> None:
        super().__init__(reason)
        self.expr, self.reason = expr, reason


def column_of(
    expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits = TextLimits()
) -> Column:
    """The values of an attribute for some tuples: a column as it is, or a computed one. Raises as `evaluate`."""
    if isinstance(expr, AttributeRef):
        if expr.index == ID_INDEX:
            return Column(BIGINT, ids)
        if expr.index == TIME_INDEX:
            return Column(TIMESTAMP, times)
        return columns[expr.index]
    return evaluate(expr, Scope(columns, len(ids), ids, times, None, texts))


def guarded(expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits) -> Column:
    """`column_of`, for the writer and maintenance; whatever it raises becomes `Raised`, which names the expression."""
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
    """A `Compute` that always has a value or an error for each row; of `wary` expressions some rows at a time.

    Rows that are evaluated again are counted again. What columns and `budget` raise is let through: it is not the
    evaluation's. So is TooMuchText.
    """

    def compute(expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits) -> Column:
        if isinstance(expr, AttributeRef):
            return column_of(expr, columns, ids, times)
        used = attributes_of(expr)
        inputs = {index: columns[index] for index in used if index >= 0}  # read from the disk, if they must be
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
    """The values of `expr` in the rows of `scope`, for an answer: as `evaluate`, and a row that raises is an error.

    Rows that are evaluated again are counted again. What `budget` raises is let through, and so is TooMuchText.
    """

    def part(start: int, stop: int) -> Column:
        return evaluate(expr, scope if stop - start == scope.rows else scope.slice(start, stop))

    parts = _halved(expr, 0, scope.rows, part, budget)
    return parts[0] if len(parts) == 1 else concat_columns(parts)


def _halved(expr: Expr, start: int, stop: int, part: Callable[[int, int], Column], budget: ReadBudget) -> list[Column]:
    """Columns that `part` makes of the rows, or of their halves where it raises; an error of a row alone."""
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
"""For evaluation of expressions that have not raised so far."""


def reason_of(problem: BaseException) -> str:
    """A line about what was raised: the resource that was short, or else the place; other messages may hold values."""
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
