"""Rows `traced.*`: unary calls a second of a service that traces every call, beside one that traces none.

    traced.invoke   16 clients, each with one call on its way: answers of 100 rows
    traced.push     50 clients that push one tuple a call, on disk before it is acknowledged; a span with three steps

Both services run at the same time and are called in turns of a second, as in `benchmarks.ingest.calls`. The collector
is a process that drops the spans. It shares the cores of the machine, as do the clients.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path

import numpy as np

from benchmarks.ingest.calls import INVOKE, PUSH, TURN_SECONDS, Callers
from benchmarks.ingest.wire import ANSWER_ROWS, BATCH, CHUNK, as_ipc, typical
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.processes import Served, empty_service
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns
from psoup_client import Client
from psoup_proto.v1 import ingest_pb2, queries_pb2


def rows(run: Run) -> Iterator[Row]:
    """Rows for the cost of traces."""
    yield from run.part(lambda: _measured(run), "traced.invoke", "traced.push")


def _measured(run: Run) -> Iterator[Row]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-bench-")))
        settings = {"PSOUP_OTLP_ENDPOINT": f"http://{stack.enter_context(empty_service())}", "PSOUP_WEB_PORT": "-1"}
        plain = stack.enter_context(processes.served(folder / "plain", settings={"PSOUP_WEB_PORT": "-1"}))
        traced = stack.enter_context(processes.served(folder / "traced", settings=settings))
        invocations = [_filled(service) for service in (plain, traced)]
        theirs, ours = _in_turns((plain, traced), INVOKE, invocations, 16, run)
        note = "traced.invoke: every call is a span; the peer is a service without traces"
        yield Row("traced.invoke", ours, "calls/s", "untraced", theirs, Target(at_least=0.95), note)
        table = batches(make_columns(1), 1)[0]
        request = ingest_pb2.PushRequest(stream=STREAM, arrow_ipc=as_ipc(table)).SerializeToString()
        theirs, ours = _in_turns((plain, traced), PUSH, [request, request], 50, run)
        yield Row("traced.push", ours, "calls/s", "untraced", theirs, Target(at_least=0.95), "traced.push: four spans")


def _filled(service: Served) -> bytes:
    """Fill a service; returns the request of a call that answers with `ANSWER_ROWS` rows."""
    columns = make_columns(CHUNK)
    query = typical(columns)
    matched = np.flatnonzero(query.mask(columns))[-ANSWER_ROWS:]
    with Client(service.address) as client:
        client.create_stream(CREATE)
        handle = client.register(query.statement(CHUNK - int(matched[0])))
        for table in batches(columns, BATCH):
            client.push(STREAM, table)
        assert len(handle.invoke()) == ANSWER_ROWS
        return queries_pb2.InvokeRequest(query_id=handle.id).SerializeToString()


def _in_turns(
    services: tuple[Served, Served], method: str, requests: list[bytes], clients: int, run: Run
) -> tuple[Sample, Sample]:
    """Calls a second of both services, in alternating turns. The first turn of each is warm-up."""
    turn = run.of(TURN_SECONDS, TURN_SECONDS, 0.02)

    async def measured() -> list[list[float]]:
        rates: list[list[float]] = [[], []]
        first, second = (Callers(service.address, method, clients) for service in services)
        async with first, second:
            for number in range(run.of(11, 5, 1) + 1):
                for at in (0, 1) if number % 2 else (1, 0):
                    rates[at].append(await (first, second)[at].rate(repeat(requests[at]), turn))
        return rates

    theirs, ours = asyncio.run(measured())
    return Sample.of(theirs[1:]), Sample.of(ours[1:])
