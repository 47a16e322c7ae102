"""Cursors: DECLARE, FETCH, MOVE and CLOSE, as drivers send them for answers that they read in parts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import psycopg2
import psycopg2.errors
import pyarrow as pa
import pytest
import sqlalchemy

from psoup_client import Client
from psoup_service.pg.cursors.cursor import Cursor
from psoup_testing.services.threaded_service import Serving

ROWS = 6_000
TEXT = "x" * 1_000
"""The rows of the large stream have more bytes than an answer of one message."""


@pytest.fixture(scope="module")
def place(running: Serving) -> str:
    """The connection string of a service with a small stream and a large one."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM small (n INT, name TEXT)")
        client.push("small", [{"n": n, "name": f"name {n}"} for n in range(10)])
        client.create_stream("CREATE STREAM large (n INT, name TEXT)")
        client.push("large", pa.table({"n": range(ROWS), "name": [TEXT] * ROWS}))
        client.register("SELECT n FROM small WHERE n > 5", key="some").invoke()  # once it is visible
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return f"host={host} port={port} user=anybody dbname=any"


@pytest.fixture
def cursor(place: str) -> Iterator[Any]:
    """A cursor of psycopg2 in a transaction."""
    connection = psycopg2.connect(place)
    yield connection.cursor()
    connection.close()


def fetched(cursor: Any, sql: str) -> list[int]:
    """The first column of the rows of a FETCH, whose tag has their number."""
    cursor.execute(sql)
    rows = [row[0] for row in cursor.fetchall()]
    assert cursor.statusmessage == f"FETCH {len(rows)}"
    return rows


def test_a_cursor_reads_forward_from_its_present_row(cursor: Any) -> None:
    cursor.execute("DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT n, name FROM small ORDER BY n")
    assert cursor.statusmessage == "DECLARE CURSOR"
    assert fetched(cursor, "FETCH 0 c") == []
    assert fetched(cursor, "FETCH c") == [0]
    assert fetched(cursor, "FETCH FORWARD 2 FROM c") == [1, 2]
    cursor.execute("MOVE RELATIVE 0 IN c")
    assert cursor.statusmessage == "MOVE 1"
    assert fetched(cursor, "FETCH ABSOLUTE 5 IN c") == [4]
    assert fetched(cursor, 'FETCH RELATIVE 2 FROM "c"') == [6]
    cursor.execute("MOVE 1 FROM c")
    assert cursor.statusmessage == "MOVE 1"
    assert fetched(cursor, "FETCH ALL c") == [8, 9]
    assert fetched(cursor, "FETCH NEXT FROM c") == []
    assert fetched(cursor, "FETCH 0 c") == []


@pytest.mark.parametrize(
    "direction",
    [
        "PRIOR",
        "LAST",
        "FIRST",
        "BACKWARD",
        "BACKWARD ALL",
        "BACKWARD 2",
        "-1",
        "ABSOLUTE -1",
        "ABSOLUTE 2",
        "RELATIVE -1",
    ],
)
def test_a_cursor_refuses_to_go_back(cursor: Any, direction: str) -> None:
    cursor.execute("DECLARE c CURSOR FOR SELECT n FROM small; FETCH 2 c")
    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState, match='"c" can only scan forward'):
        cursor.execute(f"FETCH {direction} FROM c")


@pytest.mark.parametrize(
    ("sql", "state", "message"),
    [
        ("DECLARE c BINARY CURSOR FOR SELECT n FROM small", "0A000", "BINARY CURSOR is not supported"),
        ("DECLARE c CURSOR FOR DELETE FROM small", "42601", "'DELETE' is not expected here"),
        ("DECLARE c CURSOR FOR SELECT nope FROM small", "42703", "column 'nope'"),
        ("DECLARE open CURSOR FOR SELECT n FROM small", "42P03", 'cursor "open" already exists'),
        ("FETCH 1 FROM gone", "34000", 'cursor "gone" does not exist'),
        ("MOVE 1 FROM gone", "34000", 'cursor "gone" does not exist'),
        ("CLOSE gone", "34000", 'cursor "gone" does not exist'),
        ("FETCH 9999999999999999999 FROM open", "42601", "write a whole number of at most 18"),
        ("FETCH ABSOLUTE FROM open", "42601", "'FROM' is not expected here"),
    ],
)
def test_a_wrong_statement_about_cursors_is_refused(cursor: Any, sql: str, state: str, message: str) -> None:
    cursor.execute("DECLARE open CURSOR FOR SELECT n FROM small")
    with pytest.raises(psycopg2.Error, match=message) as refused:
        cursor.execute(sql)
    assert refused.value.pgcode == state


