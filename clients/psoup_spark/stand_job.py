"""A standing job: Spark joins data and queries, batch after batch, and one or several services serve the answers.

    source ──> micro-batch N ──> cast ─┬─> released, in the order of time ──> chunks, and what all queries match,
                                  ▲    │                                      on the workers ──> SHARED/join-…-N
                                  │    └─> held: the watermark has not passed them                    │
                                  └── held by the batch before          service A <── Attach N ───────┤
                                                                        service B <── Attach N ───────┘

Spark repeats batch N until it has recorded N as done, and a service takes each (query ID, N) once. So no row is lost or
doubled if the driver, a worker or a service is killed. No row passes through the driver or gRPC. A service reads each
byte once, and keeps an entry in memory for each chunk. The watermark is the greatest time so far minus the stream's
LATENESS; rows before it are late, and left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from psoup.config import CHUNK_ROWS
from psoup.model import StreamSpec
from psoup.sql import create_stream
from psoup_client import AttachSite, Client, InvalidData, PSoupError, PushResult, RowsRefused
from psoup_client.columns.casts import TimeUnit
from psoup_client.ingest.lost_rows import refused_text, warn
from psoup_client.ingest.refused_rows import check_refused
from psoup_client.phrases import counted, verb
from psoup_client.times import from_micros, to_micros
from psoup_spark import source_rows as mappings
from psoup_spark.backfill import (
    Evaluated,
    incarnation,
    set_aside,
    standing_queries,
    time_column,
    write_directory,
)
from psoup_spark.batch_folder import BatchFolder
from psoup_spark.bound import signatures_of
from psoup_spark.epochs import check_unit
from psoup_spark.failures import refused_values
from psoup_spark.fold_choice import Statements, chosen, numbered, stream_number
from psoup_spark.row_sender import PATIENCE, JobRefusing, insist
from psoup_spark.stream_handle import QUERY_ID, Running
from psoup_storage.formats.history import SERVICE_IDS, read_manifest

QUERIES_SECONDS = 30.0
"""The greatest age, in seconds, of the list of standing queries while their number stays the same.

The list may become older if the job needs long to fetch it.
"""
QUERIES_SHARE = 20
"""The least pause between two fetches of the list of queries. It is a multiple of a fetch's time.

After the number of queries changed, the pause is a quarter of that.
"""
MAX_AHEAD = timedelta(days=1)
"""The greatest distance of a row's time past the clock. Rows beyond it are left out, or services would refuse the
batch.
"""


@dataclass(frozen=True, slots=True)
class StandResult:
    """The outcome of the rows so far: attached in `chunks`, left out as `late` or `ahead`, or `bad`.

    `held`: rows that wait for the watermark. `duplicates`: batches that an earlier run had attached. If an earlier run
    had written a batch without attaching it, only its `rows` and `chunks` are known.
    """

    rows: int = 0
    chunks: int = 0
    late: int = 0
    ahead: int = 0
    bad: int = 0
    held: int = 0
    duplicates: int = 0

    def joined(self, later: StandResult) -> StandResult:
        """Add a later outcome. The result has the later `held`."""
        names = [field.name for field in fields(self) if field.name != "held"]
        return StandResult(**{name: getattr(self, name) + getattr(later, name) for name in names}, held=later.held)


Progress = Callable[[int, StandResult], None]
"""Function called after each batch, with its number and the outcome of its rows."""


class Stand(Running[StandResult]):
    """A running standing job. `query`: Spark's own handle. `result`: the outcome of the rows so far."""


