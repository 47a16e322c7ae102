"""What a client looks at beside answers: streams, matches of tuples, costs, memory. Part of `Client`.

    push ──> the service: sequence 41          describe(stream)   ──> as of event 41 at least
                └─ note_sequence(41)               └─ min_sequence 41

A client sees what it did itself: each call waits for the last event that this client was told of, or for the one that
it names with `wait_for` (0: it does not wait). What other clients did may be in or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from psoup_client.connection import Connection
from psoup_client.costs import ORDERS, MemoryBill, QueryCost
from psoup_client.errors import OutOfRange
from psoup_client.schema import StreamInfo
from psoup_client.text import refusing_surrogates
from psoup_proto.v1 import queries_pb2, server_pb2, streams_pb2

PAGE = 1_000
T = TypeVar("T")


@refusing_surrogates
class ReadCalls:
    """The reads of a client; see the module."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.last_sequence = 0
        self.known_sequence = 0
        self._schemas: dict[str, StreamInfo] = {}
        self._lock = threading.Lock()

    def streams(self, *, wait_for: int | None = None) -> list[StreamInfo]:
        """All streams in the order of their names, with what this client did (or as of `wait_for`)."""
        request = streams_pb2.ListStreamsRequest(page_size=PAGE)
        found = self._pages(self.connection.streams.ListStreams, request, "streams", wait_for)
        return [StreamInfo.of(message) for message in found]

    def describe(self, stream: str, *, wait_for: int | None = None, timeout: float | None = None) -> StreamInfo:
        """One stream and its present state; raises NotFound, which names the nearest.

        What this client itself pushed and was told is counted; `wait_for` is another sequence to reflect.
        """
        request = streams_pb2.GetStreamRequest(name=stream)
        reply = self._read(self.connection.streams.GetStream, request, wait_for, timeout)
        info = StreamInfo.of(reply.stream)
        self.know_sequence(reply.sequence)
        self._schemas[stream.lower()] = info
        return info

    def matches(
        self, stream: str, tuple_id: int, *, wait_for: int | None = None, timeout: float | None = None
    ) -> list[str]:
        """The IDs of the queries whose WHERE the tuple satisfies (windows apart), oldest first.

        What this client itself pushed is there; `wait_for` is another sequence to reflect. Raises OutOfRange for a
        tuple that is not there, or waits for the watermark.
        """
        request = queries_pb2.MatchesRequest(stream=stream, tuple_id=tuple_id, page_size=PAGE)
        return list(self._pages(self.connection.queries.Matches, request, "query_ids", wait_for, timeout))

    def matches_many(
        self,
        stream: str,
        tuple_ids: Sequence[int],
        *,
        limit: int = 1_000,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> list[list[str]]:
        """`matches` of many tuples, looked at together; of each the oldest `limit` queries, which is at most 10,000."""
        found: list[list[str]] = []
        for start in range(0, len(tuple_ids), PAGE):
            end = min(start + PAGE, len(tuple_ids))
            while len(found) < end:  # a reply may be of the first ones only
                part = tuple_ids[len(found) : end]
                request = queries_pb2.MatchesManyRequest(stream=stream, tuple_ids=part, limit=limit)
                reply = self._read(self.connection.queries.MatchesMany, request, wait_for, timeout)
                found += [list(one.query_ids) for one in reply.tuples]
        return found

    def top_queries(
        self, by: str = "cpu", *, stream: str | None = None, limit: int = 20, wait_for: int | None = None
    ) -> list[QueryCost]:
        """The queries that cost most, at most `limit` (1,000 at most), by "cpu", "candidates", "matched" or "bytes"."""
        if by not in ORDERS:
            raise ValueError(f"queries cannot be ordered by {by!r}; take one of {', '.join(ORDERS)}")
        request = queries_pb2.TopQueriesRequest(order=ORDERS[by], limit=limit, stream=stream or "")
        return [QueryCost.of(one) for one in self._read(self.connection.queries.TopQueries, request, wait_for).costs]

    def memory(self, *, wait_for: int | None = None) -> MemoryBill:
        """What every structure of the service takes, counted now: some milliseconds of work, and more for much data."""
        request = server_pb2.GetServerInfoRequest(with_bill=True)
        return MemoryBill.of(self._read(self.connection.server.GetServerInfo, request, wait_for))

    def reflecting(self, wait_for: int | None, attempt: Callable[[int], T]) -> T:
        """Call `attempt` with the sequence that its answer must reflect: `wait_for`, or what was pushed from here."""
        if wait_for is not None:
            return attempt(wait_for)
        try:
            return attempt(self.last_sequence)
        except OutOfRange as problem:
            if problem.reason != "UNKNOWN_SEQUENCE":
                raise
            self.last_sequence = self.known_sequence = 0  # the service has restarted since, and counts anew
            return attempt(0)

    def note_sequence(self, sequence: int) -> None:
        """Remember what this client was told, so that its invocations reflect it."""
        with self._lock:
            self.last_sequence = max(self.last_sequence, sequence)
        self.know_sequence(sequence)

    def know_sequence(self, sequence: int) -> None:
        """Remember an event that has happened, whoever did it: what is sent first from now on is new since then."""
        with self._lock:
            self.known_sequence = max(self.known_sequence, sequence)

    def _read(
        self, method: Callable[..., Any], request: Any, wait_for: int | None, timeout: float | None = None
    ) -> Any:
        def attempt(sequence: int) -> Any:
            request.min_sequence = sequence
            return self.connection.call(method, request, timeout)

        return self.reflecting(wait_for, attempt)

    def _pages(
        self,
        method: Callable[..., Any],
        request: Any,
        field: str,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[Any]:
        while True:
            reply = self._read(method, request, wait_for, timeout)
            yield from getattr(reply, field)
            if not reply.next_page_token:
                return
            request.page_token = reply.next_page_token
