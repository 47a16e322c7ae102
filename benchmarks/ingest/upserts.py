"""Rows `upsert.*`: rows with a key that are pushed to a table, beside the same rows pushed to a stream.

upsert.durable    a million keys, each new, by a producer of the SDK, each batch on disk before its acknowledgement.
upsert.random     a push of 1,000 random keys of a large table, in process.
upsert.memory     updates of few keys again and again: memory beside the versions that must stay (HISTORY).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.data.versions import versions_of
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.values.columns import Array
from psoup.work.clock import VirtualClock
from psoup_client import Client

BATCH = 16_384
COLUMNS = "k BIGINT, price BIGINT"
FORMS = {"stream": f"CREATE STREAM stream ({COLUMNS})", "keyed": f"CREATE TABLE keyed ({COLUMNS}, PRIMARY KEY (k))"}
RANDOM = 1_000
"""The keys of a push of `upsert.random`."""
PARTS = 100
"""HISTORY of `upsert.memory` is this part of the time in which the updates come."""


def rows(run: Run) -> Iterator[Row]:
    """All rows."""
    yield from run.part(partial(_durable, run.of(1_000_000, 1_000_000, 2_000), run.of(5, 3, 1)), "upsert.durable")
    yield from run.part(partial(_random, run.of(10_000_000, 1_000_000, 10_000), run.of(200, 100, 4)), "upsert.random")
    sizes = run.of((10_000_000, 100_000), (2_000_000, 20_000), (40_000, 400))
    yield from run.part(partial(_memory, *sizes), "upsert.memory")


def _given(rng: np.random.Generator, keys: Array) -> pa.Table:
    return pa.table({"k": keys, "price": rng.integers(0, 1_000_000, len(keys))})


def _durable(keys: int, repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(45)
    rates: dict[str, list[float]] = {name: [] for name in FORMS}
    for _ in range(repeats):
        given = _given(rng, rng.permutation(keys))
        for name, statement in FORMS.items():
            with processes.service(durable=True) as address, Client(address) as client:
                (client.create_stream if name == "stream" else client.create_table)(statement)
                rates[name].append(len(given) / seconds(partial(_push, client, name, given)))
    ours, theirs = Sample.of(rates["keyed"]), Sample.of(rates["stream"])
    yield Row("upsert.durable", ours, "rows/s", "a stream", theirs, Target(at_least=0.5))


def _push(client: Client, name: str, given: pa.Table) -> None:
    with client.producer(name, batch_rows=BATCH) as producer:
        for start in range(0, len(given), BATCH):
            producer.push(given.slice(start, BATCH))
        last = producer.flush().sequence
    client.wait_for(last)


def _random(keys: int, repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(45)
    local = LocalPSoup(clock=VirtualClock(0))
    for statement in FORMS.values():
        local.execute(statement)
    given = _given(rng, rng.permutation(keys))
    for start in range(0, keys, BATCH):
        for name in FORMS:
            local.push(name, given.slice(start, BATCH))
    local.maintain()
    taken: dict[str, list[float]] = {name: [] for name in FORMS}
    for _ in range(repeats):
        changed = _given(rng, rng.choice(keys, RANDOM, replace=False))
        for name in FORMS:
            taken[name].append(1e6 * seconds(partial(local.push, name, changed)))
    ours, theirs = Sample.of(taken["keyed"]), Sample.of(taken["stream"])
    yield Row("upsert.random", ours, "us", "a stream", theirs, Target(at_most=3), f"{keys:,} keys")


def _memory(updates: int, keys: int) -> Iterator[Row]:
    """The bytes of the table after each tenth of the updates, beside the bytes of the versions that must stay."""
    rng = np.random.default_rng(45)
    clock = VirtualClock(0)
    local = LocalPSoup(clock=clock)
    batches = updates // BATCH or 1
    history = batches * SECOND // PARTS
    local.execute(f"CREATE TABLE keyed ({COLUMNS}, PRIMARY KEY (k)) HISTORY {history // SECOND or 1} SECONDS")
    sizes = list[int]()
    rows = 0
    for batch in range(batches):
        local.push("keyed", _given(rng, rng.integers(0, keys, min(BATCH, updates))))
        local.maintain()
        clock.advance(seconds=1)
        if batch >= batches // 10 and (batch % 8 == 0 or batch == batches - 1):
            total, rows = _bytes(local)
            sizes.append(total)
    needed = keys + updates // PARTS
    needed_bytes = needed * sizes[-1] // rows
    note = f"{updates:,} updates of {keys:,} keys; {rows:,} rows are left, {needed:,} must stay"
    mine, other = Sample.of([each / 1e6 for each in sizes]), Sample.of([needed_bytes / 1e6])
    yield Row("upsert.memory", mine, "MB", "versions that must stay", other, Target(at_most=3), note)


def _bytes(local: LocalPSoup) -> tuple[int, int]:
    """The bytes of a table's tuples and links in memory, and the number of its rows."""
    chunks = [entry.data for entry in local.engine.snapshot().stream("keyed", local.tenant).chunks]
    return sum(chunk.nbytes + versions_of(chunk).nbytes for chunk in chunks), sum(map(len, chunks))
