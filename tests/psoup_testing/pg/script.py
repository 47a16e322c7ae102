"""A session of PostgreSQL's protocol whose statements are orders to the test: for tests of the wire alone.

    rows 1000        that many rows of a column n, in batches of 1,000
    copy in          takes data until its end
    copy out 3       rows as the data of a COPY
    begin, commit    the status of a transaction
    listen           notifications 1 and 2, as soon as they may be sent
    echo             the arguments, as texts
    wait             runs until it is cancelled
    fail, defect     ends with an error, or with a defect

So a test decides on each message and on each pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from psoup.errors import InvalidInput
from psoup_service.pg import port
from psoup_service.pg.calls import Calls
from psoup_service.pg.connection import PgConnection
from psoup_service.pg.contract import TEXT, Argument, Column, Description, Sink, Statement
from psoup_service.pg.statement_texts import statements_of
from psoup_service.pg.values.zones import UTC
from psoup_service.process.settings import Settings
from psoup_testing.services.threaded_service import Serving

BATCH_ROWS = 1_000
INT8, TEXT_OID = 20, 25
ORDERS = frozenset({"rows", "copy", "begin", "commit", "listen", "echo", "wait", "fail", "defect", "insert"})


class Lines:
    """An encoder of a COPY: each row is its number and a line end."""

    def head(self) -> bytes:
        """No message."""
        return b""

    def rows(self, rows: pa.RecordBatch) -> bytes:
        """The messages of rows, one for each."""
        lines = [b"%d\n" % number for number in rows.column(0).to_pylist()]
        return b"".join(b"d" + (len(line) + 4).to_bytes(4, "big") + line for line in lines)

    def end(self) -> bytes:
        """No message."""
        return b""


class ScriptedStatement:
    """An order to the test."""

    def __init__(self, session: ScriptedSession, order: str, types: Sequence[int]) -> None:
        self._session = session
        self._order, _, self._more = order.strip().partition(" ")
        self._types = tuple(types)

    async def describe(self) -> Description:
        """The columns of an order."""
        columns = {"rows": (Column("n", INT8),), "echo": (Column("value", TEXT_OID),)}
        return Description(self._types, columns.get(self._order))

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Carry out the order."""
        if self._order not in ORDERS:
            raise InvalidInput(f"{self._order} is not an order")
        order: Callable[[Sequence[Argument], Sink], Coroutine[Any, Any, str]] = getattr(self, f"_{self._order}")
        return await order(arguments, sink)

    async def _rows(self, arguments: Sequence[Argument], sink: Sink) -> str:
        await sink.begin((Column("n", INT8),))
        await self._send(_number(self._more), sink)
        return f"SELECT {sink.rows}"

    async def _send(self, count: int, sink: Sink) -> None:
        try:
            for start in range(0, count, BATCH_ROWS):
                await sink.batch(_numbers(start, min(count, start + BATCH_ROWS)))
                ScriptedSession.reached = start
        except asyncio.CancelledError:
            self._session.ended.append("rows")
            raise

    async def _wait(self, arguments: Sequence[Argument], sink: Sink) -> str:
        self._session.ended.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            self._session.ended.append("wait")
        return ""

    async def _copy(self, arguments: Sequence[Argument], sink: Sink) -> str:
        if self._more == "in":
            count = 0
            while piece := await sink.copy_in(1, TEXT):
                count += piece.count(b"\n")
        else:
            count = _number(self._more.rpartition(" ")[2])
            await sink.copy_out((Column("n", INT8),), TEXT, Lines())
            await self._send(count, sink)
        return f"COPY {count}"

    async def _insert(self, arguments: Sequence[Argument], sink: Sink) -> str:
        return "INSERT 0 0"

    async def _fail(self, arguments: Sequence[Argument], sink: Sink) -> str:
        raise InvalidInput("the order fails")

    async def _defect(self, arguments: Sequence[Argument], sink: Sink) -> str:
        raise ZeroDivisionError

    async def _begin(self, arguments: Sequence[Argument], sink: Sink) -> str:
        self._session.status = b"T"
        return "BEGIN"

    async def _commit(self, arguments: Sequence[Argument], sink: Sink) -> str:
        self._session.status = b"I"
        return "COMMIT"

    async def _echo(self, arguments: Sequence[Argument], sink: Sink) -> str:
        await sink.begin((Column("value", TEXT_OID),))
        texts = [f"{argument.raw!r} {argument.format} {argument.oid}" for argument in arguments]
        await sink.batch(pa.record_batch({"value": pa.array(texts, pa.string())}))
        return f"SELECT {sink.rows}"

    async def _listen(self, arguments: Sequence[Argument], sink: Sink) -> str:
        for number in ("1", "2"):
            task = asyncio.create_task(self._session.client.notify("news", lambda number=number: number))
            self._session.tasks.add(task)
        return "LISTEN"


class ScriptedSession:
    """See `contract.Session`. `ended`: steps of orders that last, in all sessions. `reached`: the last row sent by one.
    `open`: the sessions that are open.
    """

    zone = UTC
    listening = False
    ended: ClassVar[list[str]] = []
    reached: ClassVar[int] = 0
    open: ClassVar[int] = 0

    def __init__(self, calls: Calls, parameters: dict[str, str], client: PgConnection, *_: object) -> None:
        self.status = b"I"
        self.client = client
        self.parameters = parameters
        self.tasks = set[asyncio.Task[None]]()
        ScriptedSession.open += 1

    def reported(self) -> Mapping[str, str]:
        """Settings without which clients would send SET."""
        return {"server_version": "15.0", "client_encoding": "UTF8", "DateStyle": "ISO, MDY"}

    def cursor(self, name: str) -> Sequence[Column] | None:
        """No session of orders has cursors."""
        return None

    def split(self, text: str) -> list[str]:
        """The orders of a text."""
        return statements_of(text.replace("/* */", ""))

    async def read(self, text: str, types: Sequence[int] = ()) -> Statement | None:
        """Read an order."""
        return ScriptedStatement(self, text, types) if text.strip() else None

    def failed(self) -> None:
        """Note that an order has failed."""
        if self.status == b"T":
            self.status = b"E"

    async def close(self) -> None:
        """End the session."""
        for task in self.tasks:
            task.cancel()
        ScriptedSession.open -= 1


def _number(text: str) -> int:
    if not text.isdecimal():
        raise InvalidInput(f"{text} is not a number")
    return int(text)


def _numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


@contextmanager
def scripted(settings: Settings) -> Iterator[Serving]:
    """A service whose port for clients of PostgreSQL carries out orders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(port, "PgSession", ScriptedSession)
        served = Serving(settings)
        try:
            yield served
        finally:
            served.stop()


def pg_address(served: Serving) -> str:
    """The address of the port for clients of PostgreSQL."""
    assert served.service.pg is not None, "the settings open the port"
    return served.service.pg.address
