"""The stream or view of each column in the description of rows, as PostgreSQL gives the table."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from psoup_client import Client
from psoup_testing.pg.script import pg_address
from psoup_testing.services import postgres
from psoup_testing.services.postgres import Postgres
from psoup_testing.services.threaded_service import Serving
from psoup_testing.spark.session import JDBC

PROGRAM = Path(__file__).parents[3] / "fixtures" / "TableNames.java"
STATEMENTS = [
    "SELECT * FROM trades",
    "SELECT price, sym AS s, price * 2, (n), n::float8, count(*) FROM trades GROUP BY price, sym, n",
    "SELECT t.sym, t.* FROM streams.trades t WHERE n > 0 ORDER BY sym LIMIT 3",
    'SELECT DISTINCT "sym", SYM FROM trades',
    "SELECT streams.trades.sym FROM streams.trades",
    "SELECT * FROM queries.hot",
    "SELECT sym AS other, upper(sym) FROM queries.hot",
    "SELECT price FROM hot",
    "SELECT k, v FROM kept",
    "SELECT sym FROM trades WHERE n IN (SELECT v FROM kept)",
    "SELECT 1 AS one, sym FROM trades",
]
TABLES = [
    "CREATE SCHEMA streams",
    "CREATE SCHEMA queries",
    "SET search_path = streams, queries",
    "ALTER DATABASE postgres SET search_path = streams, queries",
    "CREATE TABLE trades (sym text, price float8, n int8 NOT NULL)",
    "CREATE TABLE kept (k text PRIMARY KEY, v int8)",
    "CREATE VIEW queries.hot AS SELECT price, sym FROM trades WHERE price > 10",
]

DRIVERS = [
    *([JDBC] if JDBC.exists() else []),
    *sorted(Path.home().glob(".m2/repository/org/postgresql/postgresql/*/postgresql-*.jar")),
]
"""JDBC's driver, as Debian's package or as Maven puts it."""

Origins = list[tuple[str, str, int]]


@pytest.fixture(scope="module")
def address(running: Serving) -> str:
    """The address of a service with a stream, a table and a query."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM trades (sym TEXT, price DOUBLE, n INT NOT NULL)")
        client.execute("CREATE TABLE kept (k TEXT, v INT, PRIMARY KEY (k))")
        client.register("SELECT price, sym FROM trades WHERE price > 10", key="hot")
    host, port = pg_address(running).rsplit(":", 1)
    return f"host={host} port={port} user=x dbname=d"


@pytest.fixture
def connection(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection without transactions."""
    with psycopg.connect(address, autocommit=True) as connected:
        yield connected


def origins(connection: psycopg.Connection[Any], sql: str) -> Origins:
    """The name of each column of a statement, with the name of its relation and its number there."""
    result = connection.execute(sql, (), binary=True).pgresult
    assert result is not None
    named = list[tuple[str, str, int]]()
    for column in range(result.nfields):
        relation = connection.execute(
            "SELECT relname FROM pg_class WHERE oid = %s", (result.ftable(column),)
        ).fetchone()
        label = result.fname(column)
        assert label is not None
        named.append((label.decode(), relation[0] if relation else "", result.ftablecol(column)))
    return named


def test_columns_of_one_stream_or_view_have_its_oid_and_their_numbers(connection: psycopg.Connection[Any]) -> None:
    expected = [("price", "trades", 2), ("s", "trades", 1), ("price * 2", "", 0), ("n", "trades", 3)]
    assert origins(connection, STATEMENTS[1]) == [*expected, ("n::float8", "", 0), ("count(*)", "", 0)]
    assert origins(connection, "SELECT * FROM queries.hot") == [("price", "hot", 1), ("sym", "hot", 2)]
    assert origins(connection, "SELECT sym FROM hot WHERE price > 11") == [("sym", "hot", 2)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.sym FROM trades t JOIN kept ON t.sym = kept.k",
        "SELECT sym FROM (SELECT sym FROM trades) t",
        "WITH trades AS (SELECT k AS sym FROM kept) SELECT sym FROM trades",
        "SELECT sym FROM trades UNION ALL SELECT k FROM kept",
        "SELECT * EXCLUDE (n) FROM trades",
        "SELECT count(*) FROM trades WHERE n = ANY(ARRAY[1, 2])",
    ],
)
def test_other_statements_have_none(connection: psycopg.Connection[Any], sql: str) -> None:
    assert {origin[1:] for origin in origins(connection, sql)} == {("", 0)}


def test_the_search_path_decides_between_a_stream_and_a_view(
    running: Serving, connection: psycopg.Connection[Any]
) -> None:
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM both (x INT, y INT)")
        client.register("SELECT y, x FROM both WHERE x > 0", key="both")
    assert origins(connection, "SELECT x FROM both") == [("x", "both", 1)]
    connection.execute("SET search_path = queries, streams")
    assert origins(connection, "SELECT x FROM both") == [("x", "both", 2)]


def test_a_prepared_statement_runs_after_its_description(connection: psycopg.Connection[Any]) -> None:
    for _ in range(3):
        cursor = connection.execute("SELECT sym, price FROM trades WHERE n > %s", (0,), prepare=True)
        assert cursor.fetchall() == []


@pytest.mark.long
@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing() or "-")
def test_postgresql_gives_the_same_origins(connection: psycopg.Connection[Any]) -> None:
    with Postgres() as server, psycopg.connect(server.address, autocommit=True) as theirs:
        for statement in TABLES:
            theirs.execute(statement)
        for sql in STATEMENTS:
            ours = [origin[1:] for origin in origins(connection, sql)]
            assert ours == [origin[1:] for origin in origins(theirs, sql)], sql


@pytest.mark.long
@pytest.mark.skipif(not (DRIVERS and shutil.which("java")), reason="java or JDBC's driver is not installed")
def test_jdbc_tells_the_table_of_a_column(address: str) -> None:
    fields = dict(field.split("=") for field in address.split())
    place = f"jdbc:postgresql://{fields['host']}:{fields['port']}/d?user=x"
    sql = "SELECT sym AS s, n, price * 2 AS twice FROM trades"
    command = ["java", "-cp", str(DRIVERS[0]), str(PROGRAM), place, sql, "SELECT * FROM queries.hot"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert shown.stderr == ""
    assert shown.stdout.splitlines() == [  # as at PostgreSQL 15: label, table, schema, column, nullable, automatic
        "s trades streams sym 1 false",
        "n trades streams n 0 false",
        "twice    2 false",
        "price hot queries price 1 false",
        "sym hot queries sym 1 false",
    ]
