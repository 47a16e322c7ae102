"""Rows `push.durable.*` and `recovery`: the cost of durable acknowledgements, and the speed of a start.

    push.durable.1x1024    one producer, batches of 1,024, on disk before they are acknowledged; peer: in memory
    push.durable.20x50     20 producers at once, batches of 50; peer: in memory
    push.durable.50x1      single tuples from 50 clients; peer: empty calls (`benchmarks.ingest.calls`)
    recovery.first         16 M tuples and 4,096 queries: from the start of the process to the first exact answer
    recovery.covered       the same, to the moment when every query has met every chunk
    recovery.memory        resident memory then, beside the tuples and the results that are kept

The queries have eight factors: with four, the matches of 4,096 queries among 16 M tuples are more than the budget for
results, and what is over it is evaluated when it is asked for.

The durable and the other service run side by side and take turns. Recovery is measured once, on a directory written
just before.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.ingest import calls
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.processes import resident
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, Columns, Query, batches, make_columns, make_queries
from psoup_client import Client

QUERIES = 64
TUPLES = 16_000_000
STANDING = 4_096
CYCLE = 65_536
BATCH = 16_384
WINDOW = 32_768
COVER_SECONDS = 60
FACTORS = 8
KINDS = "first", "covered", "memory"


def push_rows(run: Run) -> Iterator[Row]:
    """Pushes that are on disk before they are acknowledged."""
    for producers, batch, count in ((1, 1_024, 128), (20, 50, 64)):
        name, few = f"push.durable.{producers}x{batch}", run.of(count, count, 2)
        yield from run.part(lambda: [_pushed(name, producers, batch, few, run)], name)  # noqa: B023 called at once
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        yield from run.part(lambda: calls.push_rows(run, Path(folder)), "push.durable.50x1")


def recovery_rows(run: Run) -> Iterator[Row]:
    """Rows of a start over 16 M tuples, which take a minute to write; left out of a quick run."""
    tuples, standing = run.of((TUPLES, STANDING), (0, 0), (CYCLE + 2 * BATCH, 64))
    if tuples:
        yield from run.part(lambda: recovery(tuples, standing), *(f"recovery.{kind}" for kind in KINDS))


def _pushed(name: str, producers: int, batch: int, count: int, run: Run) -> Row:
    """`count` batches from each producer a sample."""
    tables = batches(make_columns(batch * count), batch)
    amount = producers * batch * count
    with ExitStack() as stack:
        clients = []
        for durable in (True, False):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-bench-")))
            client = stack.enter_context(Client(stack.enter_context(processes.served(folder, durable=durable)).address))
            client.create_stream(f"{CREATE} RETENTION {4 * CYCLE} ROWS")
            client.register_many([query.statement(batch) for query in make_queries(QUERIES, 4)])
            clients.append(client)
        rates: list[list[float]] = [[], []]
        for _ in range(run.of(5, 3, 1) + 1):
            for client, values in zip(clients, rates, strict=True):
                values.append(amount / seconds(lambda: _push(client, tables, producers)))  # noqa: B023 called at once
        disk, memory = (Sample.of(values[1:]) for values in rates)
    target = Target(at_least=0.7)
    return Row(name, disk, "tuples/s", "in memory", memory, target)


def _push(client: Client, tables: list[pa.Table], producers: int) -> None:
    """All tables from each of so many producers at once; until they are visible."""

    def push() -> None:
        with client.producer(STREAM, batch_rows=tables[0].num_rows) as producer:
            for table in tables:
                producer.push(table)
            last.append(producer.flush().sequence)

    last: list[int] = []
    threads = [threading.Thread(target=push) for _ in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(last) == producers, "a producer failed"
    client.wait_for(max(last))


def recovery(tuples: int, standing: int) -> Iterator[Row]:
    """Write a directory, start on it, compare some answers."""
    columns = make_columns(CYCLE)
    queries = make_queries(standing, FACTORS)
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        ids = _written(Path(folder), tuples, queries)
        start = time.perf_counter()
        with processes.served(Path(folder)) as service, Client(service.address) as client:
            _compare(client, ids[0], queries[0], columns, tuples)
            first = time.perf_counter() - start
            share = _covered(client, ids)
            covered = time.perf_counter() - start
            memory = resident(service.pid) / 2**20
            results = client.info().memory["results_bytes"] / 2**20
            for number in range(0, standing, standing // 64):
                _compare(client, ids[number], queries[number], columns, tuples)
    data = tuples * len(columns) * 8 / 2**20 + results
    limits = (Target(value_at_most=5), Target(value_at_most=12), Target(at_most=1.5))
    note = "" if share == 1 else f"recovery.covered: {share:.0%} of the chunks after {COVER_SECONDS} s"
    yield Row("recovery.first", Sample.of([first]), "s", "wanted", Sample.of([5.0]), limits[0])
    yield Row("recovery.covered", Sample.of([covered]), "s", "wanted", Sample.of([12.0]), limits[1], note)
    yield Row("recovery.memory", Sample.of([memory]), "MB", "tuples and results", Sample.of([data]), limits[2])


def _written(folder: Path, tuples: int, queries: list[Query]) -> list[str]:
    """A directory with so many tuples and queries; the IDs of the queries."""
    tables = batches(make_columns(CYCLE), BATCH)
    with processes.served(folder) as service, Client(service.address, timeout=120) as client:
        client.create_stream(CREATE)
        with client.producer(STREAM, batch_rows=BATCH) as producer:
            for number in range(tuples // BATCH):
                producer.push(tables[number % len(tables)])
            last = producer.flush(120).sequence
        client.wait_for(last, timeout=120)
        return [query.id for query in client.register_many([query.statement(WINDOW) for query in queries])]


def _covered(client: Client, ids: list[str]) -> float:
    """Wait until 64 of the queries have met every chunk, or COVER_SECONDS; the share of chunks that have been met.

    They are looked at one by one, each until it has: to ask about all of them again and again would take one of the
    cores that do the work.
    """
    until = time.monotonic() + COVER_SECONDS
    met = chunks = 0
    for query_id in reversed(ids[:: len(ids) // 64]):
        while True:
            details = client.query(query_id).explain().details
            covered, all_ = int(str(details["chunks_covered"])), int(str(details["chunks"]))
            if covered == all_ or time.monotonic() > until:
                break
            time.sleep(0.1)
        met, chunks = met + covered, chunks + all_
    return met / chunks


def _compare(client: Client, query_id: str, query: Query, columns: Columns, tuples: int) -> None:
    """The answer over the last WINDOW tuples is that of a mask."""
    pushed = tuples // BATCH * BATCH
    last = columns[:, np.arange(pushed - WINDOW, pushed) % CYCLE]
    table = client.query(query_id).invoke(timeout=60).to_arrow()
    ours = np.stack([column.to_numpy() for column in table.columns])
    if not np.array_equal(ours, last[:, query.mask(last)]):
        raise AssertionError(f"query {query_id}: {table.num_rows} rows, NumPy has {query.mask(last).sum()}")
