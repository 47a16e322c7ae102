"""Rows `replica.*`: a copy of the events, a standby that follows it and is promoted, and a restore.

    replica.push        durable pushes with a copy; peer: without one
    replica.remote      50 producers, acknowledged once the copy has the events, 5 ms a write; peer: `local`
    replica.lag, .p99   200,000 tuples a second: from the acknowledgement until a standby answers with the event
    replica.promote     16 M tuples, 4,096 queries, a killed writer: from the call until the standby answers with a push
    replica.restore     a data directory from the copy; peer: from a backup in a directory

The copy is in a directory on the disk of the services; `replica.remote` has a server of S3. Client, writer, standby
and storage share the cores. `replica.lag` is flat if the medians of both halves of the time are alike; the note has
them.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, in_turns, seconds
from benchmarks.tool.object_storage import object_storage
from benchmarks.tool.run import Run
from benchmarks.tool.steady_pushes import SteadyPushes, delays_of
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns
from psoup_client import Client
from psoup_storage.durable.tools.backup import restore
from psoup_storage.replica.chain import last_number, read_object
from psoup_storage.replica.restore import restore_copy
from psoup_storage.replica.targets import DirectoryTarget

BATCH = 8_192
PACE_S = BATCH / 200_000
RETENTION = "RETENTION 524288 ROWS ARCHIVE 33554432 ROWS"
PRODUCERS = 50
SMALL = 1_024
"""The tuples in a batch of one of the producers."""
QUERIES = 4_096
PATIENCE_S = 120
WARM_UP = 5


class Sizes(NamedTuple):
    """Batches of a turn of pushes, measured turns, seconds of `replica.lag`, batches of stored data, and queries."""

    batches: int
    samples: int
    live_s: float
    stored: int
    queries: int


def rows(run: Run) -> Iterator[Row]:
    """The rows."""
    full, quick = Sizes(64, 9, 30.0, 2_048, QUERIES), Sizes(64, 3, 8.0, 128, QUERIES)
    sizes = run.of(full, quick, Sizes(2, 1, 0.5, 2, 8))
    yield from run.part(partial(_push, sizes), "replica.push")
    yield from run.part(partial(_remote, sizes), "replica.remote")
    yield from run.part(partial(_lag, sizes), "replica.lag")
    yield from run.part(partial(_promote, sizes), "replica.promote")
    yield from run.part(partial(_restore, sizes), "replica.restore")


class Soup:
    """A durable service with the stream, and with a copy at `copy` if that is given. `settings`: more settings."""

    def __init__(
        self, stack: ExitStack, folder: Path, copy: Path | str | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        settings = {**(settings or {}), **({} if copy is None else {"PSOUP_REPLICATE": str(copy)})}
        self.service = stack.enter_context(processes.served(folder, settings=settings))
        self.client = stack.enter_context(Client(self.service.address, timeout=PATIENCE_S))
        self.client.create_stream(f"{CREATE} {RETENTION}")

    def push(self, tables: list[pa.Table]) -> int:
        """Push tables by a producer, and wait until all are applied. Returns the last event."""
        with self.client.producer(STREAM, batch_rows=BATCH) as producer:
            for table in tables:
                producer.push(table)
            last = producer.flush(PATIENCE_S).sequence
        self.client.wait_for(last, timeout=PATIENCE_S)
        return last

    def fill(self, left: int) -> int:
        """Push a number of batches. Returns the last event."""
        tables, last = batches(make_columns(BATCH * min(left, 64)), BATCH), 0
        while left > 0:
            last = self.push(tables[:left])
            left -= len(tables)
        return last

    def push_small(self, tables: list[pa.Table]) -> None:
        """Push tables by many producers, one after the other, and wait until all are applied."""
        with ExitStack() as stack:
            opened = [
                stack.enter_context(self.client.producer(STREAM, name=f"p{number}", batch_rows=SMALL))
                for number in range(PRODUCERS)
            ]
            for number, table in enumerate(tables):
                opened[number % PRODUCERS].push(table)
            last = max(producer.flush(PATIENCE_S).sequence for producer in opened[: len(tables)])
        self.client.wait_for(last, timeout=PATIENCE_S)


def _push(sizes: Sizes) -> Iterator[Row]:
    amount = BATCH * sizes.batches
    tables = batches(make_columns(amount), BATCH)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-bench-")))
        copied, alone = Soup(stack, folder / "a", folder / "copy"), Soup(stack, folder / "b")
        turns = [partial(copied.push, tables), partial(alone.push, tables)]
        ours, theirs = in_turns(turns, [amount] * 2, sizes.samples)
    target = Target(at_least=0.95)
    yield Row("replica.push", ours.wall, "tuples/s", "pushes without a copy", theirs.wall, target)


def _remote(sizes: Sizes) -> Iterator[Row]:
    amount = BATCH * sizes.batches
    tables = batches(make_columns(amount), SMALL)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-bench-")))
        storage = stack.enter_context(object_storage())
        remote = Soup(stack, folder / "a", "s3://bucket/a", storage | {"PSOUP_REPLICATE_ACK": "remote"})
        local = Soup(stack, folder / "b", "s3://bucket/b", storage)
        turns = [partial(remote.push_small, tables), partial(local.push_small, tables)]
        ours, theirs = in_turns(turns, [amount] * 2, sizes.samples)
    target = Target(at_least=0.5)
    yield Row("replica.remote", ours.wall, "tuples/s", "acknowledged before the copy", theirs.wall, target)


def _lag(sizes: Sizes) -> Iterator[Row]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-bench-")))
        soup = Soup(stack, folder / "a", folder / "copy")
        shown = soup.client.register(f"SELECT a0 FROM {STREAM} BEGIN (NOW - 10 ROWS)")
        _wait_for_copy(folder / "copy", soup.client.info().sequence)
        following = processes.served(folder / "b", settings={"PSOUP_STANDBY": str(folder / "copy")})
        reader = stack.enter_context(Client(stack.enter_context(following).address, timeout=PATIENCE_S))
        rows = batches(make_columns(BATCH), BATCH)[0]
        with SteadyPushes(soup.client, STREAM, PACE_S, lambda _: rows) as pushing:
            delays = delays_of(pushing, reader.query(shown.id), sizes.live_s, WARM_UP)
            rate = pushing.rate
    halves = [median(delays[: len(delays) // 2 + 1]), median(delays[len(delays) // 2 :])]
    note = f"replica.lag: {rate:,.0f} tuples/s came; medians of both halves: {halves[0]:,.0f} and {halves[1]:,.0f} ms"
    for name, share, target in (("replica.lag", 50, None), ("replica.lag.p99", 99, Target(value_at_most=2_000))):
        sample = Sample.of([float(np.percentile(delays, share))])
        yield Row(name, sample, "ms", "", None, target, note, {"tuples_per_s": rate, "halves_ms": halves})


def _promote(sizes: Sizes) -> Iterator[Row]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-bench-")))
        soup = Soup(stack, folder / "a", folder / "copy")
        ranges = [(low, low + 1_000) for low in range(sizes.queries)]
        statement = f"SELECT a0 FROM {STREAM} WHERE a0 BETWEEN ? AND ? BEGIN (NOW - 10000 ROWS)"
        soup.client.register_many(statement, ranges)
        shown = soup.client.register(f"SELECT a0 FROM {STREAM} BEGIN (NOW - 10 ROWS)")
        _wait_for_copy(folder / "copy", soup.client.info().sequence)
        following = processes.served(folder / "b", settings={"PSOUP_STANDBY": str(folder / "copy")})
        reader = stack.enter_context(Client(stack.enter_context(following).address, timeout=PATIENCE_S))
        last = soup.fill(sizes.stored)
        _wait_for_copy(folder / "copy", last)
        while reader.info().sequence < last:
            time.sleep(0.1)
        os.kill(soup.service.pid, signal.SIGKILL)
        table = batches(make_columns(1), 1)[0]

        def go_on() -> None:
            reader.promote(timeout=PATIENCE_S)
            reader.push(STREAM, table)
            assert len(reader.query(shown.id).invoke()) == 10

        sample = Sample.of([seconds(go_on)])
    yield Row("replica.promote", sample, "s", "", None, Target(value_at_most=2))


def _restore(sizes: Sizes) -> Iterator[Row]:
    amount = BATCH * sizes.stored
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as name:
        folder = Path(name)
        with ExitStack() as stack:
            soup = Soup(stack, folder / "a", folder / "copy")
            _wait_for_copy(folder / "copy", soup.fill(sizes.stored))
        new = folder / "new"
        copied = partial(restore_copy, str(folder / "copy"), new)
        turns: list[Callable[[], object]] = [copied, partial(restore, folder / "a", new)]
        ours, theirs = in_turns(turns, [amount] * 2, 2, lambda: shutil.rmtree(new))
    yield Row("replica.restore", ours.wall, "tuples/s", "a restore of the directory", theirs.wall, Target(at_least=0.5))


def _wait_for_copy(copy: Path, sequence: int) -> None:
    """Wait until a restore reaches an event. Raises TimeoutError."""
    target, until = DirectoryTarget(copy), time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        number = last_number(target)
        if number and read_object(target, number).facts["reach"] >= sequence:
            return
        time.sleep(0.05)
    raise TimeoutError(f"the copy lacks event {sequence:,}")
