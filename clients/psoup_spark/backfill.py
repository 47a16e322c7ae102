"""The history of a stream, from any source of Spark: mapped, ordered, cut into chunks, attached in one step.

    source ─> mapped, cast ─┬─> range partitions of time, sorted ─> chunks, a file each, ─┐ on the workers
                            │          what the standing queries match, and their folds │
                            └─> quarantine: bad rows with their reasons                  │ rows of facts
                                                              manifest, then Attach <────┘ on the driver

A worker names its files after its task attempt. The manifest lists the files of one attempt of each partition, so a
task that runs twice counts once. A directory counts only with its manifest, so a dead job has no effect. Each run has
its own directory (`attempts`). No row passes through the driver or gRPC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from psoup.config import CHUNK_ROWS
from psoup.model import TIME_COLUMN, StreamSpec
from psoup.sql import create_stream
from psoup.values.columns import Batch
from psoup.values.from_arrow import columns_from_arrow
from psoup_client import AttachSite, Client, InvalidData, OutOfRange
from psoup_client.columns.casts import TimeUnit
from psoup_client.phrases import counted, verb
from psoup_client.times import Instant, to_micros
from psoup_spark import source_rows as mappings
from psoup_spark.attempts import attempt, prefix, sweep
from psoup_spark.bound import known, lacking, signatures_of
from psoup_spark.epochs import check_unit
from psoup_spark.fold_choice import Statements, chosen, folded, numbered, stream_number
from psoup_spark.progress import Tell, Watch
from psoup_spark.row_sender import PATIENCE, insist
from psoup_storage.formats.history import FoldsToWrite, HistoryChunk, Manifest, write_chunk, write_manifest


class Evaluated(NamedTuple):
    """The queries that workers evaluate, and the modules with the operator's functions that these queries call.

    `folds`: the aggregates among these queries whose folds workers write. `streams`: the stream's number in each
    service.
    """

    queries: Statements = ()
    functions: tuple[str, ...] = ()
    folds: Statements = ()
    streams: tuple[int, ...] = ()


NOTHING_EVALUATED = Evaluated()
_CHUNK_BYTES = 128 * 1024 * 1024
"""The size in Arrow bytes at which a chunk ends even if it has fewer rows."""
_RANGE_CHUNKS = 16
"""The greatest number of chunks in a range of time. A task then sorts about a million rows at once."""
_FACTS = (
    "place int, number int, file string, rows bigint, bytes bigint, crc bigint, first_time bigint, last_time bigint,"
    " memory bigint, footer bigint, footer_crc bigint, zones string"
)


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """The outcome of a job: `rows` attached in `chunks`. `bad` rows are in `quarantine`.

    `folded`: the number of aggregates whose folds were written with the chunks.
    `duplicate`: an earlier run of the job had attached this history.
    """

    job: str
    rows: int = 0
    chunks: int = 0
    bad: int = 0
    quarantine: str = ""
    duplicate: bool = False
    sequence: int = 0
    folded: int = 0


def backfill(
    frame: DataFrame,
    stream: str,
    *,
    job: str,
    mapping: Mapping[str, str] | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    quarantine: str | None = None,
    time_unit: TimeUnit | None = None,
    address: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
    evaluate: bool = True,
    fold: Sequence[str] = (),
    functions: Sequence[str] = (),
    patience: float = PATIENCE,
    progress: Tell | None = None,
) -> BackfillResult:
    """Attach the rows of a batch `frame` to `stream` as history; once for each `job`.

    `mapping`: from a column of the stream to an expression of Spark's SQL over `frame`; the remaining columns are found
    by name. A stream in system time needs an expression for `_time`. Rows outside `since` and `until` are left out.
    Rows that do not fit go to the Parquet folder `quarantine`, with the source's columns and `_problem`; without a
    folder they are an error. `time_unit`: the unit of numbers (and texts of numbers) in TIMESTAMP columns, counted from
    1970: seconds ("s"), "ms", "us" or "ns".

    With `evaluate`, the standing queries on the stream are evaluated in the same pass, and their matches are written
    with the chunks. Two kinds of queries are evaluated later, when a client invokes them: queries that are registered
    while the job runs, and queries that call functions of the operator outside the modules `functions`.

    The folds of the standing aggregates are written, too, so that their first invocation reads no tuple of the
    history. `fold`: statements of further aggregates, which will be registered later. Without `evaluate`, only their
    folds are written.

    Driver and workers must reach the service's folder under the same path. `progress` is called as the job advances. If
    the service is away when the history is to be attached, the job waits up to `patience` seconds. Raises InvalidData,
    NotFound, OutOfRange (with the bound to use) if the history ends after the stream's first tuple, and Conflict,
    reason JOB_RUNS, if a job of that name is running.
    """
    _check_arguments(frame, chunk_rows)
    check_unit(time_unit)
    signatures = signatures_of(functions)
    with Client(address) as client:
        site = client.begin_attach(stream, job)
        if site.attached:
            sweep(site.folder, job_name(site))
            return BackfillResult(job, duplicate=True)
        spec = create_stream(site.statement)
        later = numbered(spec, fold)
        first, last = (None if at is None else to_micros(at) for at in (since, until))
        watch = Watch(progress, frame.sparkSession)
        with attempt(site.folder, job_name(site), f"job {job!r} of stream {stream!r}") as directory, watch.running():
            watch.written = lambda: _written(directory)
            mapped = mappings.apply(frame, spec, mapping or {}, first, last, time_unit)
            _check_end(mapped.last, site)
            bad = set_aside(mapped, quarantine)
            watch.phase, watch.total = "sorting", mapped.count
            place = quarantine if bad and quarantine else ""
            if not mapped.count:
                return BackfillResult(job, bad=bad, quarantine=place)
            queries = insist(patience, lambda: standing_queries(client, site, signatures)) if evaluate else ()
            chunks = -(-mapped.count // chunk_rows)
            folds = chosen(spec, queries, later)
            evaluated = Evaluated(queries + later, tuple(functions), folds, (stream_number(site.stream_id),))
            written = write_directory(mapped.rows, site, directory, time_column(spec), chunk_rows, evaluated, chunks)
            assert written is not None, "there were rows"
            watch.phase = "attaching"
            result = insist(patience, lambda: client.attach(site, directory.name))
    # A duplicate was attached by an earlier attempt whose reply was lost, so it is this very history.
    extent = written.extent
    return BackfillResult(job, extent.rows, extent.chunks, bad, place, False, result.sequence, len(folds))


def _check_arguments(frame: DataFrame, chunk_rows: int) -> None:
    """Raise TypeError for a streaming frame, and ValueError for a size of chunks that the service refuses."""
    if frame.isStreaming:
        raise TypeError("backfill takes a frame of spark.read; psoup_spark.feed takes a streaming frame")
    if not 0 < chunk_rows <= CHUNK_ROWS:
        raise ValueError(f"chunk_rows is {chunk_rows}; a chunk has 1 to {CHUNK_ROWS:,} tuples")


def job_name(site: AttachSite) -> str:
    """Return the prefix of the names of a backfill's directories."""
    return prefix("history", site.stream_id, site.job)


