"""INSERT and COPY of PostgreSQL's clients: values, faults, transactions and large batches."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest

from psoup_client import Client
from psoup_service.pg.statements.writing import row_buffer
from psoup_testing.services.threaded_service import Serving

COLUMNS = "s TEXT, p DOUBLE, n INT, at TIMESTAMP, d DATE, ok BOOLEAN, m DECIMAL(10,2)"
AT = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
ROW = ("it's", 1.5, 3, AT, date(2026, 7, 1), True, Decimal("1.25"))


@pytest.fixture(scope="module")
def place(running: Serving) -> dict[str, Any]:
    """The arguments of connections to a service with streams and a table."""
    with Client(running.address, timeout=60) as client:
        for name in ("t", "u", "large"):
            client.create_stream(f"CREATE STREAM {name} ({COLUMNS})")
        client.create_stream("CREATE STREAM strict (a INT NOT NULL, b TEXT)")
        client.create_stream("CREATE STREAM timed (at TIMESTAMP NOT NULL) TIMESTAMP BY at")
        client.execute("CREATE TABLE kept (k TEXT, v INT, PRIMARY KEY (k))")
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return {"host": host, "port": int(port), "user": "x"}


@pytest.fixture
def connection(place: dict[str, Any]) -> Iterator[psycopg.Connection[Any]]:
    """A connection of psycopg without transactions."""
    with psycopg.connect(dbname="d", autocommit=True, **place) as connected:
        yield connected


def rows_of(connection: psycopg.Connection[Any], sql: str) -> list[Any]:
    """The rows of a statement."""
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("binary", [False, True])
def test_values_of_all_types_arrive_as_they_were_sent(connection: psycopg.Connection[Any], binary: bool) -> None:
    before = len(rows_of(connection, "SELECT n FROM t"))
    cursor = connection.cursor()
    cursor.execute("INSERT INTO streams.t VALUES (%s, %s, %s, %s, %s, %s, %s)", ROW, binary=binary)
    assert cursor.statusmessage == "INSERT 0 1"
    cursor.execute(
        "INSERT INTO t (n, m, s, p) VALUES (-3, 7, E'a\\'b', 1e3), ((-4), '2.5'::numeric, DEFAULT, 2),"
        " (CAST(%s AS numeric), CAST(CAST(%s AS int) AS text), NULL, %s::float8)",
        (2.0, 3, 4),
        binary=binary,
    )
    assert rows_of(connection, "SELECT * FROM t")[before] == ROW
    rows = rows_of(connection, "SELECT n, m, s, p FROM t")[before + 1 :]
    assert rows == [
        (-3, Decimal("7.00"), "a'b", 1000.0),
        (-4, Decimal("2.50"), None, 2.0),
        (2, Decimal("3.00"), None, 4.0),
    ]


def test_a_backslash_arrives_by_each_way_that_a_text_can_come(connection: psycopg.Connection[Any]) -> None:
    path = r"C:\new\xff\N"
    before = len(rows_of(connection, "SELECT s FROM t"))
    connection.execute("PREPARE paths (text) AS INSERT INTO t (s) VALUES ($1)")
    cursor = connection.cursor()
    for sql in (f"INSERT INTO t (s) VALUES ('{path}')", f"EXECUTE paths ('{path}')"):
        cursor.execute(sql)
    cursor.execute("INSERT INTO t (s) VALUES " + ", ".join([f"('{path}')"] * 201))
    for binary in (False, True):
        cursor.execute("INSERT INTO t (s) VALUES (%s)", (path,), binary=binary)
    for options in ("", r" (NULL '\N')", r" (FORMAT csv, NULL '\N')"):
        with cursor.copy(f"COPY t (s) FROM STDIN{options}") as copy:
            copy.write((path if "csv" in options else path.replace("\\", "\\\\")) + "\n\\N\n")
    rows = rows_of(connection, "SELECT s FROM t")[before:]
    assert rows == [(path,)] * 205 + [(path,), (None,)] * 3
    connection.execute(r"SET application_name = 'a\b'")
    assert rows_of(connection, "SHOW application_name") == [(r"a\b",)]


def test_faults_of_inserts_name_column_value_and_place(connection: psycopg.Connection[Any]) -> None:
    before = rows_of(connection, "SELECT count(*) FROM t")
    for sql, state, words, position in (
        ("INSERT INTO t (n) VALUES (1), ('x')", "22P02", 'for type bigint: "x" (column "n")', 32),
        ("INSERT INTO t (m) VALUES (123456789)", "22003", 'cannot hold 123456789 (column "m")', 27),
        ("INSERT INTO t (n, q) VALUES (1, 2)", "42703", 'column "q" of relation "t"', 20),
        ("INSERT INTO t (n, N) VALUES (1, 2)", "42701", "more than once", 20),
        ("INSERT INTO t (n) VALUES (1, 2)", "42601", "more expressions", 13),
        ("INSERT INTO nope VALUES (1)", "42P01", "no stream or table 'nope'", 13),
        ("INSERT INTO t (n) VALUES (1 + 1)", "0A000", "an expression in VALUES", 27),
        ("INSERT INTO t (n) VALUES (now())", "42804", "but the value is of type timestamp with time zone", 27),
        ("INSERT INTO t (at) VALUES (now() - '1 day'::interval)", "0A000", "an expression in VALUES", 28),
        ("INSERT INTO t (at) VALUES (now()::text)", "0A000", "a cast of the present time", 35),
        (f"INSERT INTO t (n) VALUES ({'(' * 3_000}1", "42601", "nests too deeply", 48),
        ("INSERT INTO t SELECT * FROM t", "0A000", "INSERT … SELECT", 15),
        ("INSERT INTO t (n) VALUES (1) RETURNING n", "0A000", "RETURNING", 30),
        ("INSERT INTO t (n) VALUES (1) ON CONFLICT DO NOTHING", "0A000", "ON CONFLICT", 30),
        ("INSERT INTO queries.t (n) VALUES (1)", "0A000", "a view of queries", 13),
        ("COPY t TO '/etc/passwd'", "0A000", "COPY TO a file", 11),
        ("COPY t FROM PROGRAM 'id'", "0A000", "COPY FROM a program", 13),
    ):
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(sql)
        assert words in str(refused.value), sql
        assert (refused.value.sqlstate, refused.value.diag.statement_position) == (state, str(position)), sql
    assert rows_of(connection, "SELECT count(*) FROM t") == before


def test_a_transaction_pushes_at_commit_and_its_reads_do_not_see_its_rows(place: dict[str, Any]) -> None:
    with psycopg.connect(dbname="d", **place) as connection, psycopg.connect(dbname="d", **place) as other:
        connection.execute("INSERT INTO strict VALUES (1, 'a')")
        connection.execute("SAVEPOINT s")
        connection.execute("INSERT INTO strict VALUES (2, 'b')")
        connection.execute("ROLLBACK TO s")
        connection.execute("INSERT INTO strict (b, a) VALUES ('c', 3)")
        connection.execute("INSERT INTO kept VALUES ('k', 1)")
        assert rows_of(connection, "SELECT a FROM strict") == rows_of(other, "SELECT a FROM strict") == []
        other.rollback()
        connection.commit()
        assert rows_of(other, "SELECT a, b FROM strict") == [(1, "a"), (3, "c")]
        assert rows_of(other, "SELECT k, v FROM kept") == [("k", 1)]
        connection.execute("INSERT INTO strict VALUES (9, 'z')")
        connection.rollback()
        connection.execute("INSERT INTO kept (k, _deleted) VALUES ('k', true)")
        connection.commit()
        assert rows_of(connection, "SELECT count(*) FROM strict") == [(2,)]
        assert rows_of(connection, "SELECT k, v FROM kept") == []


def test_a_commit_that_is_refused_takes_no_row_and_ends_the_transaction(place: dict[str, Any]) -> None:
    with psycopg.connect(dbname="d", **place) as connection:
        connection.execute("INSERT INTO timed VALUES ('2026-07-01 12:00')")
        connection.commit()
        connection.execute("INSERT INTO timed VALUES ('2026-07-01 13:00'), ('2020-01-01')")
        with pytest.raises(psycopg.errors.DatetimeFieldOverflow, match="too late") as refused:
            connection.commit()
        assert str(refused.value).startswith("row 2: its time 2020-01-01 00:00:00Z is too late by ")
        assert str(refused.value).endswith(". None of the 2 rows was taken; leave such rows out")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert rows_of(connection, "SELECT count(*) FROM timed") == [(1,)]


def test_a_read_only_transaction_refuses_rows(connection: psycopg.Connection[Any]) -> None:
    connection.execute("BEGIN READ ONLY")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("INSERT INTO t (n) VALUES (1)")
    connection.execute("ROLLBACK")


def copied(cursor: psycopg.Cursor[Any], data: str, problem: Exception | None) -> None:
    """Copy numbers into a stream. `problem`: makes the client give up."""
    with cursor.copy("COPY u (n) FROM STDIN") as copy:
        copy.write(data)
        if problem is not None:
            raise problem


def test_a_copy_in_takes_all_rows_or_none(connection: psycopg.Connection[Any]) -> None:
    cursor = connection.cursor()
    with cursor.copy("COPY u FROM STDIN") as copy:
        copy.write_row(ROW)
        copy.write_row(("b\\", None, -4, None, None, False, None))
    with cursor.copy("COPY u (n, at) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int8", "timestamptz"])
        copy.write_row((7, AT))
    with cursor.copy("COPY u (n, s) FROM STDIN WITH CSV HEADER DELIMITER AS ';'") as copy:
        copy.write('n;s\n8;"x;y"\n9;\n')
    rows = rows_of(connection, "SELECT * FROM u")
    assert rows[:2] == [ROW, ("b\\", None, -4, None, None, False, None)]
    assert [(row[2], row[0], row[3]) for row in rows[2:]] == [(7, None, AT), (8, "x;y", None), (9, None, None)]
    for data, problem, message in (
        ("1\nx\n", None, "COPY u, line 2, column n"),
        ("1\n", ValueError("given up"), "given up"),
    ):
        with pytest.raises((psycopg.errors.InvalidTextRepresentation, ValueError), match=message):
            copied(cursor, data, problem)
    assert len(rows_of(connection, "SELECT n FROM u")) == 5


def test_a_copy_out_has_one_row_in_a_message(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO large (n, s) VALUES (1, 'a'), (2, NULL)")
    for sql, pieces in (
        ("COPY large (n, s) TO STDOUT", [b"1\ta\n", b"2\t\\N\n"]),
        (
            "COPY (SELECT s, n FROM large ORDER BY n DESC) TO STDOUT WITH (FORMAT csv, HEADER)",
            [b"s,n\n", b",2\n", b"a,1\n"],
        ),
    ):
        with connection.cursor().copy(sql) as copy:
            assert [bytes(piece) for piece in copy] == pieces


def test_a_large_copy_goes_in_parts_and_is_one_batch(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "STAGE_BYTES", 100_000)

    async def copied() -> None:
        connection = await asyncpg.connect(database="d", **place)
        other = await asyncpg.connect(database="d", **place)
        before = await other.fetchval("SELECT count(*) FROM large")
        text = "".join(f"{n}\t{'x' * 1_000}\n" for n in range(3_000)).encode()
        async with connection.transaction():
            done = await connection.copy_to_table(
                "large", schema_name="streams", columns=["n", "s"], source=io.BytesIO(text)
            )
            assert done == "COPY 3000"
            assert await other.fetchval("SELECT count(*) FROM large") == before
        assert await other.fetchval("SELECT count(*) FROM large") == before + 3_000
        with pytest.raises(asyncpg.PostgresError):
            await connection.copy_to_table("large", columns=["n"], source=io.BytesIO(text.replace(b"\tx", b"x")))
        assert await other.fetchval("SELECT count(*) FROM large") == before + 3_000
        await connection.executemany("INSERT INTO large (n) VALUES ($1)", [(n,) for n in range(5)])
        assert await other.fetchval("SELECT count(*) FROM large") == before + 3_005
        await connection.close()
        await other.close()

    asyncio.run(copied())
