"""Binding of aggregates: measures and their types, keys, HAVING, and what reads groups."""

from __future__ import annotations

from itertools import product

import duckdb
import pytest

from psoup.errors import SqlError
from psoup.expressions.tree import GROUPED, AttributeRef, Literal
from psoup.model import BIGINT, BOOLEAN, DOUBLE, TEXT, TIMESTAMP, decimal, wide
from psoup.plan.aggregate import Aggregate, Having, Measure
from psoup.plan.nodes import Distinct, Join, Limit, Project, Sort, plan_text
from psoup.plan.patterns import Pattern
from psoup.plan.updates import updates_of
from psoup.sql.aggregates import AGGREGATES
from psoup_testing.histories.trades import bind, table

SYM, PRICE = AttributeRef(TEXT, 0, "sym"), AttributeRef(decimal(9, 2), 1, "price")


def measure(call: str) -> Measure:
    (found,) = table(bind(f"SELECT {call} FROM trades")).measures
    return found


# Measures --------------------------------------------------------------------------------------------------

POSITIVE = "(qty > 5)"


CALLS = [
    ("count(*)", "count(*)", "BIGINT"),
    ("count()", "count(*)", "BIGINT"),
    ("count(1)", "count(*)", "BIGINT"),
    ("count(qty)", "count(*)", "BIGINT"),  # it is NOT NULL
    ("count(_id)", "count(*)", "BIGINT"),
    ("count(sym)", "count(sym)", "BIGINT"),
    ("COUNT(DISTINCT qty)", "count(DISTINCT qty)", "BIGINT"),
    ("sum(qty)", "sum(qty)", "DECIMAL(38,0)"),
    ("sum(bought)", "sum(CAST(bought AS BIGINT))", "DECIMAL(38,0)"),
    ("sum(NULL)", "sum(CAST(NULL AS BIGINT))", "DECIMAL(38,0)"),
    ("sum(price)", "sum(price)", "DECIMAL(38,2)"),
    ("sum(price * qty)", "sum((price * CAST(qty AS DECIMAL(18,0))))", "DECIMAL(38,2)"),
    ("sum(rate)", "sum(rate)", "DOUBLE"),
    ("sum(DISTINCT price)", "sum(DISTINCT price)", "DECIMAL(38,2)"),
    ("avg(qty)", "avg(qty)", "DOUBLE"),
    ("mean(price)", "avg(price)", "DOUBLE"),
    ("avg(DISTINCT rate)", "avg(DISTINCT rate)", "DOUBLE"),
    ("avg(at)", "avg(at)", "TIMESTAMP"),
    ("avg(day)", "avg(CAST(day AS TIMESTAMP))", "TIMESTAMP"),
    ("min(sym)", "min(sym)", "TEXT"),
    ("max(DISTINCT price)", "max(price)", "DECIMAL(9,2)"),
    ("min(bought)", "min(bought)", "BOOLEAN"),
    ("first(day)", "first(day)", "DATE"),
    ("arbitrary(day)", "first(day)", "DATE"),
    ("last(sym)", "last(sym)", "TEXT"),
    ("any_value(at)", "any_value(at)", "TIMESTAMP"),
    ("arg_min(sym, price)", "arg_min(sym, price)", "TEXT"),
    ("argmin(sym, price)", "arg_min(sym, price)", "TEXT"),
    ("min_by(sym, price)", "arg_min(sym, price)", "TEXT"),
    ("arg_max(qty, at)", "arg_max(qty, at)", "BIGINT"),
    ("max_by(qty, at)", "arg_max(qty, at)", "BIGINT"),
    ("argmax(qty, at)", "arg_max(qty, at)", "BIGINT"),
    ("stddev(qty)", "stddev_samp(CAST(qty AS DOUBLE))", "DOUBLE"),
    ("stddev_samp(rate)", "stddev_samp(rate)", "DOUBLE"),
    ("stddev_pop(rate)", "stddev_pop(rate)", "DOUBLE"),
    ("variance(price)", "var_samp(CAST(price AS DOUBLE))", "DOUBLE"),
    ("var_samp(rate)", "var_samp(rate)", "DOUBLE"),
    ("var_pop(rate)", "var_pop(rate)", "DOUBLE"),
    ("median(qty)", "quantile_cont(CAST(qty AS DOUBLE), 0.5)", "DOUBLE"),
    ("median(day)", "quantile_cont(CAST(day AS TIMESTAMP), 0.5)", "TIMESTAMP"),
    ("quantile_cont(rate, 0.95)", "quantile_cont(rate, 0.95)", "DOUBLE"),
    ("quantile_cont(rate, 1)", "quantile_cont(rate, 1.0)", "DOUBLE"),
    ("quantile_disc(sym, 0.25)", "quantile_disc(sym, 0.25)", "TEXT"),
    ("quantile(price, 2.5e-1)", "quantile_disc(price, 0.25)", "DECIMAL(9,2)"),
    ("approx_quantile(qty, 0.99)", "approx_quantile(CAST(qty AS DOUBLE), 0.99)", "DOUBLE"),
    ("approx_count_distinct(sym)", "approx_count_distinct(sym)", "BIGINT"),
    ("count_if(qty > 5)", f"count(*) FILTER (WHERE {POSITIVE})", "BIGINT"),
    ("countif(bought)", "count(*) FILTER (WHERE bought)", "BIGINT"),
    ("bool_and(bought)", "min(bought)", "BOOLEAN"),
    ("bool_or(qty > 5)", f"max({POSITIVE})", "BOOLEAN"),
    ("bit_and(qty)", "bit_and(qty)", "BIGINT"),
    ("bit_or(DISTINCT qty)", "bit_or(DISTINCT qty)", "BIGINT"),
    ("bit_xor(DISTINCT qty)", "bit_xor(DISTINCT qty)", "BIGINT"),
    ("string_agg(sym)", "string_agg(sym, ',')", "TEXT"),
    (
        "listagg(qty, '; ' ORDER BY qty DESC, sym NULLS FIRST)",
        "string_agg(CAST(qty AS TEXT), '; ' ORDER BY qty DESC, sym NULLS FIRST)",
        "TEXT",
    ),
    ("group_concat(DISTINCT sym, '' ORDER BY sym)", "string_agg(DISTINCT sym, '' ORDER BY sym)", "TEXT"),
    ("first(sym ORDER BY at)", "first(sym ORDER BY at)", "TEXT"),
    ("first(sym ORDER BY 'a', 1)", "first(sym)", "TEXT"),
    ("sum(qty ORDER BY at)", "sum(qty)", "DECIMAL(38,0)"),
    ("arg_max(sym, at ORDER BY qty)", "arg_max(sym, at ORDER BY qty)", "TEXT"),
    ("sum(qty) FILTER (WHERE qty > 5)", f"sum(qty) FILTER (WHERE {POSITIVE})", "DECIMAL(38,0)"),
    ("sum(qty) FILTER (qty > 5)", f"sum(qty) FILTER (WHERE {POSITIVE})", "DECIMAL(38,0)"),
    ("count(*) FILTER (WHERE bought)", "count(*) FILTER (WHERE bought)", "BIGINT"),
    ("count_if(bought) FILTER (WHERE qty > 5)", f"count(*) FILTER (WHERE ({POSITIVE} AND bought))", "BIGINT"),
    ("max(_id)", "max(_id)", "BIGINT"),
    ("max(_time)", "max(_time)", "TIMESTAMP"),
]


