"""Rows of INSERT and COPY, from the statement to the push.

    INSERT, COPY ─> items ──few bytes──────────────────────────────> Push         outside of a transaction: at once
                      └─ STAGE_BYTES ─> AddPart, AddPart, … ─> CommitStage        within one: at COMMIT
                      └─ ROLLBACK, an error ─> nothing is pushed

Each stream gets one batch: all its rows are taken, or none. Up to STAGE_BYTES stay in the session, charged to its
account. Further rows wait in a stage of the service.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from psoup.errors import FailedPrecondition, PSoupError, ResourceExhausted, RowsRefused
from psoup_proto.v1 import ingest_pb2, staging_pb2, streams_pb2
from psoup_service.pg.account import Account

STAGE_BYTES = 4 << 20
"""The bytes of rows above which they move into a stage."""
MOST_STREAMS = 64
"""The most streams into which a transaction may insert rows."""
_SHORT = 64 * 1024
"""The most bytes of rows that the event loop writes as Arrow IPC."""
_ITEM_BYTES = 512
"""The bytes that an item is charged in addition to its values."""


class Pushing(Protocol):
    """The calls of a connection: see `psoup_service.pg.calls`."""

    async def one(self, name: str, request: Any) -> Any:
        """Make a call with one reply. Raises a PSoupError."""
        ...

    async def seen(self, sequence: int) -> None:
        """Wait until all reads see an event of this connection. Raises a PSoupError."""
        ...


@dataclass(slots=True)
class _OfStream:
    """The rows for one stream. `staged`: the number of the first items, which are in the stage."""

    items: list[pa.RecordBatch | None] = field(default_factory=list)
    staged: int = 0
    parts: list[str] = field(default_factory=list)
    stage: str = ""
    bytes: int = 0


Mark = dict[str, int]
"""The number of items of each stream at a SAVEPOINT."""


class RowBuffer:
    """The rows that wait for a push. `account`: is charged for them."""

    def __init__(self, calls: Pushing, account: Account) -> None:
        self._calls = calls
        self._account = account
        self._streams = dict[str, _OfStream]()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._streams)

    def mark(self) -> Mark:
        """The present state, for `back_to`."""
        return {name: len(rows.items) for name, rows in self._streams.items()}

    async def add(self, stream: str, rows: pa.RecordBatch) -> None:
        """Take rows for a stream. Raises ResourceExhausted without room."""
        waiting = self._streams.get(stream)
        if waiting is None:
            if len(self._streams) >= MOST_STREAMS:
                raise ResourceExhausted(f"a transaction inserts into at most {MOST_STREAMS} streams; COMMIT before")
            waiting = self._streams[stream] = _OfStream()
        size = rows.nbytes + _ITEM_BYTES
        self._account.add(size)
        waiting.items.append(rows)
        waiting.bytes += size
        self._bytes += size
        if self._bytes > STAGE_BYTES:
            name = max(self._streams, key=lambda name: self._streams[name].bytes)
            await self._stage(name, self._streams[name])

    async def back_to(self, mark: Mark) -> None:
        """Forget the rows since a mark. Raises FailedPrecondition if some of them are in a stage."""
        for name, waiting in list(self._streams.items()):
            length = mark.get(name, 0)
            if length < waiting.staged:
                raise FailedPrecondition(
                    f"more than {STAGE_BYTES:,} bytes of rows were inserted since the savepoint; use ROLLBACK",
                    reason="SAVEPOINT_TOO_FAR",
                )
            gone = sum(item.nbytes + _ITEM_BYTES for item in waiting.items[length:] if item is not None)
            del waiting.items[length:]
            self._give_back(waiting, gone)
            if not waiting.items:
                del self._streams[name]

    async def push(self) -> None:
        """Push the rows, one batch for each stream, and wait until all reads see them.

        Raises a PSoupError. It names the streams whose rows were taken before the failure.
        """
        done, sequence = list[str](), 0
        try:
            for name, waiting in list(self._streams.items()):
                sequence = await self._push(name, waiting)
                done.append(name)
                self._give_back(waiting, waiting.bytes)
                del self._streams[name]
        except PSoupError as problem:
            if isinstance(problem, RowsRefused):
                problem.message = _in_statement(problem.message)
            if done:
                problem.message += f" (the rows for {', '.join(done)} were taken before)"
            raise
        finally:
            await self.forget()
        if sequence:
            await self._calls.seen(sequence)

    async def forget(self) -> None:
        """Forget all rows, and the stages. After a cancel all room is given back; stages that are left expire."""
        streams, self._streams = self._streams, {}
        for waiting in streams.values():
            self._give_back(waiting, waiting.bytes)
        for waiting in streams.values():
            if waiting.stage:
                stage, waiting.stage = waiting.stage, ""
                await self._calls.one("StagingService/AbortStage", staging_pb2.AbortStageRequest(stage=stage))

    async def _push(self, name: str, waiting: _OfStream) -> int:
        """Push the rows of a stream. Returns the sequence of their event."""
        if not waiting.stage:
            request = ingest_pb2.PushRequest(stream=name, arrow_ipc=await _written(waiting.items, waiting.bytes))
            pushed = await self._calls.one("IngestService/Push", request)
            return int(pushed.sequence)
        await self._stage(name, waiting)
        commit = staging_pb2.CommitStageRequest(
            stage=waiting.stage, parts=waiting.parts, refused=ingest_pb2.REFUSED_RAISE
        )
        reply = await self._calls.one("StagingService/CommitStage", commit)
        waiting.stage = ""
        return int(reply.outcome.sequence)

    async def _stage(self, name: str, waiting: _OfStream) -> None:
        """Move the items of a stream into its stage."""
        items = waiting.items[waiting.staged :]
        if not items:
            return
        if not waiting.stage:
            reply = await self._calls.one("StreamService/GetStream", streams_pb2.GetStreamRequest(name=name))
            begin = staging_pb2.BeginStageRequest(stream=name, producer=f"pg-{os.urandom(12).hex()}")
            begin.since = reply.sequence
            waiting.stage = (await self._calls.one("StagingService/BeginStage", begin)).stage
        payload = await _written(items, waiting.bytes)
        part = staging_pb2.AddPartRequest(stage=waiting.stage, part=str(len(waiting.parts)), arrow_ipc=payload)
        await self._calls.one("StagingService/AddPart", part)
        waiting.parts.append(part.part)
        waiting.items[waiting.staged :] = [None] * len(items)
        waiting.staged = len(waiting.items)
        self._give_back(waiting, waiting.bytes)

    def _give_back(self, waiting: _OfStream, size: int) -> None:
        waiting.bytes -= size
        self._bytes -= size
        self._account.give_back(size)


async def _written(items: list[pa.RecordBatch | None], size: int) -> bytes:
    """The rows of some items as Arrow IPC. A thread writes them if they are long. `size`: their bytes."""
    return _payload(items) if size <= _SHORT else await asyncio.to_thread(_payload, items)


def _in_statement(message: str) -> str:
    """The message about refused rows for a client of this port: rows count from 1, and all or none are taken."""
    message = re.sub(r"^row (\d+)", lambda match: f"row {int(match[1]) + 1}", message)
    return re.sub(r", or ask that [a-z ]+$", "", message)


def _payload(items: list[pa.RecordBatch | None]) -> bytes:
    """The rows as an Arrow IPC stream of one message. Columns that an item lacks are NULL."""
    tables = [pa.Table.from_batches([item]) for item in items if item is not None]
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(target.getvalue())
