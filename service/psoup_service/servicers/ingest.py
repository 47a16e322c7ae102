"""IngestService: batches in, acknowledgements out.

    PushStream   reader:  read ─ decode ─ submit ──> [ in the order sent, at most n messages waiting ] ──> replies
                          (the next message is read while earlier ones are being logged)

`payload_decoder` limits a batch's size and decides where it is decoded. With a producer, the host may hold several
batches of a stream: a refused batch leaves a gap in the numbers. Without a producer, each batch waits for the one
before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

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
from psoup_service.host.frames import let_go
from psoup_service.host.room import TakenRoom
from psoup_service.servicers.backend import PATIENCE_S, Backend
from psoup_service.servicers.invocation import most_bytes
from psoup_service.wire import convert, ipc
from psoup_service.wire.answers import one_batch
from psoup_service.wire.calls import Caller
from psoup_service.wire.payload_decoder import Decoded, Decoding

_BatchRequest = ingest_pb2.PushRequest | ingest_pb2.PushRowsRequest | ingest_pb2.PushStreamRequest

MOST_MORE = 64
"""The most further batches of a message."""

_TURN = 8
"""The batches of a message that are read before other calls go on: each may take some hundred microseconds."""

_MOST_ROWS = 1_048_576
"""The most rows of a push."""

_ROW_BYTES = 9
"""Bytes of a tuple ID and its validity in a reply."""

_ENVELOPE = 1_024
"""Bytes that are reserved for the parts of a reply other than the tuple IDs."""


@dataclass(frozen=True, slots=True)
class _Sender:
    """The fields that the batches of one PushStream have in common."""

    stream: str
    producer: str
    epoch: int
    since: int
    all_or_none: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a batch in its sender's order: the number, and source positions as in `commands.Push`."""

    number: int
    source: bytes
    after: bytes | None

    @staticmethod
    def of(request: _BatchRequest) -> _Place:
        """Read the place that a request names."""
        return _Place(request.number, request.position, request.after if request.HasField("after") else None)


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
        sender = _Sender(request.stream, request.producer, request.epoch, request.since, whole)
        payload = request.arrow_ipc  # each access to the field copies it
        command, place = await self._command(sender, _Place.of(request), payload, caller)
        return _reply(ingest_pb2.PushResponse, await self._submit(command, place, len(payload)))

    async def PushRows(self, request: ingest_pb2.PushRowsRequest, caller: Caller) -> ingest_pb2.PushRowsResponse:
        """Push a few rows in JSON: Push, but for the decoding of the rows."""
        whole = convert.all_or_none(request.refused, numbered=bool(request.producer))
        sender = _Sender(request.stream, request.producer, request.epoch, request.since, whole)
        raw, tenant = request.rows, self._backend.tenant(caller)
        spec = self._backend.host.snapshot().stream(sender.stream, tenant).spec
        decoded = await self._backend.decoding.json_batch(spec, raw, caller, digest=bool(sender.producer))
        command = self._metered(sender, _Place.of(request), decoded, tenant)
        try:
            reply = await self._submit(command, decoded.place, len(raw))
        except RowsRefused as problem:
            raise RowsRefused(f'{problem.message} ("refused": "REFUSED_COUNT")', **problem.facts) from None
        return _reply(ingest_pb2.PushRowsResponse, reply)

    async def push_request(self, request: RowsRequest, caller: Caller) -> ingest_pb2.PushRowsResponse:
        """Push the rows of a request that a protocol reads by itself. The stream takes them once for each key.

        Returns when reads show them.
        """
        tenant = self._backend.tenant(caller)
        spec = self._backend.host.snapshot().stream(request.stream, tenant).spec
        decoded = await request.decode(self._backend.decoding, spec, caller)
        sender = _Sender(request.stream, key_name(request.key), 0, 0, request.all_or_none)
        command = self._metered(sender, _Place(0, b"", None), decoded, tenant)
        acknowledgement = await self._submit(command, decoded.place, decoded.nbytes)
        await self._backend.visible(acknowledgement.sequence)
        return _reply(ingest_pb2.PushRowsResponse, acknowledgement)

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
        """Push batches through a pipeline; see the module."""
        waiting: _Waiting = asyncio.Queue(self._backend.limits.pipelined_batches)
        reader = asyncio.create_task(self._feed(requests, waiting, caller))
        index = 0
        entry: _Message | None = None
        try:
            while (entry := await waiting.get()) is not None:
                response, problem = await _outcome(entry, index)
                if response is not None:
                    yield response
                if problem is not None:
                    raise problem
                index += len(entry.outcomes)
            await reader
        finally:
            reader.cancel()
            _cancel(entry)
            while not waiting.empty():
                _cancel(waiting.get_nowait())
            await asyncio.gather(reader, return_exceptions=True)

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

    async def _feed(
        self,
        requests: AsyncIterator[ingest_pb2.PushStreamRequest],
        waiting: _Waiting,
        caller: Caller,
    ) -> None:
        """Read, decode and submit batch after batch, until the client's side ends or a batch cannot be submitted."""
        sender: _Sender | None = None
        try:
            async for request in requests:
                entry = _Message(request.number, [])
                try:
                    sender = _continued(sender, request)
                    for count, (batch, payload) in enumerate(_batches(sender, request), 1):
                        command, place = await self._command(sender, batch, payload, caller)
                        task = asyncio.create_task(self._submit(command, place, len(payload)))
                        task.add_done_callback(partial(_leave, place))
                        entry.outcomes.append(task)
                        if count % _TURN == 0:
                            await asyncio.sleep(0)
                except PSoupError as error:
                    entry.outcomes.append(_failed(error))
                    await waiting.put(entry)
                    return
                except BaseException:
                    _cancel(entry)
                    raise
                await waiting.put(entry)
                if not sender.producer:
                    await asyncio.wait(entry.outcomes)
        finally:
            if not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                await waiting.put(None)

    async def _command(
        self, sender: _Sender, batch: _Place, payload: ipc.Payload, caller: Caller
    ) -> tuple[commands.Push, TakenRoom]:
        """The command of a batch, and the room that was taken for it."""
        tenant = self._backend.tenant(caller)
        spec = self._backend.host.snapshot().stream(sender.stream, tenant).spec
        decoded = await self._backend.decoding.batch(spec, payload, caller, digest=bool(sender.producer))
        return self._metered(sender, batch, decoded, tenant), decoded.place

    def _metered(self, sender: _Sender, batch: _Place, decoded: Decoded, tenant: str) -> commands.Push:
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
        )

    async def _submit(self, command: commands.Push, place: TakenRoom, size: int) -> PushAcknowledgement:
        acknowledgement = await self._backend.host.submit(command, place=place)
        assert isinstance(acknowledgement, PushAcknowledgement)
        self._backend.metrics.pushed(acknowledgement, size)
        return acknowledgement


