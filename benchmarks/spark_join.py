"""Row `spark.join.*`: a standing job that evaluates 4,096 queries, and the service that attaches what it writes.

join     Parquet files in batches of 524,288 tuples, on two cores: cast, sorted, evaluated, written, attached; the rate
         is of batch after batch, the first one left out. Peer: the same files fed into a service that evaluates.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Row, Sample
from benchmarks.processes import service
from benchmarks.workload import CREATE, STREAM, make_columns, make_queries, to_table
from psoup_client import Client

QUERIES = 4_096
BATCH_ROWS = 524_288
CORES = 2
_CREATE = f"{CREATE.removesuffix(')')}, at TIMESTAMP NOT NULL) TIMESTAMP BY at"
ONCE = {"availableNow": True}
Told = Callable[[int, Any], None]
_FIRST = 1_700_000_000_000_000


def join_rows(quick: bool) -> Iterator[Row]:
    """One stream of eight integers and a time; tuples of a batch in no order."""
    name, count = "spark.join.q4096", 3 if quick else 6
    if shutil.which("java") is None:
        yield Row(name, Sample.of([0.0]), "tuples/s", "spark feed", None, note="no Java here")
        return
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        place = Path(folder)
        (place / "in").mkdir()
        for number in range(count):
            _write(place / "in" / f"{number}.parquet", number)
        ours, theirs = _measured(place)
    note = f"spark.join: {count - 1} batches of {BATCH_ROWS:,} tuples, local[{CORES}], sorted, evaluated, attached"
    yield Row(name, ours, "tuples/s", "spark feed", theirs, note=note)


def _write(path: Path, number: int) -> None:
    times = _FIRST + number * BATCH_ROWS + np.random.default_rng(number).permutation(BATCH_ROWS)
    at = pa.array(times, pa.timestamp("us", "UTC"))
    pq.write_table(to_table(make_columns(BATCH_ROWS)).append_column("at", at), path, row_group_size=BATCH_ROWS // CORES)
    os.utime(path, (number, number))  # Spark takes files in this order


def _measured(place: Path) -> tuple[Sample, Sample]:
    """Tuples a second of the job, and of a feed."""
    import psoup_spark

    spark = psoup_spark.session(f"local[{CORES}]", conf={"spark.driver.memory": "1g"})

    def join(rows: Any, address: str, told: Told) -> int:
        job = psoup_spark.join(
            rows, STREAM, checkpoint=place / "join", addresses=[address], trigger=ONCE, progress=told
        )
        job.wait()
        return job.result.rows

    def feed(rows: Any, address: str, told: Told) -> int:
        job = psoup_spark.feed(rows, STREAM, checkpoint=place / "feed", address=address, trigger=ONCE, progress=told)
        job.wait()
        return job.result.accepted

    try:
        return _rates(spark, place, join), _rates(spark, place, feed)
    finally:
        spark.stop()


def _rates(spark: Any, place: Path, run: Callable[[Any, str, Told], int]) -> Sample:
    """Tuples a second of each batch but the first, into a service of its own."""
    ends: list[float] = []
    with service(durable=True) as address, Client(address) as client:
        client.create_stream(_CREATE)
        client.register_many([query.statement(4_096) for query in make_queries(QUERIES, 4)])
        source = str(place / "in")
        rows = spark.readStream.schema(spark.read.parquet(source).schema).option("maxFilesPerTrigger", 1)
        taken = run(rows.parquet(source), address, lambda number, result: ends.append(time.perf_counter()))
        assert taken == len(ends) * BATCH_ROWS, taken
    return Sample.of([BATCH_ROWS / (b - a) for a, b in pairwise(ends)])