def _written(directory: Path) -> tuple[int, int]:
    """Count the rows and chunks that workers have written, from the names of their files.

    A task that ran twice counts once.
    """
    rows_of_chunk = dict(path.name.split("-")[:2] for path in directory.glob("*.parquet"))
    return sum(map(int, rows_of_chunk.values())), len(rows_of_chunk)


def standing_queries(client: Client, site: AttachSite, signatures: frozenset[str]) -> Statements:
    """Ask for the standing queries on the stream, and for the sides of joins, as pairs of number and statement.

    Queries with functions outside `signatures` are left out.
    """
    infos = [query.info for query in client.queries(site.stream, include_sides=True)]
    mine = (info for info in infos if not lacking(info.clause, signatures))
    return tuple((int(info.query_id.rpartition("-")[2]), info.sql) for info in mine)


def incarnation(identity: str) -> str:
    """Return the incarnation part of an ID on the wire. The number in the ID counts only within this incarnation."""
    return identity.split("-")[1]


def time_column(spec: StreamSpec) -> str:
    """Return the name of the column with the physical IDs."""
    return TIME_COLUMN if spec.time_attribute is None else spec.schema.attributes[spec.time_attribute].name


def _check_end(last: int | None, site: AttachSite) -> None:
    """Raise OutOfRange if the service would refuse history that ends so late.

    This happens before anything is written.
    """
    if site.bound is not None and last is not None and last > to_micros(site.bound):
        bound = site.bound.isoformat().replace("+00:00", "Z")
        raise OutOfRange(
            f"history of stream {site.stream!r} must end at or before {bound}, the time of the first tuple there; leave"
            f" out what is later (--until {bound})",
            reason="HISTORY_OVERLAPS",
            facts={"bound": str(to_micros(site.bound))},
        )


