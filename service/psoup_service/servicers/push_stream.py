"""PushStream: batch after batch in one call, without waiting for the replies.

    reader:  read ─ decode ─ submit ──> [ in the order sent, at most n messages waiting ] ──> replies
             (the next message is read while earlier ones are being logged)

    message 7 8 9 10 ──> one push that 7 to 10 share ──> one event ──> one reply with the outcome of each

With a producer, the host may hold several batches of a stream: a refused batch leaves a gap in the numbers. Without a
producer, each batch waits for the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, TypeVar

from psoup.errors import InvalidInput, PSoupError
from psoup.events import commands
from psoup.events.acknowledgements import PushAcknowledgement, SharedAcknowledgement
from psoup_proto.v1 import ingest_pb2
from psoup_service.host.frames import let_go
from psoup_service.host.room import TakenRoom
from psoup_service.servicers.backend import Backend
from psoup_service.wire import convert, ipc
from psoup_service.wire.calls import Caller
from psoup_service.wire.payload_decoder import Decoded

_BatchRequest = ingest_pb2.PushRequest | ingest_pb2.PushRowsRequest | ingest_pb2.PushStreamRequest

MOST_MORE = 64
"""The most further batches of a message."""


@dataclass(frozen=True, slots=True)
class Sender:
    """The fields that the batches of one PushStream have in common."""

    stream: str
    producer: str
    epoch: int
    since: int
    all_or_none: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a batch in its sender's order: the number, and source positions as in `commands.Push`."""

    number: int
    source: bytes
    after: bytes | None

    @staticmethod
    def of(request: _BatchRequest) -> Place:
        """Read the place that a request names."""
        return Place(request.number, request.position, request.after if request.HasField("after") else None)


Metered: TypeAlias = Callable[[Sender, Place, Decoded, str], commands.Push]
"""Makes the command of decoded rows, which are charged to the tenant. Gives back their room if it may not push."""

Reply = TypeVar("Reply", bound=ingest_pb2.PushResponse | ingest_pb2.PushRowsResponse | ingest_pb2.PushStreamResponse)


def reply_to(kind: type[Reply], acknowledgement: PushAcknowledgement) -> Reply:
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
    """A message of the call: the number of its first batch, how many batches it has, and their outcomes in order.

    An outcome is of one batch, or of several that share a push. The outcomes end with the first batch that could not be
    submitted.
    """

    number: int
    batches: int
    outcomes: list[asyncio.Future[SharedAcknowledgement]]


_Waiting: TypeAlias = "asyncio.Queue[_Message | None]"
"""The messages that wait for their replies. None: there are no more."""


