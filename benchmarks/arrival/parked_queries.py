"""Parked queries: their resident bytes, and the first invocation of one, in a process of its own.

`amount.parked.memory`: nine parked queries for each active one, beside the active ones alone. `amount.parked.bytes`: a
parked query without a key. `amount.parked.first`: its first invocation.

    python -m benchmarks.arrival.parked_queries 100000 900000     what such a process measures, as JSON
"""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from ctypes import CDLL
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns
from psoup.config import EngineConfig
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, Keeping
from psoup_storage import DurableStore

TEMPLATE = f"SELECT a0 FROM {STREAM} WHERE a0 = $x AND a1 < $y"
BLOCK = 8_192
"""The queries of one call of the SDK."""
ASKED = 50
TUPLES = 10_000
PARKED = Keeping(active=False, parked=True)


class Measured(TypedDict):
    """The figures of one process: resident bytes, and seconds."""

    active_bytes: int
    all_bytes: int
    first_s: list[float]


class _Stored(LocalPSoup):
    """An engine on a data directory."""

    def __init__(self, store: DurableStore) -> None:
        super().__init__(EngineConfig(memory_bytes=1 << 36), log=store.registrations)
        self._store = store

    def submit(self, command: Command) -> Acknowledgement:
        """Prepare, store, apply."""
        prepared = self._prepare(command)
        if prepared.events:
            self._store.append(prepared.events)
            self.engine.apply(prepared.events)
        return prepared.acknowledgement

    def add(self, count: int, keeping: Keeping) -> None:
        """Register queries in blocks."""
        for first in range(0, count, BLOCK):
            x = np.arange(first, min(first + BLOCK, count))
            self.register_many(TEMPLATE, pa.table({"x": x, "y": x % 97}), keeping=keeping)


def resident() -> int:
    """The resident bytes of this process, without memory that its allocators hold in reserve."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(active: int, parked: int) -> Measured:
    """Register queries on a new data directory, and invoke some of the parked ones."""
    with TemporaryDirectory() as folder:
        store = DurableStore(folder)
        soup = _Stored(store)
        soup.execute(CREATE)
        soup.add(active, AS_USUAL)
        first = resident()
        soup.add(parked, PARKED)
        every = resident()
        for table in batches(make_columns(TUPLES), TUPLES):
            soup.push(STREAM, table)
        soup.invoke(soup.register(f"SELECT a0 FROM {STREAM} WHERE a0 = 1")).to_table()  # compiles what it needs
        seconds = [_seconds(soup, query) for query in _some(active, parked)]
        store.close()
    return {"active_bytes": first, "all_bytes": every, "first_s": seconds}


def _some(active: int, parked: int) -> list[int]:
    source = random.Random(1)
    return source.sample(range(active + 1, active + parked + 1), min(ASKED, parked))


def _seconds(soup: LocalPSoup, query_id: int) -> float:
    begin = time.perf_counter()
    soup.invoke(query_id).to_table()
    return time.perf_counter() - begin


def rows(run: Run) -> Iterator[Row]:
    """The rows of the table."""
    names = "amount.parked.memory", "amount.parked.bytes", "amount.parked.first"
    yield from run.part(lambda: _rows(run.of(1_000_000, 100_000, 40), run.tiny), *names)


def _rows(active: int, tiny: bool) -> Iterator[Row]:
    parked = 9 * active
    command = [sys.executable, "-m", "benchmarks.arrival.parked_queries", str(active), str(parked)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=3_600)
    figures: Measured = json.loads(done.stdout.splitlines()[-1])
    every, alone = Sample.of([figures["all_bytes"]]), Sample.of([figures["active_bytes"]])
    target = None if tiny else Target(at_most=1.2)
    yield Row("amount.parked.memory", every, "bytes", f"{active:,} active ones", alone, target)
    each = Sample.of([(figures["all_bytes"] - figures["active_bytes"]) / parked])
    yield Row("amount.parked.bytes", each, "bytes", "", None, None if tiny else Target(value_at_most=40))
    first = Sample.of([1_000 * seconds for seconds in figures["first_s"]])
    yield Row("amount.parked.first", first, "ms", "", None, None if tiny else Target(value_at_most=5))


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
