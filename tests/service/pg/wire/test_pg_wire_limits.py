"""Clients that cancel, stall, vanish, send too much or stay too long; and a service that stops under them."""

from __future__ import annotations

import asyncio
import io
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import asyncpg
import psycopg2
import pytest

from psoup_service.pg import port
from psoup_service.process.settings import Settings
from psoup_testing.pg.script import ScriptedSession, pg_address, scripted
from psoup_testing.pg.socket import (
    SYNC,
    PgSocket,
    bind,
    cancel_of,
    describe,
    execute,
    message,
    packet,
    parse,
    query,
    startup,
    text,
)
from psoup_testing.services.threaded_service import Serving
from psoup_testing.suite.sweeps import swept


@pytest.fixture(scope="module")
def served() -> Iterator[Serving]:
    """A service whose statements are orders."""
    with scripted(Settings(port=0, pg_port=0)) as running:
        yield running


@pytest.fixture(scope="module")
def hasty() -> Iterator[Serving]:
    """Another one, in which clients may stall for half a second."""
    with scripted(Settings(port=0, pg_port=0, receive_s=1, stream_idle_s=0.5)) as running:
        yield running


@pytest.fixture
def client(served: Serving) -> Iterator[PgSocket]:
    with client_of(served) as opened:
        yield opened


@contextmanager
def client_of(served: Serving) -> Iterator[PgSocket]:
    """A client of a service. Afterwards nothing of it is left at the service."""
    ScriptedSession.ended.clear()
    with PgSocket(pg_address(served)) as opened:
        yield opened.start()
    served.wait_until(lambda: not ScriptedSession.open and not served.service._answering.receiving.bytes)


def sent_alone(served: Serving, raw: bytes) -> None:
    """Send bytes on a connection of their own, and wait for its end."""
    with PgSocket(pg_address(served)) as other:
        other.send(raw)
        assert other.read() == (b"", b"")


def test_a_cancel_request_ends_the_statement_and_a_wrong_key_does_nothing(served: Serving, client: PgSocket) -> None:
    client.send(query("wait"))
    served.wait_until(lambda: "begun" in ScriptedSession.ended)
    sent_alone(served, cancel_of(client, wrong=1))
    sent_alone(served, packet(struct.pack("!iiI", 1234 << 16 | 5678, client.number + 1, 0)))
    assert ScriptedSession.ended == ["begun"]
    sent_alone(served, cancel_of(client))
    assert client.error()["C"] == "57014"
    assert client.kinds() == "Z"
    sent_alone(served, cancel_of(client))
    client.send(query("rows 1"))
    assert client.kinds() == "TDCZ", "a request between two statements ends none"
    client.send(parse("wait"), bind(), execute("", 5), SYNC)
    served.wait_until(lambda: ScriptedSession.ended.count("begun") == 2)
    sent_alone(served, cancel_of(client))
    assert client.kinds() == "12EZ", "also a portal with a row limit"


@pytest.mark.parametrize("order", [query("wait"), parse("wait") + bind() + execute("", 5) + SYNC])
def test_the_statement_of_a_client_that_leaves_is_ended(served: Serving, order: bytes) -> None:
    ScriptedSession.ended.clear()
    with PgSocket(pg_address(served)).start() as client:
        client.send(order)
        served.wait_until(lambda: "begun" in ScriptedSession.ended)
    served.wait_until(lambda: ScriptedSession.ended == ["begun", "wait"] and not ScriptedSession.open)


@pytest.mark.parametrize("order", swept([query("rows 10000000"), query("copy out 10000000")], fast=1))
def test_a_client_that_stops_reading_is_cut_and_rows_are_not_made_ahead_of_it(hasty: Serving, order: bytes) -> None:
    ScriptedSession.ended.clear()
    with PgSocket(pg_address(hasty), receive_bytes=65_536).start() as client:
        client.send(order)
        hasty.wait_until(lambda: ScriptedSession.ended == ["rows"])
    assert ScriptedSession.reached < 200_000, "what the buffers of the system take"
    hasty.wait_until(lambda: not ScriptedSession.open)


def test_data_of_a_copy_comes_in_pieces_up_to_its_end(client: PgSocket) -> None:
    lines = [message(b"d", b"1\n2\n"), message(b"d"), message(b"H"), SYNC, message(b"d", b"3\n")]
    client.send(query("copy in; rows 1"), *lines, message(b"c"))
    assert client.kinds() == "GCTDCZ"
    client.send(parse("copy in"), bind(), execute(), SYNC, *lines, message(b"c"), SYNC)
    assert client.kinds() == "12GCZ", "the Sync that libpq sends before the data is left out"
    client.send(query("copy out 2"))
    assert client.kinds() == "HddcCZ"


