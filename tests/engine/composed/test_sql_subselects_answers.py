"""Set operations, subselects in FROM, WITH and VALUES have DuckDB's answers, registered before and after the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database
from psoup_testing.oracles.questions import again

STATEMENTS = """
SELECT k FROM r UNION SELECT k FROM s
SELECT k FROM r UNION ALL SELECT y FROM s
SELECT k, x FROM r INTERSECT SELECT k, y FROM s
SELECT k, x FROM r INTERSECT ALL SELECT k, y FROM s
SELECT k FROM r EXCEPT SELECT k FROM s
SELECT x FROM r EXCEPT ALL SELECT y FROM s
SELECT k FROM r EXCEPT SELECT k FROM s UNION SELECT x FROM r INTERSECT SELECT y FROM s
(SELECT k FROM r EXCEPT SELECT k FROM s) UNION ALL (SELECT x FROM r INTERSECT SELECT y FROM s)
SELECT k, NULL FROM r UNION SELECT NULL, w FROM s
SELECT z FROM r UNION SELECT k FROM s
SELECT d FROM r UNION SELECT k FROM s
SELECT w FROM r UNION ALL SELECT k FROM s
SELECT f FROM r UNION SELECT t FROM s
SELECT k > 1 FROM r UNION SELECT k FROM s
SELECT k, count(*) FROM r GROUP BY k UNION ALL SELECT k, sum(y) FROM s GROUP BY k
SELECT sum(x) FROM r UNION ALL SELECT count(*) FROM s
SELECT r.k, y FROM r, s WHERE r.k = s.k UNION SELECT k, x FROM r WHERE x > 2
SELECT DISTINCT k FROM r UNION ALL SELECT DISTINCT k FROM s
SELECT k FROM r UNION ALL SELECT 5 UNION ALL VALUES (6), (NULL)
SELECT z FROM r EXCEPT VALUES (-0.0), (1.5)
SELECT k, x FROM (SELECT k, x + 1 AS x FROM r WHERE x > 1) t WHERE x > 3
SELECT t.k, s.y FROM (SELECT k, x FROM r WHERE x > 1) t JOIN s ON t.k = s.k WHERE t.x < 5
SELECT s.k, one FROM s LEFT JOIN (SELECT k, 1 AS one FROM r WHERE x > 3) t USING (k)
SELECT s.k, m FROM s LEFT JOIN (SELECT k, x + 1 AS m FROM r WHERE x > 3) t USING (k)
SELECT s.k, m, y FROM (SELECT k, coalesce(x, -1) AS m FROM r) t FULL JOIN s ON t.k = s.k AND t.m > s.y
SELECT t.k, c FROM (SELECT k, count(*) AS c FROM r GROUP BY k) t JOIN s ON t.k = s.k WHERE c > 1
SELECT k, c FROM (SELECT k, count(*) AS c, max(x) AS m FROM r GROUP BY k) WHERE m > 2 AND k IS NOT NULL
SELECT max(c), sum(c) FROM (SELECT count(*) AS c FROM r GROUP BY k) t
SELECT s.k, t.d FROM s LEFT JOIN (SELECT DISTINCT k, d FROM r) t ON s.k = t.k
SELECT u.k, count(*) FROM (SELECT k FROM r UNION ALL SELECT k FROM s) u GROUP BY u.k HAVING count(*) > 2
SELECT u.k, s.y FROM (SELECT k FROM r UNION SELECT x FROM r) u, s WHERE u.k = s.k
WITH t AS (SELECT k, x FROM r), u(j, m) AS (SELECT k, max(x) FROM t GROUP BY 1) SELECT m FROM t, u WHERE j = k
WITH t AS (SELECT k FROM r), u AS (SELECT k FROM s) SELECT k FROM t EXCEPT ALL SELECT k FROM u
WITH t AS (SELECT k, y FROM s WHERE y > 2) SELECT a.k, b.y FROM t a, t b WHERE a.k = b.k AND a.y <= b.y
WITH r AS (SELECT k AS j FROM r WHERE x > 2) SELECT j FROM r
WITH t AS (WITH u AS (SELECT k FROM r WHERE x > 1) SELECT k FROM u) SELECT t.k, y FROM t JOIN s USING (k)
SELECT r.k, n FROM r JOIN (VALUES (1, 'one'), (2, 'two'), (NULL, 'none')) v(k, n) ON r.k = v.k
SELECT r.k, n FROM r LEFT JOIN (VALUES (1, 'one'), (3, NULL)) v(k, n) ON r.k = v.k AND r.x > 1
SELECT v.a, x FROM (VALUES (1), (9)) v(a) LEFT JOIN r ON v.a = r.k
SELECT k FROM r WHERE k IN (SELECT k FROM s UNION SELECT 2)
SELECT r.k AS a, v.k AS b FROM (r JOIN s ON r.k = s.k) JOIN s v ON r.x = v.y
SELECT r.k, s.y FROM r LEFT JOIN (s JOIN s v ON s.y = v.k) ON r.k = s.k WHERE v.w IS NULL OR v.w = 'a'
SELECT r.k, s.y FROM r LEFT JOIN s LEFT JOIN s v ON s.y = v.k ON r.k = s.k AND v.y > 1
SELECT j.x, j.y FROM (r JOIN s USING (k)) AS j WHERE j.k > 1
SELECT q.k FROM (r) q WHERE q.x > 1
SELECT r.x, v.y FROM r RIGHT JOIN (s v LEFT JOIN (SELECT k, 1 AS one FROM r) t USING (k)) USING (k) WHERE one = 1
SELECT x FROM r WHERE x IN (SELECT r.k FROM r RIGHT JOIN s ON r.x = s.y WHERE coalesce(r.x, 1) < 2)
SELECT x FROM r WHERE x IN (SELECT r.k FROM r FULL JOIN s ON r.x = s.y WHERE s.k = 2 AND coalesce(r.x, 1) < 4)
SELECT k FROM r WHERE k NOT IN (VALUES (1), (2))
SELECT k, x FROM r UNION BY NAME SELECT y, K, w FROM s
SELECT k FROM r UNION ALL BY NAME (SELECT DISTINCT z, k FROM s)
SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k LIMIT 1)
SELECT k FROM r WHERE k = ANY (SELECT k FROM s) AND x <> ALL (SELECT y FROM s WHERE y > 3)
SELECT k FROM r WHERE EXISTS (WITH u AS (SELECT k AS j FROM s WHERE y > 1) SELECT 1 FROM u WHERE u.j = r.k)
SELECT k FROM r WHERE k IN (SELECT k FROM (SELECT k, max(y) AS m FROM s GROUP BY k) g WHERE m > 2)
SELECT k, x FROM r WHERE x > (SELECT avg(c) FROM (SELECT count(*) AS c FROM s GROUP BY k) g)
SELECT t.w, count(*) FROM (SELECT r.w, s.y FROM r LEFT JOIN s ON r.k = s.k) t WHERE t.y > 1 OR t.w = 'a' GROUP BY t.w
SELECT t.a, t.b FROM (SELECT r.k AS a, s.k AS b FROM r FULL JOIN s ON r.k = s.k AND r.x = s.y) t WHERE t.b IS NULL
SELECT q.w FROM s JOIN (SELECT r.k, v.w FROM r LEFT JOIN (VALUES (1, 'p')) v(j, w) ON r.k = v.j) q ON q.k = s.k
SELECT i.k FROM (SELECT * FROM (SELECT k, x FROM r WHERE x > 1) a WHERE k > 0) i UNION SELECT y FROM s
"""

ORDERED = """
SELECT k, x FROM r UNION SELECT k, y FROM s ORDER BY k, x DESC
SELECT k, x FROM r UNION ALL SELECT k, y FROM s ORDER BY 2, 1 LIMIT 5 OFFSET 2
SELECT k AS j FROM r INTERSECT SELECT k FROM s ORDER BY j DESC
(SELECT x FROM r ORDER BY x LIMIT 3) UNION ALL (SELECT y FROM s ORDER BY y DESC LIMIT 2)
SELECT t.k, t.x FROM (SELECT k, x FROM r ORDER BY x, k LIMIT 4) t ORDER BY t.k, t.x
SELECT u.k + 1 AS j FROM (SELECT k FROM r EXCEPT SELECT y FROM s) u ORDER BY 1
SELECT x FROM r UNION ALL SELECT y FROM s
SELECT 7 AS c, x FROM r ORDER BY c, x
SELECT c, x FROM (SELECT 7 AS c, x FROM r) t ORDER BY c DESC, 2
"""


def rows(seed: int, count: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    times = ["2020-01-01 00:00:00", "2020-01-02 10:30:00", None]
    return [
        (
            chance.choice([1, 2, 3, 4, None]),
            chance.choice([0, 1, 2, 3, 4, 5, None]),
            chance.choice([0.0, -0.0, 1.5, float("nan"), None]),
            chance.choice(["1.50", "2.00", None]),
            chance.choice(["a", "b", None]),
            chance.choice(["2020-01-01", "2020-01-02", None]),
            chance.choice(times),
        )
        for _ in range(count)
    ]


COLUMNS = {
    "r": "k BIGINT, x BIGINT, z DOUBLE, d DECIMAL(6,2), w TEXT, f DATE, t TIMESTAMP",
    "s": "k BIGINT, y BIGINT, z DOUBLE, d DECIMAL(6,2), w TEXT, f DATE, t TIMESTAMP",
}


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = empty_database()
    for seed, (name, columns) in enumerate(COLUMNS.items()):
        connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?)", rows(seed, 24))
    yield connection
    drop_database(connection)


def lines(statements: str) -> list[str]:
    return [line for line in statements.splitlines() if line]


class Both:
    """A soup in which the statements are registered, before the rows of its streams or after them."""

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self.soup = LocalPSoup(clock=VirtualClock())
        for name, columns in COLUMNS.items():
            self.soup.execute(f"CREATE STREAM {name} ({columns})")
        self.first = self.registered()
        for name in COLUMNS:
            self.soup.push(name, duck.sql(f"SELECT * FROM {name}").to_arrow_table())
        self.last = self.registered()

    def registered(self) -> dict[str, int]:
        return {text: self.soup.register(text) for text in [*lines(STATEMENTS), *lines(ORDERED)]}


@pytest.fixture(scope="module")
def both(duck: duckdb.DuckDBPyConnection) -> Both:
    return Both(duck)


def listed(table: pa.Table, schema: pa.Schema) -> list[tuple[str, ...]]:
    """The rows of a table, as values of the types of `schema`."""
    typed = table.rename_columns(schema.names).cast(schema)
    return [tuple(map(repr, row)) for row in zip(*(column.to_pylist() for column in typed.columns), strict=True)]


@pytest.mark.parametrize("text", [*lines(STATEMENTS), *lines(ORDERED)])
def test_a_statement_has_duckdbs_answer(both: Both, duck: duckdb.DuckDBPyConnection, text: str) -> None:
    expected = duck.sql(text).to_arrow_table()
    got = listed(again(both.soup.invoke, both.first[text]).to_table(), expected.schema)
    assert got == listed(again(both.soup.invoke, both.last[text]).to_table(), expected.schema)
    want = listed(expected, expected.schema)
    if text in lines(ORDERED):
        assert got == want
    else:
        assert sorted(got) == sorted(want)
