"""Calls of the IngestService and the StagingService: rows go into streams, each of them once."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Unpack

from psoup_client.arguments import checking_arguments
from psoup_client.casts import TimeOptions, TimeUnit
from psoup_client.connection import Connection
from psoup_client.errors import InvalidData, NotFound
from psoup_client.inputs import Rows
from psoup_client.payload import split
from psoup_client.producer import Producer, ProducerOptions
from psoup_client.push import DirectPusher, Position, PushResult, ids_of, together
from psoup_client.session import Session
from psoup_client.stage import Stage
from psoup_client.times import Instant, from_proto, to_proto
from psoup_proto.v1 import ingest_pb2


@checking_arguments
class IngestCalls(Session):
    """Calls that bring rows in: one push, a pipelined producer, a batch in parts; and heartbeats."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._pushers: dict[str, DirectPusher] = {}

    def push(
        self, stream: str, data: Rows, *, time_unit: TimeUnit | None = None, timeout: float | None = None
    ) -> PushResult:
        """Push rows: an Arrow table or batch, a pandas or Polars frame, a list of dicts or a dict of lists.

        More rows than fit one batch (65,536, or 8 MiB) go in several, each applied whole or not at all: the error of a
        later one leaves the earlier ones in. Rows that are too late or too far ahead are refused alone; the result
        counts and lists them. A call that is retried on the way is taken once. For many pushes use `producer`.

        Values are converted where none is changed: whole floats to BIGINT, text to TIMESTAMP, DATE and DECIMAL, a date
        to its midnight; a bool is not a number. Missing values of pandas are NULL, and an index with a name is a
        column. Raises InvalidData for others, which names the row and the column.

        `time_unit`: numbers in TIMESTAMP columns count seconds ("s"), "ms", "us" or "ns" since 1970.
        """
        table = self.convert(stream, data, TimeOptions(time_unit))
        with self._lock:
            pusher = self._pushers.setdefault(stream.lower(), DirectPusher(self, stream))
        try:
            result = pusher.push(split(table, time_column=self._time_column(stream)), timeout)
        except (InvalidData, NotFound):
            self._schemas.pop(stream.lower(), None)  # the name may be another stream's by now
            raise
        self.note_sequence(result.sequence)
        return result

    def tuple_ids(
        self, result: PushResult, *, wait_for: int | None = None, timeout: float | None = None
    ) -> range | list[int | None]:
        """Find the tuple IDs of the rows that a push took, in the order they were sent; None for a row that waits.

        Rows wait for the watermark in event time: ask again later. A range if the IDs follow one another, as in system
        time. Rows that were refused have none: `result.late` and `result.ahead` count them. `result` is that of `push`
        or of a committed `stage`; a pipelined producer's has added up its batches, ValueError.

        Raises OutOfRange, reason UNKNOWN_PUSH, if they are not known any more. The service knows the newest 16,384
        pushes to a stream, also after a restart as far as they are still in its log; and where times come out of order,
        the newest million tuples or so.
        """
        if not isinstance(result, PushResult):
            raise TypeError(f"result is {result!r}: give what push returned")
        if result.accepted != sum(rows.rows for rows in result.sent):
            raise ValueError("the result does not say which events have its rows: take that of push, or of a stage")
        ids: list[range | list[int | None]] = []
        for rows in result.sent:
            request = ingest_pb2.TupleIdsRequest(
                stream=result.stream, sequence=rows.sequence, first_row=rows.first_row, rows=rows.rows
            )
            while request.rows:
                reply = self._read(self.connection.ingest.TupleIds, request, wait_for, timeout)
                ids.append(ids_of(reply))
                request.first_row, request.rows = request.first_row + reply.rows, request.rows - reply.rows
        return together(ids)

    def producer(self, stream: str, **options: Unpack[ProducerOptions]) -> Producer:
        """Start a pipelined, exactly-once sender for one stream; see `Producer` for its options."""
        return Producer(self, stream, **options)

    def position(self, stream: str, producer: str, *, timeout: float | None = None) -> Position:
        """Find where the producer of that name stopped: what a device that has restarted goes on from.

        It goes on in the same epoch, so that a batch of before that is still under way is taken once: it, or the new
        one of its number, which is refused with Conflict (reason PAYLOAD_CONFLICT) then; ask again.

        >>> from psoup_client import Client
        >>> rows = [{"value": value} for value in (20.5, 20.75, 21.0)]
        >>> with Client() as client:
        ...     _ = client.create_stream("CREATE STREAM roofs (value DOUBLE)")
        ...     with client.producer("roofs", name="roof", epoch=1) as producer:
        ...         _ = producer.push(rows[:2])
        ...     at = client.position("roofs", "roof")
        ...     with client.producer("roofs", name="roof", epoch=at.epoch, number=at.number) as producer:
        ...         _ = producer.push(rows[at.rows :])
        ...     at.number, client.position("roofs", "roof").rows
        (1, 3)

        Raises NotFound, reason UNKNOWN_PRODUCER, for a producer that has sent nothing, and for a name that was silent
        for a week, or made way for others.
        """
        request = ingest_pb2.GetProducerRequest(stream=stream, producer=producer)
        return Position.of(self.connection.call(self.connection.ingest.GetProducer, request, timeout))

    def stage(
        self, stream: str, *, producer: str | None = None, epoch: int = 0, number: int = 0, since: int = 0
    ) -> Stage:
        """Open a batch in parts, visible as a whole once it is committed, and taken once; see `Stage`.

        `producer` and `number` name the batch, so that a job that runs again does not double it; without a producer it
        has a name of its own. `number` counts up from 0 for each producer (and `epoch`) without a gap. `since`: an
        event that had happened before number 0 was first sent, if that is known; see PushRequest.
        """
        if producer is None:
            self.describe(stream, wait_for=0)
            since = since or self.known_sequence
        return Stage.begin(self, stream, producer or f"stage-{uuid.uuid4().hex}", epoch, number, since)

    def heartbeat(self, stream: str, time: Instant) -> dt.datetime | None:
        """Promise that no tuple with a time below `time` will come; returns where the watermark is now."""
        request = ingest_pb2.HeartbeatRequest(stream=stream, time=to_proto(time))
        reply = self.connection.call(self.connection.ingest.Heartbeat, request)
        self.note_sequence(reply.sequence)
        return from_proto(reply.watermark) if reply.HasField("watermark") else None