Reply = TypeVar("Reply", bound=ingest_pb2.PushResponse | ingest_pb2.PushRowsResponse | ingest_pb2.PushStreamResponse)


def _reply(kind: type[Reply], acknowledgement: PushAcknowledgement) -> Reply:
    """The message of an acknowledgement, of one of the calls that push."""
    return kind(
        sequence=acknowledgement.sequence,
        accepted=acknowledgement.accepted,
        late=acknowledgement.late,
        ahead=acknowledgement.ahead,
        watermark=convert.timestamp(acknowledgement.watermark),
        duplicate=acknowledgement.duplicate,
        first_row=acknowledgement.first_row,
        replaced=acknowledgement.replaced,
        late_by_key=acknowledgement.late_rows is not None,
        late_rows=acknowledgement.late_rows,
    )


@dataclass(frozen=True, slots=True)
class _Message:
    """A message of a PushStream: the number of its first batch, and the outcomes of its batches, in their order.

    They end with the first batch that could not be submitted.
    """

    number: int
    outcomes: list[asyncio.Future[PushAcknowledgement]]


_Waiting: TypeAlias = "asyncio.Queue[_Message | None]"
"""The messages of a PushStream that wait for their replies. None: there are no more."""


def _cancel(message: _Message | None) -> None:
    """Cancel the batches of a message, if they are not taken yet."""
    for outcome in [] if message is None else message.outcomes:
        outcome.cancel()


async def _outcome(message: _Message, index: int) -> tuple[ingest_pb2.PushStreamResponse | None, PSoupError | None]:
    """Wait for the outcomes of a message. Returns the reply to the batches before the first refused one, and its error.

    `index`: the number of batches of the call before this message.
    """
    response: ingest_pb2.PushStreamResponse | None = None
    for place, outcome in enumerate(message.outcomes):
        try:
            acknowledgement = await outcome
        except PSoupError as error:
            error.facts = {"number": str(message.number + place), "index": str(index + place), **error.facts}
            return response, error
        if response is None:
            response = _reply(ingest_pb2.PushStreamResponse, acknowledgement)
            response.number, response.takes_more = message.number, True
        else:
            response.more.append(_reply(ingest_pb2.PushResponse, acknowledgement))
    return response, None


def _batches(sender: _Sender, request: ingest_pb2.PushStreamRequest) -> Iterator[tuple[_Place, ipc.Payload]]:
    """The batches of a message of a PushStream. Raises InvalidInput for further batches that may not be there."""
    more = request.more
    if more and (not sender.producer or request.position or request.HasField("after")):
        raise InvalidInput(
            f"number {request.number} has further batches (more), which need a producer, and no source position; send"
            " each in a message",
            field="more",
        )
    if len(more) > MOST_MORE:
        raise InvalidInput(
            f"number {request.number} has {len(more):,} further batches; {MOST_MORE} are the most in a message",
            field="more",
        )
    yield _Place.of(request), request.arrow_ipc  # each access to the field copies it
    for place, payload in enumerate(more, 1):
        yield _Place(request.number + place, b"", None), payload


def _failed(error: PSoupError) -> asyncio.Future[PushAcknowledgement]:
    """The outcome of a batch that could not be submitted."""
    outcome: asyncio.Future[PushAcknowledgement] = asyncio.get_running_loop().create_future()
    let_go(error)
    outcome.set_exception(error)
    outcome.exception()  # so that asyncio does not report it if the call ends before
    return outcome


def _leave(place: TakenRoom, outcome: asyncio.Future[PushAcknowledgement]) -> None:
    """Give back the room of a batch. A task that was cancelled before it began has not submitted the batch."""
    place.release()
    if not outcome.cancelled():
        outcome.exception()  # so that asyncio does not report it: a batch after a refused one has no reply


def _continued(sender: _Sender | None, request: ingest_pb2.PushStreamRequest) -> _Sender:
    """The sender of a message of a PushStream. The first message names it; later ones repeat it or leave it out."""
    sent = _Sender(request.stream, request.producer, request.epoch, request.since)
    if sender is None:
        return sent
    sent = replace(
        sent,
        stream=sent.stream or sender.stream,
        producer=sent.producer or sender.producer,
        epoch=sent.epoch or sender.epoch,
        since=sent.since or sender.since,
    )
    if sent != sender:
        raise InvalidInput(
            f"number {request.number} says stream {sent.stream!r}, producer {sent.producer!r}, epoch {sent.epoch},"
            f" since {sent.since}, but this call began with {sender.stream!r}, {sender.producer!r}, {sender.epoch},"
            f" {sender.since}; open another for it",
            reason="SENDER_CHANGED",
        )
    return sent
