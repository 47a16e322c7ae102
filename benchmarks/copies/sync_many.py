"""Rows `sync.many`, `sync.many.idle50`: what a service can do for clients that come back, each with a token of its own.

    sync.many           16 calls on their way, of 10,000 clients in turn: 1,000 queries over 10,000 flights, whose
                        copies were brought up to date at ten different times, 0 to 10 rows ago: calls a second
    sync.many.idle50    one client with fifty copies of which nothing has changed, in one call: calls a second

The peer is an empty call on the same stack, just as many at once; see `calls`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.copies.sync import IDLE, WINDOW
from benchmarks.ingest.calls import beside_empty
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Target
from benchmarks.tool.processes import empty_service
from benchmarks.tool.run import Run
from psoup_cli.flights.dataset import create_statement, load
from psoup_client import AnswerCopy, Client
from psoup_client.copies.answer_copy import want_of
from psoup_proto.v1 import sync_pb2

SYNC = "/psoup.v1.SyncService/Sync"
QUERIES, TIMES, CLIENTS = 1_000, 10, 16
NEW = 100
"""Flights between two of the times: about one of them is new to a query."""
SQL = f"SELECT * FROM flights WHERE flight >= $1 AND flight < $2 BEGIN (NOW - {WINDOW} ROWS)"


def rows(run: Run) -> Iterator[Row]:
    """Throughput of syncs."""
    yield from run.part(lambda: _measured(run), "sync.many", "sync.many.idle50")


def _measured(run: Run) -> Iterator[Row]:
    count, times = run.of(QUERIES, QUERIES, 60), run.of(TIMES, TIMES, 2)
    flights = load()
    with (
        processes.served(Path(), durable=False) as service,
        Client(service.address) as client,
        empty_service() as empty,
    ):
        client.execute(create_statement("flights"))
        client.push("flights", flights.slice(0, WINDOW))
        numbers = np.sort(flights.column("flight").slice(0, WINDOW).to_numpy())
        lows = numbers[np.linspace(0, WINDOW - WINDOW // 99, count).astype(np.int64)]
        highs = np.maximum(numbers[np.searchsorted(numbers, lows) + WINDOW // 100], lows + 1)
        queries = client.register_many(SQL, pa.table({"low": lows, "high": highs}))
        copies = [client.copy(query) for query in queries]
        tokens = list[bytes]()
        for time in range(times):
            client.sync(copies)
            tokens += [want_of(copy).token for copy in copies]
            client.push("flights", flights.slice(WINDOW + time * NEW, NEW))
        assert len(set(tokens)) > len(tokens) // 2
        requests = [_request([token]) for token in tokens]
        np.random.default_rng(5).shuffle(requests)
        ours, theirs = beside_empty(service.address, SYNC, requests, empty, CLIENTS, run)
        target = Target(at_least=0.4, value_at_least=2_000)
        yield Row("sync.many", ours, "calls/s", "empty call", theirs, target, details={"rows": _came(client, copies)})
        idle = _request([want_of(copy).token for copy in copies[:IDLE]])
        ours, theirs = beside_empty(service.address, SYNC, [idle], empty, 1, run)
        yield Row("sync.many.idle50", ours, "calls/s", "empty call", theirs, Target(value_at_least=334))


def _request(tokens: list[bytes]) -> bytes:
    wants = [sync_pb2.Want(token=token) for token in tokens]
    return sync_pb2.SyncRequest(wants=wants, compression=sync_pb2.COMPRESSION_ZSTD).SerializeToString()


def _came(client: Client, copies: list[AnswerCopy]) -> float:
    """New rows that a copy of the last time is told of, on the average."""
    return sum(synced.came for synced in client.sync(copies)) / len(copies)
