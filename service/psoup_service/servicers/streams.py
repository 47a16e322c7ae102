"""StreamService: create, list, describe, drop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from psoup.answer.describe import describe_stream, list_streams
from psoup.answer.table_content import may_be_from_stream, table_content
from psoup.errors import AlreadyExists, FailedPrecondition, NotFound
from psoup.events.acknowledgements import Acknowledgement, StreamAcknowledgement
from psoup.events.commands import AlterStream, CreateStream, DropStream
from psoup.phrases import counted
from psoup.published.snapshot import Snapshot, StreamView
from psoup_proto.v1 import streams_pb2, streams_pb2_grpc
from psoup_service.host.ids import page_size, page_token, read_page_token
from psoup_service.servicers.backend import Backend, fitting
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller
from psoup_service.wire.derivation import derivation

_PAGE = 100
_MAX_PAGE = 1_000


class StreamServicer(streams_pb2_grpc.StreamServiceServicer):
    """See streams.proto."""

    def __init__(self, backend: Backend, gone: Callable[[int], None]) -> None:
        """`gone`: called with the ID of each dropped stream."""
        self._backend = backend
        self._gone = gone
        self._collecting = asyncio.Lock()
        """Held while the tuples of a table FROM STREAM are collected and logged."""

    async def CreateStream(
        self, request: streams_pb2.CreateStreamRequest, caller: Caller
    ) -> streams_pb2.CreateStreamResponse:
        """Create a stream, and wait until it is visible."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        try:
            acknowledgement, snapshot = await self._create(request.statement, tenant)
        except AlreadyExists as problem:
            if not request.allow_existing or problem.facts.get("identical") != "true":
                raise
            sequence = backend.host.counters()["sequence"]
            snapshot = await backend.visible(sequence)
            stream = await self._described(snapshot, problem.facts["stream"], tenant)
            return streams_pb2.CreateStreamResponse(stream=stream, sequence=sequence, duplicate=True)
        assert isinstance(acknowledgement, StreamAcknowledgement)
        name = (
            snapshot.by_id[acknowledgement.stream_id].spec.name if acknowledgement.stream_id in snapshot.by_id else ""
        )
        stream = await self._described(snapshot, name, tenant)
        return streams_pb2.CreateStreamResponse(stream=stream, sequence=acknowledgement.sequence)

    async def _create(self, sql: str, tenant: str) -> tuple[Acknowledgement, Snapshot]:
        """Create a stream or a table. A table FROM STREAM has all tuples that were acknowledged before the call.

        Only one such table is made at a time, because its tuples are not charged before the command is decided.
        """
        backend = self._backend
        if not may_be_from_stream(sql):
            return await backend.change(CreateStream(sql, tenant))
        async with self._collecting:
            await backend.visible(backend.host.counters()["sequence"])
            content = await backend.host.read(lambda snapshot: table_content(snapshot, sql, tenant))
            return await backend.change(CreateStream(sql, tenant, content))

    async def AlterStream(
        self, request: streams_pb2.AlterStreamRequest, caller: Caller
    ) -> streams_pb2.AlterStreamResponse:
        """Add columns, and wait until they are visible."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        acknowledgement, snapshot = await backend.change(AlterStream(request.statement, tenant))
        assert isinstance(acknowledgement, StreamAcknowledgement)
        name = (
            snapshot.by_id[acknowledgement.stream_id].spec.name if acknowledgement.stream_id in snapshot.by_id else ""
        )
        stream = await self._described(snapshot, name, tenant)
        return streams_pb2.AlterStreamResponse(
            stream=stream, sequence=acknowledgement.sequence, duplicate=acknowledgement.duplicate
        )

    async def ListStreams(
        self, request: streams_pb2.ListStreamsRequest, caller: Caller
    ) -> streams_pb2.ListStreamsResponse:
        """A page of the streams, in the order of names."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        size = page_size(request.page_size, _PAGE, _MAX_PAGE)
        state = read_page_token("streams", request.page_token, after=str)
        after = state["after"] if state else ""
        await backend.reflecting(request.min_sequence)
        now = backend.now()

        def read(snapshot: Snapshot) -> streams_pb2.ListStreamsResponse:
            descriptions = list_streams(snapshot, tenant=tenant, now=now, after=after, limit=size + 1)
            described = (
                self._with_derivation(convert.stream(each, backend.ids), snapshot, snapshot.by_id[each.stream_id])
                for each in descriptions[:size]
            )
            streams = fitting(described, backend.limits.answer_bytes)
            token = ""
            if len(descriptions) > len(streams):
                token = page_token("streams", after=descriptions[len(streams) - 1].spec.name)
            return streams_pb2.ListStreamsResponse(streams=streams, next_page_token=token)

        return await backend.host.read(read)

    async def GetStream(self, request: streams_pb2.GetStreamRequest, caller: Caller) -> streams_pb2.GetStreamResponse:
        """A stream."""
        backend = self._backend
        snapshot = await backend.reflecting(request.min_sequence)
        stream = await self._described(snapshot, request.name, backend.tenant(caller))
        return streams_pb2.GetStreamResponse(stream=stream, sequence=snapshot.sequence)

    async def DropStream(
        self, request: streams_pb2.DropStreamRequest, caller: Caller
    ) -> streams_pb2.DropStreamResponse:
        """Drop a stream, and wait until no call sees it any more."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        try:
            stream_id = backend.ids.read_stream(request.stream_id) if request.stream_id else None
            expected = request.expected_queries if request.HasField("expected_queries") else None
            table = request.is_table if request.HasField("is_table") else None
            command = DropStream(request.name, tenant, stream_id, request.cascade, expected, table)
            acknowledgement, _ = await backend.change(command)
        except NotFound:
            if not request.allow_missing:
                raise
            return streams_pb2.DropStreamResponse()
        except FailedPrecondition as problem:
            raise self._in_use(problem) from None
        assert isinstance(acknowledgement, StreamAcknowledgement)
        self._gone(acknowledgement.stream_id)
        return streams_pb2.DropStreamResponse(sequence=acknowledgement.sequence, queries=acknowledgement.queries)

    async def _described(self, snapshot: Snapshot, name: str, tenant: str) -> streams_pb2.Stream:
        """The message of a stream in this snapshot."""
        view, now = snapshot.stream(name, tenant), self._backend.now()

        def describe(_: Snapshot) -> streams_pb2.Stream:
            message = convert.stream(describe_stream(snapshot, name, tenant=tenant, now=now), self._backend.ids)
            return self._with_derivation(message, snapshot, view)

        return await self._backend.made(len(view.spec.schema.attributes) + len(view.chunks), describe)

    def _with_derivation(self, message: streams_pb2.Stream, snapshot: Snapshot, view: StreamView) -> streams_pb2.Stream:
        """The message, with its derivation if the stream has one."""
        derived = derivation(snapshot, view, self._backend.host.passed.progress(view.stream_id))
        if derived is not None:
            message.derived.CopyFrom(derived)
        return message

    def _in_use(self, problem: FailedPrecondition) -> FailedPrecondition:
        """The refusal with the client's query IDs instead of the engine's numbers."""
        if problem.reason != "STREAM_IN_USE":
            return problem
        facts = problem.facts
        some = ", ".join(self._backend.ids.query(int(number)) for number in facts["examples"].split(", "))
        count = int(facts["queries"])
        them = "it" if count == 1 else "them"
        users = f"query {some}" if count == 1 else f"{counted(count, 'query')}, for instance {some}"
        return FailedPrecondition(
            f"{facts['kind']} {facts['stream']!r} is used by {users}; unregister {them} first, or drop the"
            f" {facts['kind']} with CASCADE (--cascade in the shell, cascade=True in Python), which unregisters {them}",
            reason=problem.reason,
            **{**facts, "examples": some},
        )
