"""Rows out: the answer of a SELECT, or of a registered query, in the form that the client accepts.

    body ─> AskStream | InvokeStream ─> `Answering` (gate, limits, age) ─> pieces of Arrow ─> `row_writers` ─> client

The head of the response is sent with the first rows, which must come within the deadline of a call. An error before
them is a response with the status of an error. An error after them cuts the connection, so that the client sees that
the body is incomplete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from psoup.errors import InvalidInput
from psoup_proto.v1 import queries_pb2, statements_pb2, types_pb2
from psoup_service.web.bodies import is_long, parsed
from psoup_service.web.calls import NO_STORE, WebCaller, WebCalls, failed
from psoup_service.web.connections import connection_of
from psoup_service.web.methods import PACKAGE, WebMethod, method_of
from psoup_service.web.row_paths import CSV, JSON, RowsPath, answer_type, media_type
from psoup_service.web.row_writers import WRITERS, RowWriter, completeness_json
from psoup_service.wire.written import Written

COMPLETENESS = b"psoup-completeness"
"""The header with the completeness of the answer, as JSON."""
_TEXT = ("", "text/plain", "application/sql", "application/x-www-form-urlencoded")
"""The content types of a body that is a SELECT. The last one is curl's default."""
_LONGEST_HEADER = 4_096
_ON_LOOP_BYTES = 4_096
_ON_LOOP_ROWS = 64
"""The most bytes and rows of a piece that the event loop writes. Rows of BOOLEANs have few bytes."""
_BYTE_COST, _ROW_COST = 4, 64
"""The charge of a decoding thread, in bytes, for each byte of Arrow and for each row."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A request for rows: its method, the form of the answer, and the path."""

    method: WebMethod
    form: str
    path: RowsPath

    def request(self, raw: bytes, kind: str) -> Message:
        """Convert a body to the request of the method. `kind`: the media type of the body. Raises InvalidInput."""
        asks = self.path.kind == "ask"
        if asks and kind in _TEXT:
            try:
                return statements_pb2.AskStreamRequest(statement=raw.decode())
            except UnicodeDecodeError as problem:
                raise InvalidInput(f"the SELECT is not UTF-8 from byte {problem.start} on", reason="NOT_UTF8") from None
        if raw and kind != JSON:
            forms = f"{JSON}, or text/plain with a SELECT" if asks else JSON
            raise InvalidInput(
                f"Content-Type {kind[:100]!r} is not a form of this body; send {forms}", reason="CONTENT_TYPE"
            )
        if asks:
            return parsed(raw, statements_pb2.AskStreamRequest, {"sql": "statement"})
        request = parsed(raw, queries_pb2.InvokeStreamRequest)
        assert isinstance(request, queries_pb2.InvokeStreamRequest)
        if request.key or request.query_id:
            raise InvalidInput("the path names the query by its key; leave key and query_id out", field="key")
        request.key = self.path.name
        return request


class AnswerCaller(WebCaller):
    """The caller's side of a request for rows."""

    __slots__ = ("_completeness", "_head", "_kind", "_question", "_writer")

    def __init__(
        self, calls: WebCalls, question: _Question, scope: Scope, receive: Receive, send: Send, kind: str
    ) -> None:
        super().__init__(calls, question.method, scope, receive, send)
        self._question = question
        self._kind = kind
        self._writer: RowWriter = WRITERS[question.form]()
        self._completeness = types_pb2.Completeness()
        self._head = b""

    async def read(self) -> Message:
        """Read the body, and convert it to a request."""
        raw, size = await self.body_read(optional=self._question.path.kind != "ask")
        if not is_long(raw):
            return self._question.request(raw, self._kind)
        return await self._calls.decoders.run(self.peer(), size, lambda: self._question.request(raw, self._kind))

    async def write(self, reply: Message | Written) -> None:
        """Send the rows of one message. The bytes before the first row are kept until that row comes."""
        message: Any = self._method.reply.FromString(reply.raw) if isinstance(reply, Written) else reply
        if message.HasField("completeness"):
            self._completeness.CopyFrom(message.completeness)
        size, rows = len(message.arrow_ipc), message.rows
        if size <= _ON_LOOP_BYTES and rows <= _ON_LOOP_ROWS and self._question.form != CSV:
            raw = self._writer.rows(message.arrow_ipc)
        else:
            cost = max(_BYTE_COST * size, _ROW_COST * rows)
            raw = await self._calls.decoders.run(self.peer(), cost, lambda: self._writer.rows(message.arrow_ipc))
        if self.started or message.rows:
            await self.send(raw)
        else:
            self._head += raw

    async def send(self, raw: bytes) -> None:
        """Send bytes of the answer. The first call sends the head of the response before them."""
        if not self.started:
            self.started = True
            contents = completeness_json(self._completeness)
            form = f"{self._question.form}; charset=utf-8" if self._question.form == CSV else self._question.form
            headers = [(b"content-type", form.encode()), *((k.encode(), v.encode()) for k, v in NO_STORE.items())]
            if len(contents) <= _LONGEST_HEADER:
                headers.append((COMPLETENESS, contents))
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            raw = self._head + raw
        await self._send({"type": "http.response.body", "body": raw, "more_body": True})
        if self._connection.lost:
            raise asyncio.CancelledError

    async def end(self) -> None:
        """Send the end of the answer."""
        await self.send(self._writer.end(self._completeness))
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class RowAnswers:
    """Serves requests for rows. `serving`: the servicer of each service, by its full name."""

    def __init__(self, calls: WebCalls, serving: Mapping[str, Any]) -> None:
        self._calls = calls
        self._methods: Mapping[str, WebMethod] = {
            "ask": method_of(f"{PACKAGE}StatementService", "AskStream", serving[f"{PACKAGE}StatementService"]),
            "queries": method_of(f"{PACKAGE}QueryService", "InvokeStream", serving[f"{PACKAGE}QueryService"]),
        }

    async def __call__(self, path: RowsPath, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises InvalidInput for headers that no answer can satisfy."""
        headers, method = Headers(scope=scope), self._methods[path.kind]
        question, connection = _Question(method, answer_type(headers), path), connection_of(scope)
        caller = AnswerCaller(self._calls, question, scope, receive, send, media_type(headers))
        answering = self._calls.answering
        with connection.calling():
            deadline = answering.limits.default_deadline_s
            ended = await answering.many(method.asked, caller, method.behaviour, deadline)
            async with connection.replying(answering.limits.stream_idle_s):
                if ended.error is None:
                    await caller.end()
                elif caller.started:
                    connection.abort()
                else:
                    await failed(method, ended)(scope, receive, send)
