"""A service in the test's own process, spoken to over a real socket: stubs, Arrow IPC, and what a refusal says.

async def script(wire: Wire) -> None: ...
run(script)                                     # a fresh service on a free port, stopped and checked at the end
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest
from google.rpc import error_details_pb2, status_pb2

from psoup.execution.rows.arrow_header import Flat
from psoup.work.clock import Clock
from psoup_proto.v1 import (
    attach_pb2_grpc,
    backup_pb2_grpc,
    ingest_pb2_grpc,
    queries_pb2_grpc,
    server_pb2_grpc,
    staging_pb2_grpc,
    statements_pb2_grpc,
    streams_pb2_grpc,
    webhooks_pb2_grpc,
)
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.process.settings import Settings
from psoup_service.service import Service, running_service
from psoup_service.wire.envelope import PREFIX
from psoup_storage import Store


@dataclass(frozen=True)
class Refusal:
    """The error of a failed call."""

    code: grpc.StatusCode
    message: str
    reason: str
    facts: dict[str, str]
    details: dict[str, Any]


class Wire:
    """A channel to a service and the stubs of its services."""

    def __init__(self, service: Service, channel: grpc.aio.Channel) -> None:
        self.service = service
        self.channel = channel
        self.streams = streams_pb2_grpc.StreamServiceStub(channel)
        self.ingest = ingest_pb2_grpc.IngestServiceStub(channel)
        self.staging = staging_pb2_grpc.StagingServiceStub(channel)
        self.queries = queries_pb2_grpc.QueryServiceStub(channel)
        self.statements = statements_pb2_grpc.StatementServiceStub(channel)
        self.server = server_pb2_grpc.ServerServiceStub(channel)
        self.attach = attach_pb2_grpc.AttachServiceStub(channel)
        self.backup = backup_pb2_grpc.BackupServiceStub(channel)
        self.webhooks = webhooks_pb2_grpc.WebhookServiceStub(channel)

    async def create(self, statement: str) -> streams.CreateStreamResponse:
        return await self.streams.CreateStream(streams.CreateStreamRequest(statement=statement), timeout=60)

    async def push(self, stream: str, table: pa.Table | bytes, **fields: Any) -> ingest.PushResponse:
        payload = table if isinstance(table, bytes) else ipc(table)
        return await self.ingest.Push(ingest.PushRequest(stream=stream, arrow_ipc=payload, **fields), timeout=60)

    async def register(self, statement: str, request_id: str = "") -> str:
        request = queries.RegisterRequest(statement=statement, request_id=request_id)
        return (await self.queries.Register(request)).query.query_id

    async def invoke(self, query_id: str, **fields: Any) -> pa.Table:
        done = await self.queries.Invoke(queries.InvokeRequest(query_id=query_id, **fields))
        assert not done.too_large
        table = pa.ipc.open_stream(done.arrow_ipc).read_all()
        assert table.num_rows == done.rows
        return table


def run(
    script: Callable[[Wire], Awaitable[None]],
    settings: Settings | None = None,
    clock: Clock | None = None,
    store: Store | None = None,
) -> None:
    """Run `script` against a fresh service; checks engine and admission at the end, and that no defect was logged."""
    defects = _Defects()

    async def main() -> None:
        async with (
            running_service(settings, clock=clock, store=store) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            await script(Wire(service, channel))
        service.host._engine.check()  # after the stop: the writer may still be inside apply
        service.host._admission.check()

    logging.getLogger().addHandler(defects)
    try:
        asyncio.run(main())
    finally:
        logging.getLogger().removeHandler(defects)
    assert not defects.found, defects.found


class _Defects(logging.Handler):
    """Collects what the service and gRPC log as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("psoup", "grpc")):
            self.found.append(record.getMessage())


def ipc(table: pa.Table, **options: Any) -> bytes:
    """An Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def sharing(table: pa.Table, rows: int) -> bytes:
    """A plain Arrow IPC stream of one batch, all of whose columns name the buffers of the first `rows`.

    The columns must be of the same types again and again, and without NULLs; the body holds the named buffers alone.
    """
    parts = list[bytes]()
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(ipc(table))):
        header, body = bytearray(message.metadata), message.body.to_pybytes()
        if message.type == "record batch":
            root = Flat.root(memoryview(header))
            batch, length = root.table(2), root.place(3)
            assert batch is not None and length is not None
            start, count = batch.vector(2) or (0, 0)
            places = np.frombuffer(header, np.int64, 2 * count, start).reshape(count, 2)
            part = rows * count // table.num_columns
            end = int(places[part, 0])
            places[:] = np.resize(places[:part], places.shape)
            header[length : length + 8] = end.to_bytes(8, "little")
            body = body[:end]
        parts += [PREFIX.pack(-1, len(header)), bytes(header), body]
    return b"".join(parts)


async def refused(call: Awaitable[Any], code: grpc.StatusCode) -> Refusal:
    """Await a call that must end with `code`; what it said."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    refusal = refusal_of(caught.value)
    assert refusal.code is code, refusal
    return refusal


def refusal_of(error: grpc.aio.AioRpcError | grpc.RpcError) -> Refusal:
    """Code, message, and the details in `google.rpc` form."""
    raw = next((value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"), b"")
    status = status_pb2.Status.FromString(raw)
    details: dict[str, Any] = {}
    for packed in status.details:
        message = getattr(error_details_pb2, packed.TypeName().rpartition(".")[2])()
        assert packed.Unpack(message)
        details[packed.TypeName().rpartition(".")[2]] = message
    info = details.get("ErrorInfo", error_details_pb2.ErrorInfo())
    if raw:
        assert status.message == error.details()
        assert status.code == error.code().value[0]
    return Refusal(error.code(), error.details() or "", info.reason, dict(info.metadata), details)
