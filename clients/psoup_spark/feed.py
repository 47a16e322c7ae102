"""A Structured Streaming query that sends its rows into a stream of the service, each row exactly once.

    source ──> micro-batch N ──foreachBatch──> parts from the workers ──> commit as number N of "spark-<query ID>"
                    ▲                                                          │
                    └── N again, after a crash: the service says "taken" ◄─────┘

Spark records the input of batch N first, and repeats N until it has recorded N as done. The query's ID is in the
checkpoint. So (query ID, N) always names the same rows, and the service takes each name once. No row is lost or doubled
if the driver, a worker, the service or the network fails. A batch begins when the previous one is committed, so a full
service slows the source. The query's watermark, if any (`withWatermark`), becomes the stream's heartbeat, one batch
after the batch for which Spark reports it.
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
from psoup_client.columns.casts import TimeUnit
from psoup_client.ingest.lost_rows import refused_text, warn
from psoup_client.ingest.refused_rows import check_refused
from psoup_spark.failures import refused_values
from psoup_spark.row_sender import PATIENCE, BatchId, JobRefusing, RowTarget, insist, send
from psoup_spark.schemas import check_fits
from psoup_spark.stream_handle import QUERY_ID, Running

Progress = Callable[[int, PushResult], None]
"""Function called after each batch, with its number and the outcome of its rows."""


class Feed(Running[PushResult]):
    """A running feed. `query`: Spark's own handle. `result`: the outcome of the rows so far."""


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
    refused: JobRefusing = "count",
    progress: Progress | None = None,
) -> Feed:
    """Start to send the rows of a streaming `frame` to `stream`. Returns at once.

    Columns are found by name; columns that `frame` lacks are NULL. `checkpoint` is the folder (or URL) in which Spark
    records its position. A feed with the same folder continues; with a new folder it begins at the source's start.
    `trigger`: arguments of `DataStreamWriter.trigger`, for example {"availableNow": True}. The service holds a batch in
    memory before it is committed, so bound its size at the source (maxFilesPerTrigger, maxBytesPerTrigger,
    maxOffsetsPerTrigger). `since`: an event before the first batch of this checkpoint, for a feed that is refused with
    PRODUCER_FORGOTTEN. `time_unit`: as in `Client.push`.

    Rows that are too late or too far ahead are counted, and the feed goes on. `progress` gets the counts; without it,
    the warning RowsNotTaken tells them. With `refused="raise"` the feed ends with RowsRefused, and nothing of the batch
    is taken. A start without that option goes on with the batch.

    Raises InvalidData, which names the column, for a frame that does not fit, NotFound and Unavailable.
    """
    if not frame.isStreaming:
        raise TypeError("feed takes a streaming frame (spark.readStream); write another with df.write.format('psoup')")
    check_refused(refused, "raise", "count")
    with Client(address) as client:
        check_fits(frame.schema, client.describe(stream), time_unit)
        target = RowTarget(client.address, stream, patience, time_unit, refused)
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
    """The sequence of the last heartbeat's event."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert isinstance(query_id, str), "Spark runs foreachBatch on the thread of the query"
        try:
            self.beat(self.streams.get(query_id))  # a batch's own session is a copy without queries
            with refused_values():
                result = send(frame, self.target, BatchId(f"spark-{query_id}", number, self.since))
        except PSoupError as problem:
            self.problem = problem  # Spark keeps only the text of the error
            raise
        self.result = self.result.joined(result)
        if self.progress is not None:
            self.progress(number, result)
        else:
            warn(refused_text(self.target.stream, result, f"batch {number} of the feed"))

    def ended(self, query: StreamingQuery) -> None:
        """Send the last watermark, and wait until all fed rows are in every answer.

        An error of the service ends the wait silently.
        """
        self.beat(query)
        with Client(self.target.address) as client, suppress(PSoupError):
            client.wait_for(max(self.result.sequence, self.beaten))

    def beat(self, query: StreamingQuery | None) -> None:
        """Send a heartbeat with Spark's watermark if the watermark has moved."""
        progress = query.lastProgress if query is not None else None
        text = progress.eventTime.get("watermark") if progress is not None else None
        if text is None or text == self.watermark or text.startswith("1970-"):  # before the first row
            return
        with Client(self.target.address) as client:
            insist(self.target.patience, lambda: client.heartbeat(self.target.stream, text))
            self.beaten = client.last_sequence
        self.watermark = text
