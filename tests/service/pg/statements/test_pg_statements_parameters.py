"""Parameters of SELECTs, in text and in binary format, and their types before any value is known."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest

from psoup_client import Client
from psoup_service.pg.statements.reads import Reads
from psoup_testing.services.threaded_service import Serving

AT = datetime(2026, 7, 1, 12, 30, 0, 250, tzinfo=UTC)
ROWS = [
    {"s": "it's", "p": 1.5, "n": 3, "at": AT, "d": date(2026, 7, 1), "ok": True, "m": Decimal("1.25")},
    {"s": "b\\", "p": -2.5, "n": -4, "at": None, "d": None, "ok": False, "m": None},
]
CASES: list[tuple[str, tuple[Any, ...], list[tuple[Any, ...]]]] = [
    ("SELECT s FROM t WHERE s = $1 AND n = $2", ("it's", 3), [("it's",)]),
    ("SELECT n FROM t WHERE s = $1", ("b\\",), [(-4,)]),
    (
        "SELECT n FROM t WHERE p > $1 AND at = $2 AND d = $3 AND ok = $4 AND m = $5",
        (1.0, AT, date(2026, 7, 1), True, Decimal("1.25")),
        [(3,)],
    ),
    ("SELECT n FROM t LIMIT $1 OFFSET $2", (1, 1), [(-4,)]),
    ("SELECT n FROM t WHERE s <> ALL($1)", (["it's", "c"],), [(-4,)]),
    ("SELECT n FROM t WHERE s = ANY($1)", ([],), []),
    ("SELECT n FROM t WHERE t.d <> ALL($1::date[])", ([],), [(3,), (-4,)]),
    ("SELECT n, $1::int8 AS x, $2 AS y FROM t WHERE n < $3", (-5, "z", 0), [(-4, -5, "z")]),
    (
        "SELECT p * $1::FLOAT(53) AS x, $2::VARCHAR(9) AS y FROM t WHERE m < $3::NUMERIC(10, 2)",
        (2, "z", 2),
        [(3.0, "z")],
    ),
    ("SELECT n FROM t WHERE at < $1::TIMESTAMP WITH TIME ZONE + INTERVAL '1' DAY", (AT,), [(3,)]),
    ("SELECT n FROM queries.v WHERE p < $1 AND s = $2", (-1.5, "b\\"), [(-4,)]),
    ("SELECT n FROM t WHERE s = $1 OR $1 IS NULL", (None,), [(3,), (-4,)]),
    ("SELECT n FROM t WHERE n IN ($2, $1) AND n + $1 > $3", (3, 7, 5), [(3,)]),
]


@pytest.fixture(scope="module")
def place(running: Serving) -> dict[str, Any]:
    """The arguments of connections to a service with a stream and a view."""
    with Client(running.address, timeout=60) as client:
        columns = "s TEXT, p DOUBLE, n INT, at TIMESTAMP, d DATE, ok BOOLEAN, m DECIMAL(10,2)"
        client.create_stream(f"CREATE STREAM t ({columns})")
        client.push("t", ROWS)
        client.register("SELECT s, p, n FROM t", key="v")
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return {"host": host, "port": int(port), "user": "x"}


def through_asyncpg(place: dict[str, Any], work: Any) -> Any:
    """The result of work with a connection of asyncpg."""

    async def run() -> Any:
        connection = await asyncpg.connect(database="d", **place)
        try:
            return await work(connection)
        finally:
            await connection.close()

    made: Coroutine[Any, Any, Any] = run()
    return asyncio.run(made)


@pytest.mark.parametrize("binary", [False, True])
def test_values_in_both_formats_select_the_rows_of_their_constants(place: dict[str, Any], binary: bool) -> None:
    with psycopg.connect(dbname="d", autocommit=True, **place) as connection:
        cursor = psycopg.RawCursor(connection)
        for sql, values, rows in CASES:
            assert cursor.execute(sql, values, binary=binary).fetchall() == rows, sql
        with pytest.raises(psycopg.errors.UndefinedColumn) as refused:
            cursor.execute("SELECT n FROM t WHERE n > $1 AND nope = $2", (100_000, 1))
        assert refused.value.diag.statement_position == "34"
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="must not be negative"):
            cursor.execute("SELECT n FROM t LIMIT $1", (-1,))
        with pytest.raises(psycopg.errors.ProtocolViolation, match="has 1 parameters"):
            cursor.execute("SELECT n FROM t LIMIT $1", (1, 2))


def test_a_describe_tells_types_and_evaluates_nothing(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reads, "ask", None)

    async def described(connection: Any) -> list[Any]:
        kinds = list[Any]()
        for sql, _, _ in CASES:
            statement = await connection.prepare(sql)
            kinds.append([kind.name for kind in statement.get_parameters()])
        return kinds

    assert through_asyncpg(place, described) == [
        ["text", "int8"],
        ["text"],
        ["float8", "timestamptz", "date", "bool", "numeric"],
        ["int8", "int8"],
        ["text[]"],
        ["text[]"],
        ["date[]"],
        ["int8", "text", "int8"],
        ["float8", "text", "numeric"],
        ["timestamptz"],
        ["float8", "text"],
        ["text"],
        ["int8", "int8", "int8"],
    ]


def test_a_client_sends_values_of_the_types_that_it_was_told(place: dict[str, Any]) -> None:
    async def asked(connection: Any) -> list[Any]:
        return [[tuple(row) for row in await connection.fetch(sql, *values)] for sql, values, _ in CASES]

    assert through_asyncpg(place, asked) == [rows for _, _, rows in CASES]


def test_a_statement_whose_columns_change_is_refused_once_it_was_described(
    place: dict[str, Any], running: Serving
) -> None:
    async def changed(connection: Any) -> None:
        with Client(running.address, timeout=60) as client:
            client.create_stream("CREATE STREAM grows (a INT)")
            statement = await connection.prepare("SELECT * FROM grows")
            assert await statement.fetch() == []
            client.execute("ALTER STREAM grows ADD COLUMN b TEXT")
            with pytest.raises(asyncpg.InvalidCachedStatementError):
                await statement.fetch()

    through_asyncpg(place, changed)
