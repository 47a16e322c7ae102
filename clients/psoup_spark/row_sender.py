"""The way of Spark's rows into a stage of the service: each worker sends its own partitions.

    driver:    BeginStage ───────────────────────────────────────────────> CommitStage(parts of the attempts that count)
                   │ stage ID                                                  ▲
    workers:       └─> partition 0, attempt 7: AddPart, AddPart ── names, rows ┤   one row for each partition
                       partition 1, attempt 8: AddPart, killed                 │
                       partition 1, attempt 9: AddPart, AddPart ── names, rows ┘

A part's name contains the attempt, and Spark gives the driver the result of one attempt of each task. So a task that
runs twice, after a failure or by speculation, counts once, however its rows were divided. No row passes through the
driver.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from psoup_client import Client, NotFound, PSoupError, PushResult, Stage
from psoup_client.channel.patience import Patience, passes
from psoup_client.columns.casts import TimeUnit
from psoup_client.payload import BATCH_BYTES, BATCH_ROWS

PATIENCE = 600.0
"""The seconds for which feeds and jobs wait for a service that is away or has no room."""

COMMIT_SECONDS = 600.0
"""The deadline of one commit, in seconds. The service writes millions of rows to disk in it."""

JobRefusing = Literal["raise", "count"]
"""The choices for rows that are too late or too far ahead: end with RowsRefused, or count them and go on."""

_SENT = "parts array<string>, rows bigint, problem binary"
_SENT_ARROW = pa.schema([("parts", pa.list_(pa.string())), ("rows", pa.int64()), ("problem", pa.binary())])
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowTarget:
    """The stream that receives the rows. `patience`: seconds to wait for a service that is away or has no room.

    `time_unit`: as in `Client.push`. `refused`: as in `Stage.commit`.
    """

    address: str
    stream: str
    patience: float
    time_unit: TimeUnit | None = None
    refused: JobRefusing = "count"


@dataclass(frozen=True, slots=True)
class BatchId:
    """The name of a batch: a producer and a number. The service takes each name once. `since`: see `Client.stage`."""

    producer: str
    number: int = 0
    since: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of one attempt at a partition: the names of its parts in the stage, or its `problem`."""

    parts: list[str]
    rows: int
    problem: PSoupError | None = None


def send(frame: DataFrame, target: RowTarget, batch: BatchId) -> PushResult:
    """Send the rows of `frame` into the stream as one batch, once. Returns the outcome.

    If the batch was taken before, `frame` is not evaluated. If the service lost the stage, a new stage begins. Raises
    PSoupError if the service refuses the rows, and Unavailable after `patience`.
    """
    patience = Patience(target.patience)
    with Client(target.address) as client:
        while True:
            stage = begin(client, target, batch)
            if stage.result is not None:
                return stage.result
            try:
                return commit(client, target, batch, stage, _collect(frame, target, stage.id))
            except NotFound as problem:
                if problem.reason != "UNKNOWN_STAGE":
                    raise
                time.sleep(patience.next(problem))
            except PSoupError:
                abort(stage)
                raise


def begin(client: Client, target: RowTarget, batch: BatchId) -> Stage:
    """Open a stage for the batch as soon as the service is reachable.

    The stage already has a `result` if the service took the batch before.
    """
    name, number, since = batch.producer, batch.number, batch.since
    return insist(target.patience, lambda: client.stage(target.stream, producer=name, number=number, since=since))


def commit(client: Client, target: RowTarget, batch: BatchId, stage: Stage, sent: Iterable[Sent]) -> PushResult:
    """Commit the parts in the order of the partitions. If a partition has a problem, raises the first one."""
    parts: list[str] = []
    for partition in sent:
        if partition.problem is not None:
            raise partition.problem
        parts += partition.parts
    if not parts:  # a commit without names takes all parts, also of failed attempts: so commit an empty stage
        stage = begin(client, target, batch)
    return insist(target.patience, lambda: stage.commit(parts, refused=target.refused, timeout=COMMIT_SECONDS))


def send_partition(target: RowTarget, stage_id: str, batches: Iterable[pa.RecordBatch]) -> Sent:
    """Add the rows to the stage, as parts named after this task attempt. It runs in a worker. Memory: a part."""
    context = TaskContext.get()
    attempt = f"{context.partitionId():06d}-{context.taskAttemptId()}" if context else "0"
    parts: list[str] = []
    rows = 0
    try:
        with Client(target.address) as client:
            stage = Stage.join(client, target.stream, stage_id)
            for number, table in enumerate(_gather(batches)):
                name = f"{attempt}-{number:06d}"
                add = partial(stage.add, table, part=name, time_unit=target.time_unit)
                parts += insist(target.patience, add)
                rows += table.num_rows
    except PSoupError as problem:
        return Sent([], rows, problem)
    return Sent(parts, rows)


def insist(seconds: float, attempt: Callable[[], T]) -> T:
    """Repeat a call while the service is away or has no room, for up to `seconds`. Returns the call's result."""
    patience = Patience(seconds)
    while True:
        try:
            return attempt()
        except PSoupError as problem:
            if not passes(problem):
                raise
            time.sleep(patience.next(problem))


def _collect(frame: DataFrame, target: RowTarget, stage_id: str) -> list[Sent]:
    """Run the Spark job in which each partition sends its rows. Returns the parts of each partition."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sent = send_partition(target, stage_id, batches)
        problem = None if sent.problem is None else pickle.dumps(sent.problem)
        yield pa.RecordBatch.from_pylist(
            [{"parts": sent.parts, "rows": sent.rows, "problem": problem}], schema=_SENT_ARROW
        )

    rows = frame.mapInArrow(work, _SENT).collect()
    return [Sent(row.parts, row.rows, pickle.loads(row.problem) if row.problem else None) for row in rows]


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join small batches into tables of up to a part's size, because a call costs more than its rows."""
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if gathered and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > BATCH_BYTES):
            yield pa.Table.from_batches(gathered)
            gathered, rows, size = [], 0, 0
        if batch.num_rows:
            gathered.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
    if gathered:
        yield pa.Table.from_batches(gathered)


def abort(stage: Stage) -> None:
    """Release the stage's memory in the service, if the service answers."""
    try:
        stage.abort()
    except PSoupError:
        return  # the service drops an idle stage by itself