@pytest.mark.parametrize(("call", "text", "kind"), CALLS)
def test_each_function_has_its_measure_and_type(call: str, text: str, kind: str) -> None:
    found = measure(call)
    assert (found.text(), str(found.type)) == (text, kind)


def test_every_function_was_looked_at() -> None:
    assert {call.split("(")[0].lower() for call, _, _ in CALLS} == set(AGGREGATES)


COLUMNS = {"sym": "VARCHAR", "price": "DECIMAL(9,2)", "qty": "BIGINT", "rate": "DOUBLE", "bought": "BOOLEAN"}
COLUMNS |= {"at": "TIMESTAMP", "day": "DATE"}
WHOLE = {"quantile_cont", "median", "approx_quantile"}
"""Functions that give a DOUBLE here of any number, while DuckDB's take its type."""


def test_types_are_those_of_duckdb() -> None:
    duck = duckdb.connect(config={"threads": 1})
    columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    duck.execute(f"CREATE TABLE trades ({columns})")
    seen = 0
    for (name, function), column in product(AGGREGATES.items(), COLUMNS):
        rest = {"arg": ", qty", "qua": ", 0.5", "app": ", 0.5"}.get(name[:3], "") if function.most == 2 else ""
        rest = ", qty" if name in ("min_by", "max_by") else rest
        call = f'{name}("{column}"{rest})'
        try:
            (theirs,) = duck.execute(f"SELECT typeof({call}) FROM trades").fetchone()  # type: ignore[misc]
        except duckdb.Error:
            theirs = None
        try:
            (ours,) = bind(f"SELECT {call} AS x FROM trades").select
        except SqlError:
            allowed = ("median", "approx_quantile", "quantile_cont")  # of texts and truth values; estimates of times
            assert theirs is None or name in allowed, call
            continue
        seen += 1
        kind = {"HUGEINT": "DECIMAL(38,0)", "VARCHAR": "TEXT"}.get(str(theirs), theirs)
        if name in WHOLE and column in ("price", "qty"):
            kind = "DOUBLE"
        if name in ("count_if", "countif"):
            kind = "BIGINT"
        assert str(ours.type) == kind, call
    assert seen > 130


