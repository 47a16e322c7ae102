"""Rows `invoke.grpc.async` and `invoke.grpc.async.pool`: a thousand invocations at once by the SDK.

    invoke.grpc.async         tasks of one AsyncClient, beside a thread for each invocation of one Client
    invoke.grpc.async.pool    the same, beside a pool of 16 threads

Each answer has 100 rows, which the client decodes. The three clients are measured in turn, in one process. The service
runs in another process of the same machine. The event loop is uvloop's.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import uvloop

from benchmarks.ingest.wire import ANSWER_ROWS, BATCH, CHUNK, typical
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns
from psoup_client import Client, Query
from psoup_client.aio import AsyncClient, AsyncQuery

AT_ONCE = 1_000
POOL = 16


def rows(run: Run) -> Iterator[Row]:
    """Throughput of a thousand invocations at once."""
    yield from run.part(lambda: _measured(run), "invoke.grpc.async", "invoke.grpc.async.pool")


def _measured(run: Run) -> Iterator[Row]:
    columns = make_columns(CHUNK)
    query = typical(columns)
    matched = np.flatnonzero(query.mask(columns))[-ANSWER_ROWS:]
    calls, turns = run.of(AT_ONCE, AT_ONCE, 20), run.of(9, 5, 1)
    with processes.served(Path(), durable=False) as service, Client(service.address) as client:
        client.create_stream(CREATE)
        handle = client.register(query.statement(CHUNK - int(matched[0])))
        for table in batches(columns, BATCH):
            client.push(STREAM, table)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            other = AsyncClient(service.address)
            handle_of_tasks = runner.run(other.query(handle.id))
            rates: list[tuple[float, float, float]] = []
            for _ in range(turns + 1):  # the first turn of each is warm-up
                tasks = runner.run(_by_tasks(handle_of_tasks, calls))
                rates.append((tasks, _timed(calls, _by_threads, handle), _timed(calls, _by_pool, handle)))
            runner.run(other.close())
    ours, threads, pool = (Sample.of(list(kind)[1:]) for kind in zip(*rates, strict=True))
    yield Row("invoke.grpc.async", ours, "answers/s", "a thread for each", threads, Target(at_least=1.5))
    yield Row("invoke.grpc.async.pool", ours, "answers/s", f"a pool of {POOL} threads", pool)


async def _by_tasks(query: AsyncQuery, calls: int) -> float:
    """Answers a second."""
    start = time.perf_counter()
    answers = await asyncio.gather(*(query.invoke() for _ in range(calls)))
    seconds = time.perf_counter() - start
    _check([len(answer) for answer in answers])
    return calls / seconds


def _timed(calls: int, ask: Callable[[Query, int], list[int]], query: Query) -> float:
    """Answers a second."""
    start = time.perf_counter()
    answers = ask(query, calls)
    seconds = time.perf_counter() - start
    _check(answers)
    return calls / seconds


def _by_threads(query: Query, calls: int) -> list[int]:
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(len(query.invoke()))) for _ in range(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == calls
    return answers


def _by_pool(query: Query, calls: int) -> list[int]:
    with ThreadPoolExecutor(POOL) as pool:
        return list(pool.map(lambda _: len(query.invoke()), range(calls)))


def _check(answers: list[int]) -> None:
    assert set(answers) == {ANSWER_ROWS}, "each answer has its rows"
