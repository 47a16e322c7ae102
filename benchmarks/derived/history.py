"""Rows `derived.history.*` and `derived.restart.*`: streams derived from 2^24 old tuples, and a restart with them.

    derived.history    tuples a second, from CREATE STREAM until a read of the new stream has all rows
    derived.restart    from the start of the process until a new tuple is derived; peer: without a derived stream
    .distinct          the same for SELECT DISTINCT, whose state has a million values

The service is durable, and has all tuples in memory, too. Of the stream without state, one tuple in a hundred is
derived. The counts of all streams are compared. Without a derived stream, the read is of the source.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from psoup_client import Client

BATCH = 65_536
CYCLE = 1_000_000 // BATCH * BATCH
CREATE = "CREATE STREAM s (k BIGINT NOT NULL, v BIGINT NOT NULL)"
VALUES, SELECTED = 10_000, 100
PATIENCE_S = 240
MORE_S = 2.0
"""The seconds that a restart may take longer with the derived stream."""


class Plan(NamedTuple):
    """A derived stream."""

    name: str
    statement: str


PLANS = {
    "": Plan("x", f"CREATE STREAM x AS (SELECT k, v FROM s WHERE v < {SELECTED})"),
    ".distinct": Plan("d", "CREATE STREAM d AS (SELECT DISTINCT k FROM s) STATE AT MOST 500 MB"),
}


def rows(run: Run) -> Iterator[Row]:
    """The rows. A quick run has an eighth of the tuples."""
    tuples, repeats = run.of((1 << 24, 3), (1 << 21, 2), (2 * BATCH, 1))
    names = [f"derived.{kind}{suffix}" for suffix in PLANS for kind in ("history", "restart")]
    yield from run.part(partial(_measured, tuples, repeats), *names)


class Loaded:
    """A data directory with the source, and the numbers of rows that its streams have."""

    def __init__(self, folder: Path, tuples: int) -> None:
        draw, count = np.random.default_rng(48), min(CYCLE, tuples)
        given = pa.table({"k": draw.permutation(count), "v": draw.integers(0, VALUES, count)})
        self._folder, self.tuples = folder, tuples
        whole, rest = divmod(tuples, count)
        selected = given["v"].to_numpy() < SELECTED
        self._counts = {"s": tuples, "x": whole * int(selected.sum()) + int(selected[:rest].sum()), "d": count}
        with processes.served(folder) as service, Client(service.address, timeout=PATIENCE_S) as client:
            client.create_stream(CREATE)
            with client.producer("s", batch_rows=BATCH) as producer:
                for start in range(0, tuples, BATCH):
                    producer.push(given.slice(start % count, BATCH))
                last = producer.flush(PATIENCE_S).sequence
            client.wait_for(last, timeout=PATIENCE_S)

    def derive(self, plan: Plan) -> float:
        """Create the derived stream. Returns the seconds until it has all rows."""
        with processes.served(self._folder) as service, Client(service.address, timeout=PATIENCE_S) as client:
            self._compare(client, "s")
            start = time.perf_counter()
            client.execute(plan.statement)
            self._compare(client, plan.name)
            return time.perf_counter() - start

    def start(self, plan: Plan | None) -> float:
        """The seconds from the start of the process until a new tuple can be read, and is derived."""
        start = time.perf_counter()
        with processes.served(self._folder) as service, Client(service.address, timeout=PATIENCE_S) as client:
            client.push("s", pa.table({"k": [0], "v": [0]}))
            self._counts["s"] += 1
            self._counts["x"] += 1
            self._compare(client, plan.name if plan else "s")
            return time.perf_counter() - start

    def drop(self, plan: Plan) -> None:
        """Drop the derived stream."""
        with processes.served(self._folder) as service, Client(service.address, timeout=PATIENCE_S) as client:
            client.execute(f"DROP STREAM {plan.name}")

    def _compare(self, client: Client, name: str) -> None:
        [answer] = client.ask(f"SELECT count(*) AS n FROM {name}", timeout=PATIENCE_S).to_arrow().to_pylist()
        if answer["n"] != self._counts[name]:
            raise AssertionError(f"{name} has {answer['n']:,} rows, and {self._counts[name]:,} are expected")


def _measured(tuples: int, repeats: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        loaded = Loaded(Path(folder), tuples)
        theirs = Sample.of([loaded.start(None) for _ in range(repeats)])
        for suffix, plan in PLANS.items():
            rate = Sample.of([tuples / loaded.derive(plan)])
            target = Target(value_at_least=1e6)
            yield Row(f"derived.history{suffix}", rate, "tuples/s", "wanted", Sample.of([1e6]), target)
            ours = Sample.of([loaded.start(plan) for _ in range(repeats)])
            name, target = f"derived.restart{suffix}", Target(value_at_most=theirs.median + MORE_S)
            note = f"{name}: {tuples:,} tuples, {ours.median - theirs.median:.2f} s more than without"
            yield Row(name, ours, "s", "without a derived stream", theirs, target, note)
            loaded.drop(plan)
