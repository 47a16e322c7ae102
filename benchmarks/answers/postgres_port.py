"""Rows `pg.rows`, `pg.copy`, `pg.small`, `pg.small16`, `pg.block` and `pg.notify`: the port for clients of PostgreSQL.

    pg.rows      a million rows of four columns, by psycopg in binary format, beside PostgreSQL: rows a second
    pg.copy      the same rows by ADBC, which reads COPY in binary format into Arrow
    pg.small     one answer by a prepared statement of psycopg, beside Invoke by the SDK: milliseconds
    pg.small16   16 connections, each with such a statement on its way, beside 16 calls of Invoke: answers a second
    pg.block     one such answer between BEGIN and COMMIT, by psycopg, beside the statement alone: milliseconds
    pg.notify    from the push of a row to its notification, beside the change that the SDK's watch gives: milliseconds

The clients of `pg.small16` are coroutines of one process. They send prepared bytes and do not parse replies, as those
of `invoke.grpc.service`. Without a PostgreSQL the first two rows have no peer, and are left out.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.ingest.calls import INVOKE, Callers
from benchmarks.peers import Missing
from benchmarks.peers.postgres import PostgresServer
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, in_turns
from benchmarks.tool.run import Run
from psoup_client import Client
from psoup_proto.v1 import queries_pb2

CREATE = "CREATE STREAM {} (sym TEXT, price DOUBLE, size BIGINT, seen TIMESTAMP)"
ANSWER = "SELECT sym, price, size, seen FROM trades"
SMALL, FEW = 10, 10_000
BATCH = 65_536
OPEN_SECONDS = 20
CLIENTS = 16
TURN_SECONDS = 1.0
NOTIFIED_S = 60
"""Seconds in which all notifications must come."""
_LARGE, _SMALL, _CHANGES = ("pg.rows", "pg.copy"), ("pg.small", "pg.small16", "pg.block"), ("pg.notify",)


def rows(run: Run) -> Iterator[Row]:
    """The rows of the port. None where psycopg is not installed."""
    try:
        import psycopg
    except ImportError:
        return
    port = processes.free_port()
    settings = {"PSOUP_PG_PORT": str(port)}
    with processes.served(Path(), durable=False, settings=settings) as service, Client(service.address) as client:
        address = f"postgresql://bench@127.0.0.1:{port}/bench"
        wait_until_open(psycopg, address)
        yield from run.part(lambda: _large(psycopg, address, client, run), *_LARGE)
        yield from run.part(lambda: _small(psycopg, address, client, service.address, run), *_SMALL)
        yield from run.part(lambda: _notified(psycopg, address, client, run), *_CHANGES)


def wait_until_open(psycopg: Any, address: str) -> None:
    """Wait for the port, which is opened a moment after the service takes calls."""
    for _ in range(OPEN_SECONDS * 20):
        try:
            psycopg.connect(address).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)


def _table(count: int) -> pa.Table:
    rng = np.random.default_rng(46)
    symbols = pa.array([f"SYM{number}" for number in range(1_000)])
    seen = 1_700_000_000_000_000 + np.arange(count) * 1_000
    return pa.table(
        {
            "sym": symbols.take(pa.array(rng.integers(0, 1_000, count))),
            "price": np.round(rng.random(count) * 1_000, 2),
            "size": rng.integers(1, 100_000, count),
            "seen": pa.array(seen, pa.timestamp("us", tz="UTC")),
        }
    )


def _large(psycopg: Any, address: str, client: Client, run: Run) -> Iterator[Row]:
    """All rows, by psycopg and by ADBC."""
    try:
        server = PostgresServer()
    except Missing:
        return
    table = _table(run.of(1_000_000, 1_000_000, 300))
    client.execute(CREATE.format("trades"))
    for at in range(0, len(table), BATCH):
        client.push("trades", table.slice(at, BATCH))
    try:
        server.load("trades", table)
        yield from run.part(lambda: _fetched(psycopg, address, server, len(table), run), "pg.rows")
        yield from run.part(lambda: _copied(address, server, table, run), "pg.copy")
    finally:
        server.close()


def _fetched(psycopg: Any, address: str, server: PostgresServer, count: int, run: Run) -> Iterator[Row]:
    with (
        psycopg.connect(address, autocommit=True) as ours,
        psycopg.connect(server.address, autocommit=True) as theirs,
    ):

        def fetched(connection: Any) -> Any:
            return connection.cursor(binary=True).execute(ANSWER).fetchall()

        assert sorted(fetched(ours)) == sorted(fetched(theirs))
        turns = [lambda: fetched(ours), lambda: fetched(theirs)]
        ours_of, theirs_of = in_turns(turns, [count, count], run.of(5, 3, 1))
    yield Row(
        "pg.rows", ours_of.wall, "rows/s", "PostgreSQL", theirs_of.wall, Target(at_least=0.6), "psycopg in binary"
    )


def _copied(address: str, server: PostgresServer, table: pa.Table, run: Run) -> Iterator[Row]:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address) as connection:

        def copied() -> pa.Table:
            with connection.cursor() as cursor:
                cursor.execute(ANSWER)
                return cursor.fetch_arrow_table()

        ours = copied()
        assert ours.cast(table.schema).sort_by("seen").equals(table)
        count = len(table)
        rates = in_turns([copied, lambda: server.table(ANSWER)], [count, count], run.of(5, 3, 1))
    yield Row("pg.copy", rates[0].wall, "rows/s", "PostgreSQL", rates[1].wall, Target(at_least=0.8), "ADBC")


def _small(psycopg: Any, address: str, client: Client, grpc_address: str, run: Run) -> Iterator[Row]:
    """Answers of ten rows: one at a time, and many at once."""
    table = _table(FEW)
    client.execute(CREATE.format("few"))
    floor = sorted(table["price"].to_pylist())[-SMALL]
    query = client.register(f"SELECT * FROM few WHERE price >= {floor}", key="dear")
    client.push("few", table)
    view = 'SELECT * FROM queries."dear"'
    repeats = run.of(500, 200, 2)
    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.cursor(binary=True)

        def asked() -> Any:
            return cursor.execute(view, prepare=True).fetchall()

        sizes = query.invoke().to_arrow()["size"].to_pylist()
        assert len(sizes) >= SMALL and [row[2] for row in asked()] == sizes
        turns = [lambda: [asked() for _ in range(repeats)], lambda: [query.invoke() for _ in range(repeats)]]

        def in_block() -> Any:
            with connection.transaction():
                return asked()

        turns.append(lambda: [in_block() for _ in range(repeats)])
        rates = in_turns(turns, [repeats] * 3, run.of(5, 3, 1))
    times = [rate.wall.milliseconds_each() for rate in rates]
    note = f"{SMALL} rows by a prepared statement"
    yield Row("pg.small", times[0], "ms", "Invoke by the SDK", times[1], Target(at_most=1.5), note)
    yield Row("pg.block", times[2], "ms", "the statement alone", times[0], Target(at_most=3), "BEGIN, one read, COMMIT")
    ours, theirs = asyncio.run(_at_once(address, view, grpc_address, query.id, run))
    note = f"{CLIENTS} connections, {SMALL} rows"
    yield Row("pg.small16", ours, "answers/s", "Invoke", theirs, Target(at_least=0.5), note)


def _notified(psycopg: Any, address: str, client: Client, run: Run) -> Iterator[Row]:
    """Changes of an answer, one at a time: by LISTEN, and by a watch of another answer."""
    for name in ("listened", "watched"):
        client.execute(f"CREATE STREAM {name} (n BIGINT)")
        client.register(f"SELECT n FROM {name} WHERE n > 0", key=name)
    repeats = run.of(100, 50, 2)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("LISTEN listened")
        copy = client.copy(client.query(key="watched"))
        with closing(connection.notifies(timeout=NOTIFIED_S)) as notifications, client.watch([copy]) as changes:
            next(changes)

            def pushed(stream: str, arrivals: Iterator[Any]) -> None:
                for _ in range(repeats):
                    client.push(stream, [{"n": 1}])
                    next(arrivals)

            turns = [lambda: pushed("listened", notifications), lambda: pushed("watched", changes)]
            rates = in_turns(turns, [repeats, repeats], run.of(5, 3, 1))
    times = [rate.wall.milliseconds_each() for rate in rates]
    yield Row("pg.notify", times[0], "ms", "watch by the SDK", times[1], Target(at_most=2), "push included")


async def _at_once(address: str, view: str, grpc_address: str, query: str, run: Run) -> tuple[Sample, Sample]:
    """Answers a second of prepared statements and of calls, in turns; the first of each is warm-up."""
    request = queries_pb2.InvokeRequest(query_id=query).SerializeToString()
    turn = run.of(TURN_SECONDS, TURN_SECONDS, 0.02)
    port = int(address.rpartition(":")[2].partition("/")[0])
    sessions = [await _Prepared.opened(port, view) for _ in range(CLIENTS)]
    rates: tuple[list[float], list[float]] = ([], [])
    async with Callers(grpc_address, INVOKE, CLIENTS) as callers:
        for _ in range(run.of(5, 3, 1) + 1):
            until = time.perf_counter() + turn
            start = time.perf_counter()
            done = sum(await asyncio.gather(*(session.ask_until(until) for session in sessions)))
            rates[0].append(done / (time.perf_counter() - start))
            rates[1].append(await callers.rate(repeat(request), turn))
    for session in sessions:
        session.close()
    return Sample.of(rates[0][1:]), Sample.of(rates[1][1:])


_READY = b"Z\0\0\0\5I"


class _Prepared:
    """A connection with a prepared statement, which sends the same bytes for each answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        bind = b"\0s\0" + struct.pack("!hhhh", 0, 0, 1, 1)
        self._request = _message(b"B", bind) + _message(b"E", b"\0" + bytes(4)) + _message(b"S", b"")

    @classmethod
    async def opened(cls, port: int, statement: str) -> _Prepared:
        """A connection that has prepared a statement."""
        session = cls(*await asyncio.open_connection("127.0.0.1", port))
        await session._exchange(_message(b"", struct.pack("!i", 3 << 16) + b"user\0bench\0\0"))
        await session._exchange(_message(b"P", b"s\0" + statement.encode() + bytes(3)) + _message(b"S", b""))
        answer = await session._exchange(session._request)
        assert answer.count(b"D\0") >= 1 and b"SELECT" in answer, answer
        return session

    async def ask_until(self, until: float) -> int:
        """The answers up to a time."""
        done = 0
        while time.perf_counter() < until:
            await self._exchange(self._request)
            done += 1
        return done

    async def _exchange(self, request: bytes) -> bytes:
        self._writer.write(request)
        reply = b""
        while not reply.endswith(_READY):
            reply += await self._reader.read(1 << 16)
        return reply

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body
