"""CASE, COALESCE, NULLIF, GREATEST and LEAST: one value out of several, row by row.

rows            1    2    3    4        Each row gets the number of the branch that it takes. Then every branch
CASE branch     0    2    1    -1       gives its values to its rows. An error counts only in the branch taken
                                        or in a condition that had to be evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.comparisons import compare, ordered
from psoup.expressions.frame import Evaluator, Frame, any_error, finish_text, text_bytes
from psoup.expressions.tree import Call, Expr
from psoup.model import BOOLEAN, TEXT, DataType, Kind
from psoup.values.columns import Array, Column
from psoup.values.from_arrow import column_from_arrow
from psoup.values.kinds import TYPES

NO_BRANCH = -1
_NOTHING = pa.scalar("", pa.large_string())


def case(call: Call, frame: Frame) -> Column:
    """The value of the first condition that is TRUE, else the last argument."""
    branch = np.full(frame.rows, len(call.args) // 2, np.int64)
    open_rows = np.ones(frame.rows, np.bool_)
    failed = np.zeros(frame.rows, np.bool_)
    for position, condition in enumerate(call.args[:-1:2]):
        column = frame.column(condition)
        branch[open_rows & column.values] = position
        open_rows &= ~column.values
        if column.error is not None:
            failed |= open_rows & column.error
            open_rows &= ~column.error
    return _choose(call.type, [*call.args[1::2], call.args[-1]], branch, failed, frame)


def coalesce(call: Call, frame: Frame) -> Column:
    """The first argument that is not NULL."""
    branch = np.full(frame.rows, NO_BRANCH, np.int64)
    open_rows = np.ones(frame.rows, np.bool_)
    failed = np.zeros(frame.rows, np.bool_)
    for position, arg in enumerate(call.args):
        column = frame.column(arg)
        if column.valid is None:
            branch[open_rows] = position
            break
        branch[open_rows & column.valid] = position
        open_rows &= ~column.valid
        if column.error is not None:
            failed |= open_rows & column.error
            open_rows &= ~column.error
    return _choose(call.type, call.args, branch, failed, frame)


def nullif(call: Call, frame: Frame) -> Column:
    """The first argument, or NULL where the other two are equal."""
    equal = compare(Call(BOOLEAN, "eq", call.args[1:]), frame)
    branch = np.where(equal.values, NO_BRANCH, 0)
    failed = np.zeros(frame.rows, np.bool_) if equal.error is None else equal.error
    return _choose(call.type, call.args[:1], branch, failed, frame)


def _choose(data_type: DataType, branches: Sequence[Expr], branch: Array, failed: Array, frame: Frame) -> Column:
    """Row r takes its value from `branches[branch[r]]`. It is NULL if that is negative, and an error where `failed` is
    set.
    """
    branch = np.where(failed, NO_BRANCH, branch)
    error = failed.copy()
    valid = np.zeros(frame.rows, np.bool_)
    values = np.zeros(frame.rows, TYPES[data_type.kind].dtype)
    for position, expr in enumerate(branches):
        mine = branch == position
        if not mine.any():
            continue
        column = frame.column(expr)
        valid[mine] = True if column.valid is None else column.valid[mine]
        if column.error is not None:
            error |= mine & column.error
        taken = frame.lengths(expr) if data_type.kind is Kind.TEXT else column.values
        np.copyto(values, taken, where=mine)
    marks = (None if valid.all() else valid, error if error.any() else None)
    if data_type.kind is not Kind.TEXT:
        return Column(data_type, values, marks[0], None, marks[1])
    frame.sizes.borrow(int(values.sum()))
    used = np.bincount(branch + 1, minlength=len(branches) + 1)[1:]
    texts = [frame.text(expr) if used[position] else _NOTHING for position, expr in enumerate(branches)]
    text = column_from_arrow("result", TEXT, pc.choose(pa.array(branch, mask=branch < 0), *texts))
    return Column(TEXT, text.values, marks[0], text.data, marks[1])


def extreme(call: Call, frame: Frame) -> Column:
    """Compute greatest and least, which skip NULLs. An error in an argument is an error of the row."""
    order = np.greater if call.name == "greatest" else np.less
    columns = frame.columns(call)
    if call.type.kind is Kind.TEXT:
        return _extreme_text(call, columns, frame)
    best = columns[0]
    for column in columns[1:]:
        better = ordered(order, column, best)
        if column.valid is not None:
            better = better & column.valid
        if best.valid is not None:
            better = (better | ~best.valid) if column.valid is None else better | (~best.valid & column.valid)
        valid = None if best.valid is None or column.valid is None else best.valid | column.valid
        best = Column(call.type, np.where(better, column.values, best.values), valid)
    error = any_error(columns)
    if error is None:
        return Column(call.type, best.values, best.valid)
    valid = ~error if best.valid is None else best.valid & ~error
    return Column(call.type, np.where(valid, best.values, np.zeros(1, best.values.dtype)), valid, None, error)


def _extreme_text(call: Call, columns: list[Column], frame: Frame) -> Column:
    frame.sizes.borrow(sum(map(text_bytes, columns)))
    pick = pc.max_element_wise if call.name == "greatest" else pc.min_element_wise
    texts = pick(*(frame.text(arg) for arg in call.args))
    if isinstance(texts, pa.Scalar):
        texts = pa.array([texts.as_py()] * frame.rows, pa.large_string())
    marked = [Column(BOOLEAN, c.error, ~c.error, None, c.error) for c in columns if c.error is not None]
    return finish_text(texts, marked)


EVALUATORS: dict[str, Evaluator] = {
    "case": case,
    "coalesce": coalesce,
    "nullif": nullif,
    "greatest": extreme,
    "least": extreme,
}
