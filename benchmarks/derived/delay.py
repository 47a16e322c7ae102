"""Rows `derived.delay` and `.p99`: from the end of an instant until its rows are visible, at 100,000 tuples a second.

A thread pushes 1,000 tuples every 10 ms to a stream in event time. An instant is closed as soon as the push of a later
tuple is visible. Another thread then reads the derived stream with the sequence of that push, again and again. A delay
is the time from the acknowledgement of the push to the reply of the read. Client and
service share the cores. The peer reads a plain query of the source in the same way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from psoup_client import Client, Query

NAMES = "derived.delay", "derived.delay.p99"
BATCH, PACE_S = 1_000, 0.01
STREAM = "CREATE STREAM s (k BIGINT, v BIGINT, moment TIMESTAMP) TIMESTAMP BY moment RETENTION 60 SECONDS"
TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, p BIGINT)"
KEYS = 10_000
SELECT = "SELECT s.v, t.p, s.k FROM s JOIN t AS OF s ON t.k = s.k WHERE s.k < 100"
"""The SELECT of the derived stream, which takes one tuple in a hundred."""
SHOWN = "SELECT v FROM {} WHERE k < 10 BEGIN (NOW - 1 SECONDS)"
WARM_UP = 20
"""Reads that are not counted."""


def rows(run: Run) -> Iterator[Row]:
    """The rows."""
    yield from run.part(partial(_measured, run.of(20.0, 6.0, 0.5)), *NAMES)


class Pushing:
    """A thread that pushes at a steady pace until it is ended."""

    def __init__(self, client: Client) -> None:
        self._client, self._ending = client, threading.Event()
        self._thread = threading.Thread(target=self._run, name="pushes")
        self.last = (0, 0.0)
        """The sequence of the last push, and the time of its acknowledgement."""
        self.pushed = 0
        self.begun = time.monotonic()

    def __enter__(self) -> Pushing:
        self.begun = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def rate(self) -> float:
        """Tuples a second so far."""
        return BATCH * self.pushed / (time.monotonic() - self.begun)

    def _run(self) -> None:
        draw, first = np.random.default_rng(48), int(1e6 * time.time())
        while not self._ending.wait(max(0.0, self.begun + PACE_S * self.pushed - time.monotonic())):
            times = first + int(1e6 * PACE_S) * self.pushed + 10 * np.arange(BATCH)
            numbers = self.pushed * BATCH + np.arange(BATCH)
            moments = pa.array(times, pa.timestamp("us"))
            tuples = pa.table({"k": draw.integers(0, KEYS, BATCH), "v": numbers, "moment": moments})
            sequence = self._client.push("s", tuples).sequence
            self.pushed += 1
            self.last = sequence, time.monotonic()


def _measured(live_s: float) -> Iterator[Row]:
    with processes.served(Path(), durable=False) as service, Client(service.address) as client:
        client.create_stream(STREAM)
        client.execute(TABLE)
        client.push("t", pa.table({"k": np.arange(KEYS), "p": np.arange(KEYS)}))
        client.execute(f"CREATE STREAM x AS ({SELECT}) RETENTION 10 SECONDS")
        queries = [client.register(SHOWN.format(name)) for name in ("x", "s")]
        with Pushing(client) as pushing, Client(service.address) as reader:
            delays, plain = (_delays(pushing, reader.query(query.id), live_s) for query in queries)
            rate = pushing.rate
    note = f"derived.delay: {rate:,.0f} tuples/s came, and {len(delays):,} instants were read"
    for name, share, target in zip(NAMES, (50, 99), (None, Target(value_at_most=50)), strict=True):
        ours, theirs = (Sample.of([float(np.percentile(values, share))]) for values in (delays, plain))
        yield Row(name, ours, "ms", "a read of the source", theirs, target, note, {"tuples_per_s": rate})


def _delays(pushing: Pushing, query: Query, live_s: float) -> list[float]:
    """Milliseconds from an acknowledgement to the reply of a read that waits for it, for the newest push each time."""
    delays, seen, until = list[float](), 0, time.monotonic() + live_s
    while time.monotonic() < until or len(delays) <= WARM_UP:
        sequence, acknowledged = pushing.last
        if sequence == seen:
            time.sleep(0.0002)
            continue
        seen = sequence
        query.invoke(wait_for=sequence)
        delays.append(1e3 * (time.monotonic() - acknowledged))
    return delays[WARM_UP:]