def test_equal_measures_and_keys_are_one() -> None:
    query = bind(
        "SELECT sym, count(*), count() + 1 AS more, sum(price) FROM trades GROUP BY sym, trades.SYM, 1"
        " HAVING COUNT(*) > 2 AND SUM(price) > 3 ORDER BY sum(price)"
    )
    aggregate = table(query)
    assert aggregate.keys == (SYM,)
    assert aggregate.measures == (Measure("count", (), BIGINT), Measure("sum", (PRICE,), wide(2)))


def test_what_reads_groups_reads_them_by_place() -> None:
    query = bind(
        "SELECT sum(qty) / 2 AS half, sym FROM trades GROUP BY sym HAVING count(*) > 3 ORDER BY half DESC LIMIT 5"
    )
    limit = query.plan
    assert isinstance(limit, Limit) and isinstance(limit.input, Sort) and isinstance(limit.input.input, Project)
    project = limit.input.input
    assert isinstance(project.input, Having) and isinstance(project.input.input, Aggregate)
    sym, total, rows = project.input.input.columns
    assert [column.source for column in (sym, total, rows)] == [GROUPED] * 3
    half, shown = (output.expr for output in project.outputs)
    assert shown == sym and half == limit.input.keys[0].expr and limit.input.keys[0].descending
    assert plan_text(query.plan) == (
        "Limit 5 (Sort (CAST(sum(qty) AS DOUBLE) / CAST(2 AS DOUBLE)) DESC (Project (CAST(sum(qty) AS DOUBLE) /"
        " CAST(2 AS DOUBLE)) AS half, sym (Having (count(*) > 3) (Aggregate sum(qty), count(*) BY sym (Source trades"
        " BEGIN (START) END (NOW))))))"
    ).replace("CAST(2 AS DOUBLE)", "2.0e0")
    assert updates_of(query.plan).pattern is Pattern.STRICT


def test_an_aggregate_alone_is_one_row() -> None:
    query = bind("SELECT count(*) AS n, 7 AS seven, now() AS at FROM trades WHERE sym = 'a' BEGIN (NOW - 5 MINUTES)")
    aggregate = table(query)
    assert aggregate.keys == () and len(aggregate.measures) == 1
    n, seven, now = query.select
    assert n.expr == aggregate.columns[0] and seven.expr == Literal(BIGINT, 7) and now.type == TIMESTAMP
    assert query.clause == "FROM trades WHERE sym = 'a'"  # shared with selections


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("SELECT sym, count(*) FROM trades GROUP BY sym", ["sym"]),
        ("SELECT sym AS s, count(*) FROM trades GROUP BY s", ["sym"]),
        ("SELECT count(*), sym FROM trades GROUP BY 2", ["sym"]),
        ("SELECT sym, qty % 10 AS last, max(rate) FROM trades GROUP BY ALL", ["sym", "(qty % 10)"]),
        ("SELECT sym, 1 AS one, now() AS n, max(rate) AS m FROM trades GROUP BY ALL", ["sym"]),
        ("SELECT count(*) FROM trades GROUP BY ALL", []),
        ("SELECT 1 AS one FROM trades GROUP BY ()", []),
        ("SELECT sym, qty FROM trades GROUP BY (sym, qty), (), day", ["sym", "qty", "day"]),
        ("SELECT count(*) FROM trades GROUP BY qty % 10, sym", ["(qty % 10)", "sym"]),
        ("SELECT (qty + 1) * 2 AS x FROM trades GROUP BY qty + 1", ["(qty + 1)"]),
        ("SELECT -qty AS qty, count(*) FROM trades GROUP BY qty", ["qty"]),  # a column before an alias
        ("SELECT upper(sym) AS s FROM trades GROUP BY s HAVING s > 'A'", ["upper(sym)"]),
        ("SELECT DISTINCT count(*) FROM trades GROUP BY sym", ["sym"]),
        ("SELECT * FROM quotes GROUP BY ALL", ["sym", "bid"]),
        ("SELECT time_bucket(INTERVAL '1' HOUR, at) AS h FROM trades GROUP BY h", ["time_bucket(INTERVAL 1 HOUR, at)"]),
        (
            "SELECT tumble(at, INTERVAL 15 MINUTES) AS h FROM trades GROUP BY 1",
            ["time_bucket(INTERVAL 15 MINUTES, at)"],
        ),
        ("SELECT TUMBLE(_time, INTERVAL 1 DAY) AS d FROM trades GROUP BY d", ["time_bucket(INTERVAL 1 DAY, _time)"]),
    ],
)
def test_keys_are_columns_aliases_places_or_all(text: str, keys: list[str]) -> None:
    aggregate = table(bind(text))
    assert [column.name for column in aggregate.columns[: len(aggregate.keys)]] == keys