@pytest.mark.parametrize(
    ("service", "sent", "problem"),
    [
        ("served", message(b"f", text("no more")), "57014 the client has ended the COPY: no more"),
        (
            "served",
            query("rows 1"),
            "08P01 the message is not one of PostgreSQL's protocol: its kind is b'Q', and a COPY waits",
        ),
        ("hasty", message(b"d", b"1"), "57014 no data of the COPY came for 0.5 s, so it is ended"),
    ],
)
def test_a_copy_that_ends_early_fails_and_late_data_is_left_out(
    request: pytest.FixtureRequest, service: str, sent: bytes, problem: str
) -> None:
    with client_of(request.getfixturevalue(service)) as client:
        client.send(query("copy in"), sent)
        error = client.error()
        assert f"{error['C']} {error['M']}".startswith(problem)
        client.send(message(b"d", b"late"), message(b"c"), query("rows 1"))
        assert client.kinds() + client.kinds() == "ZTDCZ"


@pytest.mark.long
def test_a_message_that_is_too_long_or_does_not_end_ends_the_connection(hasty: Serving) -> None:
    cases = {
        b"Q\0\0\0\3": "a message of 3 bytes",
        b"Q\xff\xff\xff\xff": "a message of -1 bytes",
        b"Q\x7f\xff\xff\xff": "a message of 2,147,483,647 bytes; 16,777,216 is the most",
        message(b"?"): "its kind is b'?'",
        b"Q\0\0\1\0half": "a message of the client did not come in time",
        b"Q\0": "a message of the client did not come in time",
    }
    with ExitStack() as stack:
        opened = {raw: stack.enter_context(PgSocket(pg_address(hasty))).start() for raw in cases}
        for raw, client in opened.items():
            client.send(raw)
        for raw, client in opened.items():
            error = client.error()
            assert (error["S"], error["C"]) == ("FATAL", "08P01")
            assert cases[raw] in error["M"]
            assert client.ended()


def test_a_long_message_without_room_is_left_out_and_refused(served: Serving, client: PgSocket) -> None:
    receiving, limits = served.service._answering.receiving, served.service._answering.limits
    long, receive_s = message(b"B", b"x" * 300_000), limits.receive_s

    def full() -> None:
        assert receiving.try_take("default", (256 << 20) - 100_000)

    served._loop.call_soon_threadsafe(full)
    object.__setattr__(limits, "receive_s", 0.5)
    try:
        client.send(query("rows 1" + " " * 300_000), long, parse("rows 1"), SYNC, query("rows 1"))
        assert client.error()["C"] == "53200"
        assert client.kinds() == "Z"
        assert client.kinds() == "EZ"
        assert client.kinds() == "TDCZ"
    finally:
        object.__setattr__(limits, "receive_s", receive_s)
        served._loop.call_soon_threadsafe(receiving.give_back, "default", (256 << 20) - 100_000)
    client.send(query(" /* */ insert" + " " * 300_000))
    assert client.kinds() == "CZ"
    client.send(query("insert" + " " * (17 << 20)), query("rows 1"))
    error = client.error()
    assert (error["C"], error["M"][:66]) == (
        "54000",
        "the message has 17,825,799 bytes, and 16,777,216 is the most; send",
    )
    assert client.kinds() + client.kinds() == "ZTDCZ"


def test_long_statements_other_than_inserts_and_very_many_are_refused(client: PgSocket) -> None:
    long = "rows 1" + " " * 70_000
    client.send(query(long), parse(long), SYNC, query(" -- INSERT\n" + long), query(";" * 60_000))
    for state in ("54000 the statement has 70,006 bytes, and 65,536 is the most; only INSERT",) * 2:
        error = client.error()
        assert f"{error['C']} {error['M']}".startswith(state)
        client.until(b"Z")
    assert client.error()["M"].startswith("the statement has 70,017 bytes")
    assert "more than 10,000 statements" in client.error()["M"]
    client.until(b"Z")


@pytest.mark.parametrize(
    ("before", "size"),
    [("insert; ", 70_007), ("insert" + " " * 70_000 + "; rows 1; ", 70_007), ("/* /* */ INSERT */", 70_024)],
)
def test_a_long_statement_beside_an_insert_is_refused_before_any_runs(client: PgSocket, before: str, size: int) -> None:
    long = f"{before}rows 1{' ' * 70_000}"
    client.send(query(long))
    error = client.error()
    assert f"{error['C']} {error['M']}".startswith(f"54000 the statement has {size:,} bytes, and 65,536 is the most")
    client.until(b"Z")
    client.send(query("insert" + " " * 70_000 + "; rows 1; /* */insert " + "é" * 70_000))
    assert client.kinds() == "CTDCCZ", "only statements of other kinds are bounded"


