"""The session of a connection: it reads statements and runs them by calls of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import tokenize

from psoup_proto.v1 import statements_pb2
from psoup_service.pg.calls import Calls
from psoup_service.pg.contract import Argument, Description, Notice, Sink, Statement
from psoup_service.pg.values import column_of
from psoup_service.pg.values.zones import UTC

_SETTINGS = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
}


class PgSession:
    """See `contract.Session`."""

    zone = UTC

    def __init__(self, calls: Calls, options: dict[str, str]) -> None:
        self.status = b"I"
        self._calls = calls
        self._options = options

    def reported(self) -> Mapping[str, str]:
        """The settings that the client should know."""
        return _SETTINGS

    def split(self, text: str) -> list[str]:
        """The statements of a text, without the semicolons between them."""
        starts, parts = 0, list[str]()
        for token in tokenize(text, read="postgres"):
            if token.token_type.name == "SEMICOLON":
                parts.append(text[starts : token.start])
                starts = token.end + 1
        return [part for part in (*parts, text[starts:]) if part.strip()]

    async def read(self, text: str, types: Sequence[int] = ()) -> Statement | None:
        """Read one statement."""
        return Select(self._calls, text) if text.strip() else None

    def failed(self) -> None:
        """Note that a statement has failed."""
        if self.status == b"T":
            self.status = b"E"

    async def close(self) -> None:
        """End what the session holds."""


class Select:
    """A SELECT over streams, by the calls Check and Ask."""

    def __init__(self, calls: Calls, text: str) -> None:
        self._calls = calls
        self._text = text

    async def describe(self) -> Description:
        """The types of its parameters and columns."""
        reply = await self._calls.one("StatementService/Ask", statements_pb2.AskRequest(statement=self._text))
        with pa.ipc.open_stream(reply.arrow_ipc) as reader:
            return Description((), tuple(map(column_of, reader.schema)))

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Ask, and hand over the rows."""
        request = statements_pb2.AskRequest(statement=self._text)
        reply = await self._calls.one("StatementService/Ask", request)
        with pa.ipc.open_stream(reply.arrow_ipc) as reader:
            await sink.begin(tuple(map(column_of, reader.schema)))
            for batch in reader:
                await sink.batch(batch)
        _tell(reply.completeness, sink)
        return f"SELECT {sink.rows}"


def _tell(completeness: Any, sink: Sink) -> None:
    sink.notice(Notice("NOTICE", "00000", f"complete up to sequence {completeness.sequence}"))