def test_all_of_a_list_of_constants_groups_nothing() -> None:
    plan = bind("SELECT 1 AS one FROM trades GROUP BY ALL").plan
    assert plan_text(plan) == plan_text(bind("SELECT 1 AS one FROM trades").plan)  # a row for each tuple, as in DuckDB


def test_having_takes_a_key_then_an_alias() -> None:
    by_key = bind("SELECT -qty AS qty FROM trades GROUP BY trades.qty HAVING qty > 3").plan
    assert "Having (qty > 3)" in plan_text(by_key)
    by_alias = bind("SELECT sum(qty) AS qty FROM trades HAVING qty > 3").plan
    assert "Having (sum(qty) > 3)" in plan_text(by_alias)
    inside = bind("SELECT sum(qty) AS price FROM trades HAVING sum(price) > 3").plan  # a column inside an aggregate
    assert "Having (sum(price) > 3" in plan_text(inside)
    assert isinstance(bind("SELECT 1 AS one FROM trades HAVING count(*) > 3").plan.inputs[0], Having)
    numbers = bind(
        "SELECT sym FROM trades GROUP BY sym HAVING sum(qty) > 1e3 AND sum(price) < 2.5 AND avg(rate) > 1"
    ).plan
    assert "((sum(qty) > 1000.0e0) AND (sum(price) < 2.5) AND (avg(rate) > 1))" in plan_text(numbers)


def test_order_and_distinct_are_over_groups() -> None:
    query = bind(
        "SELECT sym, count(*) AS n FROM trades GROUP BY sym ORDER BY max(price) DESC, n, 1, sym LIMIT 3 OFFSET 1"
    )
    aggregate = table(query)
    sym, rows, most = aggregate.columns
    sort = query.plan.inputs[0]
    assert isinstance(sort, Sort) and [key.expr for key in sort.keys] == [most, rows, sym, sym]
    every = bind("SELECT DISTINCT sym, sum(qty) AS t FROM trades GROUP BY sym, at ORDER BY ALL").plan
    assert isinstance(every, Sort) and isinstance(every.input, Distinct) and len(every.keys) == 2
    assert [key.text() for key in aggregate.order] == ["sym"]


def test_columns_are_called_as_they_are_written() -> None:
    query = bind("SELECT count(*),  sum( price ) FILTER (WHERE qty > 5), sym, Max(QTY)+1 FROM trades GROUP BY sym")
    assert [output.name for output in query.select] == [
        "count(*)",
        "sum( price ) FILTER (WHERE qty > 5)",
        "sym",
        "Max(QTY)+1",
    ]


def test_a_join_is_grouped_by_the_same_node() -> None:
    query = bind(
        "SELECT t.sym, count(*) AS n, sum(t.qty) FILTER (WHERE q.bid > 1) AS s FROM trades t, quotes q"
        " WHERE t.sym = q.sym AND t.qty > 5 GROUP BY t.sym HAVING max(q.bid) > 2"
    )
    aggregate = table(query)
    assert isinstance(aggregate.input, Join) and len(query.sides) == 2
    assert aggregate.label == "Aggregate count(*), sum(t.qty) FILTER (WHERE (q.bid > 1)), max(q.bid) BY t.sym"
    assert query.select[2].expr == aggregate.columns[2]


def test_rest_of_a_group_is_any_expression() -> None:
    query = bind(
        "SELECT coalesce(sum(qty), 0) % 7 AS a, CASE WHEN count(*) > 3 THEN max(sym) ELSE 'few' END AS b,"
        " sum(qty) BETWEEN 1 AND 9 AS c, sum(price) IN (1, 2.5) AS d, round(avg(rate), 2) AS e, sym || '!' AS f,"
        " CAST(sum(qty) AS BIGINT) & 1 AS g, bool_or(bought) IS TRUE AS h, max(at) - min(at) > INTERVAL 1 HOUR AS i"
        " FROM trades GROUP BY sym"
    )
    assert [str(output.type) for output in query.select] == [
        *("DECIMAL(38,0)", "TEXT", "BOOLEAN", "BOOLEAN", "DOUBLE", "TEXT", "BIGINT", "BOOLEAN", "BOOLEAN")
    ]


def test_aliases_and_types_of_the_table() -> None:
    aggregate = table(bind("SELECT sym, qty, bought, sum(rate) FROM trades GROUP BY ALL"))
    assert [column.type for column in aggregate.columns] == [TEXT, BIGINT, BOOLEAN, DOUBLE]
    assert all(isinstance(column, AttributeRef) for column in aggregate.columns)
    assert [output.name for output in aggregate.schema] == ["sym", "qty", "bought", "sum(rate)"]
