"""Rows `derived.delay` and `.p99`: from the end of an instant until its rows are visible, at 100,000 tuples a second.

A thread pushes 1,000 tuples every 10 ms to a stream in event time. An instant is closed as soon as the push of a later
tuple is visible. Another thread then reads the derived stream with the sequence of that push, again and again. A delay
is the time from the acknowledgement of the push to the reply of the read. Client and
service share the cores. The peer reads a plain query of the source in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from benchmarks.tool.steady_pushes import SteadyPushes, delays_of
from psoup_client import Client

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


class Rows:
    """The rows of a push, whose times go on from the present time."""

    def __init__(self) -> None:
        self._draw, self._first = np.random.default_rng(48), int(1e6 * time.time())

    def __call__(self, pushed: int) -> pa.Table:
        """The rows of the push after `pushed` ones."""
        times = self._first + int(1e6 * PACE_S) * pushed + 10 * np.arange(BATCH)
        moments = pa.array(times, pa.timestamp("us"))
        values = pushed * BATCH + np.arange(BATCH)
        return pa.table({"k": self._draw.integers(0, KEYS, BATCH), "v": values, "moment": moments})


def _measured(live_s: float) -> Iterator[Row]:
    with processes.served(Path(), durable=False) as service, Client(service.address) as client:
        client.create_stream(STREAM)
        client.execute(TABLE)
        client.push("t", pa.table({"k": np.arange(KEYS), "p": np.arange(KEYS)}))
        client.execute(f"CREATE STREAM x AS ({SELECT}) RETENTION 10 SECONDS")
        queries = [client.register(SHOWN.format(name)) for name in ("x", "s")]
        with SteadyPushes(client, "s", PACE_S, Rows()) as pushing, Client(service.address) as reader:
            delays, plain = (delays_of(pushing, reader.query(query.id), live_s, WARM_UP) for query in queries)
            rate = pushing.rate
    note = f"derived.delay: {rate:,.0f} tuples/s came, and {len(delays):,} instants were read"
    for name, share, target in zip(NAMES, (50, 99), (None, Target(value_at_most=50)), strict=True):
        ours, theirs = (Sample.of([float(np.percentile(values, share))]) for values in (delays, plain))
        yield Row(name, ours, "ms", "a read of the source", theirs, target, note, {"tuples_per_s": rate})
