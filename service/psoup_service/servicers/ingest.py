"""IngestService: batches in, acknowledgements out.

    PushStream   reader:  read ─ decode ─ submit ──> [ in the order sent, at most n waiting ] ──> replies
                          (the next batch is read while earlier ones are being logged)

A batch is decoded on the loop when it is small and plain, on a thread otherwise. With a producer the host may hold
several batches of a stream, as a refused one leaves a gap in the numbers; without, each waits for the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from psoup import events
from psoup.answer import Snapshot
from psoup.errors import InvalidBatch, InvalidInput, PSoupError
from psoup.events import HeartbeatAcknowledgement, PushAcknowledgement
from psoup.wording import counted, verb
from psoup_proto.v1 import ingest_pb2, ingest_pb2_grpc
from psoup_service import convert, ipc
from psoup_service.servicers.backend import PATIENCE_S, Backend, Context

_ON_LOOP_BYTES = 64 * 1024
"""Payloads up to this size are decoded where they are: some 50 us, less than a hop to a thread."""

_MOST_WIDTH = 9
"""Bytes that a value of fixed width takes in a column, its validity included."""


@dataclass(frozen=True, slots=True)
class _Sender:
    """What the batches of one PushStream have in common."""

    stream: str
    producer: str
    epoch: int


class IngestServicer(ingest_pb2_grpc.IngestServiceServicer):
    """See ingest.proto. `decoder` runs what is too long for the loop."""

    def __init__(self, backend: Backend, decoder: ThreadPoolExecutor) -> None:
        self._backend = backend
        self._decoder = decoder

    async def Push(self, request: ingest_pb2.PushRequest, context: Context) -> ingest_pb2.PushResponse:
        """One batch."""
        sender = _Sender(request.stream, request.producer, request.epoch)
        command = await self._command(sender, request.number, request.arrow_ipc, self._backend.tenant(context))
        done = await self._submit(command, len(request.arrow_ipc))
        return ingest_pb2.PushResponse(
            sequence=done.sequence,
            accepted=done.accepted,
            late=done.late,
            ahead=done.ahead,
            watermark=convert.timestamp(done.watermark),
            duplicate=done.duplicate,
        )

    async def PushStream(
        self, requests: AsyncIterator[ingest_pb2.PushStreamRequest], context: Context
    ) -> AsyncIterator[ingest_pb2.PushStreamResponse]:
        """Batches through a pipeline; see the module."""
        waiting: asyncio.Queue[tuple[int, asyncio.Future[PushAcknowledgement]] | None]
        waiting = asyncio.Queue(self._backend.limits.pipelined_batches)
        reader = asyncio.create_task(self._feed(requests, waiting, self._backend.tenant(context)))
        index = 0
        try:
            while (entry := await waiting.get()) is not None:
                number, future = entry
                try:
                    done = await future
                except PSoupError as error:
                    error.facts = {"number": str(number), "index": str(index), **error.facts}
                    raise
                yield ingest_pb2.PushStreamResponse(
                    number=number,
                    sequence=done.sequence,
                    accepted=done.accepted,
                    late=done.late,
                    ahead=done.ahead,
                    watermark=convert.timestamp(done.watermark),
                    duplicate=done.duplicate,
                )
                index += 1
            await reader
        finally:
            reader.cancel()
            while not waiting.empty():
                left = waiting.get_nowait()
                if left is not None:
                    left[1].cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def Heartbeat(self, request: ingest_pb2.HeartbeatRequest, context: Context) -> ingest_pb2.HeartbeatResponse:
        """A promise about time."""
        if not request.HasField("time"):
            raise InvalidInput("time is not set; say below which time no tuple will come", field="time")
        time = convert.microseconds("time", request.time)
        done = await self._backend.host.submit(
            events.Heartbeat(request.stream, time, self._backend.tenant(context)), patience=PATIENCE_S
        )
        assert isinstance(done, HeartbeatAcknowledgement)
        return ingest_pb2.HeartbeatResponse(sequence=done.sequence, watermark=convert.timestamp(done.watermark))

    async def _feed(
        self,
        requests: AsyncIterator[ingest_pb2.PushStreamRequest],
        waiting: asyncio.Queue[tuple[int, asyncio.Future[PushAcknowledgement]] | None],
        tenant: str,
    ) -> None:
        """Read, decode and submit batch after batch, until the client's side ends or a batch cannot be submitted."""
        sender: _Sender | None = None
        try:
            async for request in requests:
                future: asyncio.Future[PushAcknowledgement]
                try:
                    sender = _continued(sender, request)
                    command = await self._command(sender, request.number, request.arrow_ipc, tenant)
                except PSoupError as error:
                    future = asyncio.get_running_loop().create_future()
                    future.set_exception(error)
                    await waiting.put((request.number, future))
                    return
                future = asyncio.create_task(self._submit(command, len(request.arrow_ipc)))
                await waiting.put((request.number, future))
                if not sender.producer:
                    await asyncio.wait([future])
        finally:
            if not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                await waiting.put(None)

    async def _command(self, sender: _Sender, number: int, payload: bytes, tenant: str) -> events.Push:
        if len(payload) <= _ON_LOOP_BYTES:
            table, digest = self._decode(payload, sender.producer)
        else:
            loop = asyncio.get_running_loop()
            table, digest = await loop.run_in_executor(self._decoder, self._decode, payload, sender.producer)
        _check_width(
            self._backend.host.snapshot(), sender.stream, table, tenant, self._backend.limits.batch_decoded_bytes
        )
        return events.Push(sender.stream, table, sender.producer, sender.epoch, number, digest, tenant)

    def _decode(self, payload: bytes, producer: str) -> tuple[pa.Table | pa.RecordBatch, bytes]:
        return ipc.decode_push(payload, self._backend.limits), ipc.digest(payload) if producer else b""

    async def _submit(self, command: events.Push, size: int) -> PushAcknowledgement:
        done = await self._backend.host.submit(command, patience=PATIENCE_S)
        assert isinstance(done, PushAcknowledgement)
        self._backend.metrics.pushed(done, size)
        return done


def _continued(sender: _Sender | None, request: ingest_pb2.PushStreamRequest) -> _Sender:
    """The sender of this message: the first one says it, later ones leave it out or repeat it."""
    given = _Sender(request.stream, request.producer, request.epoch)
    if sender is None:
        return given
    given = replace(
        given,
        stream=given.stream or sender.stream,
        producer=given.producer or sender.producer,
        epoch=given.epoch or sender.epoch,
    )
    if given != sender:
        raise InvalidInput(
            f"number {request.number} says stream {given.stream!r}, producer {given.producer!r}, epoch {given.epoch},"
            f" but this call began with {sender.stream!r}, {sender.producer!r}, {sender.epoch}; open another for it",
            reason="SENDER_CHANGED",
        )
    return given


def _check_width(snapshot: Snapshot, stream: str, table: pa.Table | pa.RecordBatch, tenant: str, limit: int) -> None:
    """Refuse a batch of few bytes that would fill wide columns: bits, or NULLs for columns it does not have."""
    view = snapshot.streams.get((tenant, stream.lower()))
    if view is None:
        return
    columns = len(view.spec.schema.attributes)
    needed = table.num_rows * _MOST_WIDTH * columns
    if needed > limit:
        raise InvalidBatch(
            f"{counted(table.num_rows, 'row')} {verb(table.num_rows, 'takes', 'take')} {needed:,} bytes in the"
            f" {counted(columns, 'column')} of {stream!r}; {limit:,} is"
            " the most in one push, send it in parts",
            reason="BATCH_TOO_LARGE",
            found=needed,
            limit=limit,
        )
