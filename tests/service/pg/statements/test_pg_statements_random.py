"""Random SELECTs over streams and views give the rows that DuckDB gives over the same tuples and answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import duckdb
import psycopg
import pytest

from psoup_client import Client
from psoup_testing.oracles.questions import again
from psoup_testing.services.threaded_service import Serving
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

ROWS = 60
VIEWS = {
    "some": "SELECT n, k, p FROM s WHERE n > 10",
    "Last": "SELECT n, k, p FROM t BEGIN (NOW - 25 ROWS)",
    "grouped": "SELECT k, count(*) AS n, max(p) AS p FROM s GROUP BY k -- by key",
    "joined": "SELECT s.n, t.k, s.p FROM s [ROWS 30], t WHERE s.k = t.k AND t.n < 15",
    "both": "SELECT n, k, p FROM s UNION SELECT n, k, p FROM t BEGIN (NOW - 1 DAY)",
    "top": "WITH w AS (SELECT * FROM t WHERE p > 1) SELECT n, k, p FROM w ORDER BY n LIMIT 7",
}
RELATIONS = ["streams.s", "streams.t", "s", *(f'queries."{key}"' for key in VIEWS), "queries.some", "joined"]
Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def place(running: Serving) -> Iterator[tuple[Connection, duckdb.DuckDBPyConnection]]:
    """A connection to a service with streams and views, and DuckDB with their rows."""
    rng = random.Random(7)
    with Client(running.address, timeout=60) as client, duckdb.connect() as duck:
        for schema in ("streams", "queries"):
            duck.execute(f"CREATE SCHEMA {schema}")
        for name in ("s", "t"):
            client.create_stream(f"CREATE STREAM {name} (n BIGINT, k TEXT, p DOUBLE)")
            rows = [
                {"n": rng.choice([None, rng.randrange(30)]), "k": rng.choice("abcd'"), "p": rng.randrange(8) / 4}
                for _ in range(ROWS)
            ]
            client.push(name, rows)
            duck.register("answer", client.ask(f"SELECT n, k, p FROM {name}").to_arrow())
            duck.execute(f"CREATE TABLE streams.{name} AS SELECT * FROM answer")
        for key, text in VIEWS.items():
            duck.register("answer", client.register(text, key=key).invoke().to_arrow())
            duck.execute(f'CREATE TABLE queries."{key}" AS SELECT * FROM answer')
        assert running.service.pg is not None
        host, port = running.service.pg.address.rsplit(":", 1)
        with psycopg.connect(host=host, port=int(port), user="x", autocommit=True) as connection:
            yield connection, duck


def select(rng: random.Random) -> tuple[str, list[Any]]:
    """A random SELECT with its arguments."""
    values = list[Any]()

    def value(kind: str) -> str:
        values.append({"n": rng.randrange(30), "k": rng.choice("abcd'"), "p": rng.randrange(8) / 4}[kind])
        return f"${len(values)}"

    def condition(name: str) -> str:
        column = rng.choice("nkp")
        simple = f"{name}.{column} {rng.choice(['<', '<=', '=', '<>', '>'])} {value(column)}"
        return rng.choice([simple, f"NOT ({simple})", f"({simple} OR {name}.n IS NULL)"])

    def inner() -> str:
        return f"(SELECT x.k FROM {rng.choice(RELATIONS)} x WHERE {condition('x')})"

    source = f"{rng.choice(RELATIONS)} a"
    conditions = [condition("a") for _ in range(rng.randrange(3))]
    if rng.random() < 0.4:
        source += f" {rng.choice(['JOIN', 'LEFT JOIN'])} {rng.choice(RELATIONS)} b ON a.k = b.k AND a.n = b.n"
    if rng.random() < 0.3:
        conditions.append(f"a.k {rng.choice(['IN', 'NOT IN'])} {inner()}")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if rng.random() < 0.4:
        return f"SELECT a.k, count(*) AS c, sum(a.n) AS n, min(a.p) AS p FROM {source}{where} GROUP BY a.k", values
    if rng.random() < 0.3:
        limit = f" ORDER BY 1, 2, 3 LIMIT {rng.randrange(9)}"
        return f"SELECT DISTINCT a.n, a.k, a.p FROM {source}{where}{limit}", values
    return f"SELECT a.n, a.k AS key, a.p * 2 AS twice FROM {source}{where}", values


@pytest.mark.parametrize("seed", swept(range(scaled(40)), fast=4))
def test_a_random_select_gives_the_rows_of_duckdb(
    place: tuple[Connection, duckdb.DuckDBPyConnection], seed: int
) -> None:
    rng = random.Random(seed)
    connection, duck = place
    sql, values = select(rng)

    def rows() -> list[Any]:
        cursor = psycopg.RawCursor(connection)
        return sorted(cursor.execute(sql, values, binary=rng.random() < 0.5).fetchall(), key=repr)

    expected = duck.execute(
        sql.replace("FROM s ", "FROM streams.s ")
        .replace("JOIN s ", "JOIN streams.s ")
        .replace("FROM joined", "FROM queries.joined")
        .replace("JOIN joined", "JOIN queries.joined"),
        values,
    ).fetchall()
    assert again(rows) == sorted(expected, key=repr), (sql, values)
