"""The session of a client: the connection, the known events and the schemas that all its calls share.

    push ──> the service: sequence 41          describe(stream)   ──> as of event 41 at least
                └─ note_sequence(41)               └─ min_sequence 41

A client reads its own writes: each call waits for the last event that this client has made, or for the event `wait_for`
(0: no wait). Changes of other clients may be visible or not. With several addresses each call waits for the last event
that this client has seen: another service may be behind.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from psoup_client.arguments import checking_arguments
from psoup_client.channel.connection import Connection, Names
from psoup_client.columns.casts import ISO, TimeOptions
from psoup_client.columns.convert import as_it_is, plain_schema, to_table
from psoup_client.errors import InvalidData, OutOfRange
from psoup_client.inputs import Rows
from psoup_client.schema import StreamInfo
from psoup_proto.v1 import streams_pb2

PAGE = 1_000
"""The number of elements in one page of a list call, such as the list of streams."""

T = TypeVar("T")


@checking_arguments
class Session:
    """Base of the groups in `psoup_client.calls`, and what a `Query`, `Producer` or `Stage` needs of a client."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.last_sequence = 0
        self.known_sequence = 0
        self.timezone: str | None = None
        """The zone of times that are given without one; None: UTC."""
        self._schemas: dict[str, StreamInfo] = {}
        self._plain: dict[str, tuple[StreamInfo, pa.Schema | None]] = {}
        """The `plain_schema` of definitions in `_schemas`, each with its definition."""
        self._lock = threading.Lock()
        self.senders: weakref.WeakSet[Any] = weakref.WeakSet()
        """Producers that are perhaps open. They end before the channel is closed."""

    def describe(self, stream: str, *, wait_for: int | None = None, timeout: float | None = None) -> StreamInfo:
        """Return the definition and the present state of one stream. Raises NotFound, which names the most similar
        stream.

        The state reflects this client's own acknowledged pushes; `wait_for` is a further sequence to reflect.
        """
        request = streams_pb2.GetStreamRequest(name=stream)
        reply = self._read(self.connection.streams.GetStream, request, wait_for, timeout)
        info = StreamInfo.of(reply.stream)
        self.know_sequence(reply.sequence)
        self._schemas[stream.lower()] = info
        return info

    def convert(self, stream: str, data: Rows, times: TimeOptions = ISO) -> pa.Table:
        """Make an Arrow table of `data` that fits `stream`; raises InvalidData. The schema is asked for once."""
        times = times.within(self.timezone)
        schema, apart, is_long = self._schemas.get(stream.lower()), self.connection.apart, _is_long(data)
        if schema is not None:
            try:
                if (table := as_it_is(data, schema, self._plain_schema(stream.lower(), schema))) is not None:
                    return table
                return apart(is_long, to_table, data, schema, times)
            except InvalidData:  # the stream may have other columns by now: describe it again
                fresh = self.describe(stream, wait_for=0)
                if fresh.columns == schema.columns:
                    raise
                return apart(is_long, to_table, data, fresh, times)
        return apart(is_long, to_table, data, self.describe(stream, wait_for=0), times)

    def _plain_schema(self, key: str, info: StreamInfo) -> pa.Schema | None:
        entry = self._plain.get(key)
        if entry is None or entry[0] is not info:
            entry = self._plain[key] = info, plain_schema(info)
        return entry[1]

    def _time_column(self, stream: str) -> str:
        """Return the column with the times of a stream's rows if the schema is known, else ""."""
        schema = self._schemas.get(stream.lower())
        return "" if schema is None else schema.time_column

    def reflecting(self, wait_for: int | None, attempt: Callable[[int], T]) -> T:
        """Call `attempt` with the sequence that its answer must reflect: `wait_for`, or what was pushed from here.

        With several addresses it is at least what was seen from here.
        """
        seen = self.known_sequence if self.connection.routes.several else 0  # one service shows it again by itself
        if wait_for is not None and wait_for >= seen:
            return self._knowing(attempt(wait_for))
        try:
            return self._knowing(attempt(max(self.last_sequence, seen)))
        except OutOfRange as problem:
            if problem.reason != "UNKNOWN_SEQUENCE":
                raise
            self.last_sequence = self.known_sequence = 0  # the service restarted and counts events from the start
            return self._knowing(attempt(wait_for or 0))

    def _knowing(self, reply: T) -> T:
        """Remember the event that an answer reflects, and return the answer."""
        shown(self, getattr(getattr(reply, "completeness", reply), "sequence", 0))
        return reply

    def note_sequence(self, sequence: int) -> None:
        """Remember the sequence of an acknowledgement, so that this client's invocations reflect it."""
        with self._lock:
            self.last_sequence = max(self.last_sequence, sequence)
        self.know_sequence(sequence)

    def know_sequence(self, sequence: int) -> None:
        """Remember an event of any client that has happened: what is sent first from now on is new since then."""
        with self._lock:
            self.known_sequence = max(self.known_sequence, sequence)

    def _read(
        self,
        method: Callable[..., Any],
        request: Any,
        wait_for: int | None,
        timeout: float | None = None,
        names: Names = (),
    ) -> Any:
        """Make a reading call with the sequence that its reply must reflect. `names`: see `Connection.call`."""

        def attempt(sequence: int) -> Any:
            request.min_sequence = sequence
            return self.connection.call(method, request, timeout, names=names)

        return self.reflecting(wait_for, attempt)

    def _pages(
        self,
        method: Callable[..., Any],
        request: Any,
        field: str,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[Any]:
        """Yield the elements of `field` from all pages of a call that lists."""
        while True:
            reply = self._read(method, request, wait_for, timeout)
            yield from getattr(reply, field)
            if not reply.next_page_token:
                return
            request.page_token = reply.next_page_token


def shown(session: Session, sequence: int) -> None:
    """Remember the event that an answer reflects, if the next answer may come from a service that lacks it."""
    if session.connection.routes.several:
        session.know_sequence(sequence)


_LONG_ROWS = 500
"""Rows that may take more than a few milliseconds to convert."""


def _is_long(data: Any) -> bool:
    """Whether the conversion of pushed rows takes more than a few milliseconds. Rows without a length may."""
    columns = list(data.values()) if isinstance(data, Mapping) else [data]
    return any(not hasattr(rows, "__len__") or len(rows) > _LONG_ROWS for rows in columns)
