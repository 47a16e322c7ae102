"""Calls of the IngestService and the StagingService: rows go into streams, each of them once."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Unpack

from psoup_client.arguments import checking_arguments
from psoup_client.channel.connection import Connection
from psoup_client.columns.casts import TimeOptions, TimeUnit
from psoup_client.columns.zones import have_no_zone, instant
from psoup_client.errors import InvalidData, NotFound, RowsRefused
from psoup_client.ingest.direct_pusher import DirectPusher
from psoup_client.ingest.late_rows import LateRows
from psoup_client.ingest.producer import Producer
from psoup_client.ingest.producer_options import ProducerOptions
from psoup_client.ingest.push import Position, PushResult, ids_of, together
from psoup_client.ingest.refused_rows import Refusing, check_refused, instants
from psoup_client.ingest.row_reasons import shifted, zone_hint
from psoup_client.ingest.stage import Stage
from psoup_client.inputs import Rows
from psoup_client.payload import split
from psoup_client.session import Session
from psoup_client.times import Instant, from_proto, to_proto
from psoup_proto.v1 import ingest_pb2


@checking_arguments
class IngestCalls(Session):
    """Calls that bring rows in: one push, a pipelined producer, a batch in parts; and heartbeats."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._pushers: dict[str, DirectPusher] = {}

    def push(
        self,
        stream: str,
        data: Rows,
        *,
        refused: Refusing = "raise",
        time_unit: TimeUnit | None = None,
        timeout: float | None = None,
    ) -> PushResult:
        """Push rows: an Arrow table or batch, a pandas or Polars frame, a list of dicts or a dict of lists.

        By default all rows are taken, or none. If some are too late or too far ahead, RowsRefused lists them. The same
        push again is harmless. `refused="count"` takes the other rows, and the result counts and lists the refused
        ones. `refused="divert"` takes the other rows, too, and puts the refused ones into the stream NAME_late, with
        `refused_reason` and `refused_at`. A missing NAME_late is created, for which the caller needs that right.

        All or none holds for up to 16,777,216 rows and 128 MiB of Arrow. A larger push goes in parts of that size, and
        `RowsRefused.taken` counts the rows of the parts before. In system time no row is late. There, and with "count",
        more than 65,536 rows or 8 MiB go in several batches. After any other error the earlier batches stay. A retried
        call is taken once. For many pushes use `producer`.

        Values are converted if that loses nothing: whole floats to BIGINT, text to TIMESTAMP, DATE and DECIMAL, a date
        to its midnight. A bool is not a number. Missing values of pandas are NULL, and an index with a name is a
        column. For any other value InvalidData is raised, which names the row and the column.

        `time_unit`: the unit of numbers in TIMESTAMP columns, counted from 1970: seconds ("s"), "ms", "us" or "ns".
        """
        check_refused(refused, "raise", "count", "divert")
        table = self.convert(stream, data, TimeOptions(time_unit))
        pusher, time_column = self._pusher(stream), self._time_column(stream)
        try:
            if not time_column or refused == "count":
                result = pusher.push(split(table, time_column=time_column), timeout)
            elif refused == "raise":
                result = pusher.push_whole(table, time_column, timeout)
            else:
                result = LateRows(self, stream, self._pusher).push(table, time_column, timeout)
        except RowsRefused as problem:
            hint = ""
            if self.timezone is None and have_no_zone(data, time_column):
                hint = zone_hint(problem, instants(table[time_column]))
            raise (shifted(problem, 0, problem.rows, hint) if hint else problem) from None
        except (InvalidData, NotFound):
            self._schemas.pop(stream.lower(), None)  # another stream may have the name by now
            raise
        self.note_sequence(result.sequence)
        return result

    def _pusher(self, stream: str) -> DirectPusher:
        with self._lock:
            return self._pushers.setdefault(stream.lower(), DirectPusher(self, stream))

    def tuple_ids(
        self, result: PushResult, *, wait_for: int | None = None, timeout: float | None = None
    ) -> range | list[int | None]:
        """Find the tuple IDs of the rows that a push took, in the order of sending; None for a row that waits.

        In event time rows wait for the watermark: ask again later. The result is a range if the IDs are consecutive, as
        in system time. Refused rows have no ID: `result.late` and `result.ahead` count them. `result` is the result of
        `push` or of a committed `stage`. Raises ValueError for the result of a producer, which sums several batches.

        Raises OutOfRange, reason UNKNOWN_PUSH, if the IDs are not known any more. The service knows the newest 16,384
        pushes to a stream; after a restart only those that are still in its log. If times come out of order, it knows
        about the newest million tuples.
        """
        if not isinstance(result, PushResult):
            raise TypeError(f"result is {result!r}: give what push returned")
        if result.accepted != sum(rows.rows for rows in result.sent):
            raise ValueError("the result does not name the events of its rows: take the result of push, or of a stage")
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
        """Find the position at which a producer stopped, so that a restarted device can go on from there.

        The device goes on in the same epoch. An old batch may still be under way then; either it or the new batch of
        the same number is taken. If the old one is taken, the new one is refused with Conflict (reason
        PAYLOAD_CONFLICT); ask for the position again.

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

        A sender whose source has places of its own, such as offsets, gives one with each batch (`position=` of
        `Producer.push` and of `Stage.commit`). The result has the last of them as `source`.

        Raises NotFound, reason UNKNOWN_PRODUCER, for a producer that has sent nothing, that was silent for a week, or
        that the service forgot to make room for newer producers.
        """
        request = ingest_pb2.GetProducerRequest(stream=stream, producer=producer)
        return Position.of(self.connection.call(self.connection.ingest.GetProducer, request, timeout))

    def stage(
        self, stream: str, *, producer: str | None = None, epoch: int = 0, number: int = 0, since: int = 0
    ) -> Stage:
        """Open a batch in parts. It becomes visible as a whole when it is committed, and is taken once; see `Stage`.

        `producer` and `number` name the batch, so that a repeated job does not double it. Without a producer it gets a
        random name. `number` counts from 0 for each producer (and `epoch`) without a gap. `since`: an event before
        number 0 was first sent, if known; see PushRequest.
        """
        if producer is None:
            self.describe(stream, wait_for=0)
            since = since or self.known_sequence
        return Stage.begin(self, stream, producer or f"stage-{uuid.uuid4().hex}", epoch, number, since)

    def heartbeat(self, stream: str, time: Instant) -> dt.datetime | None:
        """Promise that no tuple with a time below `time` will come; returns where the watermark is now."""
        request = ingest_pb2.HeartbeatRequest(stream=stream, time=to_proto(instant(time, self.timezone)))
        reply = self.connection.call(self.connection.ingest.Heartbeat, request)
        self.note_sequence(reply.sequence)
        return from_proto(reply.watermark) if reply.HasField("watermark") else None
