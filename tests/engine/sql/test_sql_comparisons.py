"""Comparisons with a constant agree in all three implementations: in general, one by one, and by columns.

The walk takes every comparison there is, every type that has keys, and every column of constants that may come for it.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.expressions.tree import AttributeRef, Literal
from psoup.model import BIGINT, DATE, DOUBLE, STREAMED, TEXT, TIMESTAMP, DataType, Kind, decimal
from psoup.plan.factors import Interval
from psoup.plan.standing_query import Edges, TermColumn
from psoup.sql.templates.comparisons import closed_ends, int_term, one_by_one, text_term
from psoup.sql.templates.holes import literal_of
from psoup.sql.templates.vectors import fits
from psoup.sql.where.intervals import ENDS, FLIPPED, Intervals, compared

GREATEST = 2**63 - 1
INTS = [-GREATEST - 1, -GREATEST, -(2**53) - 1, -(2**53), -1, 0, 1, 7, 2**53, 2**53 + 1, GREATEST - 1, GREATEST]
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 5e-324, 0.1, 2.0**53, 1.7e308, math.inf, math.nan]
MOMENTS = [datetime.datetime(1, 1, 1), datetime.datetime(1970, 1, 1), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)]
MOMENTS.append(datetime.datetime.max)

COLUMNS: dict[str, tuple[DataType, pa.Array]] = {
    "BIGINT": (BIGINT, pa.array(INTS, pa.int64())),
    "DECIMAL(12,3) of integers": (decimal(12, 3), pa.array([i for i in INTS if abs(i) < 10**15], pa.int64())),
    "DECIMAL(12,3)": (
        decimal(12, 3),
        pa.array([Decimal(n) / 100 for n in (-901, -1, 0, 1, 250)], pa.decimal128(12, 2)),
    ),
    "DOUBLE": (DOUBLE, pa.array(FLOATS, pa.float64())),
    "DOUBLE of integers": (DOUBLE, pa.array([i for i in INTS if abs(i) <= 2**53], pa.int64())),
    "TEXT": (TEXT, pa.array(["", "a", "a\x01", "ab", "b", "é", "\U0010ffff", "\x7f"], pa.string())),
    "TIMESTAMP": (TIMESTAMP, pa.array(MOMENTS, pa.timestamp("us"))),
    "DATE": (DATE, pa.array([moment.date() for moment in MOMENTS], pa.date32())),
}


def interval(low: Edges | None, high: Edges | None, row: int) -> Interval:
    """The half-open interval between the ends of one row."""

    def key(edges: Edges | None) -> Any:
        if edges is None or edges.open[row]:
            return None
        if isinstance(edges.keys, np.ndarray):
            return int(edges.keys[row]) + edges.past
        return edges.keys[row].as_py() + b"\0" * edges.past

    return Interval(key(low), key(high))


def by_columns(kind: DataType, comparisons: list[tuple[str, pa.Array]], count: int) -> list[Intervals]:
    """What the form for columns says of each row."""
    never = np.zeros(count, np.bool_)
    attribute = AttributeRef(kind, 0, "a")
    if kind.kind is Kind.TEXT:
        term: TermColumn = text_term(attribute, comparisons, never)
    else:
        term = int_term(attribute, comparisons, closed_ends(kind), never)
    return [() if never[row] else (interval(term.low, term.high, row),) for row in range(count)]


def literals(kind: DataType, column: pa.Array) -> list[Literal]:
    """The constants that the values are, one by one."""
    return [literal_of(value, kind)[0] for value in column.to_pylist()]


@pytest.mark.parametrize("operator", [*ENDS, "ne"])
@pytest.mark.parametrize("case", COLUMNS)
def test_one_by_one_and_by_columns_say_what_the_general_form_says(case: str, operator: str) -> None:
    kind, column = COLUMNS[case]
    assert fits(kind, kind, column), "this column goes row by row"
    constants = literals(kind, column)
    general = [compared(operator, kind, constant) for constant in constants]
    single = one_by_one(kind, operator, 0)
    assert [single([constant]) for constant in constants] == general
    if operator in ENDS:
        assert by_columns(kind, [(operator, column)], len(column)) == general


@pytest.mark.parametrize("case", COLUMNS)
def test_two_ends_of_a_column_meet_where_those_of_one_constant_do(case: str) -> None:
    kind, column = COLUMNS[case]
    ones, others = pa.concat_arrays([column] * len(column)), column.take(np.repeat(np.arange(len(column)), len(column)))
    for low in (operator for operator, (begin, end) in ENDS.items() if end is None):
        for high in (operator for operator, (begin, end) in ENDS.items() if begin is None):
            general = []
            for one, other in zip(literals(kind, ones), literals(kind, others), strict=True):
                (least,), (most,) = compared(low, kind, one) or (None,), compared(high, kind, other) or (None,)
                empty = least is None or most is None
                if not empty and least.low is not None and most.high is not None:
                    empty = least.low >= most.high
                general.append(() if empty else (Interval(least.low, most.high),))
            assert by_columns(kind, [(low, ones), (high, others)], len(ones)) == general, (low, high)


def test_every_comparison_and_every_type_is_walked() -> None:
    assert FLIPPED.keys() == {*ENDS, "ne"}
    assert {kind.kind for kind, _ in COLUMNS.values()} == set(STREAMED) - {Kind.BOOLEAN}
    assert {FLIPPED[FLIPPED[operator]] for operator in FLIPPED} == FLIPPED.keys()
