"""One push at a time, each taken exactly once, and what became of it."""

from __future__ import annotations

import datetime as dt
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from psoup_client.connection import naming
from psoup_client.errors import FailedPrecondition, PSoupError, after_rows
from psoup_client.payload import Payload
from psoup_client.session import Session
from psoup_client.times import from_proto
from psoup_proto.v1 import ingest_pb2

_FORGOTTEN_AFTER_S = 60.0
"""How long a producer has been silent at least when the service forgets it for another."""


@dataclass(frozen=True, slots=True)
class PushResult:
    """The outcome of a push: how many rows were taken, how many refused as too late or too far ahead.

    `sequence` is the last event's place in the service's order (0 if nothing was sent), `watermark` the stream's
    then. `duplicates` counts batches that had been taken before and were not taken again.
    """

    sequence: int = 0
    accepted: int = 0
    late: int = 0
    ahead: int = 0
    watermark: dt.datetime | None = None
    batches: int = 0
    duplicates: int = 0

    def plus(self, reply: Any) -> PushResult:
        """Add one more reply (PushResponse or PushStreamResponse)."""
        return replace(
            self,
            sequence=max(self.sequence, reply.sequence),
            accepted=self.accepted + reply.accepted,
            late=self.late + reply.late,
            ahead=self.ahead + reply.ahead,
            watermark=from_proto(reply.watermark) if reply.HasField("watermark") else self.watermark,
            batches=self.batches + 1,
            duplicates=self.duplicates + int(reply.duplicate),
        )

    def joined(self, later: PushResult) -> PushResult:
        """Add the outcome of `later` rows."""
        return PushResult(
            max(self.sequence, later.sequence),
            self.accepted + later.accepted,
            self.late + later.late,
            self.ahead + later.ahead,
            later.watermark or self.watermark,
            self.batches + later.batches,
            self.duplicates + later.duplicates,
        )


class DirectPusher:
    """The producer behind `Client.push`, one for each stream: it makes retries of a call harmless.

    Numbers have no gaps, so pushes of several threads go one after the other. After a call whose outcome is unknown
    (or any other failure) it takes a new epoch: the number may be used up or not.
    """

    def __init__(self, client: Session, stream: str) -> None:
        self._client = client
        self._connection = client.connection
        self._stream = stream
        self._producer = f"push-{uuid.uuid4().hex}"
        self._epoch = 0
        self._number = 0
        self._since = 0
        self._lock = threading.Lock()
        self._renew()

    def push(self, payloads: Iterable[Payload], timeout: float | None) -> PushResult:
        """Send the batches in order; raises PSoupError at the first that is not taken."""
        result, rows = PushResult(), 0
        with self._lock:
            for payload in payloads:
                try:
                    result = result.plus(self._send(payload, timeout))
                except PSoupError as problem:
                    raise after_rows(problem, rows) from None
                rows += payload.rows
        return result

    def _send(self, payload: Payload, timeout: float | None) -> Any:
        begin = time.monotonic()
        try:
            reply = self._call(payload, timeout)
        except FailedPrecondition as problem:
            # The service does not know this producer (any more): the stream was made anew, the service restarted, or
            # others took its place. It took nothing, so a second attempt, in the new epoch that the failure began,
            # cannot double anything. Who was forgotten had been silent for a minute: no attempt of this call was taken.
            if problem.reason == "PRODUCER_FORGOTTEN" and time.monotonic() - begin > _FORGOTTEN_AFTER_S / 2:
                raise
            reply = self._call(payload, timeout)
        self._number += 1
        return reply

    def _call(self, payload: Payload, timeout: float | None) -> Any:
        request = ingest_pb2.PushRequest(
            stream=self._stream,
            arrow_ipc=payload.data,
            producer=self._producer,
            epoch=self._epoch,
            number=self._number,
            since=self._since,
        )
        try:
            names = naming(len(payload.data), self._stream)
            return self._connection.call(self._connection.ingest.Push, request, timeout, names=names)
        except BaseException as problem:
            if isinstance(problem, PSoupError) and problem.reason in ("PRODUCER_FORGOTTEN", "UNKNOWN_SEQUENCE"):
                self._client.known_sequence = int(problem.facts["sequence"])  # less, if the service counts anew
            self._renew()
            raise

    def _renew(self) -> None:
        self._epoch = max(self._epoch + 1, time.time_ns() // 1_000)
        self._number = 0
        self._since = self._client.known_sequence