def stand(
    frame: DataFrame,
    stream: str,
    *,
    checkpoint: str | os.PathLike[str],
    addresses: Sequence[str | None] = (None,),
    shared: str | os.PathLike[str] | None = None,
    mapping: Mapping[str, str] | None = None,
    quarantine: str | None = None,
    time_unit: TimeUnit | None = None,
    refused: JobRefusing = "count",
    functions: Sequence[str] = (),
    fold: Sequence[str] = (),
    trigger: dict[str, Any] | None = None,
    patience: float = PATIENCE,
    progress: Progress | None = None,
) -> Stand:
    """Start the job over a streaming `frame`. Its rows become rows of `stream` in each service. Returns at once.

    `shared` is a folder that workers, driver and services reach under one path; the default is the first service's
    folder for jobs. `mapping`, `quarantine` and `time_unit` are as in `backfill`. In system time rows have the time of
    their batch. The services have the same CREATE STREAM, and each its own queries, all of which are evaluated here.
    Two kinds of queries are evaluated later, when a client invokes them: queries that are registered meanwhile, and
    queries that call functions of the operator outside the modules `functions`. `fold` is as in `backfill`.

    Rows that are too late or too far ahead are left out. `progress` and `result` have the counts; without `progress`,
    the warning RowsNotTaken tells them. With `refused="raise"` the job ends with RowsRefused, and attaches nothing
    of the batch.

    Raises InvalidData if the streams differ, NotFound, Unavailable, and FailedPrecondition if tuples were pushed to the
    stream. If a service lacks batches that another one has, the job ends with InvalidData.
    """
    if not frame.isStreaming:
        raise TypeError("stand takes a streaming frame (spark.readStream); attach another one with backfill")
    check_unit(time_unit)
    check_refused(refused, "raise", "count")
    sites = []
    with ExitStack() as opened:
        for address in addresses:
            client = opened.enter_context(Client(address))
            sites.append((client.address, client.begin_attach(stream, "stand", 0)))
    specs = {address: create_stream(site.statement) for address, site in sites}
    _check_alike(specs)
    folder = Path(shared or sites[0][1].folder)
    called = tuple(functions), signatures_of(functions)
    later = numbered(specs[sites[0][0]], fold, len(sites))
    rules = dict(mapping or {}), quarantine, patience, time_unit
    target = BatchTarget(tuple(specs), stream, folder, *rules, *called, refused, later)
    batches = _StandingBatches(target, progress)
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", os.fspath(checkpoint))
    writer = writer.trigger(**trigger) if trigger else writer
    return Stand(writer.start(), batches)


@dataclass(frozen=True, slots=True)
class BatchTarget:
    """The services and the folder for batches, the mapping of rows, and the functions that queries call.

    `later`: aggregates that are folded for queries of later.
    """

    addresses: tuple[str, ...]
    stream: str
    shared: Path
    mapping: Mapping[str, str]
    quarantine: str | None
    patience: float
    time_unit: TimeUnit | None = None
    functions: tuple[str, ...] = ()
    signatures: frozenset[str] = frozenset()
    refused: JobRefusing = "count"
    later: Statements = ()


