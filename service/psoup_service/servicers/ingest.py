"""IngestService: batches in, acknowledgements out.

`payload_decoder` limits a batch's size and decides where it is decoded. `push_stream` has the calls with many batches.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Protocol

import pyarrow as pa

from psoup.admission.rows.idempotency_keys import key_name
from psoup.answer.tuples.pushed_ids import tuple_ids
from psoup.errors import InvalidInput, PSoupError, RowsRefused
from psoup.events import commands
from psoup.events.acknowledgements import HeartbeatAcknowledgement, ProducerAcknowledgement, PushAcknowledgement
from psoup.model import StreamSpec
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import ingest_pb2, ingest_pb2_grpc
from psoup_service.host.room import TakenRoom
from psoup_service.servicers.backend import PATIENCE_S, Backend
from psoup_service.servicers.invocation import most_bytes
from psoup_service.servicers.push_stream import Place, PushStreamCall, Sender, reply_to
from psoup_service.wire import convert, ipc
from psoup_service.wire.answers import one_batch
from psoup_service.wire.calls import Caller
from psoup_service.wire.payload_decoder import Decoded, Decoding

_MOST_ROWS = 1_048_576
"""The most rows of a push."""

_ROW_BYTES = 9
"""Bytes of a tuple ID and its validity in a reply."""

_ENVELOPE = 1_024
"""Bytes that are reserved for the parts of a reply other than the tuple IDs."""


class RowsRequest(Protocol):
    """Rows that a protocol carries in a form of its own. `key`: an idempotency key."""

    stream: str
    key: str

    @property
    def all_or_none(self) -> bool:
        """Whether no row is taken if one is too late, or too far ahead of the clock."""
        ...

    async def decode(self, decoding: Decoding, spec: StreamSpec, caller: Caller) -> Decoded:
        """Read the rows. `spec`: the stream. Raises a PSoupError."""
        ...


class IngestServicer(ingest_pb2_grpc.IngestServiceServicer):
    """See ingest.proto."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Push(self, request: ingest_pb2.PushRequest, caller: Caller) -> ingest_pb2.PushResponse:
        """Push one batch."""
        whole = convert.all_or_none(request.refused, numbered=bool(request.producer))
        sender = Sender(request.stream, request.producer, request.epoch, request.since, whole)
        payload = request.arrow_ipc  # each access to the field copies it
        command, place = await self._command(sender, Place.of(request), payload, caller)
        return reply_to(ingest_pb2.PushResponse, await self._submit(command, place, len(payload)))

    async def PushRows(self, request: ingest_pb2.PushRowsRequest, caller: Caller) -> ingest_pb2.PushRowsResponse:
        """Push a few rows in JSON: Push, but for the decoding of the rows."""
        whole = convert.all_or_none(request.refused, numbered=bool(request.producer))
        sender = Sender(request.stream, request.producer, request.epoch, request.since, whole)
        raw, tenant = request.rows, self._backend.tenant(caller)
        spec = self._backend.host.snapshot().stream(sender.stream, tenant).spec
        decoded = await self._backend.decoding.json_batch(spec, raw, caller, digest=bool(sender.producer))
        command = self._metered(sender, Place.of(request), decoded, tenant)
        try:
            reply = await self._submit(command, decoded.place, len(raw))
        except RowsRefused as problem:
            raise RowsRefused(f'{problem.message} ("refused": "REFUSED_COUNT")', **problem.facts) from None
        return reply_to(ingest_pb2.PushRowsResponse, reply)

    async def push_request(self, request: RowsRequest, caller: Caller) -> ingest_pb2.PushRowsResponse:
        """Push the rows of a request that a protocol reads by itself. The stream takes them once for each key.

        Returns when reads show them.
        """
        tenant = self._backend.tenant(caller)
        spec = self._backend.host.snapshot().stream(request.stream, tenant).spec
        decoded = await request.decode(self._backend.decoding, spec, caller)
        sender = Sender(request.stream, key_name(request.key), 0, 0, request.all_or_none)
        command = self._metered(sender, Place(0, b"", None), decoded, tenant)
        acknowledgement = await self._submit(command, decoded.place, decoded.nbytes)
        await self._backend.visible(acknowledgement.sequence)
        return reply_to(ingest_pb2.PushRowsResponse, acknowledgement)

    async def TupleIds(self, request: ingest_pb2.TupleIdsRequest, caller: Caller) -> ingest_pb2.TupleIdsResponse:
        """The tuple IDs of the first rows of a push, as many as fit into the reply."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        room = most_bytes(request.max_bytes, backend.limits) - _ENVELOPE
        rows = request.rows if request.rows <= 0 else min(request.rows, _MOST_ROWS)
        await backend.reflecting(max(request.min_sequence, request.sequence))

        def read(snapshot: Snapshot, budget: ReadBudget) -> ingest_pb2.TupleIdsResponse:
            budget.check()
            result = tuple_ids(snapshot, request.stream, request.sequence, request.first_row, rows, tenant=tenant)
            if result.follow:
                first = int(result.ids[0])
                return ingest_pb2.TupleIdsResponse(rows=rows, first_id=first, sequence=snapshot.sequence)
            ids = result.ids[: max(room // _ROW_BYTES, 1)]
            batch = pa.record_batch([pa.array(ids, pa.int64(), mask=result.waits[: len(ids)])], ["tuple_id"])
            payload = one_batch(batch)
            return ingest_pb2.TupleIdsResponse(rows=len(ids), arrow_ipc=payload, sequence=snapshot.sequence)

        return await backend.host.evaluate(read, tenant=tenant)

    async def GetProducer(
        self, request: ingest_pb2.GetProducerRequest, caller: Caller
    ) -> ingest_pb2.GetProducerResponse:
        """The last batch of a producer. The reply waits until earlier batches are on disk, as for any command."""
        if not request.producer:
            raise InvalidInput("producer is empty; name the one that is asked about", field="producer")
        command = commands.Locate(request.stream, request.producer, self._backend.tenant(caller))
        position = await self._backend.host.submit(command, patience=PATIENCE_S)
        assert isinstance(position, ProducerAcknowledgement)
        return ingest_pb2.GetProducerResponse(
            epoch=position.epoch,
            number=position.number,
            rows=position.rows,
            sequence=position.sequence,
            time=convert.timestamp(position.time),
            position=position.source,
        )

    async def PushStream(
        self, requests: AsyncIterator[ingest_pb2.PushStreamRequest], caller: Caller
    ) -> AsyncIterator[ingest_pb2.PushStreamResponse]:
        """Push batches through a pipeline; see `push_stream`."""
        call = PushStreamCall(self._backend, caller, self._metered)
        async with aclosing(call.replies(requests)) as replies:
            async for response in replies:
                yield response

    async def Heartbeat(self, request: ingest_pb2.HeartbeatRequest, caller: Caller) -> ingest_pb2.HeartbeatResponse:
        """Raise the watermark: the client promises that no tuple below this time will come."""
        if not request.HasField("time"):
            raise InvalidInput("time is not set; say below which time no tuple will come", field="time")
        time = convert.microseconds("time", request.time)
        acknowledgement = await self._backend.host.submit(
            commands.Heartbeat(request.stream, time, self._backend.tenant(caller)), patience=PATIENCE_S
        )
        assert isinstance(acknowledgement, HeartbeatAcknowledgement)
        return ingest_pb2.HeartbeatResponse(
            sequence=acknowledgement.sequence, watermark=convert.timestamp(acknowledgement.watermark)
        )

    async def _command(
        self, sender: Sender, batch: Place, payload: ipc.Payload, caller: Caller
    ) -> tuple[commands.Push, TakenRoom]:
        """The command of a batch, and the room that was taken for it."""
        tenant = self._backend.tenant(caller)
        spec = self._backend.host.snapshot().stream(sender.stream, tenant).spec
        decoded = await self._backend.decoding.batch(spec, payload, caller, digest=bool(sender.producer))
        return self._metered(sender, batch, decoded, tenant), decoded.place

    def _metered(self, sender: Sender, batch: Place, decoded: Decoded, tenant: str) -> commands.Push:
        """The command of decoded rows, which are charged to the tenant. Gives back their room if it may not push."""
        try:
            self._backend.meters.push(tenant, decoded.nbytes)
        except PSoupError:
            decoded.place.release()
            raise
        return commands.Push(
            sender.stream,
            decoded.table,
            sender.producer,
            sender.epoch,
            batch.number,
            decoded.digest,
            tenant,
            since=sender.since,
            all_or_none=sender.all_or_none,
            source=batch.source,
            after=batch.after,
            shared=decoded.shared,
            whole=bool(decoded.shared),
        )

    async def _submit(self, command: commands.Push, place: TakenRoom, size: int) -> PushAcknowledgement:
        acknowledgement = await self._backend.host.submit(command, place=place)
        assert isinstance(acknowledgement, PushAcknowledgement)
        self._backend.metrics.pushed((acknowledgement,), size)
        return acknowledgement
