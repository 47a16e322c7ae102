"""A Structured Streaming query into a stream of the service, each row exactly once.

    source ──> micro-batch N ──foreachBatch──> parts from the workers ──> commit as number N of "spark-<query ID>"
                    ▲                                                          │
                    └── N again, after a crash: the service says "taken" ◄─────┘

Spark writes down what batch N reads before it runs it, and runs N again until it is written down as done; the query's
ID lives in the checkpoint. So (query ID, N) names the same rows for ever, and the service takes each name once: a
driver, worker or service that is killed, or a network that is lost, neither loses nor doubles a row. A batch begins
when the one before is committed: a service that has no room slows the source. The query's watermark, if it has one
(`withWatermark`), becomes the stream's heartbeat, with the batch after the one that Spark reports it for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager

from psoup_client import Client, PSoupError, PushResult
from psoup_client.casts import TimeUnit
from psoup_spark.failures import refused_values
from psoup_spark.running import QUERY_ID, Running
from psoup_spark.schemas import check_fits
from psoup_spark.sending import PATIENCE, BatchId, RowTarget, insist, send

Progress = Callable[[int, PushResult], None]
"""Told of each batch: its number and what became of its rows."""


class Feed(Running[PushResult]):
    """A running feed. `query` is Spark's own handle, `result` what became of the rows so far."""


def feed(
    frame: DataFrame,
    stream: str,
    *,
    checkpoint: str | os.PathLike[str],
    address: str | None = None,
    trigger: dict[str, Any] | None = None,
    patience: float = PATIENCE,
    since: int = 0,
    time_unit: TimeUnit | None = None,
    progress: Progress | None = None,
) -> Feed:
    """Start feeding a streaming `frame` into `stream`; returns at once.

    Columns go by name; those that `frame` does not have are NULL. `checkpoint` is the folder (or URL) in which Spark
    remembers where it is: the same one goes on, a new one begins at the source's start. `trigger`: what
    `DataStreamWriter.trigger` takes, for example {"availableNow": True}. A batch is held by the service in memory
    before it is committed: bound it at the source (maxFilesPerTrigger, maxBytesPerTrigger, maxOffsetsPerTrigger).
    `since`: an event that had happened before the first batch of this checkpoint was sent, for a feed that is refused
    with PRODUCER_FORGOTTEN. `time_unit`: as of `Client.push`.

    Raises InvalidData, which names the column, for a frame that does not fit; NotFound; Unavailable.
    """
    if not frame.isStreaming:
        raise TypeError("feed takes a streaming frame (spark.readStream); write another with df.write.format('psoup')")
    with Client(address) as client:
        check_fits(frame.schema, client.describe(stream), time_unit)
        target = RowTarget(client.address, stream, patience, time_unit)
    batches = _FeedBatches(target, frame.sparkSession.streams, progress, since)
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", os.fspath(checkpoint))
    writer = writer.trigger(**trigger) if trigger else writer
    return Feed(writer.start(), batches)


@dataclass(slots=True)
class _FeedBatches:
    """The function that foreachBatch calls, one batch at a time, on a thread of the query."""

    target: RowTarget
    streams: StreamingQueryManager
    progress: Progress | None
    since: int
    result: PushResult = field(default_factory=PushResult)
    problem: PSoupError | None = None
    watermark: str | None = None
    beaten: int = 0
    """The event of the last heartbeat."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert isinstance(query_id, str), "Spark runs foreachBatch on the thread of the query"
        try:
            self.beat(self.streams.get(query_id))  # a batch's own session is a copy that knows no queries
            with refused_values():
                result = send(frame, self.target, BatchId(f"spark-{query_id}", number, self.since))
        except PSoupError as problem:
            self.problem = problem  # Spark keeps only its text
            raise
        self.result = self.result.joined(result)
        if self.progress is not None:
            self.progress(number, result)

    def ended(self, query: StreamingQuery) -> None:
        """Tell the service the last watermark, too; what was fed is in every answer then, if there soon can be one."""
        self.beat(query)
        with Client(self.target.address) as client, suppress(PSoupError):
            client.wait_for(max(self.result.sequence, self.beaten))

    def beat(self, query: StreamingQuery | None) -> None:
        """Tell the service the watermark that Spark reports, if it has moved."""
        progress = query.lastProgress if query is not None else None
        text = progress.eventTime.get("watermark") if progress is not None else None
        if text is None or text == self.watermark or text.startswith("1970-"):  # before the first row
            return
        with Client(self.target.address) as client:
            insist(self.target.patience, lambda: client.heartbeat(self.target.stream, text))
            self.beaten = client.last_sequence
        self.watermark = text
