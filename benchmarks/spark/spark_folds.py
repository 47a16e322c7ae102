"""Row `spark.folds`: the first invocation of an aggregate over attached history whose job wrote folds, or did not.

Two services attach the same 64 chunks of 65,536 tuples, with the matches of eight aggregates. One of the two jobs has
written their folds, too. Each aggregate is invoked once, directly after the history is attached.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.spark.spark_attach import before_first
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, DOMAIN, STREAM, make_columns, to_table
from psoup.execution.ahead.folds_outside import FoldsOutside
from psoup.matching.outside import Beforehand
from psoup.sql import create_stream
from psoup.values.columns import Batch
from psoup.values.from_arrow import columns_from_arrow
from psoup_client import AttachSite, Client
from psoup_storage.formats.history import FoldsToWrite, Manifest, write_chunk, write_manifest

CHUNKS = 64
QUERIES = 8
LIVE = 1_024


def fold_rows(run: Run) -> Iterator[Row]:
    """The first invocation with folds, beside the one without."""
    yield from run.part(lambda: _compared(run), "spark.folds")


def _compared(run: Run) -> Iterator[Row]:
    chunks = run.of(CHUNKS, CHUNKS // 4, 2)
    ours, theirs = (_first_invocations(chunks, folds=folds) for folds in (True, False))
    assert [rows for _, rows in ours] == [rows for _, rows in theirs]
    note = f"spark.folds: {chunks} chunks of 65,536 tuples, {QUERIES} aggregates, each invoked for the first time"
    samples = [Sample.of([seconds * 1e6 for seconds, _ in times]) for times in (ours, theirs)]
    yield Row("spark.folds", samples[0], "us", "without folds", samples[1], Target(at_least=5), note)


def _first_invocations(chunks: int, *, folds: bool) -> list[tuple[float, list[object]]]:
    """The seconds and the answer of the first invocation of each aggregate."""
    with processes.service(durable=True) as address, Client(address) as client:
        client.create_stream(CREATE)
        texts = [
            f"SELECT count(*) AS n, sum(a0) AS s, avg(a1) AS m, max(a2) AS h FROM {STREAM}"
            f" WHERE a3 < {DOMAIN * (k + 1) // (QUERIES + 1)} BEGIN (START)"
            for k in range(QUERIES)
        ]
        queries = [client.register(text) for text in texts]
        client.push(STREAM, to_table(make_columns(LIVE)))
        site = client.begin_attach(STREAM, "history")
        statements = [(int(query.id.rpartition("-")[2]), text) for query, text in zip(queries, texts, strict=True)]
        _write(site, chunks, before_first(client), statements, folds=folds)
        client.attach(site, "history")
        times = list[tuple[float, list[object]]]()
        for query in queries:
            start = time.perf_counter()
            answer = query.invoke().rows()
            times.append((time.perf_counter() - start, list(answer)))
        return times


def _write(site: AttachSite, chunks: int, at: int, statements: list[tuple[int, str]], *, folds: bool) -> None:
    """A job directory of tuples of one time: a chunk with its matches and folds, and copies of these files."""
    spec, directory = create_stream(site.statement), Path(site.folder) / "history"
    _, incarnation, stream = site.stream_id.split("-")
    directory.mkdir()
    table = to_table(make_columns(65_536))
    batch = Batch(tuple(columns_from_arrow(spec.schema, table)), np.full(table.num_rows, at, np.int64))
    wanted = FoldsToWrite(FoldsOutside(spec, statements), (int(stream),)) if folds else None
    whole = write_chunk(directory, "00000", spec, batch, Beforehand(spec, statements), (), wanted)
    facts = [whole]
    for number in range(1, chunks):
        facts.append(whole._replace(file=f"{number:05}.parquet"))
        for path in list(directory.glob(f"{whole.file}*")):
            shutil.copyfile(path, directory / path.name.replace(whole.file, facts[-1].file))
    write_manifest(directory, Manifest(site.stream, tuple(facts), incarnation))
