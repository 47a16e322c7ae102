"""Rows `call.*`: processor time of the service for a small call, beside an empty call of the same run.

    call.push.8, call.push.50      a push of one tuple, on disk before it is acknowledged, by 8 and by 50 clients
    call.invoke                    an invocation of a kept answer of 100 rows, by 8 clients
    call.sync                      a sync of a copy without any changes, by 8 clients
    call.batch, call.batch.client  a producer's batch of 16 tuples: the service, and the process of the client
    call.stream                    tuples a second of a producer's batches of 1,024, beside as many empty messages
    call.idle                      wake-ups a second of all threads of a service with 1,000 queries and no calls
    call.inserts                   pushes of one tuple by 8 clients, beside inserts of one row into databases

A ratio of processor times of one run is steadier than a rate: other work of the machine hardly changes it. The empty
call is a health check of the same service, by as many clients, in turns. Callers send prepared bytes, as in
`benchmarks.ingest.calls`. The databases write each row to the disk before they answer, by 8 threads with a connection
each.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ingest.calls import INVOKE, PUSH, Callers
from benchmarks.ingest.wire import ANSWER_ROWS, BATCH, CHUNK, as_ipc, swallowed, typical
from benchmarks.peers import Missing
from benchmarks.peers.postgres import PostgresServer
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, beside, seconds
from benchmarks.tool.processes import Served, processor_seconds
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns, make_queries
from psoup_client import Client
from psoup_client.copies.answer_copy import changes
from psoup_proto.v1 import ingest_pb2, queries_pb2, sync_pb2

CHECK = "/grpc.health.v1.Health/Check"
SYNC = "/psoup.v1.SyncService/Sync"
CLIENTS, CROWD = 8, 50
FEW, MANY = 16, 1_024
"""The tuples of a producer's batch in `call.batch` and in `call.stream`."""
QUERIES = 1_000
SETTLE_SECONDS = 5.0
"""Seconds after the last call before the wake-ups of an idle service are counted."""

_CALLS = "call.push.8", "call.push.50", "call.invoke", "call.sync"
_BATCHES = "call.batch", "call.stream"


def rows(run: Run) -> Iterator[Row]:
    """All rows."""
    yield from run.part(lambda: _calls(run), *_CALLS)
    yield from run.part(lambda: _batches(run), *_BATCHES)
    yield from run.part(lambda: _idle(run), "call.idle")
    yield from run.part(lambda: _inserts(run), "call.inserts")


def _calls(run: Run) -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder,
        processes.served(Path(folder)) as service,
        Client(service.address) as client,
    ):
        client.create_stream(CREATE)
        for clients, limit in ((CLIENTS, 1.8), (CROWD, 1.3)):
            yield _row(f"call.push.{clients}", service, PUSH, _push_request(), clients, limit, run)
        for name, method, request in (("call.invoke", INVOKE, _invoke), ("call.sync", SYNC, _sync)):
            yield _row(name, service, method, request(client), CLIENTS, 1.15, run)


def _row(name: str, service: Served, method: str, request: bytes, clients: int, limit: float, run: Run) -> Row:
    """Microseconds of a call, beside an empty one."""
    ours, theirs = _in_turns(service, method, request, clients, run)
    return Row(name, ours, "us", "empty call", theirs, Target(at_most=limit), f"{name}: {clients} clients")


def _in_turns(service: Served, method: str, request: bytes, clients: int, run: Run) -> tuple[Sample, Sample]:
    """Microseconds of processor time for a call, and for an empty one. They take turns, and the first is warm-up."""
    turn = run.of(1.0, 0.5, 0.02)

    async def measured() -> tuple[list[float], list[float]]:
        async with (
            Callers(service.address, method, clients) as ours,
            Callers(service.address, CHECK, clients) as theirs,
        ):
            spent: tuple[list[float], list[float]] = ([], [])
            for _ in range(run.of(9, 5, 1) + 1):
                spent[0].append(await _spent(ours, service.pid, request, turn))
                spent[1].append(await _spent(theirs, service.pid, b"", turn))
            return spent

    ours, theirs = asyncio.run(measured())
    return Sample.of(ours[1:]), Sample.of(theirs[1:])


async def _spent(callers: Callers, pid: int, request: bytes, turn: float) -> float:
    before, start = processor_seconds(pid), time.perf_counter()
    rate = await callers.rate(repeat(request), turn)
    calls = rate * (time.perf_counter() - start)
    return 1e6 * (processor_seconds(pid) - before) / calls


def _push_request() -> bytes:
    return ingest_pb2.PushRequest(stream=STREAM, arrow_ipc=as_ipc(batches(make_columns(1), 1)[0])).SerializeToString()


def _invoke(client: Client) -> bytes:
    """A request for a kept answer of 100 rows."""
    columns = make_columns(CHUNK)
    query = typical(columns)
    matched = np.flatnonzero(query.mask(columns))[-ANSWER_ROWS:]
    handle = client.register(query.statement(CHUNK - int(matched[0])), amount="complete")
    for table in batches(columns, BATCH):
        client.push(STREAM, table)
    assert len(handle.invoke()) == ANSWER_ROWS
    return queries_pb2.InvokeRequest(query_id=handle.id).SerializeToString()


def _sync(client: Client) -> bytes:
    """A request about a copy of an answer that does not change."""
    handle = client.register(f"SELECT * FROM {STREAM} WHERE a0 = 7 BEGIN (NOW - 4096 ROWS)")
    want, complete = sync_pb2.Want(query_id=handle.id), False
    while not complete:
        change = changes(client, [want], 1 << 20)[0].outcomes[0].change
        want, complete = sync_pb2.Want(token=change.token), change.complete
    return sync_pb2.SyncRequest(wants=[want], compression=sync_pb2.COMPRESSION_ZSTD).SerializeToString()


