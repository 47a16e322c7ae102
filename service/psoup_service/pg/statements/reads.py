"""The calls that read for a session: Ask and Invoke for answers of one message, their streaming forms for larger ones.

Ask ──too large──> AskStream        Invoke ──too large──> InvokeStream
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from psoup.errors import FailedPrecondition
from psoup_proto.v1 import queries_pb2, statements_pb2
from psoup_service.pg.calls import Calls
from psoup_service.pg.contract import Column, Sink
from psoup_service.pg.statements.completeness import notice_of
from psoup_service.pg.statements.present_times import Now
from psoup_service.pg.statements.settings import SessionSettings
from psoup_service.pg.values import column_of
from psoup_service.pg.values.zones import Zone
from psoup_service.wire import convert
from psoup_service.wire.written import Written

Piece = statements_pb2.AskStreamResponse | queries_pb2.InvokeStreamResponse

_AT_ONCE = 4 << 20
"""The most bytes of an answer in one message."""


class Reads:
    """Reads answers, with the session's `psoup.as_of` and `psoup.window`.

    `clock`: returns the service's time in microseconds.
    """

    def __init__(self, calls: Calls, settings: SessionSettings, clock: Callable[[], int]) -> None:
        self._calls = calls
        self._settings = settings
        self._clock = clock

    @property
    def zone(self) -> Zone:
        """The session's zone, for times without one."""
        return self._settings.zone

    @property
    def framed(self) -> bool:
        """Whether psoup.as_of or psoup.window is set."""
        return bool(self._settings.window) or self._settings.as_of is not None

    @property
    def views_first(self) -> bool:
        """Whether a name without a schema is looked for in `queries` before `streams`."""
        schemas = (*self._settings.schemas, "streams", "queries")
        return schemas.index("queries") < schemas.index("streams")

    def now(self) -> int:
        """The time of `psoup.as_of`, else the present one, in microseconds. A transaction has one present time."""
        as_of = self._settings.as_of
        return self.present().transaction if as_of is None else as_of

    def present(self) -> Now:
        """The present time, whatever `psoup.as_of` says. A transaction has one present time."""
        clock, moment = self._clock(), self._calls.moment
        return Now(clock if moment is None else moment.now(lambda: clock), clock)

    async def call(self, name: str, request: Any) -> Any:
        """Make a call with one reply. Raises a PSoupError."""
        return await self._calls.one(name, request)

    async def ask(self, text: str, sink: Sink, shown: Sequence[Column] | None) -> None:
        """Send the answer of a SELECT. `shown`: the columns that the client knows already. Raises a PSoupError."""
        request = statements_pb2.AskRequest(statement=text, max_bytes=_AT_ONCE, window=self._settings.window)
        self._at_time(request)
        reply = await self.call("StatementService/Ask", request)
        if not reply.too_large:
            await self._whole(reply, sink, shown)
            return
        streamed = statements_pb2.AskStreamRequest(statement=text, window=self._settings.window)
        self._at_time(streamed)
        await self._pieces("StatementService/AskStream", statements_pb2.AskStreamResponse, streamed, sink, shown)

    async def invoke(self, key: str, sink: Sink, shown: Sequence[Column] | None) -> None:
        """Send the answer of the query with a key. Raises a PSoupError."""
        request = queries_pb2.InvokeRequest(key=key, max_bytes=_AT_ONCE, window=self._settings.window)
        self._at_time(request)
        reply = await self.call("QueryService/Invoke", request)
        if not reply.too_large:
            await self._whole(reply, sink, shown)
            return
        streamed = queries_pb2.InvokeStreamRequest(key=key, window=self._settings.window)
        self._at_time(streamed)
        await self._pieces("QueryService/InvokeStream", queries_pb2.InvokeStreamResponse, streamed, sink, shown)

    async def explain(self, key: str) -> queries_pb2.ExplainResponse:
        """The plan of the query with a key. Raises a PSoupError."""
        reply = await self.call("QueryService/Explain", queries_pb2.ExplainRequest(key=key))
        assert isinstance(reply, queries_pb2.ExplainResponse)
        return reply

    def _at_time(self, request: Any) -> None:
        """Set the time of a read, and the event that it must show."""
        as_of, request.min_sequence = self._settings.as_of, self._calls.written
        if as_of is not None:
            request.as_of.CopyFrom(convert.timestamp(as_of))

    async def _whole(self, reply: Any, sink: Sink, shown: Sequence[Column] | None) -> None:
        with pa.ipc.open_stream(reply.arrow_ipc) as reader:
            await sink.begin(_columns(reader.schema, shown))
            for batch in reader:
                await sink.batch(batch)
        self._tell(reply.completeness, sink)

    async def _pieces(
        self, name: str, kind: type[Piece], request: Any, sink: Sink, shown: Sequence[Column] | None
    ) -> None:
        pieces = _Pieces(kind, sink, shown)
        await self._calls.many(name, request, pieces.take)
        self._tell(pieces.completeness, sink)

    def _tell(self, completeness: Any, sink: Sink) -> None:
        if self._settings.notices:
            sink.notice(notice_of(completeness))


class _Pieces:
    """Hands the pieces of an answer to a sink. The first piece has the schema."""

    def __init__(self, kind: type[Piece], sink: Sink, shown: Sequence[Column] | None) -> None:
        self.completeness: Any = None
        self._kind = kind
        self._sink = sink
        self._shown = shown
        self._schema: pa.Schema | None = None

    async def take(self, reply: Any) -> None:
        """Take the next piece."""
        piece = self._kind.FromString(reply.raw) if type(reply) is Written else reply
        if piece.HasField("completeness"):
            self.completeness = piece.completeness
        if self._schema is None:
            self._schema = pa.ipc.read_schema(pa.py_buffer(piece.arrow_ipc))
            await self._sink.begin(_columns(self._schema, self._shown))
            return
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(piece.arrow_ipc)):
            await self._sink.batch(pa.ipc.read_record_batch(message, self._schema))


def _columns(schema: pa.Schema, shown: Sequence[Column] | None) -> tuple[Column, ...]:
    """The columns of an answer. Raises FailedPrecondition if their types are not those that the client knows."""
    columns = tuple(map(column_of, schema))
    if shown is None:
        return columns
    if [column.oid for column in columns] != [column.oid for column in shown]:
        raise FailedPrecondition("cached plan must not change result type", reason="RESULT_TYPE")
    return tuple(shown)