def test_faults_of_the_select_have_their_places_in_the_whole_statement(cursor: Any) -> None:
    with pytest.raises(psycopg2.errors.UndefinedColumn) as refused:
        cursor.execute("DECLARE c CURSOR\nFOR SELECT nope FROM small")
    assert refused.value.diag.statement_position == "29"


def test_cursors_end_with_their_transaction_unless_they_are_held(cursor: Any, running: Serving) -> None:
    cursor.connection.autocommit = True
    with pytest.raises(psycopg2.errors.NoActiveSqlTransaction):
        cursor.execute("DECLARE c CURSOR FOR SELECT n FROM small")
    cursor.execute("DECLARE before CURSOR WITH HOLD FOR SELECT n FROM small")
    cursor.execute(
        "BEGIN; DECLARE c CURSOR FOR SELECT n FROM small; DECLARE h CURSOR WITH HOLD FOR SELECT n, name FROM large"
    )
    assert fetched(cursor, "FETCH 2 h") == [0, 1]
    assert open_cursors(cursor) == ["before", "c", "h"]
    cursor.execute("COMMIT")
    with Client(running.address, timeout=60) as client:
        client.wait_for(client.push("large", [{"n": -1, "name": "after the snapshot of h"}]).sequence)
    assert open_cursors(cursor) == ["before", "h"]
    assert len(fetched(cursor, "FETCH ALL h")) == ROWS - 2
    cursor.execute("BEGIN; DECLARE undone CURSOR WITH HOLD FOR SELECT n FROM small; ROLLBACK")
    assert open_cursors(cursor) == ["before", "h"]
    assert fetched(cursor, "FETCH before") == [0]
    cursor.execute("CLOSE h")
    assert cursor.statusmessage == "CLOSE CURSOR"
    cursor.execute("DISCARD ALL")
    assert open_cursors(cursor) == []


def test_a_savepoint_undoes_the_cursors_after_it(cursor: Any) -> None:
    cursor.execute("DECLARE a CURSOR FOR SELECT n FROM small; SAVEPOINT s; DECLARE b CURSOR FOR SELECT n FROM small")
    cursor.execute("FETCH 3 a; ROLLBACK TO s")
    assert open_cursors(cursor) == ["a"]
    assert fetched(cursor, "FETCH a") == [3]
    cursor.execute("DECLARE b CURSOR FOR SELECT n FROM small; CLOSE ALL")
    assert cursor.statusmessage == "CLOSE CURSOR ALL"
    assert open_cursors(cursor) == []


def test_a_savepoint_undoes_cursors_with_the_name_of_a_closed_one(cursor: Any) -> None:
    declared = "DECLARE {} CURSOR FOR SELECT n FROM small".format
    cursor.execute(f"{declared('a')}; {declared('b')}; {declared('gone')}; CLOSE gone; SAVEPOINT s; CLOSE a")
    cursor.execute(f"{declared('a')}; {declared('c')}; CLOSE c; {declared('c')}; ROLLBACK TO s")
    assert open_cursors(cursor) == ["b"]


def test_closed_cursors_leave_nothing_behind_in_a_transaction(cursor: Any) -> None:
    for _ in range(5):
        cursor.execute("DECLARE closed CURSOR FOR SELECT n, name FROM large; FETCH 1 closed; CLOSE closed")
        cursor.execute("SAVEPOINT s; DECLARE closed CURSOR FOR SELECT n, name FROM large; ROLLBACK TO s")
    cursor.execute("DECLARE present CURSOR FOR SELECT n FROM small")
    gc.collect()
    names = [each.name for each in gc.get_objects() if type(each) is Cursor]
    assert "present" in names
    assert "closed" not in names


