"""Rows `spark.backfill.*`: files become the history of a stream on which 4,096 queries stand, matches and all.

backfill   by Spark on two cores: read, cast, sort, evaluate, write, attach; after a small job that starts things
           Peers: a Spark SQL filter for each query, written to files, measured on 16 of them and scaled; one generated
           expression of Spark SQL for all of them, over a part of the rows, with how it ends; and one Python process
           that reads, sorts, evaluates and writes the same, and attaches nothing.

PSOUP_BENCH_TUPLES says how many there are instead: 20 million take some minutes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark import spark_expression
from benchmarks.spark.spark import spark_session
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, Query, make_columns, make_queries, to_table
from psoup.matching.outside import Beforehand
from psoup.sql import create_stream
from psoup.values.columns import Batch
from psoup.values.from_arrow import columns_from_arrow
from psoup_client import Client
from psoup_storage.formats.history import write_chunk

QUERIES = 4_096
FILTERS = 16
FILES = 8
CHUNK_ROWS = 65_536
CORES = 2
_TIME = {"_time": "timestamp_micros(at)"}


def backfill_rows(run: Run) -> Iterator[Row]:
    """Tuples of eight integers, in no order."""
    yield from run.part(lambda: _backfilled(run), "spark.backfill.q4096", "spark.backfill.overhead")


def _backfilled(run: Run) -> Iterator[Row]:
    whole = FILES * CHUNK_ROWS
    count = int(os.environ.get("PSOUP_BENCH_TUPLES", run.of(6 * whole, whole, 4_096)))
    queries = make_queries(run.of(QUERIES, QUERIES, 32), 4)
    some = run.of(FILTERS, FILTERS, 1)
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder:
        place = Path(folder)
        (place / "in").mkdir()
        for number in range(FILES):
            _write(place / "in" / f"{number}.parquet", count, number)
        alone = _alone(place, queries)
        ours, filters = _by_spark(place, queries, some)
        one_rate, ending = spark_expression.measure(place / "in", run.of(16_384, 2_048, 64), len(queries))
    note = f"spark.backfill: {count:,} tuples, local[{CORES}], sorted, every query evaluated, written and attached"
    scaled = f"Spark filters, {some} of {len(queries):,}, scaled"
    rate, theirs, alone_sample = (Sample.of([count / seconds]) for seconds in (ours, filters, alone))
    yield Row("spark.backfill.q4096", rate, "tuples/s", scaled, theirs, Target(at_least=80), note)
    peer = f"one Spark expression, {ending}"
    yield Row("spark.backfill.q4096", rate, "tuples/s", peer, Sample.of([one_rate]) if one_rate else None, None, note)
    yield Row("spark.backfill.overhead", rate, "tuples/s", "one process", alone_sample, Target(at_least=0.5), note)


def _write(path: Path, count: int, number: int) -> None:
    """A file of rows whose times lie anywhere among all."""
    times = np.random.default_rng(7).permutation(count)[number::FILES]
    pq.write_table(to_table(make_columns(len(times))).append_column("at", pa.array(times)), path)


def _by_spark(place: Path, queries: list[Query], some: int) -> tuple[float, float]:
    """Seconds of the backfill, and those that filters would take."""
    from psoup_spark import backfill

    with spark_session() as spark:
        frame = spark.read.parquet(str(place / "in"))
        with processes.service(durable=True) as address, Client(address) as client:
            client.create_stream(CREATE)
            client.register_many([query.statement(4_096) for query in queries])
            later = {"_time": "timestamp_micros(at + 1000000000)"}
            backfill(frame.limit(CORES * CHUNK_ROWS), STREAM, job="warm", mapping=later, address=address)
            start = time.perf_counter()
            done = backfill(frame, STREAM, job="history", mapping=_TIME, address=address)
            ours = time.perf_counter() - start
        assert done.rows == frame.count(), done
        return ours, _filtered(frame, queries[:some], place / "found") * len(queries) / some


def _filtered(frame: Any, queries: list[Query], target: Path) -> float:
    start = time.perf_counter()
    for query in queries:
        frame.where(query.predicate()).select("at").write.mode("overwrite").parquet(str(target))
    return time.perf_counter() - start


def _alone(place: Path, queries: list[Query]) -> float:
    """Seconds of the same work without Spark and without a service, kernels being ready."""
    spec = create_stream(CREATE)
    beforehand = Beforehand(spec, [(number, query.statement(4_096)) for number, query in enumerate(queries, 1)])
    (place / "out").mkdir()
    for files in (place / "in" / "0.parquet", place / "in"):  # the first time kernels are loaded
        start = time.perf_counter()
        whole = pq.read_table(files).sort_by("at")
        for number in range(0, whole.num_rows, CHUNK_ROWS):
            part = whole.slice(number, CHUNK_ROWS)
            columns = columns_from_arrow(spec.schema, part.drop_columns(["at"]))
            times = np.ascontiguousarray(part.column("at").to_numpy())
            write_chunk(place / "out", str(number), spec, Batch(columns, times), beforehand)
    seconds = time.perf_counter() - start
    shutil.rmtree(place / "out")  # 20 million tuples have 10 GB of matches
    return seconds
