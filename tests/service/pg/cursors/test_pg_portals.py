"""MOVE in portals of the extended protocol: of other portals, of itself, and of portals without rows."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from psoup_client import Client
from psoup_testing.pg.script import pg_address
from psoup_testing.pg.socket import SYNC, PgSocket, bind, execute, parse, query
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def place(running: Serving) -> str:
    """The address of a service with a stream of numbers, and an empty one."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM numbers (n INT)")
        client.wait_for(client.push("numbers", [{"n": n} for n in range(50)]).sequence)
        client.create_stream("CREATE STREAM empty (n INT)")
        client.create_stream("CREATE STREAM texts (t TEXT)")
    return pg_address(running)


@pytest.fixture
def client(place: str) -> Iterator[PgSocket]:
    """A client in a transaction."""
    with PgSocket(place) as opened:
        opened.start().send(query("BEGIN"))
        opened.until(b"Z")
        yield opened


def portal(name: str, sql: str) -> bytes:
    """The messages that make a portal."""
    return parse(sql, f"of {name}") + bind(name, f"of {name}")


@pytest.mark.parametrize("limit", [0, 5])
@pytest.mark.parametrize("other", ["MOVE 1 FROM b", "MOVE ALL FROM a"])
def test_portals_that_move_themselves_or_each_other_are_refused(client: PgSocket, other: str, limit: int) -> None:
    client.send(portal("a", "MOVE ALL FROM b"), portal("b", other), execute("b", limit), SYNC)
    assert client.error()["C"] == "55000"
    client.until(b"Z")
    client.send(query("ROLLBACK"), query("SELECT count(*) FROM numbers"))
    assert client.kinds() + client.kinds() == "CZTDNCZ"


@pytest.mark.parametrize("sql", ["INSERT INTO empty VALUES (1)", "", "COPY numbers TO STDOUT", "COMMIT"])
def test_a_portal_without_rows_is_not_moved(client: PgSocket, sql: str) -> None:
    client.send(portal("p", sql), SYNC)
    client.until(b"Z")
    client.send(query("MOVE 1 FROM p"))
    error = client.error()
    assert (error["C"], error["M"]) == ("55000", 'portal "p" has no rows to move over')
    client.until(b"Z")
    client.send(query("ROLLBACK"), query("SELECT n FROM empty"))
    assert client.kinds() + client.kinds() == "CZTNCZ"


def test_a_portal_moves_another_one_that_then_goes_on(client: PgSocket) -> None:
    client.send(portal("a", "SELECT n FROM numbers"), portal("b", "MOVE 7 FROM a"), execute("a", 2), execute("b", 3))
    client.send(execute("a", 1), SYNC)
    messages = client.until(b"Z")
    assert [body[-1:] for kind, body in messages if kind == b"D"] == [b"0", b"1", b"9"]
    assert [body for kind, body in messages if kind == b"C"] == [b"MOVE 7\0"]


@pytest.mark.parametrize("kind", ["CURSOR", "SCROLL CURSOR"])
@pytest.mark.parametrize("end", ["CLOSE c", "CLOSE ALL", "ROLLBACK TO s"])
def test_a_cursor_that_is_closed_while_a_portal_reads_it_ends_the_portal(client: PgSocket, end: str, kind: str) -> None:
    client.send(query(f"SAVEPOINT s; DECLARE c {kind} FOR SELECT n FROM numbers"), portal("p", "FETCH ALL FROM c"))
    client.send(execute("p", 2), query(end), execute("p"), SYNC)
    error = client.error()
    assert (error["C"], error["M"]) == ("34000", 'cursor "c" was closed while it was read')
    client.until(b"Z")
    client.send(query("ROLLBACK; SELECT count(*) FROM numbers"))
    assert client.kinds() == "CTDNCZ"


def test_portals_and_waiting_rows_have_one_limit(client: PgSocket) -> None:
    client.send(parse("SELECT n FROM numbers WHERE n = $1", "s", 25), SYNC)
    client.until(b"Z")
    for number in range(10):
        client.send(bind(f"p{number}", "s", b"1" * (3 << 20)), SYNC)
        assert client.kinds() == "2Z"
    rows = ", ".join([f"('{'x' * 500_000}')"] * 6)
    client.send(query(f"INSERT INTO texts VALUES {rows}"))
    error = client.error()
    assert error["C"] == "53200"
    assert "portals, cursors and waiting rows of this connection" in error["M"]
    client.until(b"Z")
    client.send(query("ROLLBACK"), query(f"INSERT INTO texts VALUES {rows}"))
    assert client.kinds() + client.kinds() == "CZCZ"


@pytest.mark.long
def test_a_waiting_portal_that_fails_and_is_left_writes_nothing_to_the_log(
    client: PgSocket, running: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    client.send(query("SELECT n FROM numbers"))  # the first read compiles
    client.until(b"Z")
    client.send(query("SET statement_timeout = 900"), portal("p", "SELECT n FROM numbers"), execute("p", 2), SYNC)
    assert client.kinds() + client.kinds() == "CZ12DDsZ"
    running.wait_until(lambda: not any(map(_runs_a_portal, asyncio.all_tasks())))
    client.send(query("ROLLBACK"))
    client.until(b"Z")
    gc.collect()
    assert not [record for record in caplog.records if "never retrieved" in record.getMessage()]


def _runs_a_portal(task: asyncio.Task[object]) -> bool:
    return getattr(task.get_coro(), "__name__", "") == "run_into"
