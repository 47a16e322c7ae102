"""Rows in: a POST of rows in NDJSON, CSV or Arrow is a call of PushRows. Its rows are taken once for each key.

guard ─> headers ─> `Answering` (gate, limits, deadline) ─> body in pieces ─> one push ─> JSON
                                                                 └─ bad rows: 422, each with its line
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson
from google.protobuf import json_format
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from psoup.errors import InvalidBatch, PSoupError, RowsRefused
from psoup_service.servicers.ingest import IngestServicer
from psoup_service.web import refusals
from psoup_service.web.calls import NO_STORE, WebCaller, WebCalls, refused, reply_of
from psoup_service.web.connections import connection_of
from psoup_service.web.methods import WebMethod
from psoup_service.web.row_bodies import PIECE_BYTES, RowsBody
from psoup_service.wire.request_bodies import SLOWEST, SMALL_BYTES
from psoup_service.wire.text_rows.faults import BadRows

if TYPE_CHECKING:
    from psoup_service.wire.text_rows.reader import RowReader

PUSH = "psoup.v1.IngestService/PushRows"
UNPROCESSABLE = 422
_ROW = re.compile(r"^row (\d+)\b")


class RowsCaller(WebCaller):
    """The caller's side of a request with rows. The body is read by the call itself, in pieces."""

    __slots__ = ("_rows",)

    def __init__(
        self, calls: WebCalls, method: WebMethod, scope: Scope, receive: Receive, send: Send, body: RowsBody
    ) -> None:
        super().__init__(calls, method, scope, receive, send)
        self._rows = body

    async def read(self) -> Any:
        """Take room for three pieces of the body: one is converted, one waits, and one is received."""
        size = self._rows.size if self._rows.is_arrow else min(self._rows.size, 3 * PIECE_BYTES)
        if size > SMALL_BYTES:
            answering = self._calls.answering
            await answering.receiving.take(self.principal.tenant, size, answering.limits.receive_s)
            self._held = size
        return self._rows


class RowRequests:
    """Serves requests with rows."""

    def __init__(self, calls: WebCalls, servicer: IngestServicer) -> None:
        self._calls = calls
        self._servicer = servicer

    async def __call__(self, stream: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises InvalidInput, and ResourceExhausted for a body that is too long."""
        limits = self._calls.answering.limits
        body = RowsBody.of(stream, Headers(scope=scope), scope["query_string"], limits.receive_s, receive)
        method = self._calls.method(PUSH)
        assert method is not None, "the list of methods has it"
        caller = RowsCaller(self._calls, method, scope, receive, send, body)
        connection = connection_of(scope)
        seconds = limits.default_deadline_s + body.size / SLOWEST
        with connection.calling():
            ended = await self._calls.answering.one(method.asked, caller, self._push, seconds)
            if isinstance(ended.error, PSoupError):
                response = _refused(ended.error, body.reader)
            else:
                response = reply_of(method, ended)
            async with connection.replying(limits.stream_idle_s):
                await response(scope, receive, send)

    async def _push(self, body: RowsBody, caller: RowsCaller) -> bytes:
        reply = await self._servicer.push_request(body, caller)
        facts = json_format.MessageToDict(reply, always_print_fields_with_no_presence=True)
        del facts["firstRow"], facts["lateByKey"]
        if body.reader is not None:
            del facts["lateRows"]
            facts["lateLines"] = [body.reader.line_of(row) for row in reply.late_rows]
        return orjson.dumps(facts)


def _refused(error: PSoupError, reader: RowReader | None) -> Response:
    """The response to an error. It lists bad rows and late rows by their lines."""
    if isinstance(error, BadRows):
        rows = [
            {"line": row.line, **({"column": row.column} if row.column else {}), "message": row.message}
            for row in error.rows
        ]
        return _unprocessable(error, {"rows": rows, "more": error.more})
    if reader is not None and isinstance(error, InvalidBatch | RowsRefused) and error.reason != "BATCH_TOO_LARGE":
        error.message = _ROW.sub(lambda match: f"line {reader.line_of(int(match[1]))}", error.message)
        if isinstance(error, RowsRefused):
            error.message += " (?refused=count)"
        facts = {f"{kind}Lines": _lines(error, f"{kind}_rows", reader) for kind in ("late", "ahead")}
        return _unprocessable(error, {name: lines for name, lines in facts.items() if lines})
    return refused(error)


def _lines(error: PSoupError, fact: str, reader: RowReader) -> list[int]:
    rows = re.findall(r"\d+", str(error.facts.get(fact, "")))
    return [reader.line_of(int(row)) for row in rows]


def _unprocessable(error: PSoupError, facts: dict[str, Any]) -> Response:
    body = refusals.encoded({**refusals.described(error), **facts})
    return Response(body, UNPROCESSABLE, NO_STORE, media_type="application/json")
