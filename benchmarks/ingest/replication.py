"""Rows `replica.*`: a copy of the events in a directory, a standby that follows it, and a restore.

    replica.push        durable pushes with a copy; peer: without one
    replica.lag, .p99   200,000 tuples a second: from the acknowledgement until a standby answers with the event
    replica.restore     a data directory from the copy; peer: from a backup in a directory

The copy is on the disk of the services, and client, writer and standby share the cores. `replica.lag` is flat if the
medians of both halves of the time are alike; the note has them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, in_turns
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
PATIENCE_S = 120
WARM_UP = 5


class Sizes(NamedTuple):
    """Batches of a turn of pushes, measured turns, seconds of `replica.lag`, and batches of `replica.restore`."""

    batches: int
    samples: int
    live_s: float
    stored: int


def rows(run: Run) -> Iterator[Row]:
    """The rows."""
    sizes = run.of(Sizes(64, 9, 30.0, 2_048), Sizes(64, 3, 8.0, 128), Sizes(2, 1, 0.5, 2))
    yield from run.part(partial(_push, sizes), "replica.push")
    yield from run.part(partial(_lag, sizes), "replica.lag")
    yield from run.part(partial(_restore, sizes), "replica.restore")


class Soup:
    """A durable service with the stream, and with a copy in `copy` if that is given."""

    def __init__(self, stack: ExitStack, folder: Path, copy: Path | None = None) -> None:
        settings = {} if copy is None else {"PSOUP_REPLICATE": str(copy)}
        self.client = stack.enter_context(
            Client(stack.enter_context(processes.served(folder, settings=settings)).address, timeout=PATIENCE_S)
        )
        self.client.create_stream(f"{CREATE} {RETENTION}")

    def push(self, tables: list[pa.Table]) -> int:
        """Push tables by a producer, and wait until all are applied. Returns the last event."""
        with self.client.producer(STREAM, batch_rows=BATCH) as producer:
            for table in tables:
                producer.push(table)
            last = producer.flush(PATIENCE_S).sequence
        self.client.wait_for(last, timeout=PATIENCE_S)
        return last


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


def _restore(sizes: Sizes) -> Iterator[Row]:
    amount = BATCH * sizes.stored
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as name:
        folder = Path(name)
        with ExitStack() as stack:
            soup, left = Soup(stack, folder / "a", folder / "copy"), sizes.stored
            tables = batches(make_columns(BATCH * min(left, 64)), BATCH)
            last = 0
            while left > 0:
                last = soup.push(tables[:left])
                left -= len(tables)
            _wait_for_copy(folder / "copy", last)
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