def test_a_cursor_reads_the_snapshot_of_its_transaction(cursor: Any, running: Serving) -> None:
    cursor.execute("SELECT count(*) FROM large")
    (count,) = cursor.fetchone()
    cursor.execute("DECLARE first CURSOR FOR SELECT n, name FROM large BEGIN (NOW - 1 DAY); FETCH 5 first")
    with Client(running.address, timeout=60) as client:
        client.wait_for(client.push("large", [{"n": -1, "name": "late"}]).sequence)
    cursor.execute("DECLARE second CURSOR FOR SELECT n, name FROM large BEGIN (NOW - 1 DAY)")
    assert len(fetched(cursor, "FETCH ALL first")) == count - 5
    assert len(fetched(cursor, "FETCH ALL second")) == count
    cursor.connection.rollback()
    cursor.execute("SELECT count(*) FROM large")
    assert cursor.fetchone() == (count + 1,)


def test_a_cursor_with_scroll_reads_in_any_order(cursor: Any) -> None:
    cursor.execute("DECLARE c SCROLL CURSOR FOR SELECT n FROM small ORDER BY n")
    assert fetched(cursor, "FETCH LAST c") == [9]
    assert fetched(cursor, "FETCH BACKWARD 3 FROM c") == [8, 7, 6]
    assert fetched(cursor, "FETCH RELATIVE -2 FROM c") == [4]
    assert fetched(cursor, "FETCH 0 FROM c") == [4]
    assert fetched(cursor, "FETCH ABSOLUTE -3 FROM c") == [7]
    assert fetched(cursor, "FETCH ALL c") == [8, 9]
    assert fetched(cursor, "FETCH NEXT c") == []
    assert fetched(cursor, "FETCH PRIOR c") == [9]
    cursor.execute("MOVE BACKWARD ALL IN c")
    assert cursor.statusmessage == "MOVE 9"
    assert fetched(cursor, "FETCH 2 c") == [0, 1]


def test_a_cursor_with_scroll_reads_back_over_many_batches(cursor: Any) -> None:
    cursor.execute("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT n FROM large WHERE n >= 0 ORDER BY n")
    assert fetched(cursor, "FETCH FORWARD 4000 FROM c") == list(range(4_000))
    assert fetched(cursor, "FETCH BACKWARD 3000 FROM c") == list(range(3_998, 998, -1))
    cursor.connection.commit()
    assert fetched(cursor, "FETCH BACKWARD ALL c") == list(range(998, -1, -1))
    assert fetched(cursor, "FETCH ALL c") == list(range(ROWS))
    cursor.execute("CLOSE c")


def test_the_rows_of_a_cursor_with_scroll_are_charged(cursor: Any, running: Serving) -> None:
    receiving = running.service._answering.receiving
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM huge (n INT, name TEXT)")
        table = pa.table({"n": range(20_000), "name": [TEXT * 2] * 20_000})
        client.wait_for(client.push("huge", table).sequence)
    cursor.execute("DECLARE c SCROLL CURSOR FOR SELECT n, name FROM huge")
    cursor.execute("MOVE 5000 c")
    running.wait_until(lambda: receiving.bytes > 10_000_000)
    with pytest.raises(psycopg2.errors.OutOfMemory, match="close some of them"):
        cursor.execute("MOVE ALL c")
    cursor.connection.rollback()
    running.wait_until(lambda: not receiving.bytes)


def test_a_session_has_a_bounded_number_of_cursors(cursor: Any) -> None:
    cursor.execute(";".join(f"DECLARE c{n} CURSOR FOR SELECT n FROM small" for n in range(100)))
    with pytest.raises(psycopg2.errors.ProgramLimitExceeded, match='"c100" is one too many: 100 are open'):
        cursor.execute("DECLARE c100 CURSOR FOR SELECT n FROM small")


def test_the_catalogue_lists_open_cursors(cursor: Any) -> None:
    cursor.execute('DECLARE "it\'s" CURSOR WITH HOLD FOR SELECT n\n FROM small')
    cursor.execute("SELECT name, statement, is_holdable, is_scrollable, creation_time <= now() FROM pg_cursors")
    text = 'DECLARE "it\'s" CURSOR WITH HOLD FOR SELECT n\n FROM small'
    assert cursor.fetchall() == [("it's", text, True, False, True)]
    cursor.execute("DECLARE s SCROLL CURSOR FOR SELECT n FROM small")
    cursor.execute("SELECT name, is_holdable, is_scrollable FROM pg_cursors ORDER BY name")
    assert cursor.fetchall() == [("it's", True, False), ("s", False, True)]


