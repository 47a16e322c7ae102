"""Cursors beside PostgreSQL: random statements about them have the same rows, tags and SQLSTATEs at both servers."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from psoup_client import Client
from psoup_testing.pg.script import pg_address
from psoup_testing.services import postgres
from psoup_testing.services.postgres import Postgres
from psoup_testing.services.threaded_service import Serving
from psoup_testing.suite.budget import scaled

pytestmark = pytest.mark.long

ROWS = 12
STEPS = 30
DRIVER = next(iter(sorted(Path("/usr/lib").glob("*/odbc/psqlodbcw.so"))), None)


@pytest.fixture(scope="module")
def ours(running: Serving) -> Iterator[Any]:
    """A cursor at a service with a stream of numbers."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM numbers (n INT)")
        client.wait_for(client.push("numbers", [{"n": n} for n in range(ROWS)]).sequence)
    host, port = pg_address(running).rsplit(":", 1)
    connection = psycopg2.connect(host=host, port=port, user="me", dbname="any")
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    """A cursor at PostgreSQL with a table of the same numbers."""
    with Postgres() as server:
        connection = psycopg2.connect(server.address)
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(f"CREATE TABLE numbers AS SELECT generate_series(0, {ROWS - 1})::int8 AS n")
        yield cursor
        connection.close()


def outcome(cursor: Any, sql: str) -> tuple[str, list[Any]]:
    """The tag of a statement and its rows, or its SQLSTATE."""
    try:
        cursor.execute(sql)
    except psycopg2.Error as problem:
        return str(problem.pgcode), []
    rows = cursor.fetchall() if cursor.description else []
    return cursor.statusmessage, rows


def statement(draw: random.Random) -> str:
    """A random statement about cursors or transactions."""
    name, number = draw.choice(["a", "b", "c"]), draw.choice([0, 1, 1, 2, 3, 5, 20, -1])
    words = ["NEXT", "ALL", "FORWARD", "FORWARD ALL", "FIRST", "PRIOR", "LAST", "BACKWARD", "BACKWARD ALL", "", ""]
    direction = draw.choice(
        [*words, *(f"{word} {number}" for word in ("", "FORWARD", "RELATIVE", "ABSOLUTE", "BACKWARD"))]
    )
    select = draw.choice(
        ["SELECT n FROM numbers ORDER BY n", "SELECT n FROM numbers WHERE n > 4 ORDER BY n DESC LIMIT 3"]
    )
    return draw.choice(
        [f"{draw.choice(['FETCH', 'MOVE'])} {direction} {draw.choice(['FROM', 'IN'])} {name}"] * 12
        + [f"DECLARE {name} NO SCROLL CURSOR FOR {select}"] * 4
        + [f"DECLARE {name} NO SCROLL CURSOR WITH HOLD FOR {select}"] * 2
        + [f"DECLARE {name} SCROLL CURSOR FOR {select}"] * 4
        + [f"DECLARE {name} INSENSITIVE SCROLL CURSOR WITH HOLD FOR {select}"] * 2
        + ["BEGIN", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "ROLLBACK TO s", "RELEASE s"]
        + [f"CLOSE {name}", "CLOSE ALL", "SELECT is_holdable, is_scrollable FROM pg_cursors WHERE name = 'a'"]
    )


@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing() or "-")
@pytest.mark.parametrize("seed", range(scaled(100)))
def test_random_statements_have_the_outcomes_of_postgresql(ours: Any, theirs: Any, seed: int) -> None:
    draw, history = random.Random(seed), list[str]()
    for cursor in (ours, theirs):
        for sql in ("ROLLBACK", "CLOSE ALL", "BEGIN"):
            cursor.execute(sql)
    for _ in range(STEPS):
        sql = statement(draw)
        history.append(sql)
        assert outcome(ours, sql) == outcome(theirs, sql), "\n".join(history)


@pytest.mark.skipif(DRIVER is None or shutil.which("isql") is None, reason="odbc-postgresql and unixodbc are missing")
def test_odbc_reads_by_cursors(ours: Any, running: Serving, tmp_path: Path) -> None:
    host, port = pg_address(running).rsplit(":", 1)
    lines = ["[psoup]", f"Driver={DRIVER}", f"Servername={host}", f"Port={port}", "Username=me", "Database=any"]
    (tmp_path / "odbc.ini").write_text("\n".join([*lines, "UseDeclareFetch=1", "Fetch=5", ""]))
    shown = subprocess.run(
        ["isql", "psoup", "-b", "-d,"],
        input=b"SELECT n FROM numbers WHERE n > 0\n",
        env=os.environ | {"ODBCINI": str(tmp_path / "odbc.ini")},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert [int(line) for line in shown.stdout.split() if line.isdigit()] == list(range(1, ROWS))
