"""AND, OR, NOT and IS [NOT] NULL in SQL's three-valued logic.

     TRUE   FALSE  UNKNOWN        A row is TRUE (valid, value True), FALSE (valid, value False) or UNKNOWN (not
AND  all    any    else           valid); an error is UNKNOWN with a mark. A row decided without the errors
OR   any    all    else           loses the mark.
"""

from __future__ import annotations

import numpy as np

from psoup.expressions.frame import Evaluator, Frame, any_error, finish
from psoup.expressions.tree import Call
from psoup.model import BOOLEAN
from psoup.values.columns import Array, Column


def conjunction(call: Call, frame: Frame) -> Column:
    """FALSE if an argument is FALSE, else UNKNOWN if one is UNKNOWN, else TRUE."""
    columns = frame.columns(call)
    every = np.logical_and.reduce([c.values for c in columns])
    if all(c.valid is None for c in columns):
        return Column(BOOLEAN, every)
    some_false = np.logical_or.reduce([_false(c) for c in columns])
    return _decided(every, every | some_false, columns)


def disjunction(call: Call, frame: Frame) -> Column:
    """TRUE if an argument is TRUE, else UNKNOWN if one is UNKNOWN, else FALSE."""
    columns = frame.columns(call)
    some = np.logical_or.reduce([c.values for c in columns])
    if all(c.valid is None for c in columns):
        return Column(BOOLEAN, some)
    all_false = np.logical_and.reduce([_false(c) for c in columns])
    return _decided(some, some | all_false, columns)


def negation(call: Call, frame: Frame) -> Column:
    """Compute NOT. UNKNOWN stays UNKNOWN."""
    columns = frame.columns(call)
    return finish(BOOLEAN, ~columns[0].values, columns)


def is_null(call: Call, frame: Frame) -> Column:
    """Compute IS NULL, which is never NULL. An error of the argument is an error."""
    return _null_test(frame.column(call.args[0]), wanted=False)


def is_not_null(call: Call, frame: Frame) -> Column:
    """Compute IS NOT NULL, which is never NULL. An error of the argument is an error."""
    return _null_test(frame.column(call.args[0]), wanted=True)


def _null_test(column: Column, *, wanted: bool) -> Column:
    if column.valid is None:
        return Column(BOOLEAN, np.full(len(column), wanted))
    values = column.valid == wanted
    if column.error is None:
        return Column(BOOLEAN, values)
    return Column(BOOLEAN, values & ~column.error, ~column.error, None, column.error)


def _false(column: Column) -> Array:
    return ~column.values if column.valid is None else column.valid & ~column.values


def _decided(values: Array, valid: Array, columns: list[Column]) -> Column:
    error = any_error(columns)
    if error is not None:
        error = error & ~valid
    return Column(BOOLEAN, values, valid, None, error)


EVALUATORS: dict[str, Evaluator] = {
    "and": conjunction,
    "or": disjunction,
    "not": negation,
    "is_null": is_null,
    "is_not_null": is_not_null,
}