def _batches(run: Run) -> Iterator[Row]:
    few, many = run.of((2_000, 512), (1_000, 256), (8, 2))
    samples = run.of(5, 3, 1)
    with (
        processes.served(Path(), durable=False) as service,
        Client(service.address) as client,
        processes.empty_service() as empty,
    ):
        client.create_stream(f"{CREATE} RETENTION {4 * CHUNK} ROWS")
        tables = batches(make_columns(few * FEW), FEW)
        _, call = _in_turns(service, PUSH, _push_request(), CLIENTS, run)
        spent = [_pushed(service.pid, client, tables) for _ in range(samples + 1)][1:]
        for name, at, limit in (("call.batch", 0, 1.5), ("call.batch.client", 1, 0.7)):
            ours = Sample.of([each[at] for each in spent])
            note = f"{name}: batches of {FEW} tuples by one producer"
            yield Row(name, ours, "us", "empty call", call, Target(at_most=limit), note)
        tables = batches(make_columns(many * MANY), MANY)
        rates = [len(tables) * MANY / seconds(lambda: _push_all(client, tables)) for _ in range(samples + 1)]
        theirs = swallowed(empty, tables, samples)
        yield Row("call.stream", Sample.of(rates[1:]), "tuples/s", "empty stream", theirs, Target(at_least=0.3))


def _pushed(pid: int, client: Client, tables: list[Any]) -> tuple[float, float]:
    """Microseconds of processor time for a batch: of the service, and of this process."""
    before, ours = processor_seconds(pid), time.process_time()
    _push_all(client, tables)
    after = processor_seconds(pid)
    return 1e6 * (after - before) / len(tables), 1e6 * (time.process_time() - ours) / len(tables)


def _push_all(client: Client, tables: list[Any]) -> None:
    with client.producer(STREAM) as producer:
        for table in tables:
            producer.push(table)
        last = producer.flush().sequence
    client.wait_for(last)


def _idle(run: Run) -> Iterator[Row]:
    pause, length, turns = run.of((SETTLE_SECONDS, 2.0, 5), (SETTLE_SECONDS, 2.0, 3), (0.05, 0.05, 1))
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder, processes.served(Path(folder)) as service:
        with Client(service.address) as client:
            client.create_stream(CREATE)
            client.register_many([query.statement(BATCH) for query in make_queries(run.of(QUERIES, QUERIES, 10), 4)])
        time.sleep(pause)
        rates = [_woken(service.pid, length) for _ in range(turns)]
    note = f"call.idle: {QUERIES:,} queries, no client"
    yield Row("call.idle", Sample.of(rates), "wake-ups/s", "none", None, Target(value_at_most=20), note)


def _woken(pid: int, length: float) -> float:
    before, start = processes.wake_ups(pid), time.perf_counter()
    time.sleep(length)
    return (processes.wake_ups(pid) - before) / (time.perf_counter() - start)


def _inserts(run: Run) -> Iterator[Row]:
    turn = run.of(3.0, 1.0, 0.05)
    missing: list[Missing] = []
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        peers = [("SQLite, WAL, FULL", Sample.of([_of_sqlite(str(Path(folder) / "rows.db"), turn)]))]
        try:
            peers.append(("PostgreSQL, synchronous_commit on", Sample.of([_of_postgres(turn)])))
        except Missing as absent:
            missing.append(absent)
        with processes.served(Path(folder) / "psoup") as service, Client(service.address) as client:
            client.create_stream(CREATE)

            async def pushed() -> float:
                async with Callers(service.address, PUSH, CLIENTS) as callers:
                    await callers.rate(repeat(_push_request()), turn / 3)
                    return await callers.rate(repeat(_push_request()), turn)

            ours = Sample.of([asyncio.run(pushed())])
    yield from beside("call.inserts", ours, "calls/s", peers, missing)


INSERT = f"INSERT INTO {STREAM} VALUES ({', '.join('1' * 8)})"
_TABLE = f"CREATE TABLE {STREAM} ({', '.join(f'a{place} BIGINT NOT NULL' for place in range(8))})"


def _of_sqlite(path: str, turn: float) -> float:
    def opened() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    with closing(opened()) as first:
        first.execute(_TABLE)
    return _inserted(opened, turn)


def _of_postgres(turn: float) -> float:
    """Rows a second into a server whose commits wait for the disk. Raises Missing without psycopg or PostgreSQL."""
    try:
        import psycopg
    except ImportError as error:
        raise Missing("PostgreSQL", "pip install psycopg") from error
    server = PostgresServer({"fsync": "on", "synchronous_commit": "on", "shared_buffers": "256MB"}, psycopg)
    try:
        server.run(_TABLE)
        return _inserted(lambda: psycopg.connect(server.address, autocommit=True), turn)
    finally:
        server.close()


def _inserted(opened: Callable[[], Any], turn: float) -> float:
    """Rows a second by threads with a connection each, one row a transaction."""
    counts = [0] * CLIENTS
    until = time.perf_counter() + turn

    def insert(place: int) -> None:
        with closing(opened()) as connection:
            while time.perf_counter() < until or not counts[place]:
                connection.execute(INSERT)
                counts[place] += 1

    threads = [threading.Thread(target=insert, args=(place,)) for place in range(CLIENTS)]
    spent = seconds(lambda: [*map(threading.Thread.start, threads), *map(threading.Thread.join, threads)])
    return sum(counts) / spent
