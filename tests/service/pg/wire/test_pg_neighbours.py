"""Statements of a client go on beside a slow, a huge or an unread statement of another client."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from psoup_client import Client
from psoup_service.pg.statements.writing.insert_rows import Piece, RowReader
from psoup_testing.pg.script import pg_address
from psoup_testing.pg.socket import PgSocket, query
from psoup_testing.services.loop_turns import no_stalls
from psoup_testing.services.threaded_service import Serving

SLOW = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c WHERE a.attnum + b.attnum > 1"
HUGE = "INSERT INTO big (n, s) VALUES " + ", ".join([f"({n}, 'it''s')" for n in range(300_000)])
ROWS = 200_000


@pytest.fixture(scope="module")
def address(running: Serving) -> str:
    """The address of a service with a stream of a few rows and two large ones."""
    with Client(running.address, timeout=60) as client:
        for name in ("few", "big", "long"):
            client.create_stream(f"CREATE STREAM {name} (n INT, s TEXT)")
        client.push("few", {"n": [1, 2, 3], "s": ["a", "b", "c"]})
        client.push("long", {"n": [*range(ROWS)], "s": ["x" * 20] * ROWS})
    host, port = pg_address(running).rsplit(":", 1)
    return f"host={host} port={port} user=x dbname=d"


@contextmanager
def neighbour(address: str) -> Iterator[Any]:
    """A function that runs statements of several kinds on a connection of its own, and checks their replies."""
    with psycopg.connect(address, autocommit=True) as connection:

        def run() -> None:
            for n in range(5):
                connection.execute("INSERT INTO few VALUES (%s, 'd')", (n,))
                assert connection.execute("SELECT s FROM few WHERE n = 1 AND s = 'a'").fetchall() == [("a",)]
                assert connection.execute("SELECT count(*) FROM pg_database").fetchall() == [(1,)]

        run()
        yield run


def cancelled(hostile: psycopg.Connection[Any]) -> None:
    """Run a slow statement until it is cancelled."""
    with pytest.raises(psycopg.errors.QueryCanceled):
        hostile.execute(SLOW)


@pytest.mark.long
def test_statements_go_on_beside_a_slow_statement_over_the_catalogue(running: Serving, address: str) -> None:
    with (
        neighbour(address) as run,
        psycopg.connect(address, autocommit=True) as hostile,
        ThreadPoolExecutor(1) as thread,
        no_stalls(running.service),
    ):
        slow = thread.submit(cancelled, hostile)
        run()
        assert not slow.done()
        hostile.cancel_safe()
        slow.result(30)


@pytest.mark.long
def test_statements_go_on_beside_a_huge_insert(running: Serving, address: str) -> None:
    released, piece = Event(), RowReader.piece

    def held(reader: RowReader) -> Piece:
        """Read a piece. The last one of the huge INSERT waits until the neighbour's statements have run."""
        rows = piece(reader)
        assert reader.more or len(reader.text) < len(HUGE) or released.wait(30)
        return rows

    with (
        patch.object(RowReader, "piece", held),
        neighbour(address) as run,
        psycopg.connect(address, autocommit=True) as hostile,
        ThreadPoolExecutor(1) as thread,
        no_stalls(running.service),
    ):
        huge = thread.submit(hostile.execute, HUGE)
        running.wait_until(lambda: running.service._answering.receiving.bytes > len(HUGE))
        run()
        assert not huge.done()
        released.set()
        assert huge.result(30).statusmessage == "INSERT 0 300000"
        counts = hostile.execute("SELECT count(*), sum(n) FROM big WHERE s = 'it''s'").fetchall()
        assert counts == [(300_000, sum(range(300_000)))]


def test_statements_go_on_beside_a_client_that_does_not_read(running: Serving, address: str) -> None:
    with neighbour(address) as run, PgSocket(pg_address(running), receive_bytes=65_536).start() as hostile:
        hostile.send(query("SELECT * FROM long"))
        assert hostile.read()[0] == b"T"
        run()
    running.wait_until(lambda: not running.service._answering.receiving.bytes)
