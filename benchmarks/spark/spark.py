"""Rows `spark.*`: Spark and the service on the same machine. `make bench-spark` runs them; they need Java.

feed     Parquet files, four in each micro-batch, by Structured Streaming into a service on disk that holds 1,024
         queries; the rate is of batch after batch, the first two left out. Peer: one Python process that reads the
         same files and pushes them with the SDK's producer, into a service like that.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, Columns, make_columns, make_queries, to_table
from psoup_client import Client

FILE_ROWS = 262_144
FILES = 4
KEPT = 4 * 65_536
QUERIES = 1_024
WARM_UP = 2
"""Batches in which Spark compiles what it runs."""

CORES = 2


def feed_rows(run: Run) -> Iterator[Row]:
    """A stream from files of 262,144 tuples of eight integers."""
    yield from run.part(lambda: _feed(run), "spark.feed.q1024.durable")


@contextmanager
def spark_session() -> Iterator[Any]:
    """A session on CORES cores, stopped at the end. Raises NoJava."""
    from psoup_spark import session

    spark = session(f"local[{CORES}]", conf={"spark.driver.memory": "1g"})
    try:
        yield spark
    finally:
        spark.stop()


def _feed(run: Run) -> Iterator[Row]:
    count, file_rows = run.of((WARM_UP + 8, FILE_ROWS), (WARM_UP + 3, FILE_ROWS), (WARM_UP + 1, 1_024))
    files = count * FILES
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        columns = make_columns(file_rows)
        (Path(folder) / "in").mkdir()
        for number in range(files):
            _write(columns, Path(folder) / "in" / f"{number:03d}.parquet")
        standing = run.of(QUERIES, QUERIES, 16)
        theirs = _pushed(Path(folder) / "in", file_rows, standing)
        ours = _fed(Path(folder), files, file_rows, standing)
    batch = f"{count - WARM_UP} batches of {FILES * file_rows:,} tuples"
    note = f"spark.feed: {batch}, local[{CORES}], each committed to the disk"
    yield Row(
        "spark.feed.q1024.durable", ours, "tuples/s", "SDK producer", theirs, Target(value_at_least=100_000), note
    )


def _write(columns: Columns, path: Path) -> None:
    pq.write_table(to_table(columns), path)


@contextmanager
def _service(standing: int) -> Iterator[Client]:
    """A service on disk with the queries standing."""
    with processes.service(durable=True) as address, Client(address) as client:
        client.create_stream(f"{CREATE} RETENTION {KEPT} ROWS")
        client.register_many([query.statement(4_096) for query in make_queries(standing, 4)])
        yield client


def _fed(folder: Path, files: int, file_rows: int, standing: int) -> Sample:
    """Tuples a second of each batch after the first ones."""
    from psoup_spark import feed

    ends: list[float] = []
    with spark_session() as spark, _service(standing) as client:
        source = str(folder / "in")
        schema = spark.read.parquet(source).schema
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES).parquet(source)
        fed = feed(
            rows,
            STREAM,
            checkpoint=folder / "checkpoint",
            address=client.address,
            trigger={"availableNow": True},
            progress=lambda number, result: ends.append(time.perf_counter()),
        )
        fed.wait()
        assert fed.result.accepted == files * file_rows, fed.result
        client.wait_for(fed.result.sequence)
    return Sample.of([FILES * file_rows / (b - a) for a, b in zip(ends[WARM_UP - 1 :], ends[WARM_UP:], strict=False)])


def _pushed(folder: Path, file_rows: int, standing: int) -> Sample:
    """The same without Spark."""
    rates = []
    with _service(standing) as client, client.producer(STREAM) as producer:
        for path in sorted(folder.iterdir()):
            start = time.perf_counter()
            producer.push(pq.read_table(path))
            producer.flush()
            rates.append(file_rows / (time.perf_counter() - start))
    return Sample.of(rates[WARM_UP:])
