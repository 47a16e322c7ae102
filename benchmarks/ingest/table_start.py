"""Row `recovery.table`: the start of a service on a table of ten million versions, beside a stream of the same rows.

    written    10,000,000 upserts of 5,000,000 keys at random: two versions of a key on average
    started    process ─> chunks from disk ─> keys and links of the versions ─> the first exact answer

Keys and links are not stored, so each start computes them. Both directories are written once, and started in turns.
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

NAME = "recovery.table"
BATCH = 65_536
COLUMNS = "k BIGINT, price BIGINT"
FORMS = {"table": f"CREATE TABLE rows ({COLUMNS}, PRIMARY KEY (k))", "stream": f"CREATE STREAM rows ({COLUMNS})"}
QUESTION = "SELECT count(*) AS n, sum(price) AS total FROM rows"


def rows(run: Run) -> Iterator[Row]:
    """The row."""
    yield from run.part(partial(_measured, run.of(10_000_000, 1_000_000, 2_000), run.of(3, 2, 1)), NAME)


def _measured(versions: int, repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(45)
    given = pa.table({"k": rng.integers(0, versions // 2, versions), "price": rng.integers(0, 1_000, versions)})
    taken: dict[str, list[float]] = {form: [] for form in FORMS}
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        for form, statement in FORMS.items():
            _write(Path(folder) / form, statement, given)
        for _ in range(repeats):
            for form, times in taken.items():
                times.append(_started(Path(folder) / form, _expected(form, given)))
    ours, theirs = Sample.of(taken["table"]), Sample.of(taken["stream"])
    yield Row(NAME, ours, "s", "a stream", theirs, Target(value_at_most=5), f"{versions:,} versions")


def _write(folder: Path, statement: str, given: pa.Table) -> None:
    folder.mkdir()
    with processes.served(folder) as service, Client(service.address, timeout=120) as client:
        client.execute(statement)
        with client.producer("rows", batch_rows=BATCH) as producer:
            for start in range(0, len(given), BATCH):
                producer.push(given.slice(start, BATCH))
            last = producer.flush(120).sequence
        client.wait_for(last, timeout=120)


def _expected(form: str, given: pa.Table) -> dict[str, int]:
    """The answer: over all rows of the stream, or over the last row of each key."""
    keys, prices = (given[name].to_numpy() for name in given.column_names)
    if form == "table":
        _, newest = np.unique(keys[::-1], return_index=True)
        prices = prices[::-1][newest]
    return {"n": len(prices), "total": int(prices.sum())}


def _started(folder: Path, expected: dict[str, int]) -> float:
    """The seconds from the start of the process to the answer, which is compared."""
    start = time.perf_counter()
    with processes.served(folder) as service, Client(service.address, timeout=120) as client:
        [answer] = client.ask(QUESTION, timeout=60).to_arrow().to_pylist()
        taken = time.perf_counter() - start
    if answer != expected:
        raise AssertionError(f"{NAME}: the answer is {answer}, and NumPy has {expected}")
    return taken