def set_aside(mapped: mappings.Mapped, quarantine: str | None) -> int:
    """Write the bad rows to the folder `quarantine` and return their number. Without a folder, bad rows raise
    InvalidData.
    """
    count, problem = mapped.problems
    if not count:
        return 0
    if quarantine is None:
        raise InvalidData(
            f"{counted(count, 'row')} {verb(count, 'does', 'do')} not fit: {problem}; with --quarantine DIR"
            f" such rows are set aside"
        )
    mapped.bad.write.mode("overwrite").parquet(quarantine)
    return count


def write_directory(
    rows: DataFrame,
    site: AttachSite,
    directory: Path,
    time: str,
    chunk_rows: int,
    evaluated: Evaluated,
    limit: int | None = None,
    others: tuple[str, ...] = (),
) -> Manifest | None:
    """Write all files of a directory. Returns None if there are no rows.

    Each task writes one range of time. There are at least as many ranges as cores, and each is small enough to be
    sorted in memory. `limit`: the approximate number of chunks. `others`: the incarnations of further services, whose
    queries are among `evaluated`; see `write_chunk`.
    """
    order = [F.col(f"`{time}`"), *(F.col(f"`{name}`") for name in rows.columns if name != time)]
    cores = rows.sparkSession.sparkContext.defaultParallelism
    ranges = min(limit, max(cores, -(-limit // _RANGE_CHUNKS))) if limit else None
    cut = rows.repartitionByRange(ranges, order[0]) if ranges else rows.repartitionByRange(order[0])
    ordered = cut.sortWithinPartitions(*order)
    writer = ChunkWriter(site.statement, str(directory), chunk_rows, evaluated, others)
    facts = ordered.mapInArrow(writer, _FACTS).collect()  # one row for each chunk; no tuples come to the driver
    chunks = [HistoryChunk(*fact[2:]) for fact in sorted(facts, key=lambda fact: (fact[0], fact[1]))]
    if not chunks:
        return None
    manifest = Manifest(site.stream, tuple(chunks), incarnation(site.stream_id))
    write_manifest(directory, manifest)
    return manifest


@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """The writer of the chunks of one partition, whose rows come in order. It runs in a worker. Memory: two chunks."""

    statement: str
    directory: str
    chunk_rows: int = CHUNK_ROWS
    evaluated: Evaluated = NOTHING_EVALUATED
    others: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the chunks, and yield one row of facts for each."""
        context = TaskContext.get()
        place, number_of_try = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        spec, evaluated = create_stream(self.statement), self.evaluated
        queries = known(self.statement, evaluated.queries, evaluated.functions)
        folds = FoldsToWrite(folded(self.statement, evaluated.folds), evaluated.streams) if evaluated.folds else None
        for number, table in enumerate(cut(batches, self.chunk_rows)):
            name = f"{place:05}.{number:05}-{table.num_rows}-{number_of_try}"
            batch = to_batch(spec, table)
            chunk = write_chunk(Path(self.directory), name, spec, batch, queries, self.others, folds)
            yield pa.RecordBatch.from_pydict(
                {name: [value] for name, value in {"place": place, "number": number, **chunk._asdict()}.items()},
                schema=_arrow_facts(),
            )


def cut(batches: Iterator[pa.RecordBatch], chunk_rows: int) -> Iterator[pa.Table]:
    """Cut the rows into tables of `chunk_rows` rows. The last table is shorter, and so are tables with long texts."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, chunk_rows - rows)
            while size + part.nbytes > _CHUNK_BYTES and part.num_rows > 1:
                part = part.slice(0, part.num_rows // 2)
            batch = batch.slice(part.num_rows)
            waiting.append(part)
            rows += part.num_rows
            size += part.nbytes
            if rows == chunk_rows or size >= _CHUNK_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting)


def to_batch(spec: StreamSpec, table: pa.Table) -> Batch:
    """Convert rows to the engine's `Batch`, with their physical IDs."""
    time = table.column(time_column(spec)).combine_chunks().cast(pa.int64())
    columns = columns_from_arrow(spec.schema, table.select(list(spec.schema.names)))
    return Batch(tuple(columns), np.ascontiguousarray(time.to_numpy()))


def _arrow_facts() -> pa.Schema:
    kinds: dict[str, Any] = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in (fact.split() for fact in _FACTS.split(","))])
