"""The factors of a WHERE clause are true for exactly the rows for which the condition itself evaluates to TRUE.

    SELECT (cond) AS c FROM s   ->  evaluate(c)  TRUE, FALSE, NULL or error   ─┐
    SELECT 1 FROM s WHERE cond  ->  factors: keys in intervals                ─┴─ the same rows are TRUE

Conditions are random, over columns of extreme values; the seed is in the name of the failing case.
"""

from __future__ import annotations

import math
import random
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.expressions.evaluate import Scope, evaluate
from psoup.model import STREAMED, Kind
from psoup.plan.factors import Factor, Interval, Term
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, standing_query
from psoup.values.columns import Array, Column
from psoup.values.from_arrow import columns_from_arrow
from psoup_testing.suite.sweeps import swept

SPEC = create_stream(
    "CREATE STREAM s (a BIGINT, b BIGINT, x DOUBLE, y DOUBLE, p DECIMAL(6,2), q DECIMAL(18,3), r DECIMAL(6,1), "
    "n TEXT, m TEXT, f BOOLEAN, g BOOLEAN, t TIMESTAMP, u TIMESTAMP, d DATE, e DATE)"
)
LEAST, GREATEST = -(2**63), 2**63 - 1
INTEGERS = [LEAST, LEAST + 1, -(2**53) - 1, -3, -1, 0, 1, 2, 3, 5, 2**53, 2**53 + 1, GREATEST - 1, GREATEST, None]
REALS = [-math.inf, -1e300, -2.5, -0.0, 0.0, 0.1, 1.0, 2.0, 2.5, 3.0, 2.0**53, 1e19, math.inf, math.nan]
VALUES: dict[Kind, list[Any]] = {
    Kind.BIGINT: INTEGERS,
    Kind.DOUBLE: REALS,
    Kind.TEXT: ["", "a", "ab", "abc", "b", "B", "é", "aé", "a%", "a_b", "zz", "\U0010ffff", None],
    Kind.BOOLEAN: [True, False, None],
}
ODD = ["CAST('nan' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "NULL"]
FAR = ["9223372036854775807", "9223372036854775808", "9007199254740993", "-9223372036854775808"]
CONSTANTS: dict[Kind, list[str]] = {
    Kind.BIGINT: ["-3", "0", "1", "2", "2.5", "3", "5", "-0.5", "1e0", "2.5e0", "1e19", "-1e19", "2.000", *FAR, *ODD],
    Kind.DOUBLE: ["-1e300", "-2.5", "0", "-0.0", "0.1", "0.1e0", "1", "2.5", *FAR, *ODD],
    Kind.DECIMAL: [
        "-99.99",
        "0",
        "1",
        "1.00",
        "1.005",
        "2.50",
        "2.5",
        "2.499",
        "9999.99",
        "12345678901",
        "2.5e0",
        "1e30",
    ],
    Kind.TEXT: ["''", "'a'", "'ab'", "'abc'", "'b'", "'é'", "'zz'", "'a%'", "NULL"],
    Kind.TIMESTAMP: ["TIMESTAMP '2013-01-01'", "TIMESTAMP '2013-01-01 05:00:00.000001'", "DATE '2013-01-02'", "NULL"],
    Kind.DATE: ["DATE '2013-01-01'", "'2013-01-02'", "TIMESTAMP '2013-01-01 05:00'", "DATE '1969-12-31'", "NULL"],
}
PATTERNS = ["'a%'", "'%'", "''", "'ab'", "'a_%'", "'%b'", "'a!%' ESCAPE '!'", "'a!%%' ESCAPE '!'", "'é%%'", "NULL"]
ROWS = 400


def _table(r: random.Random) -> pa.Table:
    days = ["2013-01-01", "2013-01-02", "1969-12-31", "0001-01-01", "9999-12-31"]
    times = [np.datetime64(f"{day}T{hour}", "us") for day in days for hour in ("00:00:00", "05:00:00.000001")]
    times += [np.datetime64(LEAST + 5, "us"), np.datetime64(GREATEST, "us")]
    dates = [np.datetime64(day, "D") for day in days] + [np.datetime64(2**31 - 1, "D")]
    arrays = []
    for attribute in SPEC.schema.attributes:
        kind = attribute.type.kind
        if kind is Kind.DECIMAL:
            top = 10**attribute.type.precision - 1
            scaled = [0, 1, 100, 250, 2500, -9999, top, -top, 10**attribute.type.scale]
            chosen = pa.array(np.array([r.choice(scaled) for _ in range(ROWS)], np.int64))
            buffers = chosen.buffers()
            narrow = pa.Array.from_buffers(pa.decimal64(attribute.type.precision, attribute.type.scale), ROWS, buffers)
            arrays.append(narrow)
        elif kind in (Kind.TIMESTAMP, Kind.DATE):
            pool = times if kind is Kind.TIMESTAMP else dates
            values = np.array([r.choice(pool) for _ in range(ROWS)])
            arrays.append(pa.array(values, mask=np.array([r.random() < 0.1 for _ in range(ROWS)])))
        else:
            arrays.append(pa.array([r.choice(VALUES[kind]) for _ in range(ROWS)]))
    return pa.table(arrays, names=list(SPEC.schema.names))


def _names(kind: Kind) -> list[str]:
    return [a.name for a in SPEC.schema.attributes if a.type.kind is kind]


def _leaf(r: random.Random) -> str:
    kind = r.choice(STREAMED)
    left = r.choice(_names(kind))
    operator = r.choice(["=", "<>", "<", "<=", ">", ">="])
    if kind is Kind.BOOLEAN:
        return r.choice([left, f"NOT {left}", f"{left} = TRUE", f"{left} IS NULL", f"{left} > FALSE", f"{left} <> g"])
    constants = CONSTANTS[kind]
    pick = r.randrange(9)
    if pick == 0:
        return f"{left} {operator} {r.choice(_names(kind))}"
    if pick == 1:
        return f"{left} IS {r.choice(['', 'NOT '])}NULL"
    if pick == 2:
        return f"{left} {r.choice(['', 'NOT '])}BETWEEN {r.choice(constants)} AND {r.choice(constants)}"
    if pick == 3:
        chosen = ", ".join(r.sample(constants, 3))
        return f"{left} {r.choice(['', 'NOT '])}IN ({chosen})"
    if pick == 4 and kind is Kind.TEXT:
        return f"{left} {r.choice(['', 'NOT '])}LIKE {r.choice(PATTERNS)}"
    if pick == 5:
        return _derived(r, kind, left, operator)
    if pick == 6:
        return f"{r.choice(constants)} {operator} {left}"
    return f"{left} {operator} {r.choice(constants)}"


def _derived(r: random.Random, kind: Kind, left: str, operator: str) -> str:
    right = r.choice(_names(kind))
    if kind in (Kind.BIGINT, Kind.DECIMAL):
        far = "+ 9223372036854775807" if kind is Kind.BIGINT else "+ 0.001"
        shift = r.choice(["+ 1", "- 3", "+ 0.5", far, "* 2", "% 2", "/ 3", "// 2"])
        return f"{left} {operator} {right} {shift}" if r.random() < 0.6 else f"{left} {shift} {operator} 3"
    if kind is Kind.TEXT:
        return r.choice([f"length({left}) {operator} 2", f"upper({left}) = 'A'", f"concat({left}, {right}) > 'ab'"])
    if kind in (Kind.TIMESTAMP, Kind.DATE):
        shift = r.choice(["+ INTERVAL '1' DAY", "- INTERVAL '5' HOUR", "+ INTERVAL '1' MONTH", "+ INTERVAL '0' DAY"])
        if kind is Kind.DATE:
            shift = r.choice([shift, "+ 1", "- 3"])
        return f"{left} {operator} {right} {shift}"
    choices = [f"sqrt({left}) {operator} 1", f"{left} * 2 {operator} {right}", f"CAST({left} AS BIGINT) {operator} 2"]
    return r.choice(choices)


def _condition(r: random.Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.3:
        return _leaf(r)
    pick = r.randrange(8)
    if pick == 0:
        return f"NOT ({_condition(r, depth - 1)})"
    if pick == 1:
        return f"({_condition(r, depth - 1)}) = {r.choice(['TRUE', 'FALSE', 'g'])}"
    if pick == 2:
        return f"CASE WHEN {_condition(r, depth - 1)} THEN {_leaf(r)} ELSE f END"
    word = r.choice([" AND ", " OR "])
    return word.join(f"({_condition(r, depth - 1)})" for _ in range(r.randint(2, 4)))


def _query(text: str) -> StandingQuery:
    return standing_query(text, lambda _: SPEC)


def _keys(column: Column) -> list[Any]:
    if column.type.kind is Kind.TEXT:
        assert column.data is not None
        data, offsets = column.data.tobytes(), column.values
        return [data[offsets[i] : offsets[i + 1]] for i in range(len(column))]
    return [int(key) for key in column.order_keys()]


def _inside(key: Any, interval: Interval) -> bool:
    return (interval.low is None or key >= interval.low) and (interval.high is None or key < interval.high)


def _term(term: Term, scope: Scope) -> Array:
    column = evaluate(term.attribute, scope)
    valid = np.ones(scope.rows, np.bool_) if column.valid is None else column.valid
    error = np.zeros(scope.rows, np.bool_) if column.error is None else column.error
    keys = _keys(column)
    held = [any(_inside(key, interval) for interval in term.intervals) for key in keys]
    return np.where(error, False, np.where(valid, np.array(held), term.nulls))


def _factors(factors: tuple[Factor, ...], scope: Scope) -> Array:
    result = np.ones(scope.rows, np.bool_)
    for factor in factors:
        some = np.zeros(scope.rows, np.bool_)
        for term in factor.terms:
            some |= _term(term, scope)
        result &= some
    return result


@pytest.mark.parametrize("seed", swept(range(12), fast=1))
def test_factors_are_true_where_the_condition_is(seed: int) -> None:
    r = random.Random(seed)
    table = _table(r)
    scope = Scope(columns_from_arrow(SPEC.schema, table), ROWS)
    for _ in range(40):
        condition = _condition(r, 3)
        query = _query(f"SELECT 1 AS one FROM s WHERE {condition}")
        whole = evaluate(_query(f"SELECT ({condition}) AS c FROM s").select[0].expr, scope)
        expected = whole.values if whole.valid is None else whole.values & whole.valid
        actual = _factors(query.factors, scope)
        wrong = np.flatnonzero(expected != actual)
        assert not len(wrong), f"{condition}\n{query.clause}\n{table.slice(int(wrong[0]), 1).to_pylist()}"


@pytest.mark.parametrize("seed", swept(range(4), fast=1))
def test_equal_clauses_have_equal_factors(seed: int) -> None:
    r = random.Random(seed)
    by_clause: dict[str, tuple[Factor, ...]] = {}
    for _ in range(150):
        query = _query(f"SELECT 1 AS one FROM s WHERE {_condition(r, 2)}")
        assert by_clause.setdefault(query.clause, query.factors) == query.factors, query.clause
    texts = {factors: clause for clause, factors in by_clause.items()}
    assert len(texts) == len(by_clause)


PAIRS = [
    ("a", "b", ["", "+ 1", "- 1", "+ 4611686018427387903", "- 4611686018427387904", "+ 9223372036854775807"]),
    ("p", "q", ["", "+ 0.01", "- 9999.99"]),
    ("p", "r", ["", "+ 1"]),
    ("q", "q", ["+ 0.001", "- 999999999999999.999"]),
    (
        "t",
        "u",
        ["", "+ INTERVAL '1' MICROSECOND", "- INTERVAL '300' DAY", "+ INTERVAL '0' DAY", "+ INTERVAL '1' MONTH"],
    ),
    ("d", "e", ["", "+ 1", "- 2147483646", "+ 2147483647"]),
]


@pytest.mark.parametrize(("left", "right", "shifts"), swept(PAIRS, fast=(3,)))
def test_differences_mean_the_comparison_for_all_values(left: str, right: str, shifts: list[str]) -> None:
    scope = Scope(columns_from_arrow(SPEC.schema, _table(random.Random(99))), ROWS)
    for shift in shifts:
        for operator in ("=", "<>", "<", "<=", ">", ">="):
            for text in (f"{left} {operator} {right} {shift}", f"{right} {shift} {operator} {left}"):
                for condition in (text, f"NOT ({text})", f"({text}) OR f", f"({text}) AND {left} {shift} > {right}"):
                    query = _query(f"SELECT ({condition}) AS c FROM s WHERE {condition}")
                    whole = evaluate(query.select[0].expr, scope)
                    expected = whole.values if whole.valid is None else whole.values & whole.valid
                    assert np.array_equal(_factors(query.factors, scope), expected), query.clause


def test_a_long_list_in_the_select_list_is_evaluated_quickly() -> None:
    listed = ",".join(str(3 * i) for i in range(9_900))
    expr = _query(f"SELECT a IN ({listed}) AS c FROM s").select[0].expr
    scope = Scope(columns_from_arrow(SPEC.schema, _table(random.Random(1))), ROWS)
    started = time.process_time()
    evaluate(expr, scope)
    assert time.process_time() - started < 10
