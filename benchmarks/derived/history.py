"""Rows `derived.history` and `derived.restart`: streams derived from 2^24 old tuples, and a restart with them.

    derived.history    tuples a second, from CREATE STREAM until a read of the new stream has all rows
    derived.restart    from the start of the process until reads of source and derived stream; peer: without the latter

The service is durable, and has all tuples in memory, too. One tuple in a hundred is derived. The counts of both streams
are compared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from psoup_client import Client

NAMES = "derived.history", "derived.restart"
BATCH = 65_536
CYCLE = 16 * BATCH
CREATE = "CREATE STREAM s (k BIGINT NOT NULL, v BIGINT NOT NULL)"
VALUES, SELECTED = 10_000, 100
SELECT = f"SELECT k, v FROM s WHERE v < {SELECTED}"
COUNT = "SELECT count(*) AS n FROM {}"
PATIENCE_S = 240
MORE_S = 2.0
"""The seconds that a restart may take longer with the derived stream."""


def rows(run: Run) -> Iterator[Row]:
    """The rows. A quick run has an eighth of the tuples."""
    tuples, repeats = run.of((1 << 24, 3), (1 << 21, 2), (2 * BATCH, 1))
    yield from run.part(partial(_measured, tuples, repeats), *NAMES)


def _measured(tuples: int, repeats: int) -> Iterator[Row]:
    given = _tuples(min(CYCLE, tuples))
    selected = int((given["v"].to_numpy() < SELECTED).sum()) * (tuples // len(given))
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        _write(Path(folder), given, tuples)
        without = [_started(Path(folder), {"s": tuples}) for _ in range(repeats)]
        taken = _derived(Path(folder), {"s": tuples, "x": selected})
        beside = [_started(Path(folder), {"s": tuples, "x": selected}) for _ in range(repeats)]
    rate = Sample.of([tuples / taken])
    yield Row(NAMES[0], rate, "tuples/s", "wanted", Sample.of([1e6]), Target(value_at_least=1e6))
    ours, theirs = Sample.of(beside), Sample.of(without)
    target = Target(value_at_most=theirs.median + MORE_S)
    note = f"derived.restart: {tuples:,} tuples, {ours.median - theirs.median:.2f} s more than without"
    yield Row(NAMES[1], ours, "s", "without a derived stream", theirs, target, note)


def _tuples(count: int) -> pa.Table:
    draw = np.random.default_rng(48)
    return pa.table({"k": draw.integers(0, count, count), "v": draw.integers(0, VALUES, count)})


def _write(folder: Path, given: pa.Table, tuples: int) -> None:
    with processes.served(folder) as service, Client(service.address, timeout=PATIENCE_S) as client:
        client.create_stream(CREATE)
        with client.producer("s", batch_rows=BATCH) as producer:
            for start in range(0, tuples, BATCH):
                producer.push(given.slice(start % len(given), BATCH))
            last = producer.flush(PATIENCE_S).sequence
        client.wait_for(last, timeout=PATIENCE_S)


def _derived(folder: Path, expected: dict[str, int]) -> float:
    """Create the derived stream. Returns the seconds until it has all rows."""
    with processes.served(folder) as service, Client(service.address, timeout=PATIENCE_S) as client:
        client.ask(COUNT.format("s"))
        start = time.perf_counter()
        client.execute(f"CREATE STREAM x AS ({SELECT})")
        client.ask("SELECT * FROM x BEGIN (NOW - 1 ROWS)", timeout=PATIENCE_S)  # reflects the CREATE
        taken = time.perf_counter() - start
        _compare(client, expected)
    return taken


def _started(folder: Path, expected: dict[str, int]) -> float:
    """The seconds from the start of the process to the answers, which are compared."""
    start = time.perf_counter()
    with processes.served(folder) as service, Client(service.address, timeout=PATIENCE_S) as client:
        _compare(client, expected)
        return time.perf_counter() - start


def _compare(client: Client, expected: dict[str, int]) -> None:
    for name, count in expected.items():
        [answer] = client.ask(COUNT.format(name), timeout=PATIENCE_S).to_arrow().to_pylist()
        if answer["n"] != count:
            raise AssertionError(f"{name} has {answer['n']:,} rows, and {count:,} are expected")
