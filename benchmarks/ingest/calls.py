"""Rows `invoke.grpc.service`, `invoke.grpc.many.service` and `push.durable.50x1`: what the service itself can do for
many clients at once, beside empty calls.

    invoke.grpc.service        16 clients, each with one call on its way: answers of 100 rows, calls a second
    invoke.grpc.many.service   one client that asks for 256 such answers in a call: answers a second
    push.durable.50x1          50 clients that push one tuple a call, on disk before it is acknowledged: calls a second

Clients are coroutines of one process with a connection each. They send prepared bytes and do not parse replies, so that
only the service is measured. The peer is an empty call on the same stack, with as many calls at once. Both take turns
of a second. Client and service share the machine's cores.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, repeat
from pathlib import Path

import grpc
import numpy as np

from benchmarks.ingest.wire import ANSWER_ROWS, BATCH, CHUNK, as_ipc, typical
from benchmarks.tool import processes
from benchmarks.tool.empty_service import EMPTY
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.processes import empty_service
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns
from psoup_client import Client
from psoup_proto.v1 import ingest_pb2, queries_pb2

INVOKE = "/psoup.v1.QueryService/Invoke"
INVOKE_MANY = "/psoup.v1.QueryService/InvokeMany"
PUSH = "/psoup.v1.IngestService/Push"
MANY = 256
TURN_SECONDS = 1.0

LIMIT = [("grpc.max_receive_message_length", 16 * 1024 * 1024), ("grpc.use_local_subchannel_pool", 1)]


def invoke_rows(run: Run) -> Iterator[Row]:
    """Throughput of invocations."""
    yield from run.part(lambda: _invoked(run), "invoke.grpc.service", "invoke.grpc.many.service")


def _invoked(run: Run) -> Iterator[Row]:
    columns = make_columns(CHUNK)
    query = typical(columns)
    matched = np.flatnonzero(query.mask(columns))[-ANSWER_ROWS:]
    with (
        processes.served(Path(), durable=False) as service,
        Client(service.address) as client,
        empty_service() as empty,
    ):
        client.create_stream(CREATE)
        handle = client.register(query.statement(CHUNK - int(matched[0])))
        for table in batches(columns, BATCH):
            client.push(STREAM, table)
        assert len(handle.invoke()) == ANSWER_ROWS
        request = queries_pb2.InvokeRequest(query_id=handle.id).SerializeToString()
        ours, theirs = beside_empty(service.address, INVOKE, [request], empty, 16, run)
        yield Row("invoke.grpc.service", ours, "calls/s", "empty call", theirs, Target(at_least=0.75))
        assert all(len(answer) == ANSWER_ROWS for answer in client.invoke_many([handle] * MANY))
        asked = queries_pb2.InvokeManyRequest(query_ids=[handle.id] * MANY, max_bytes=3 << 20)
        answers = len(client.connection.queries.InvokeMany(asked).outcomes)  # all, unless that takes a quarter second
        many = asked.SerializeToString()
        ours, theirs = beside_empty(service.address, INVOKE_MANY, [many], empty, 1, run)
        target = Target(value_at_least=15_000)
        yield Row("invoke.grpc.many.service", ours.scaled(answers), "answers/s", "empty call", theirs, target)


def push_rows(run: Run, folder: Path) -> Iterator[Row]:
    """Single tuples from 50 clients into a directory."""
    with processes.served(folder) as service, Client(service.address) as client, empty_service() as empty:
        client.create_stream(CREATE)
        table = batches(make_columns(1), 1)[0]
        request = ingest_pb2.PushRequest(stream=STREAM, arrow_ipc=as_ipc(table)).SerializeToString()
        ours, theirs = beside_empty(service.address, PUSH, [request], empty, 50, run)
        query = client.register(f"SELECT * FROM {STREAM} WHERE a0 = {table.column('a0')[0].as_py()}")
        assert len(query.invoke()) > 0
    yield Row("push.durable.50x1", ours, "calls/s", "empty call", theirs, Target(at_least=0.6))


def beside_empty(
    address: str, method: str, requests: Sequence[bytes], empty: str, clients: int, run: Run
) -> tuple[Sample, Sample]:
    """Calls a second of ours, request after request, and of empty ones, in turns; the first of each is warm-up."""
    endless = cycle(requests)
    turn = run.of(TURN_SECONDS, TURN_SECONDS, 0.02)

    async def measured() -> tuple[list[float], list[float]]:
        async with Callers(address, method, clients) as ours, Callers(empty, EMPTY, clients) as theirs:
            rates: tuple[list[float], list[float]] = ([], [])
            for _ in range(run.of(5, 2, 1) + 1):
                rates[0].append(await ours.rate(endless, turn))
                rates[1].append(await theirs.rate(repeat(b""), turn))
            return rates

    ours, theirs = asyncio.run(measured())
    return Sample.of(ours[1:]), Sample.of(theirs[1:])


class Callers:
    """Some clients of a service, each with a connection and one call on its way."""

    def __init__(self, address: str, method: str, clients: int) -> None:
        self._channels = [grpc.aio.insecure_channel(address, options=LIMIT) for _ in range(clients)]
        self._calls = [channel.unary_unary(method) for channel in self._channels]

    async def __aenter__(self) -> Callers:
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._channels:
            await channel.close()

    async def rate(self, requests: Iterator[bytes], seconds: float) -> float:
        """Calls a second that were answered."""
        start = time.perf_counter()
        until = start + seconds

        async def client(call: grpc.aio.UnaryUnaryMultiCallable) -> int:
            done = 0
            while time.perf_counter() < until or not done:
                await call(next(requests))
                done += 1
            return done

        done = sum(await asyncio.gather(*(client(call) for call in self._calls)))
        return done / (time.perf_counter() - start)
