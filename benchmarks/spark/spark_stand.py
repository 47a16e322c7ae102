"""Row `spark.stand.*`: a standing job that evaluates 4,096 queries, and the service that attaches what it writes.

stand    Parquet files in batches of 524,288 tuples, on two cores: cast, sorted, evaluated, written, attached; the rate
         is of batch after batch, the first one left out. Peer: the same files fed into a service that evaluates.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark.spark import spark_session
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, make_columns, make_queries, to_table
from psoup_client import Client

QUERIES = 4_096
BATCH_ROWS = 524_288
CORES = 2
_CREATE = f"{CREATE.removesuffix(')')}, at TIMESTAMP NOT NULL) TIMESTAMP BY at"
ONCE = {"availableNow": True}
Told = Callable[[int, Any], None]
_FIRST = 1_700_000_000_000_000


def stand_rows(run: Run) -> Iterator[Row]:
    """A stream of eight integers and a time; tuples of a batch in no order."""
    yield from run.part(lambda: _stood(run), "spark.stand.q4096")


def _stood(run: Run) -> Iterator[Row]:
    count, size, queries = run.of((6, BATCH_ROWS, QUERIES), (3, BATCH_ROWS, QUERIES), (2, 1_024, 16))
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        place = Path(folder)
        (place / "in").mkdir()
        for number in range(count):
            _write(place / "in" / f"{number}.parquet", number, size)
        ours, theirs = _measured(place, size, queries)
    note = f"spark.stand: {count - 1} batches of {size:,} tuples, local[{CORES}], sorted, evaluated, attached"
    yield Row("spark.stand.q4096", ours, "tuples/s", "spark feed", theirs, note=note)


def _write(path: Path, number: int, size: int) -> None:
    times = _FIRST + number * size + np.random.default_rng(number).permutation(size)
    at = pa.array(times, pa.timestamp("us", "UTC"))
    pq.write_table(to_table(make_columns(size)).append_column("at", at), path, row_group_size=size // CORES)
    os.utime(path, (number, number))  # Spark takes files in this order


def _measured(place: Path, size: int, queries: int) -> tuple[Sample, Sample]:
    """Tuples a second of the job, and of a feed."""
    import psoup_spark

    def stand(rows: Any, address: str, progress: Told) -> int:
        job = psoup_spark.stand(
            rows, STREAM, checkpoint=place / "stand", addresses=[address], trigger=ONCE, progress=progress
        )
        job.wait()
        return job.result.rows

    def feed(rows: Any, address: str, progress: Told) -> int:
        job = psoup_spark.feed(
            rows, STREAM, checkpoint=place / "feed", address=address, trigger=ONCE, progress=progress
        )
        job.wait()
        return job.result.accepted

    with spark_session() as spark:
        return _rates(spark, place, stand, size, queries), _rates(spark, place, feed, size, queries)


def _rates(spark: Any, place: Path, work: Callable[[Any, str, Told], int], size: int, queries: int) -> Sample:
    """Tuples a second of each batch but the first, into a service of its own."""
    ends: list[float] = []
    with processes.service(durable=True) as address, Client(address) as client:
        client.create_stream(_CREATE)
        client.register_many([query.statement(4_096) for query in make_queries(queries, 4)])
        source = str(place / "in")
        rows = spark.readStream.schema(spark.read.parquet(source).schema).option("maxFilesPerTrigger", 1)
        taken = work(rows.parquet(source), address, lambda number, result: ends.append(time.perf_counter()))
        assert taken == len(ends) * size, taken
    return Sample.of([size / (b - a) for a, b in pairwise(ends)])