def open_cursors(cursor: Any) -> list[str]:
    """The names of the session's cursors, sorted."""
    cursor.execute("SELECT name FROM pg_catalog.pg_cursors ORDER BY name")
    return [row[0] for row in cursor.fetchall()]


# Drivers ------------------------------------------------------------------------------------------------------


def test_server_side_cursors_of_psycopg2(place: str) -> None:
    connection = psycopg2.connect(place)
    with connection.cursor(name="named") as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT n, name FROM small WHERE n >= %s ORDER BY n", (1,))
        assert [row[0] for row in cursor] == list(range(1, 10))
    with connection.cursor(name="held", withhold=True) as cursor:
        cursor.execute("SELECT * FROM queries.some ORDER BY n")
        connection.commit()
        cursor.scroll(1)
        assert cursor.fetchmany(2) == [(7,), (8,)]
    with connection.cursor(name="back", scrollable=True) as cursor:
        cursor.execute("SELECT n FROM small ORDER BY n")
        cursor.scroll(8)
        assert cursor.fetchall() == [(8,), (9,)]
        cursor.scroll(3, mode="absolute")
        assert cursor.fetchone() == (3,)
    connection.close()


@pytest.mark.parametrize("binary", [False, True])
def test_server_side_cursors_of_psycopg(place: str, binary: bool) -> None:
    with psycopg.connect(place) as connection:
        cursor: Any = psycopg.ServerCursor(connection, "named")
        with cursor:
            cursor.execute("SELECT n, name FROM small WHERE n >= %s ORDER BY n", (1,), binary=binary)
            assert [column.name for column in cursor.description] == ["n", "name"]
            assert cursor.fetchone() == (1, "name 1")
            cursor.itersize = 3
            assert [row[0] for row in cursor] == list(range(2, 10))
        with connection.cursor("other", scrollable=False) as other:
            other.execute("SELECT n FROM large")
            other.scroll(100)
            assert other.fetchmany(2) == [(100,), (101,)]
        with connection.cursor("back", scrollable=True) as back:
            back.execute("SELECT n FROM small ORDER BY n")
            assert back.fetchall()[-1] == (9,)
            back.scroll(0, mode="absolute")
            assert back.fetchmany(2) == [(0,), (1,)]
            back.scroll(-2)
            assert back.fetchone() == (0,)
        with connection.cursor("never") as never:
            never.close()


def test_streamed_results_of_sqlalchemy(place: str) -> None:
    host, port = (word.partition("=")[2] for word in place.split()[:2])
    for driver in ("psycopg", "psycopg2"):
        engine = sqlalchemy.create_engine(f"postgresql+{driver}://me@{host}:{port}/any")
        with engine.connect() as connection:
            streamed = connection.execution_options(yield_per=4)
            rows = streamed.execute(sqlalchemy.text("SELECT n FROM small WHERE n < :n"), {"n": 9})
            assert [len(part) for part in rows.partitions(4)] == [4, 4, 1]
        engine.dispose()


def test_cursors_of_asyncpg(place: str) -> None:
    host, port = (word.partition("=")[2] for word in place.split()[:2])

    async def read() -> tuple[list[int], list[int], list[int]]:
        connection = await asyncpg.connect(host=host, port=int(port), user="me", database="any")
        async with connection.transaction():
            rows = [row["n"] async for row in connection.cursor("SELECT n FROM small WHERE n > $1", 6, prefetch=2)]
            cursor = await connection.cursor("SELECT n FROM large")
            moved = [await cursor.forward(10), await cursor.forward(10)]
            later = [row["n"] for row in await cursor.fetch(2)]
            rest = await cursor.forward(ROWS * 2)
            assert rest == len(await connection.fetch("SELECT n FROM large")) - 22
        await connection.close()
        return rows, moved, later

    assert asyncio.run(read()) == ([7, 8, 9], [10, 10], [20, 21])
