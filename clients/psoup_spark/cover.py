"""Queries that were registered after the data: Spark's workers evaluate them, and one Cover call hands in the matches.

    service: which chunks lack them ─> a task for some chunks ─> read, evaluate, write matches ─┐ on the workers
                                                                 manifest, then Cover <─────────┘ on the driver

Workers read chunks in place. A dead run has no effect, and the next run removes its leftovers. Covered chunks are not
evaluated again. A job is for one stream; of a join it evaluates the sides on that stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from psoup.sql import create_stream
from psoup_client import Client, CoverSite, InvalidData, QueryInfo
from psoup_spark.attempts import attempt, prefix
from psoup_spark.bound import known, lacking, signatures_of
from psoup_spark.progress import Tell, Watch
from psoup_spark.row_sender import insist
from psoup_storage.formats.covers import Cover, StoredFile, cover_chunk, write_cover
from psoup_storage.formats.matches import SUFFIX, ranges_of

_TASKS = 8
"""The number of tasks for each core. With many small tasks, one slow chunk delays the job only a little."""
_FACTS = "place long, rows long, matches long"


@dataclass(frozen=True, slots=True)
class CoverResult:
    """The outcome of a job: number of evaluated `rows` and `chunks`, of `queries`, and of their `matches`.

    `before`: chunks on disk that were covered already. `gone`: chunks that expired or lost tuples meanwhile, or were
    covered by another job.
    """

    queries: int
    chunks: int = 0
    rows: int = 0
    matches: int = 0
    before: int = 0
    gone: int = 0


def cover(
    spark: SparkSession,
    queries: Iterable[str] = (),
    *,
    stream: str | None = None,
    keys: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    address: str | None = None,
    functions: Sequence[str] = (),
    patience: float = 600.0,
    progress: Tell | None = None,
) -> CoverResult:
    """Evaluate queries over the chunks on disk that do not cover them yet.

    The queries are given by IDs (`queries`), by `keys`, by `labels`, or are all queries of `stream`. There is a job for
    each of their streams, or for `stream` only. A join's side is evaluated with the queries on its stream. Answers are
    the same before and after; later invocations read the matches. Driver and workers must reach the service's data
    directory under the same path. If the service is away when a job hands in its matches, the job waits up to
    `patience` seconds. `functions`: modules with the operator's functions, equal to the service's. Raises NotFound,
    InvalidData for a query with functions outside these modules, and Conflict, reason JOB_RUNS, if the same job is
    running.
    """
    signatures = signatures_of(functions)
    with Client(address) as client:
        named = [client.query(query) for query in dict.fromkeys(queries)] + [client.query(key=key) for key in keys]
        listed = [] if stream is None and labels is None else client.queries(stream, labels=labels)
        wanted = {query.id: query.info for query in [*named, *listed]}
        if not wanted:
            raise InvalidData("no query was named; name some, or a stream that has queries")
        _check_functions(client, wanted.values(), signatures)
        done = CoverResult(len(wanted))
        for name, infos in _by_stream(wanted.values(), stream).items():
            done = _both(done, _cover(spark, client, name, infos, tuple(functions), patience, progress))
        return done


def _check_functions(client: Client, infos: Iterable[QueryInfo], signatures: frozenset[str]) -> None:
    """Raise InvalidData for a query that calls functions which the job does not have."""
    mine = {signature.partition("@")[0] for signature in signatures}
    others = [each.name for each in client.info().functions if each.name not in mine]
    called = re.compile(rf"\b(?:{'|'.join(others) or '(?!)'})(?=\s*\()", re.IGNORECASE)
    for info in infos:
        needed = lacking(info.clause, signatures) or called.findall(info.sql)
        if needed:
            raise InvalidData(
                f"query {info.query_id} calls {needed[0]}, a function that this job does not have; name the module from"
                " which the service has it with --functions"
            )


def _by_stream(infos: Iterable[QueryInfo], stream: str | None) -> dict[str, list[QueryInfo]]:
    """Group queries by their streams. A join is in the group of each of its streams. With `stream`, only that group."""
    sorted_by: dict[str, list[QueryInfo]] = {}
    for info in infos:
        for name in info.streams:
            if stream is None or name.lower() == stream.lower():
                sorted_by.setdefault(name, []).append(info)
    return sorted_by


def _cover(
    spark: SparkSession,
    client: Client,
    stream: str,
    infos: Sequence[QueryInfo],
    functions: tuple[str, ...],
    patience: float,
    progress: Tell | None,
) -> CoverResult:
    """Run the job for the queries on one stream."""
    texts = {info.query_id: info.sql for info in infos}
    site = client.begin_cover([*texts], stream=stream)
    if not site.chunks or not (site.numbers or site.sides):
        return CoverResult(0, before=site.covered)
    statements = [(number, texts[query]) for query, number in site.numbers.items()]
    statements = sorted([*statements, *((side.number, side.statement) for side in site.sides)])
    names = sorted({*site.numbers, *(side.query for side in site.sides)})
    with attempt(site.folder, prefix("cover", site.stream, *names), f"a job that covers {_named(names)}") as directory:
        watch = Watch(progress, spark)
        watch.phase, watch.total = "evaluating", sum(chunk.rows for chunk in site.chunks)
        sizes = {Path(chunk.path).name + SUFFIX: chunk.rows for chunk in site.chunks}
        watch.written = lambda: _written(directory, sizes)
        with watch.running():
            evaluated = _evaluate(spark, site, directory, tuple(statements), functions)
            watch.phase = "attaching"
            files = tuple(Path(site.chunks[place].path).name for place, _, _ in evaluated)
            numbers = np.array([number for number, _ in statements], np.int64)
            write_cover(directory, Cover(site.incarnation, ranges_of(numbers), files))
            chunks, rows = insist(patience, lambda: client.cover(site, directory.name))
    matches = sum(count for _, _, count in evaluated)
    return CoverResult(0, chunks, rows, matches, site.covered, len(site.chunks) - chunks)


def _both(result: CoverResult, other: CoverResult) -> CoverResult:
    """Add up the outcomes of two jobs."""
    return CoverResult(*(mine + theirs for mine, theirs in zip(astuple(result), astuple(other), strict=True)))


def _named(names: Sequence[str]) -> str:
    return f"query {names[0]}" + (f" and {len(names) - 1:,} more" if len(names) > 1 else "")


def _written(directory: Path, sizes: dict[str, int]) -> tuple[int, int]:
    done = [sizes[path.name] for path in directory.glob(f"*{SUFFIX}") if path.name in sizes]
    return sum(done), len(done)


def _evaluate(
    spark: SparkSession,
    site: CoverSite,
    directory: Path,
    statements: tuple[tuple[int, str], ...],
    functions: tuple[str, ...],
) -> list[tuple[int, int, int]]:
    """Evaluate the queries on the workers. Returns the place, rows and matches of each chunk that still existed.

    Only these numbers come to the driver, and no tuples.
    """
    files = tuple(StoredFile(chunk.path, chunk.rows, chunk.crc, chunk.first_id) for chunk in site.chunks)
    tasks = min(len(files), _TASKS * spark.sparkContext.defaultParallelism)
    worker = CoverWorker(site.statement, str(directory), statements, files, functions)
    rows = spark.range(0, len(files), 1, tasks).mapInArrow(worker, _FACTS).collect()
    return sorted((row[0], row[1], row[2]) for row in rows)


@dataclass(frozen=True, slots=True)
class CoverWorker:
    """The function that evaluates the queries over chunks in a worker. Memory: a chunk.

    Its input has the places of the chunks in the list of files.
    """

    statement: str
    directory: str
    queries: tuple[tuple[int, str], ...]
    files: Sequence[StoredFile]
    functions: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row of facts for each chunk whose file is still there."""
        spec, queries = create_stream(self.statement), known(self.statement, self.queries, self.functions)
        for batch in batches:
            for place in batch.column(0).to_pylist():
                file = self.files[place]
                try:
                    matches = cover_chunk(Path(self.directory), file, spec, queries)
                except FileNotFoundError:
                    if not Path(self.directory).is_dir():
                        raise
                    continue
                facts = {"place": [place], "rows": [file.rows], "matches": [matches]}
                yield pa.RecordBatch.from_pydict(facts, schema=pa.schema([(name, pa.int64()) for name in facts]))
