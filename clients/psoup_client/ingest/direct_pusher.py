"""Single pushes, which the service takes exactly once, and as a whole if the caller wants that.

    push         batch 0 ─ batch 1 ─ …     refused rows are counted
    push_whole   one message               all rows or none
                 a stage, one commit       more rows than a message holds
                 several stages            above `WHOLE_ROWS` or `WHOLE_BYTES`

Each batch and each stage has a number, so that a repeat is harmless.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa

from psoup_client.channel.connection import naming
from psoup_client.errors import (
    FailedPrecondition,
    InvalidData,
    NotFound,
    PSoupError,
    ResourceExhausted,
    RowsRefused,
    after_rows,
)
from psoup_client.ingest.push import PushResult, refused_of
from psoup_client.ingest.refused_rows import instants
from psoup_client.ingest.row_reasons import explained
from psoup_client.ingest.stage import ATTEMPTS, Stage
from psoup_client.payload import Payload, one_message
from psoup_client.phrases import counted
from psoup_client.session import Session
from psoup_proto.v1 import ingest_pb2

WHOLE_ROWS = 16_777_216
"""The greatest number of rows that a push takes as a whole or not at all."""

WHOLE_BYTES = 128 * 1024 * 1024
"""The greatest size, in bytes of Arrow, that a push takes as a whole or not at all."""

_FORGOTTEN_AFTER_S = 60.0
"""The shortest silence in seconds after which the service may forget a producer in favour of another."""

_NO_STAGE = ("STAGES_FULL", "TOO_MANY_STAGES")
_SMALLER = 'All rows of a push go as one stage; push fewer at once (16 MiB need no stage), or with refused="count"'

T = TypeVar("T")


class _TooLarge(Exception):
    """A message has more rows than the service takes in one."""


class DirectPusher:
    """The hidden producer of `Client.push`, one for each stream. It makes retries of a call harmless.

    Numbers have no gaps, so a lock orders the pushes of several threads. After any failure the producer takes a new
    epoch, because the service may have used the number or not.
    """

    def __init__(self, client: Session, stream: str) -> None:
        self._client = client
        self._connection = client.connection
        self._stream = stream
        self._producer = f"push-{uuid.uuid4().hex}"
        self._epoch = 0
        self._number = 0
        self._since = 0
        self._lock = client.connection.lock()
        self._renew()

    def push(self, payloads: Iterable[Payload], timeout: float | None) -> PushResult:
        """Send the batches in order. Raises PSoupError for the first refused batch."""
        result, rows, replies = PushResult(), 0, list[Any]()
        with self._lock:
            for payload in payloads:
                try:
                    replies.append(self._numbered(lambda payload=payload: self._send(payload, timeout)))  # type: ignore[misc]
                except PSoupError as problem:
                    raise after_rows(problem, rows) from None
                self._client.note_sequence(replies[-1].sequence)
                result = result.plus(replies[-1:], refused_of(payload, replies[-1], rows))
                rows += payload.rows
        return result.of(self._stream, replies)

    def push_whole(self, table: pa.Table, time_column: str, timeout: float | None) -> PushResult:
        """Send all rows of a table. Raises RowsRefused, with the reasons, if some are too late or too far ahead.

        Then no row was taken. Of a table beyond the limits, the parts before are taken.
        """
        result, replies = PushResult(), list[Any]()
        with self._lock:
            for part in _parts(table):
                taken = result.accepted
                try:
                    reply = self._numbered(lambda part=part: self._send_whole(part, time_column, timeout))  # type: ignore[misc]
                except RowsRefused as problem:
                    raise explained(problem, self._stream, instants(part[time_column]), taken) from None
                except PSoupError as problem:
                    raise after_rows(problem, taken) from None
                if reply.late or reply.ahead:
                    raise _counted(self._stream, reply, taken)
                self._client.note_sequence(reply.sequence)  # a later part may be refused
                replies.append(reply)
                result = result.plus([reply])
        return result.of(self._stream, replies)

    def _send_whole(self, table: pa.Table, time_column: str, timeout: float | None) -> Any:
        payload = one_message(table, time_column)
        if payload is not None:
            with suppress(_TooLarge):
                return self._in_one_message(payload, timeout)
        for attempt in range(ATTEMPTS):
            try:
                return self._send_stage(table, timeout)
            except NotFound as problem:
                if problem.reason != "UNKNOWN_STAGE" or attempt + 1 == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt raises its error")

    def _in_one_message(self, payload: Payload, timeout: float | None) -> Any:
        """Send all rows. Raises _TooLarge if the service takes fewer rows in a message."""
        try:
            return self._send(payload, timeout, ingest_pb2.REFUSED_RAISE)
        except InvalidData as problem:
            raise _TooLarge if problem.reason == "BATCH_TOO_LARGE" else problem from None

    def _send_stage(self, table: pa.Table, timeout: float | None) -> Any:
        """Send the table as a stage. If a lost reply had said that the stage was committed, it is not sent again."""
        numbers = self._producer, self._epoch, self._number, self._since
        stage = Stage.begin(self._client, self._stream, *numbers)
        try:
            stage.add_table(table, "rows", timeout)
            return stage.commit_parts((), ingest_pb2.REFUSED_RAISE, timeout)
        except RowsRefused:
            stage.abort()
            raise
        except BaseException as problem:
            stage.abandon()  # the caller has the error, and the service drops an idle stage
            if isinstance(problem, ResourceExhausted) and problem.reason in _NO_STAGE:
                problem.message += f". {_SMALLER}"
                problem.args = (problem.message,)
            raise

    def _numbered(self, send: Callable[[], T]) -> T:
        """Send a batch under the next number. Returns the reply."""
        begin = time.monotonic()
        try:
            reply = self._attempt(send)
        except FailedPrecondition as problem:
            # The service does not know this producer (any more): the stream was created anew, the service restarted, or
            # newer producers displaced it. It took nothing, so a second attempt in a new epoch cannot double rows. A
            # displaced producer had been silent for a minute, so no attempt of this call was taken.
            if problem.reason == "PRODUCER_FORGOTTEN" and time.monotonic() - begin > _FORGOTTEN_AFTER_S / 2:
                raise
            reply = self._in_new_epoch(send)
        self._number += 1
        return reply

    def _in_new_epoch(self, send: Callable[[], T]) -> T:
        """Send again. After a takeover the new epoch may begin after the service's last event, and then once more."""
        try:
            return self._attempt(send)
        except FailedPrecondition as problem:
            if problem.reason != "UNKNOWN_SEQUENCE":
                raise
        return self._attempt(send)

    def _attempt(self, send: Callable[[], T]) -> T:
        try:
            return send()
        except RowsRefused:  # the service has not used the number
            raise
        except BaseException as problem:
            if isinstance(problem, PSoupError) and problem.reason in ("PRODUCER_FORGOTTEN", "UNKNOWN_SEQUENCE"):
                self._client.known_sequence = int(problem.facts["sequence"])  # smaller after a new start of the count
            self._renew()
            raise

    def _send(
        self,
        payload: Payload,
        timeout: float | None,
        refused: ingest_pb2.Refused.ValueType = ingest_pb2.REFUSED_COUNT,
    ) -> Any:
        request = ingest_pb2.PushRequest(
            stream=self._stream,
            arrow_ipc=payload.data,
            producer=self._producer,
            epoch=self._epoch,
            number=self._number,
            since=self._since,
            refused=refused,
        )
        names = naming(len(payload.data), self._stream)
        return self._connection.call(self._connection.ingest.Push, request, timeout, names=names)

    def _renew(self) -> None:
        self._epoch = max(self._epoch + 1, time.time_ns() // 1_000)
        self._number = 0
        self._since = self._client.known_sequence


def _counted(stream: str, reply: Any, taken: int) -> RowsRefused:
    """Make the error for a service that does not know `refused`, and has taken the other rows."""
    return RowsRefused(
        f"{counted(reply.late + reply.ahead, 'row')} for stream {stream!r} refused, and {reply.accepted:,} taken: the"
        " service is of an older version, which takes what can be taken",
        taken=taken,
        facts={"late": str(reply.late), "ahead": str(reply.ahead), "stream": stream},
    )


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """Divide a table, in order, into parts that can be taken as a whole."""
    rows = table.num_rows
    step = min(WHOLE_ROWS, max(1, rows * WHOLE_BYTES // table.nbytes if table.nbytes > WHOLE_BYTES else rows))
    for start in range(0, rows, step):
        yield table.slice(start, step)