@pytest.mark.long
def test_replies_to_a_pipeline_wait_for_a_client_that_does_not_read(hasty: Serving) -> None:
    with PgSocket(pg_address(hasty), receive_bytes=65_536).start() as client:
        client.send(parse("rows 0", "s"))
        many = describe(b"S", "s") * 200_000
        with pytest.raises(OSError, match=r"reset|pipe"):
            client.send(*[many] * 20)
    hasty.wait_until(lambda: not ScriptedSession.open)


@pytest.mark.long
def test_idle_connections_and_idle_transactions_are_ended() -> None:
    settings = Settings(port=0, pg_port=0, pg_idle_in_transaction_s=0.3, connection_idle_s=1)
    with scripted(settings) as served, ExitStack() as stack:
        idle, within = [stack.enter_context(PgSocket(pg_address(served))).start() for _ in range(2)]
        within.send(query("begin"))
        assert within.kinds() == "CZ"
        for client, state, setting in (
            (within, "25P03", "pg_idle_in_transaction_s"),
            (idle, "57P05", "connection_idle_s"),
        ):
            error = client.error()
            assert (error["S"], error["C"]) == ("FATAL", state)
            assert setting in error["M"]
            assert client.ended()
        served.wait_until(lambda: not ScriptedSession.open)


def test_notifications_come_between_statements_and_not_in_transactions(client: PgSocket) -> None:
    client.send(query("begin; listen"))
    assert client.kinds() == "CCZ"
    client.send(query("rows 1"))
    assert client.kinds() == "TDCZ"
    client.send(query("commit"))
    messages = client.until(b"Z")
    assert [kind for kind, _ in messages] == [b"C", b"A", b"A", b"Z"]
    assert messages[1][1] == struct.pack("!i", client.number) + text("news") + text("1")
    client.send(query("listen"))
    assert client.kinds() == "CZ"
    assert [client.read()[0] for _ in range(2)] == [b"A", b"A"], "an idle client gets them at once"
    client.send(query("listen"), message(b"d", b"late"), message(b"H"))
    assert client.kinds() == "CZ"
    assert [client.read()[0] for _ in range(2)] == [b"A", b"A"], "messages without a reply delay none"


def test_connections_beyond_the_limit_are_told_and_then_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(port, "REFUSED", 1)
    with scripted(Settings(port=0, pg_port=0)) as served, ExitStack() as stack:
        clients = [stack.enter_context(PgSocket(pg_address(served))).start() for _ in range(2)]
        with PgSocket(pg_address(served)) as third, PgSocket(pg_address(served)) as fourth:
            assert fourth.ended()
            third.send(startup(user="x"))
            error = third.error()
            assert (error["S"], error["C"]) == ("FATAL", "53300")
            assert third.ended()
        clients[0].send(message(b"X"))
        assert clients[0].ended()
        stack.enter_context(PgSocket(pg_address(served))).start()


def test_a_service_that_stops_ends_idle_clients_first_and_then_all() -> None:
    with scripted(Settings(port=0, pg_port=0, drain_s=0.1)) as served, ExitStack() as stack:
        idle, busy, half = [stack.enter_context(PgSocket(pg_address(served))).start() for _ in range(3)]
        busy.send(query("wait"))
        half.send(b"Q\0\0\1\0")
        served.wait_until(lambda: ScriptedSession.ended[-1:] == ["begun"])
        served.stop()
        for client in (idle, busy, half):
            error = client.error()
            assert (error["S"], error["C"]) == ("FATAL", "57P01")
            assert client.ended()
    assert not ScriptedSession.open


def test_calls_are_counted_with_their_protocol(served: Serving, client: PgSocket) -> None:
    value = served.service._metrics.registry.get_sample_value
    labels = {"method": "ServerService/GetServerInfo", "code": "OK", "protocol": "pg"}
    served.wait_until(lambda: (value("psoup_calls_total", labels) or 0) >= 1)


def test_psycopg2_copies_in_both_directions(served: Serving) -> None:
    host, number = pg_address(served).rsplit(":", 1)
    connection = psycopg2.connect(host=host, port=number, user="x", dbname="d", sslmode="disable")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.copy_expert("copy in", io.StringIO("1\n" * 100_000))
    assert cursor.rowcount == 100_000
    target = io.StringIO()
    cursor.copy_expert("copy out 3000", target)
    assert target.getvalue().count("\n") == 3_000
    connection.close()


def test_asyncpg_cancels_a_statement_that_its_caller_abandons(served: Serving) -> None:
    async def abandon() -> None:
        host, number = pg_address(served).rsplit(":", 1)
        connection = await asyncpg.connect(host=host, port=int(number), user="x", database="d", ssl=False)
        ScriptedSession.ended.clear()
        waiting = asyncio.create_task(connection.execute("wait"))
        await asyncio.to_thread(served.wait_until, lambda: "begun" in ScriptedSession.ended)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await connection.execute("rows 3") == "SELECT 3"
        assert ScriptedSession.ended == ["begun", "wait"]
        await connection.close()

    asyncio.run(abandon())
