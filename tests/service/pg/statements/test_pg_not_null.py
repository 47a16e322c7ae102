"""NULL for a column that takes none is refused as PostgreSQL refuses it: at the statement, by 23502 and the column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from psoup_client import Client
from psoup_testing.pg.script import pg_address
from psoup_testing.services import postgres
from psoup_testing.services.postgres import Postgres
from psoup_testing.services.threaded_service import Serving

STRICT, KEPT = 'of relation "strict"', 'of relation "kept"'
STATEMENTS = [
    ("INSERT INTO strict (b) VALUES ('x')", "a", STRICT),
    ("INSERT INTO strict VALUES (1, 'x', 2), (2, 'y', NULL), (NULL, 'z', NULL)", "c", STRICT),
    ("INSERT INTO strict VALUES (DEFAULT, 'z', DEFAULT)", "a", STRICT),
    ("INSERT INTO strict (c, a) VALUES (NULL, NULL)", "a", STRICT),
    ("INSERT INTO kept (v) VALUES (1)", "k", KEPT),
    ("INSERT INTO kept VALUES ('k', NULL)", "v", KEPT),
    ("INSERT INTO kept VALUES (NULL, NULL)", "k", KEPT),
]


@pytest.fixture(scope="module")
def address(running: Serving) -> str:
    """The address of a service with a stream and a table."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM strict (a INT NOT NULL, b TEXT, c INT NOT NULL)")
        client.create_stream("CREATE STREAM timed (at TIMESTAMP NOT NULL, n INT) TIMESTAMP BY at")
        client.execute("CREATE TABLE kept (k TEXT, v INT NOT NULL, PRIMARY KEY (k))")
    host, port = pg_address(running).rsplit(":", 1)
    return f"host={host} port={port} user=x dbname=d"


@pytest.fixture
def connection(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection without transactions."""
    with psycopg.connect(address, autocommit=True) as connected:
        yield connected


def refusal(connection: psycopg.Connection[Any], sql: str, data: str = "") -> psycopg.Error:
    """The error of a statement, with `data` of a COPY."""
    try:
        if data:
            with connection.cursor().copy(sql) as copy:
                copy.write(data)
        else:
            connection.execute(sql)
    except psycopg.Error as problem:
        return problem
    raise AssertionError(f"{sql} was not refused")


def shown(problem: psycopg.Error) -> tuple[Any, ...]:
    """The fields of an error that programs read."""
    diag = problem.diag
    return type(problem), diag.sqlstate, diag.message_primary, diag.table_name, diag.column_name


@pytest.mark.parametrize(("sql", "column", "relation"), STATEMENTS)
def test_null_is_refused_with_the_column(
    connection: psycopg.Connection[Any], sql: str, column: str, relation: str
) -> None:
    problem = refusal(connection, sql)
    assert isinstance(problem, psycopg.errors.NotNullViolation)
    assert problem.diag.message_primary == f'null value in column "{column}" {relation} violates not-null constraint'
    assert problem.diag.column_name == column
    assert connection.execute("SELECT count(*) FROM strict").fetchone() == (0,)


def test_the_row_is_counted_over_the_whole_statement(connection: psycopg.Connection[Any]) -> None:
    rows = ", ".join([f"({n}, 'x', {n})" for n in range(20_000)])
    problem = refusal(connection, f"INSERT INTO strict VALUES {rows}, (1, 'x', NULL)")
    assert problem.diag.message_detail == "Row 20001 of the statement has NULL in this column."
    data = "".join([f"{n}\tx\t{n}\n" for n in range(20_000)])
    problem = refusal(connection, "COPY strict FROM STDIN", f"{data}\\N\tx\t1\n")
    assert (problem.diag.column_name, problem.sqlstate) == ("a", "23502")
    assert problem.diag.message_detail == "Row 20001 of the statement has NULL in this column."


def test_arguments_and_times_are_checked_too(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation):
        connection.execute("INSERT INTO strict VALUES (%s, 'x', %s)", (1, None))
    with pytest.raises(psycopg.errors.NotNullViolation):
        connection.execute("INSERT INTO timed (n) VALUES (1)")


def test_a_deletion_needs_the_key_only(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO kept VALUES ('k', 1)")
    connection.execute("INSERT INTO kept (k, _deleted) VALUES ('k', true)")
    assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    assert refusal(connection, "INSERT INTO kept (v, _deleted) VALUES (1, true)").diag.column_name == "k"
    assert refusal(connection, "INSERT INTO kept (k, _deleted) VALUES ('k', false)").diag.column_name == "v"


def test_in_a_transaction_the_statement_fails_and_not_the_commit(address: str) -> None:
    with psycopg.connect(address) as connection:
        with pytest.raises(psycopg.errors.NotNullViolation):
            connection.execute("INSERT INTO strict (b) VALUES ('x')")
        assert connection.info.transaction_status is psycopg.pq.TransactionStatus.INERROR
        connection.rollback()


@pytest.mark.long
@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing() or "-")
def test_postgresql_refuses_the_same(connection: psycopg.Connection[Any]) -> None:
    with Postgres() as server, psycopg.connect(server.address, autocommit=True) as theirs:
        theirs.execute("CREATE TABLE strict (a int8 NOT NULL, b text, c int8 NOT NULL)")
        theirs.execute("CREATE TABLE kept (k text PRIMARY KEY, v int8 NOT NULL)")
        for sql, *_ in STATEMENTS:
            assert shown(refusal(connection, sql)) == shown(refusal(theirs, sql)), sql
        for data in ("\\N\tx\t1\n", "1\tx\t\\N\n"):
            sql = "COPY strict FROM STDIN"
            assert shown(refusal(connection, sql, data)) == shown(refusal(theirs, sql, data)), data
