"""Row `spark.attach.p99`: invocations while history is attached, against the same ones before.

300 chunks of 65,536 tuples are attached, three times. Meanwhile one client asks for answers over tuples in memory.
Times are of all calls: the 99th percentile of them.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, make_columns, make_queries, to_table
from psoup.sql import create_stream
from psoup.values.columns import Batch
from psoup.values.from_arrow import columns_from_arrow
from psoup_client import AttachSite, Client, Query
from psoup_storage.formats.history import HistoryChunk, Manifest, write_chunk, write_manifest

CHUNKS = 300
JOBS = 3
LIVE = 131_072
QUERIES = 64
BEFORE_S = 4.0
"""Seconds of invocations before."""


def attach_rows(run: Run) -> Iterator[Row]:
    """The percentile while history is attached, beside the percentile before."""
    yield from run.part(lambda: _attached(run), "spark.attach.p99")


def _attached(run: Run) -> Iterator[Row]:
    chunks, alone = run.of((CHUNKS, BEFORE_S), (CHUNKS // 5, BEFORE_S), (2, 0.02))
    with processes.service(durable=True) as address, Client(address) as client:
        client.create_stream(CREATE)
        handles = client.register_many([query.statement(4_096) for query in make_queries(QUERIES, 4)])
        client.push(STREAM, to_table(make_columns(LIVE)))
        queries = [client.query(query.id) for query in handles]
        before = _asked(queries, lambda: time.sleep(alone))
        first = before_first(client)
        sites = [client.begin_attach(STREAM, f"job {number}") for number in range(JOBS)]
        for site in sites:
            _write(site, chunks, first)
        start = time.perf_counter()
        during = _asked(queries, lambda: [client.attach(site, site.job.replace(" ", "-")) for site in sites])
        took = time.perf_counter() - start
    note = (
        f"spark.attach: {JOBS} times {chunks} chunks in {took:.1f} s; {len(during):,} invocations meanwhile,"
        f" {len(before):,} before"
    )
    ours, theirs = (Sample.of([float(np.percentile(times, 99)) * 1e6]) for times in (during, before))
    yield Row("spark.attach.p99", ours, "us", "before", theirs, Target(at_most=2), note)


def before_first(client: Client) -> int:
    """A time before all tuples, microseconds."""
    bound = client.begin_attach(STREAM, "none").bound
    assert bound is not None
    return int(bound.timestamp() * 1e6) - 1_000_000


def _asked(queries: list[Query], work: Callable[[], object]) -> list[float]:
    """Seconds of each invocation while `work` is done; one is asked after the other, by one client."""
    ended, times = threading.Event(), list[float]()

    def ask() -> None:
        while not ended.is_set() or not times:
            for query in queries:
                start = time.perf_counter()
                query.invoke()
                times.append(time.perf_counter() - start)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        work()
    finally:
        ended.set()
        asker.join()
    return times


def _write(site: AttachSite, chunks: int, at: int) -> None:
    """A job directory of tuples of one time: a chunk, and copies of it."""
    spec, directory = create_stream(site.statement), Path(site.folder) / site.job.replace(" ", "-")
    directory.mkdir()
    table = to_table(make_columns(65_536))
    batch = Batch(tuple(columns_from_arrow(spec.schema, table)), np.full(table.num_rows, at, np.int64))
    whole = write_chunk(directory, "00000", spec, batch)
    facts: list[HistoryChunk] = [whole]
    for number in range(1, chunks):
        name = f"{number:05}.parquet"
        shutil.copyfile(directory / whole.file, directory / name)
        facts.append(whole._replace(file=name))
    write_manifest(directory, Manifest(site.stream, tuple(facts)))