@dataclass(slots=True)
class _StandingBatches:
    """The function that foreachBatch calls, one batch at a time, on a thread of the query."""

    target: BatchTarget
    progress: Progress | None
    result: StandResult = field(default_factory=StandResult)
    problem: PSoupError | None = None
    known: _Queries = field(default_factory=lambda: _Queries())

    def __call__(self, frame: DataFrame, number: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert isinstance(query_id, str), "Spark runs foreachBatch on the thread of the query"
        try:
            with refused_values():
                result = self.put(frame, BatchFolder(self.target.shared, query_id, number))
        except PSoupError as problem:
            self.problem = problem
            raise
        self.result = self.result.joined(result)
        if self.progress is not None:
            self.progress(number, result)
        else:
            counts = PushResult(accepted=result.rows, late=result.late, ahead=result.ahead)
            warn(refused_text(self.target.stream, counts, f"batch {number} of the job"))

    def ended(self, query: StreamingQuery) -> None:
        """Do nothing, because each batch attaches all its rows before it ends."""

    def put(self, frame: DataFrame, place: BatchFolder) -> StandResult:
        """Attach the batch to every service that lacks it. An earlier attempt may have attached it to some services."""
        target, job = self.target, f"spark-{place.query_id}"
        with ExitStack() as opened:
            clients = [opened.enter_context(Client(address)) for address in target.addresses]
            ask = (target.stream, job, place.number)
            sites = [insist(target.patience, partial(client.begin_attach, *ask)) for client in clients]
            lacking = [(client, site) for client, site in zip(clients, sites, strict=True) if not site.attached]
            _check_whole(lacking, place)
            if len(lacking) == len(sites) and _outrun(place, sites):
                place.withdraw([site.folder for site in sites])
            if not lacking:
                result = StandResult(duplicates=1)
            elif place.whole:
                extent = read_manifest(place.path).extent
                result = StandResult(extent.rows, extent.chunks)
            else:
                queries = self.known.now(clients, sites, target.patience, target.signatures)
                result = release(frame, place, sites, target, queries, self.known.folds)
            for client, site in lacking if place.whole else []:
                place.offer(site.folder)
                insist(target.patience, partial(client.attach, site, place.name))
            if place.whole or not lacking:
                place.done()
            place.withdraw([site.folder for site in sites])
        return result


@dataclass(slots=True)
class _Queries:
    """The list of standing queries. It is fetched again when the number of queries changes, and after a pause."""

    queries: Statements = ()
    folds: Statements = ()
    """The registered aggregates that are folded."""
    counts: tuple[int, ...] = ()
    streams: tuple[str, ...] = ()
    asked: float = 0.0
    took: float = 0.0

    def now(
        self,
        clients: Sequence[Client],
        sites: Sequence[AttachSite],
        patience: float,
        signatures: frozenset[str] = frozenset(),
    ) -> Statements:
        """Return the queries of all services. The numbers of each service begin at another multiple of SERVICE_IDS."""
        stream, streams = sites[0].stream, tuple(site.stream_id for site in sites)
        counts = tuple(insist(patience, partial(client.describe, stream)).queries for client in clients)
        start, shortest = time.monotonic(), QUERIES_SHARE * self.took
        pause = max(QUERIES_SECONDS, shortest) if counts == self.counts else shortest / 4
        if start - self.asked >= pause or streams != self.streams:  # new streams: numbers of queries begin again
            statements = list[tuple[int, str]]()
            for place, (client, site) in enumerate(zip(clients, sites, strict=True)):
                numbered = insist(patience, partial(standing_queries, client, site, signatures))
                statements += [(place * SERVICE_IDS + number, text) for number, text in numbered]
            self.queries = tuple(statements)
            self.folds = chosen(create_stream(sites[0].statement), self.queries)
            self.counts = counts
            self.streams = streams
            self.asked = time.monotonic()
            self.took = self.asked - start
        return self.queries


def release(
    frame: DataFrame,
    place: BatchFolder,
    sites: Sequence[AttachSite],
    target: BatchTarget,
    queries: Statements,
    folds: Statements,
) -> StandResult:
    """Write the directory of a batch: its rows, and the rows held before, as far as the watermark has passed them.

    The remaining rows are held for the next batch. If no row is released, there is no directory.
    """
    spec, site = create_stream(sites[0].statement), sites[0]
    watermark = _watermark(sites)
    mapped = mappings.apply(frame, spec, _mapping(spec, target.mapping, watermark), time_unit=target.time_unit)
    bad = set_aside(mapped, target.quarantine and f"{target.quarantine}/query={place.query_id}/batch={place.number}")
    before, spark = place.held_before(), frame.sparkSession
    rows = mapped.rows if before is None else mapped.rows.unionByName(spark.read.parquet(str(before)), True)
    rows = rows.persist()
    try:
        at = F.unix_micros(F.col(f"`{time_column(spec)}`"))
        latest = F.lit(time.time_ns() // 1_000 + MAX_AHEAD // timedelta(microseconds=1))
        late = F.lit(False) if watermark is None else at < F.lit(watermark)
        good = ~late & (at <= latest)
        seen = rows.agg(F.count("*"), F.max(F.when(good, at)), F.count_if(late), F.count_if(~late & ~good)).collect()[0]
        if target.refused == "raise" and seen[2] + seen[3]:
            raise _refused(target.stream, seen[0], seen[2], seen[3], watermark)
        if seen[1] is None:
            return StandResult(late=seen[2], ahead=seen[3], bad=bad)
        mark = max(seen[1] - spec.lateness, -(2**63) if watermark is None else watermark)
        if spec.lateness:
            rows.where(good & (at > F.lit(mark))).write.mode("overwrite").parquet(str(place.held))
        attempt = place.begin()
        ready, count = rows.where(good & (at <= F.lit(mark))), seen[0] - seen[2] - seen[3]
        streams = tuple(stream_number(each.stream_id) for each in sites)
        evaluated = Evaluated(queries + target.later, target.functions, folds + target.later, streams)
        ranges, others = -(-count // CHUNK_ROWS), tuple(incarnation(other.stream_id) for other in sites[1:])
        written = write_directory(ready, site, attempt, time_column(spec), CHUNK_ROWS, evaluated, ranges, others)
        if written is None:
            attempt.rmdir()
            return StandResult(late=seen[2], ahead=seen[3], bad=bad, held=count)
        place.publish(attempt)
        extent = written.extent
        return StandResult(extent.rows, extent.chunks, seen[2], seen[3], bad, count - extent.rows)
    finally:
        rows.unpersist()


def _refused(stream: str, rows: int, late: int, ahead: int, watermark: int | None) -> RowsRefused:
    why = [f"{n:,} {word}" for n, word in ((late, "too late"), (ahead, "too far ahead of the clock")) if n]
    below = "" if watermark is None else f"; the watermark is {from_micros(watermark)}"
    return RowsRefused(
        f"{late + ahead:,} of {counted(rows, 'row')} of the batch for stream {stream!r}"
        f" {verb(late + ahead, 'is', 'are')} {' or '.join(why)}{below}. Nothing of the batch was attached; leave such"
        ' rows out of the source, or go on without them: refused="count" (--refused count)',
        facts={"stream": stream, "rows": str(rows), "late": str(late), "ahead": str(ahead)},
    )


def _mapping(spec: StreamSpec, mapping: Mapping[str, str], watermark: int | None) -> Mapping[str, str]:
    """Add an expression for `_time` in system time, if the mapping has none: the time at which the batch runs."""
    if spec.event_time or any(name.lower() == "_time" for name in mapping):
        return mapping
    now = (
        "current_timestamp()" if watermark is None else f"greatest(current_timestamp(), timestamp_micros({watermark}))"
    )
    return {**mapping, "_time": now}


def _check_whole(lacking: Sequence[tuple[Client, AttachSite]], place: BatchFolder) -> None:
    """Raise InvalidData if a service lacks earlier batches that were attached to other services.

    Before the next batch runs, the folder records each batch that all services have.
    """
    last_batch = place.last
    last = max([last_batch, *(-1 if site.last is None else site.last for _, site in lacking)])
    if lacking and last_batch < last:
        raise InvalidData(
            f"{place.shared} knows nothing of batch {last}, which is attached: rows that wait are in the folder that"
            " the job had before; name that one as the shared folder"
        )
    for client, site in lacking:
        if last > (-1 if site.last is None else site.last):
            has = "none" if site.last is None else f"those up to {site.last}"
            raise InvalidData(
                f"stream {site.stream!r} of {client.address} has {has} of the batches of this job, and {last} was"
                " attached; restore it from a backup that has them, or begin with a new checkpoint and new streams"
            )


def _outrun(place: BatchFolder, sites: Sequence[AttachSite]) -> bool:
    """Whether the batch is written but no service has attached it, and a heartbeat passed its first row."""
    watermark = _watermark(sites)
    return place.whole and watermark is not None and read_manifest(place.path).extent.first_time < watermark


def _watermark(sites: Sequence[AttachSite]) -> int | None:
    """Return the greatest watermark of all services, in microseconds. Rows before it are late."""
    return max((to_micros(site.watermark) for site in sites if site.watermark is not None), default=None)


def _check_alike(specs: Mapping[str, StreamSpec]) -> None:
    """Raise InvalidData if the streams of two services differ in columns, time column or lateness."""
    (first, spec), *others = specs.items()
    for address, other in others:
        if (spec.schema, spec.time_attribute, spec.lateness) != (other.schema, other.time_attribute, other.lateness):
            raise InvalidData(
                f"stream {spec.name!r} of {address} has other columns, or another time, than that of {first}; create it"
                " with the same statement"
            )