class PushStreamCall:
    """A PushStream of a caller. `metered`: see `Metered`."""

    def __init__(self, backend: Backend, caller: Caller, metered: Metered) -> None:
        self._backend = backend
        self._caller = caller
        self._metered = metered

    async def replies(
        self, requests: AsyncIterator[ingest_pb2.PushStreamRequest]
    ) -> AsyncGenerator[ingest_pb2.PushStreamResponse]:
        """Take the batches of the messages. Yields the replies, and raises the error of the first refused batch."""
        waiting: _Waiting = asyncio.Queue(self._backend.limits.pipelined_batches)
        reader = asyncio.create_task(self._feed(requests, waiting))
        index = 0
        entry: _Message | None = None
        try:
            while (entry := await waiting.get()) is not None:
                response, problem = await _outcome(entry, index)
                if response is not None:
                    yield response
                if problem is not None:
                    raise problem
                index += entry.batches
            await reader
        finally:
            reader.cancel()
            _cancel(entry)
            while not waiting.empty():
                _cancel(waiting.get_nowait())
            await asyncio.gather(reader, return_exceptions=True)

    async def _feed(self, requests: AsyncIterator[ingest_pb2.PushStreamRequest], waiting: _Waiting) -> None:
        """Read message after message, until the client's side ends or a batch cannot be submitted."""
        sender: Sender | None = None
        try:
            async for request in requests:
                entry = _Message(request.number, 1 + len(request.more), [])
                try:
                    sender = _continued(sender, request)
                    await self._submit_all(sender, request, entry.outcomes)
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

    async def _submit_all(
        self,
        sender: Sender,
        request: ingest_pb2.PushStreamRequest,
        outcomes: list[asyncio.Future[SharedAcknowledgement]],
    ) -> None:
        """Decode and submit the batches of a message. Adds an outcome for each push. Raises the error of a batch."""
        tenant, decoding = self._backend.tenant(self._caller), self._backend.decoding
        payloads, place, done = _payloads(sender, request), Place.of(request), 0
        while done < len(payloads):
            spec = self._backend.host.snapshot().stream(sender.stream, tenant).spec
            if len(payloads) - done > 1:
                decoded = await decoding.together(spec, payloads[done:], self._caller)
            else:
                decoded = await decoding.batch(spec, payloads[done], self._caller, digest=bool(sender.producer))
            taken = len(decoded.shared) or 1
            command = self._metered(sender, place, decoded, tenant)
            size = sum(map(len, payloads[done : done + taken]))
            task = asyncio.create_task(self._submit(command, decoded.place, size))
            task.add_done_callback(partial(_leave, decoded.place))
            outcomes.append(task)
            done += taken
            place = Place(request.number + done, b"", None)
            if done < len(payloads):
                await asyncio.sleep(0)

    async def _submit(self, command: commands.Push, place: TakenRoom, size: int) -> SharedAcknowledgement:
        """Submit a push; returns its outcome. `size`: the bytes of its payloads."""
        answer = await self._backend.host.submit(command, place=place)
        if isinstance(answer, PushAcknowledgement):
            answer = SharedAcknowledgement(answer.sequence, False, (answer,))
        assert isinstance(answer, SharedAcknowledgement)
        self._backend.metrics.pushed(answer.batches, size)
        return answer


def _cancel(message: _Message | None) -> None:
    """Cancel the batches of a message, if they are not taken yet."""
    for outcome in [] if message is None else message.outcomes:
        outcome.cancel()


async def _outcome(message: _Message, index: int) -> tuple[ingest_pb2.PushStreamResponse | None, PSoupError | None]:
    """Wait for the outcomes of a message. Returns the reply to the batches before the first refused one, and its error.

    `index`: the number of batches of the call before this message.
    """
    taken, problem = list[PushAcknowledgement](), None
    for outcome in message.outcomes:
        try:
            answer = await outcome
        except PSoupError as error:
            problem = error
        else:
            taken += answer.batches
            problem = answer.refusal
        if problem is not None:
            let_go(problem)
            place = len(taken)
            problem.facts = {"number": str(message.number + place), "index": str(index + place), **problem.facts}
            break
    return _response(message.number, taken) if taken else None, problem


def _response(number: int, taken: Sequence[PushAcknowledgement]) -> ingest_pb2.PushStreamResponse:
    """The reply to the batches of a message from `number` on. There is at least one."""
    response = reply_to(ingest_pb2.PushStreamResponse, taken[0])
    response.number, response.takes_more = number, True
    response.more.extend(reply_to(ingest_pb2.PushResponse, acknowledgement) for acknowledgement in taken[1:])
    return response


def _payloads(sender: Sender, request: ingest_pb2.PushStreamRequest) -> list[ipc.Payload]:
    """The payloads of a message's batches. Raises InvalidInput for further batches that may not be there."""
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
    return [request.arrow_ipc, *more]  # each access to a field copies it


def _failed(error: PSoupError) -> asyncio.Future[SharedAcknowledgement]:
    """The outcome of a batch that could not be submitted."""
    outcome: asyncio.Future[SharedAcknowledgement] = asyncio.get_running_loop().create_future()
    let_go(error)
    outcome.set_exception(error)
    outcome.exception()  # so that asyncio does not report it if the call ends before
    return outcome


def _leave(place: TakenRoom, outcome: asyncio.Future[SharedAcknowledgement]) -> None:
    """Give back the room of a batch. A task that was cancelled before it began has not submitted the batch."""
    place.release()
    if not outcome.cancelled():
        outcome.exception()  # so that asyncio does not report it: a batch after a refused one has no reply


def _continued(sender: Sender | None, request: ingest_pb2.PushStreamRequest) -> Sender:
    """The sender of a message of a PushStream. The first message names it; later ones repeat it or leave it out."""
    sent = Sender(request.stream, request.producer, request.epoch, request.since)
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
