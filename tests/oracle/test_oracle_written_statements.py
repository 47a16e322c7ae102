"""Statements as people write them: every answer equals DuckDB's over the same rows, which have NULLs in all columns."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.errors import SqlError
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.oracles.duckdb_answers import normal_rows
from psoup_testing.oracles.questions import again

NOW = 1_704_500_000 * SECOND
DAYS = [dt.datetime(2024, 1, 1 + place // 2) for place in range(6)]
TIMES = pa.timestamp("us")
TABLES = {
    "a": (
        "k BIGINT, ts TIMESTAMP, x BIGINT, p DECIMAL(8, 2), s TEXT",
        pa.table(
            {
                "k": [1, 2, 3, None, 2, 1],
                "ts": pa.array(DAYS, TIMES),
                "x": [5, 6, 7, 8, None, 5],
                "p": pa.array([1, 2, 3, 4, 5, None], pa.decimal128(8, 2)),
                "s": ["u", "v", "w", None, "v", "z"],
            }
        ),
    ),
    "b": (
        "k BIGINT, ts TIMESTAMP, y BIGINT, s TEXT",
        pa.table(
            {
                "k": [1, 1, 3, None, 2],
                "ts": pa.array(DAYS[:5], TIMES),
                "y": [5, 60, 7, 8, None],
                "s": ["u", "v", None, None, "z"],
            }
        ),
    ),
}
NAMES = """
SELECT t.u, t.v FROM a AS t(u, v)
SELECT u + 1 AS w, x, t.p FROM a t(u) ORDER BY w DESC NULLS LAST, x
SELECT * FROM a AS t(u, v) WHERE u > 1 AND t.v > TIMESTAMP '2024-01-01' AND x > 2
SELECT t.u, r.z FROM a AS t(u) JOIN b AS r(m, n, z) ON t.u = r.m WHERE z > 5 AND t.x IS NOT NULL
SELECT m, x, z FROM a AS t(m) JOIN b AS r(m, n, z) USING (m)
SELECT t.u, r.z FROM a AS t(u) LEFT JOIN b AS r(m, n, z) ON t.u = r.m AND z > 5 WHERE u < 3
SELECT u, count(*) AS n FROM a t(u) WHERE u IN (1, 2) GROUP BY u
SELECT x FROM a t(u) WHERE EXISTS (SELECT 1 FROM b r(m) WHERE m = t.u AND r.y > 6)
SELECT m FROM (SELECT k, x FROM a WHERE x > 5) AS t(m, n)
WITH w AS (SELECT k, x FROM a) SELECT m, n FROM w AS t(m, n) WHERE n > 5
"""
ROWS = """
SELECT x FROM a WHERE (k, x) IN (SELECT k, y FROM b)
SELECT x FROM a WHERE (k, s) IN (SELECT k, s FROM b WHERE y > 1) AND x > 2
SELECT x FROM a WHERE (k, x) IN (SELECT k, max(y) FROM b GROUP BY k)
SELECT x FROM a WHERE (k, x) IN ((1, 5), (2, 6))
SELECT x FROM a WHERE (k, x) IN ((1, 5), (2, NULL))
SELECT x FROM a WHERE (k, x) NOT IN ((1, 5), (2, NULL))
SELECT x FROM a WHERE (k, x) = (1, 5)
SELECT x FROM a WHERE (k, x) <> (1, 5)
SELECT x FROM a WHERE NOT ((k, x) = (1, 5)) AND p > 1
SELECT (k, x) = (2, NULL) AS same, (k, p) <> (3, 3.0) AS other FROM a
SELECT a.x, b.y FROM a, b WHERE (a.k, a.ts) = (b.k, b.ts)
SELECT a.x, b.y FROM a JOIN b ON (a.k, a.s) = (b.k, b.s)
SELECT a.x, b.y FROM a LEFT JOIN b ON (a.k, a.x) = (b.k, b.y)
SELECT a.x FROM a, b WHERE (a.s, a.x) = ('u', b.y)
"""

SINGLE = """
SELECT k, count(*) - (SELECT count(*) FROM b) AS n FROM a GROUP BY k
SELECT k, (SELECT max(y) FROM b) AS m, count(*) AS n FROM a GROUP BY k, m
SELECT k, count(*) AS n FROM a GROUP BY k HAVING count(*) > (SELECT count(*) FROM b) - 4
SELECT k, sum(x)::BIGINT AS m FROM a GROUP BY k HAVING sum(x) > (SELECT sum(y) FROM b) / 20
SELECT k, sum(x)::BIGINT m FROM a GROUP BY k HAVING sum(x) > (SELECT avg(n) FROM (SELECT sum(x) n FROM a GROUP BY k) t)
SELECT k, max(s) AS m FROM a GROUP BY k HAVING max(s) >= (SELECT min(s) FROM a) ORDER BY m
SELECT k, max(p) AS m FROM a WHERE x > (SELECT min(y) FROM b) GROUP BY k HAVING max(p) >= (SELECT avg(p) FROM a)
SELECT k, count(*) AS n FROM a GROUP BY k ORDER BY abs(n - (SELECT count(*) FROM b) + 4) DESC, k
SELECT x FROM a ORDER BY abs(x - (SELECT max(y) FROM b) + 54), x LIMIT 3
SELECT x, rank() OVER (ORDER BY x - (SELECT min(y) FROM b)) AS r FROM a
SELECT x FROM a QUALIFY row_number() OVER (ORDER BY x) < (SELECT min(y) FROM b)
SELECT x, (SELECT avg(n) FROM (SELECT sum(x) AS n FROM a GROUP BY k) t) AS m FROM a
"""
CORRELATED = """
SELECT x, (SELECT max(b.y) FROM b WHERE b.k = a.k) AS m FROM a
SELECT x FROM a WHERE x > (SELECT min(b.y) FROM b WHERE b.k = a.k)
SELECT x, (SELECT count(*) FROM b WHERE b.k = a.k) AS m FROM a
SELECT x, (SELECT count(*) + 1 FROM b WHERE b.k = a.k AND b.y > 5) AS m FROM a
SELECT x, (SELECT coalesce(sum(y), -1) FROM b WHERE b.k = a.k AND b.ts = a.ts)::BIGINT AS m FROM a
SELECT x FROM a WHERE (SELECT count(*) FROM b WHERE b.k = a.k) = 0
SELECT x FROM a WHERE (SELECT count(*) FROM b WHERE k = a.k) > 1 AND x > 2
SELECT x FROM a ORDER BY (SELECT count(*) FROM b WHERE b.k = a.k) DESC, x
SELECT x, (SELECT max(y) FROM b WHERE b.k = a.k + 1) AS m, (SELECT min(y) FROM b WHERE a.k = b.k) AS n FROM a
SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k WHERE b.y = (SELECT max(c.y) FROM b c WHERE c.k = a.k)
SELECT t.x, t.m FROM (SELECT x, (SELECT max(y) FROM b WHERE b.k = a.k) AS m FROM a) t WHERE m > 6
SELECT k, sum((SELECT count(*) FROM b WHERE b.k = a.k))::BIGINT AS n FROM a GROUP BY k
SELECT x, (SELECT max(y) FROM b WHERE b.k = a.k AND b.y > (SELECT min(y) FROM b)) AS m FROM a
SELECT x, (SELECT max(y) FROM b WHERE b.k = a.k) - (SELECT min(y) FROM b) AS m FROM a
SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y >= (SELECT max(c.y) FROM b c WHERE c.k = b.k))
SELECT k, (SELECT max(y) FROM b WHERE b.k = a.k) AS m FROM a GROUP BY k
SELECT x FROM a WHERE x = (SELECT max(c.x) FROM a c WHERE c.s = a.s)
SELECT x, (SELECT string_agg(s, '-' ORDER BY s) FROM b WHERE b.k = a.k) AS m FROM a
SELECT x, (SELECT count(*) FILTER (WHERE b.y > 5) FROM b WHERE b.k = a.k) AS m FROM a
SELECT x, (SELECT count(*) FROM b WHERE (b.k, b.ts) = (a.k, a.ts)) AS m FROM a
SELECT x, (SELECT avg(n) FROM (SELECT k, count(*) AS n FROM b GROUP BY k) t WHERE t.k = a.k) AS m FROM a
SELECT x, (SELECT max(r.y) FROM b AS r(kk) WHERE r.kk = a.k) AS m FROM a
SELECT k, (SELECT count(*) FROM b WHERE b.k = a.k) AS m FROM a GROUP BY k ORDER BY m, k
SELECT k, count(*) AS n FROM a GROUP BY k HAVING count(*) >= (SELECT count(*) FROM b WHERE b.k = a.k)
SELECT count(*) AS n, max((SELECT max(y) FROM b WHERE b.k = a.x)) AS m FROM a
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    soup = LocalPSoup(clock=VirtualClock(NOW))
    for name, (columns, rows) in TABLES.items():
        soup.execute(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts")
        soup.push(name, rows)
    return soup


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    duck = duckdb.connect(config={"threads": 1})
    for name, (columns, rows) in TABLES.items():
        duck.register(f"{name}_rows", rows)
        duck.execute(f"CREATE TABLE {name} ({columns})")
        duck.execute(f"INSERT INTO {name} SELECT * FROM {name}_rows")
    return duck


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def plain(rows: list[tuple[Any, ...]], *, ordered: bool) -> list[tuple[Any, ...]]:
    """Rows without time zones, sorted unless they are `ordered`."""
    local = [tuple(v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in row) for row in rows]
    normal = normal_rows(local)
    return normal if ordered else sorted(normal, key=repr)


@pytest.mark.parametrize("sql", [*lines(NAMES), *lines(ROWS), *lines(SINGLE), *lines(CORRELATED)])
def test_an_answer_is_that_of_duckdb(soup: LocalPSoup, duck: duckdb.DuckDBPyConnection, sql: str) -> None:
    ordered = "ORDER BY" in sql.rpartition(")")[2]
    answer, wanted = again(soup.ask, sql).to_table(), duck.execute(sql)
    assert answer.column_names == [column[0] for column in wanted.description or ()]
    assert plain(rows_of(answer), ordered=ordered) == plain(wanted.fetchall(), ordered=ordered)


REFUSED = {
    "SELECT u FROM a t(u, b, c, d, e, f)": "the list has 6 names, and the stream 5 columns",
    "SELECT u FROM a t(u) WHERE k = 1": "t has no column 'k'",
    "SELECT x FROM a t(x)": "t has several columns 'x'",
    "SELECT x FROM a WHERE (k, x) NOT IN (SELECT k, y FROM b)": "a row of several values before NOT IN",
    "SELECT x FROM a WHERE (k, x, 1) IN (SELECT k, y FROM b)": "the row before IN has 3 values, and the subselect 2",
    "SELECT x FROM a WHERE k IN (SELECT k, y FROM b)": "the subselect of IN has one column",
    "SELECT x FROM a WHERE (k, x) = (1, 2, 3)": "a row of 2 values is compared with 3 values",
    "SELECT x FROM a WHERE (k, x) IN (1, 2)": "a row of 2 values is compared with one value",
    "SELECT x FROM a WHERE (k, x) = 1": "a row of several values here is not supported",
    "SELECT x FROM a WHERE (k, x) < (1, 2)": "a row of several values here is not supported",
    "SELECT x FROM a WHERE (k, x) = (1, 'z')": "'z'",
    "SELECT count(*) AS n FROM a HAVING count(*) > (SELECT count(*) FROM b)": "beside aggregates without GROUP BY",
    "SELECT x, (SELECT max(b.y) FROM b WHERE b.k >= a.k) AS m FROM a": "outside of it other than by equalities",
    "SELECT x, (SELECT max(b.y + a.x) FROM b WHERE b.k = a.k) AS m FROM a": "outside of it in its SELECT list",
    "SELECT (SELECT max(y) FROM b WHERE k = a.k AND EXISTS (SELECT 1 FROM b c WHERE c.y = x)) FROM a": "EXISTS and IN",
    "SELECT (SELECT max(y) FROM b WHERE y > (SELECT min(c.y) FROM b c WHERE c.k = a.k)) FROM a": "outside of it",
    "SELECT k, (SELECT max(y) FROM b WHERE b.k = a.x) AS m FROM a GROUP BY k": "neither grouped nor aggregated",
    "SELECT x FROM a JOIN b USING (k) GROUP BY (SELECT max(y) FROM b)": "a subselect in GROUP BY is not supported",
    "SELECT x FROM a UNION SELECT y FROM b ORDER BY (SELECT max(y) FROM b)": "a subselect in ORDER BY is not supported",
}


@pytest.mark.parametrize(("sql", "message"), REFUSED.items())
def test_a_refusal_names_the_fault(soup: LocalPSoup, sql: str, message: str) -> None:
    with pytest.raises(SqlError) as refused:
        soup.ask(sql)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("SELECT x FROM a WHERE (k, x) = (?, ?)", [(1, 5), (2, None)], [[5, 5], [None]]),
        ("SELECT x FROM a WHERE (k, x) IN ((?, ?), (3, 7))", [(1, 5), (2, 6)], [[5, 7, 5], [6, 7]]),
        ("SELECT u FROM a t(u) WHERE u = ?", [(1,), (3,)], [[1, 1], [3]]),
        (
            "SELECT x FROM a WHERE (SELECT count(*) FROM b WHERE b.k = a.k AND y > ?) = 1",
            [(1,), (6,)],
            [[7], [5, 7, 5]],
        ),
        ("SELECT x FROM a WHERE (k, x) IN (SELECT k, y FROM b WHERE y > ?)", [(1,), (6,)], [[5, 7, 5], [7]]),
    ],
)
def test_rows_and_names_take_parameters(
    soup: LocalPSoup, sql: str, values: list[tuple[Any, ...]], expected: list[list[Any]]
) -> None:
    answers = [again(soup.invoke, query).to_table() for query in soup.register_many(sql, values)]
    assert [table.column(0).to_pylist() for table in answers] == expected
