"""Rows `push.grpc.*` and `invoke.grpc`: the same work through a real socket, the service in a process of its own.

    push     the SDK's producer sends batches of 4,096 tuples on one stream; the clock stops when the last of them is
             visible to every call, joined with all queries. Peer: the same bytes into a service that drops them.
    invoke   the SDK's `query.invoke()` for an answer of exactly 100 rows of 8 integers, decoded to Arrow: 16 clients,
             one, and one that asks for many answers in a call. Peer: an empty call, no bytes in or out, to a service
             that does nothing. The two calls take turns. `benchmarks.ingest.calls` has the service without the SDK.

Client and service share the machine's cores, as they do when a user tries PSoup out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.empty_service import EMPTY, MESSAGE_LIMIT, SWALLOW
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.processes import empty_service
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, Columns, Query, batches, make_columns, make_queries
from psoup_client import Client
from psoup_client import Query as Handle

BATCH = 4_096
CHUNK = 65_536
KEPT = 4 * CHUNK
ROUND = 64
"""Batches in one sample."""

ANSWER_ROWS = 100

CLIENTS = 16


def push_rows(run: Run) -> Iterator[Row]:
    """A single streaming producer: in memory, and with every batch on disk before it is acknowledged."""
    columns = make_columns(run.of(ROUND, ROUND, 2) * BATCH)
    tables = batches(columns, BATCH)
    with empty_service() as address:
        peer = swallowed(address, tables, run.of(5, 5, 1))
    samples = run.of(5, 3, 1)
    many = Target(value_at_least=1_000_000, at_least=0.5)
    for count, durable, target in ((1_024, False, None), (4_096, False, many), (1_024, True, None)):
        if run.quick and count > 1_024:
            continue
        note = "each batch is on disk before it is acknowledged" if durable else "the service keeps all in memory"
        name = f"push.grpc.q{count}{'.durable' if durable else ''}"

        def measured() -> Iterator[Row]:
            standing = run.of(count, count, count // 64)  # noqa: B023 called at once
            ours = _pushed(standing, columns, tables, samples, durable=durable)  # noqa: B023
            yield Row(name, ours, "tuples/s", "empty stream", peer, target, f"{name}: {note}")  # noqa: B023

        yield from run.part(measured, name)


def _pushed(count: int, columns: Columns, tables: list[pa.Table], samples: int, *, durable: bool) -> Sample:
    """Tuples a second into a service with `count` queries; some of the answers are checked."""
    queries = make_queries(count, 4)
    with processes.service(durable=durable) as address, Client(address) as client:
        client.create_stream(f"{CREATE} RETENTION {KEPT} ROWS")
        standing = client.register_many([query.statement(BATCH) for query in queries])
        rates = [len(tables) * BATCH / seconds(lambda: push_all(client, tables)) for _ in range(samples + 1)]
        last = columns[:, -BATCH:]
        for query, handle in zip(queries[:64], standing, strict=False):
            _compare(handle, last[:, query.mask(last)])
    return Sample.of(rates[1:])


def push_all(client: Client, tables: list[pa.Table]) -> None:
    """Push tables by a producer, and wait until all are applied."""
    with client.producer(STREAM, batch_rows=BATCH) as producer:
        for table in tables:
            producer.push(table)
        last = producer.flush().sequence
    client.wait_for(last)


def swallowed(address: str, tables: list[pa.Table], samples: int) -> Sample:
    """Tuples a second of the same bytes into a stream that drops them."""
    payloads, rows = [as_ipc(table) for table in tables], sum(table.num_rows for table in tables)
    rates = []
    with grpc.insecure_channel(address, options=[("grpc.max_send_message_length", MESSAGE_LIMIT)]) as channel:
        stream = channel.stream_stream(SWALLOW)
        for _ in range(samples + 1):
            rates.append(rows / seconds(lambda: [None for _ in stream(iter(payloads))]))
    return Sample.of(rates[1:])


def as_ipc(table: pa.Table) -> bytes:
    """An Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def invoke_rows(run: Run) -> Iterator[Row]:
    """Many clients at once, one alone, and one that asks for many answers in a call."""
    yield from run.part(lambda: _invoked(run), "invoke.grpc", "invoke.grpc.many", "invoke.grpc.one")


def _invoked(run: Run) -> Iterator[Row]:
    calls, rounds, warm_up = run.of((2_000, 6, 100), (500, 6, 100), (4, 2, 1))
    columns = make_columns(CHUNK)
    query = typical(columns)
    matched = np.flatnonzero(query.mask(columns))[-ANSWER_ROWS:]
    with processes.service() as address, Client(address) as client, empty_service() as empty_address:
        client.create_stream(CREATE)
        handle = client.register(query.statement(CHUNK - int(matched[0])))
        for table in batches(columns, BATCH):
            client.push(STREAM, table)
        _compare(handle, columns[:, matched])
        with grpc.insecure_channel(empty_address) as channel:
            empty = channel.unary_unary(EMPTY)
            turns: list[Callable[[], object]] = [lambda: empty(b""), handle.invoke]
            crowd = [[CLIENTS * calls / 4 / _crowd(turn, calls // 4) for turn in turns] for _ in range(rounds)]
            lone = [[1e6 * seconds(turn) for turn in turns] for _ in range(calls + warm_up)]
        handles = [handle] * calls
        many = [calls / seconds(lambda: list(client.invoke_many(handles))) for _ in range(rounds)]
    theirs, ours = (Sample.of(list(values)) for values in zip(*crowd[1:], strict=True))
    yield Row("invoke.grpc", ours, "calls/s", "empty call", theirs, Target(at_least=0.75), f"{CLIENTS} clients")
    note = "answers of one call after the other; the peer is a call for each"
    yield Row(
        "invoke.grpc.many", Sample.of(many[1:]), "calls/s", "empty call", theirs, Target(value_at_least=15_000), note
    )
    theirs, ours = (Sample.of(list(values)) for values in zip(*lone[warm_up:], strict=True))
    yield Row("invoke.grpc.one", ours, "us", "empty call", theirs, Target(at_most=2), "one client")


def _crowd(call: Callable[[], object], calls: int) -> float:
    """Seconds until each of CLIENTS threads has made `calls` calls."""

    def client() -> None:
        for _ in range(calls):
            call()

    with ThreadPoolExecutor(CLIENTS) as threads:
        return seconds(lambda: [done.result() for done in [threads.submit(client) for _ in range(CLIENTS)]])


def typical(columns: Columns) -> Query:
    """Of 128 queries of four factors, the one with the median number of matches."""
    queries = make_queries(128, 4)
    return sorted(queries, key=lambda query: int(query.mask(columns).sum()))[64]


def _compare(handle: Handle, expected: Columns) -> None:
    table = handle.invoke().to_arrow()
    ours = np.stack([column.to_numpy() for column in table.columns])
    if not np.array_equal(ours, expected):
        raise AssertionError(f"query {handle.id}: {table.num_rows} rows, NumPy has {expected.shape[1]}")
