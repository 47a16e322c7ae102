"""The thread that sends spans to a collector, by OTLP over gRPC.

    put ──> queue of at most QUEUE spans ──a second, or BATCH of them──> one request ──> collector
               │ full: the span is dropped and counted                     └ unreachable: again, after a growing pause

A collector that cannot be reached delays no call. The log has one line when it is lost, and one when it is back.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from psoup_service.tracing.spans import SpanRequests

QUEUE = 16_384
"""Spans that wait at most. A span has about 200 bytes."""
BATCH = 4_096
"""Spans of a request at most, about 600 kB. Fewer and larger requests cost less."""
DELAY_S = 1.0
"""Seconds for which the first span of a batch waits for further spans."""

_TIMEOUT_S = 10.0
_LAST_S = 2.0
"""Seconds for the last request, when the service stops."""
_END_S = 5.0
"""Seconds in which the thread must end, when the service stops."""
_SHOWN = 500
_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before each further attempt to send a batch."""
_AGAIN = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""Codes after which a request may be sent again, as OTLP says."""
_log = logging.getLogger(__name__)


class Collector(Protocol):
    """The connection to a collector."""

    @property
    def endpoint(self) -> str:
        """The address of the collector, as the operator wrote it."""
        ...

    def export(self, request: bytes, timeout: float) -> bytes:
        """Send a request and return the reply. Raises grpc.RpcError."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Exporter:
    """Sends spans. Any thread may put them. `sent`, `dropped`: the numbers of spans since the start."""

    def __init__(self, collector: Collector, requests: SpanRequests) -> None:
        self._collector = collector
        self._requests = requests
        self._queue: deque[bytes] = deque()
        self._come, self._many, self._stop = threading.Event(), threading.Event(), threading.Event()
        self._failing = False
        self.sent = self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="psoup-traces", daemon=True)
        self._thread.start()

    def put(self, span: bytes) -> None:
        """Queue a span; drop it if the queue is full. Never blocks. O(1)."""
        waiting = len(self._queue)
        if waiting >= QUEUE:
            self.dropped += 1
            return
        self._queue.append(span)  # before the events are read, which the thread clears before it reads the queue
        if not self._come.is_set():
            self._come.set()
        if waiting >= BATCH and not self._many.is_set():
            self._many.set()

    def close(self) -> None:
        """Send the spans that wait, unless the collector cannot be reached, and end the thread. Idempotent."""
        self._stop.set()
        self._come.set()
        self._many.set()
        self._thread.join(_END_S)
        self._collector.close()  # which cancels a request that hangs
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._come.wait()
            self._many.wait(DELAY_S)
            while self._queue and not self._stop.is_set():
                self._send(self._batch())
                if len(self._queue) < BATCH:
                    break
            self._many.clear()
            self._come.clear()
            if self._queue:  # put while the events were cleared
                self._come.set()
        while self._queue and not self._failing:
            self._try(self._batch(), _LAST_S)
        self.dropped += len(self._queue)

    def _batch(self) -> list[bytes]:
        return [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]

    def _send(self, spans: list[bytes]) -> None:
        """Send spans. Repeat it after each pause of `_PAUSES_S` while the collector cannot be reached."""
        for pause in (0.0, *_PAUSES_S):
            if pause and self._stop.wait(pause):
                break
            if self._try(spans, _TIMEOUT_S):
                return
        self.dropped += len(spans)

    def _try(self, spans: list[bytes], timeout: float) -> bool:
        """Send spans once. Returns False if it is worth trying again."""
        try:
            reply = self._collector.export(self._requests.request(spans), timeout)
        except grpc.RpcError as problem:
            self._tell(problem.code().name, problem.details() or "")
            if problem.code() in _AGAIN:
                return False
            self.dropped += len(spans)
            return True
        except ValueError as problem:  # the connection is closed, or a header is not valid
            self._tell("INVALID_REQUEST", str(problem))
            return False
        rejected = min(max(_rejected(reply), 0), len(spans))
        self.sent += len(spans) - rejected
        self.dropped += rejected
        if self._failing:
            self._failing = False
            _log.warning("the collector takes traces again", extra={"endpoint": self._collector.endpoint})
        return True

    def _tell(self, code: str, why: str) -> None:
        """Log a failure, if it is the first since the last success."""
        if not self._failing:
            self._failing = True
            facts = {"endpoint": self._collector.endpoint, "code": code, "why": why[:_SHOWN]}
            _log.warning("the collector does not take traces; calls go on without", extra=facts)


def _rejected(reply: bytes) -> int:
    """The number of spans that the collector rejects; 0 if its reply is not valid, as the request was taken."""
    try:
        return ExportTraceServiceResponse.FromString(reply).partial_success.rejected_spans
    except DecodeError:
        return 0
