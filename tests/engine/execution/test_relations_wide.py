"""Sums of a subselect, numbers of 128 bits, as keys and arguments of aggregates of the statement around it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.expressions.tree import AttributeRef
from psoup.local import LocalPSoup
from psoup.model import BIGINT, DOUBLE, TEXT, wide
from psoup.plan.nodes import Aggregate, Measure, OrderKey, Output, Project, SetOperator, Sort
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database
from psoup_testing.oracles.hand_made_plans import HandMadePlans, all_of, relation, set_operation
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

T, TOTAL = AttributeRef(TEXT, 0, "t", 16), AttributeRef(wide(0), 1, "total", 16)
MEASURES = {
    "count(*)": Measure("count", (), BIGINT),
    "count(DISTINCT total)": Measure("count", (TOTAL,), BIGINT, distinct=True),
    "sum(total)": Measure("sum", (TOTAL,), wide(0)),
    "sum(DISTINCT total)": Measure("sum", (TOTAL,), wide(0), distinct=True),
    "avg(total)": Measure("avg", (TOTAL,), DOUBLE),
    "min(total)": Measure("min", (TOTAL,), wide(0)),
    "max(total)": Measure("max", (TOTAL,), wide(0)),
    "arg_max(total, total)": Measure("arg_max", (TOTAL, TOTAL), wide(0)),
    "quantile_disc(total, 0.5)": Measure("quantile_disc", (TOTAL,), wide(0), fraction=0.5),
}


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return [
        tuple([float(f"{v:.12e}") if isinstance(v, float) else v for v in row]) for row in zip(*columns, strict=True)
    ]


@pytest.mark.parametrize("seed", swept(range(12), fast=3))
def test_sums_of_a_subselect_are_keys_and_arguments(seed: int) -> None:
    draw = random.Random(seed)
    pool = (None, 0, 1, -1, 5) if seed % 3 == 0 else (None, 0, 1, -1, 2**62, 2**63 - 1, -(2**63), 2**61)
    rows = [(draw.choice((None, *"abcdefghij")), draw.choice(pool)) for _ in range(draw.choice((4, 60, 60)))]
    table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=["t", "n"])
    table = table.cast(pa.schema([("t", pa.string()), ("n", pa.int64())]))
    soup = LocalPSoup(EngineConfig(chunk_rows=64))
    soup.execute("CREATE STREAM r (t TEXT, n BIGINT)")
    soup.push("r", table)
    plans, database = HandMadePlans(soup, ("r", "r")), empty_database()
    database.register("r", table)
    by_text = Aggregate(plans.sources[0], (plans.column(0, "t"),), (Measure("sum", (plans.column(0, "n"),), wide(0)),))
    inner = Project(
        by_text, tuple([replace(o, name=name) for o, name in zip(by_text.schema, ("t", "total"), strict=True)])
    )
    leaf, sql = relation(inner, "d"), "(SELECT t, sum(n) AS total FROM r GROUP BY t ORDER BY t NULLS LAST)"

    whole = Aggregate(leaf, (), tuple(MEASURES.values()))
    answer_rows = _rows(again(plans.answer, Project(whole, whole.schema)).to_table())
    assert answer_rows == _rows(database.sql(f"SELECT {', '.join(MEASURES)} FROM {sql}").to_arrow_table())

    grouped = Aggregate(leaf, (TOTAL,), (*list(MEASURES.values())[:3], Measure("min", (T,), TEXT)))
    answer_rows = _rows(again(plans.answer, Project(grouped, grouped.schema)).to_table())
    names = ", ".join([*list(MEASURES)[:3], "min(t)"])
    beside = f"SELECT total, {names} FROM {sql} GROUP BY total ORDER BY total NULLS LAST"
    assert answer_rows == _rows(database.sql(beside).to_arrow_table())

    ordered = Sort(all_of(leaf), (OrderKey(TOTAL, True), OrderKey(T)))
    answer_rows = _rows(again(plans.answer, ordered).to_table())
    beside = f"SELECT * FROM {sql} ORDER BY total DESC NULLS LAST, t NULLS LAST"
    assert answer_rows == _rows(database.sql(beside).to_arrow_table())

    totals = Project(leaf, (Output("total", TOTAL),))
    for operator in SetOperator:
        plan = set_operation(totals, totals, operator)
        answer_rows = _rows(again(plans.answer, all_of(relation(plan, place=17))).to_table())
        beside = f"SELECT total FROM {sql} {operator.value} SELECT total FROM {sql}"
        expected = _rows(database.sql(beside).to_arrow_table())
        assert sorted(answer_rows, key=repr) == sorted(expected, key=repr)
    drop_database(database)


JOINED = (
    "SELECT a.t AS x, b.t AS y FROM {d} a JOIN {d} b ON a.total = b.total",
    "SELECT a.t AS x, b.t AS y FROM {d} a LEFT JOIN {d} b ON a.total < b.total",
    "SELECT a.t AS x, r.n AS y FROM {d} a JOIN r ON a.total = r.n",
    "SELECT a.t AS x, r.n AS y FROM {d} a FULL JOIN r ON a.total = r.n",
    "SELECT a.t AS x, r.n AS y FROM {d} a JOIN r ON a.t = r.t AND r.n >= a.total",
    "SELECT a.t AS x, b.t AS y FROM {d} a JOIN r ON r.n = a.total JOIN {d} b ON b.total = a.total",
    "SELECT a.t AS x, a.total AS y FROM {d} a WHERE a.total NOT IN (SELECT r.n FROM r WHERE r.n IS NOT NULL)",
    "SELECT r.t AS x, r.n AS y FROM r WHERE r.n > (SELECT sum(n) FROM r)",
    "SELECT r.t AS x, r.n AS y FROM r WHERE r.n < (SELECT max(total) FROM {d} a)",
)
WITH_DOUBLE = (
    "SELECT r.t AS x, r.f AS y FROM r WHERE r.f <= (SELECT sum(n) FROM r)",
    "SELECT a.t AS x, r.f AS y FROM {d} a JOIN r ON r.f = a.total",
)
"""Joins of sums with DOUBLEs, which are compared exactly. DuckDB rounds the sums first, so they must be small."""


@pytest.mark.parametrize("seed", swept(range(12), fast=1))
def test_sums_of_a_subselect_are_joined(seed: int) -> None:
    draw = random.Random(seed)
    pool = (None, 0, 1, 5) if seed % 2 else (None, 0, 1, 2**62, 2**63 - 1, -(2**63), 2**61)
    floats = [0.0, -0.0, 1.0, 5.5, 2.0**62, 2.0**64, -(2.0**63), float("inf"), float("nan"), None]
    rows = [(draw.choice((None, *"abcdef")), draw.choice(pool), draw.choice(floats)) for _ in range(20)]
    kinds = {"t": pa.string(), "n": pa.int64(), "f": pa.float64()}
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds.values(), strict=True)]
    table = pa.table(arrays, names=list(kinds))
    soup, database = LocalPSoup(EngineConfig(chunk_rows=64)), empty_database()
    soup.execute("CREATE STREAM r (t TEXT, n BIGINT, f DOUBLE)")
    soup.push("r", table)
    database.register("r", table)
    for joined in (*JOINED, *(WITH_DOUBLE if seed % 2 else ())):
        sql = joined.format(d="(SELECT t, sum(n) AS total FROM r GROUP BY t)")
        answer_rows, expected = _rows(again(soup.ask, sql).to_table()), _rows(database.sql(sql).to_arrow_table())
        assert sorted(map(repr, answer_rows)) == sorted(map(repr, expected)), sql
    drop_database(database)
