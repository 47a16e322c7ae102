"""AttachService: attaches a directory of history, or of a job's next batch, to a stream.

    Attach   would it be taken? ─> the files are taken in and read, on a thread ─> Attach, like any command
                                                └── refused, or failed: they are given up

A call that is cut off still runs to its end: the same call, asked again, returns its outcome.
"""

from __future__ import annotations

import asyncio

from psoup.errors import Unavailable
from psoup.events.acknowledgements import AttachAcknowledgement
from psoup.events.commands import Attach as Command
from psoup_proto.v1 import attach_pb2, attach_pb2_grpc
from psoup_service.host.threads import on
from psoup_service.servicers.backend import PATIENCE_S, Backend
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller
from psoup_storage.formats.history import read_manifest
from psoup_storage.formats.job_folder import check_name


class AttachServicer(attach_pb2_grpc.AttachServiceServicer):
    """See attach.proto."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._under_way: set[tuple[int, str]] = set()

    async def BeginAttach(
        self, request: attach_pb2.BeginAttachRequest, caller: Caller
    ) -> attach_pb2.BeginAttachResponse:
        """Return the folder for the job's directory, and the time up to which it may write."""
        tenant = self._backend.tenant(caller)
        acknowledgement = await self._submit(Command(request.stream, request.job, tenant=tenant, batch=_batch(request)))
        view = (await self._backend.visible(acknowledgement.sequence)).stream(request.stream, tenant)
        folder = await on(self._backend.threads.jobs, self._backend.durable().incoming, tenant)
        return attach_pb2.BeginAttachResponse(
            folder=str(folder),
            stream_id=self._backend.ids.stream(view.stream_id),
            statement=view.sql,
            bound=convert.timestamp(acknowledgement.first_time),
            watermark=convert.timestamp(acknowledgement.watermark),
            attached=acknowledgement.duplicate,
            last_batch=acknowledgement.batch,
        )

    async def Attach(self, request: attach_pb2.AttachRequest, caller: Caller) -> attach_pb2.AttachResponse:
        """Attach the directory of a job to its stream."""
        check_name(request.directory, "BeginAttach")
        return await asyncio.shield(self._attach(request, self._backend.tenant(caller)))

    async def _attach(self, request: attach_pb2.AttachRequest, tenant: str) -> attach_pb2.AttachResponse:
        store, wanted, batch = self._backend.durable(), None, _batch(request)
        if request.stream_id:
            wanted = self._backend.ids.read_stream(request.stream_id)
        reply = await self._submit(Command(request.stream, request.job, stream_id=wanted, tenant=tenant, batch=batch))
        if reply.duplicate:
            return _response(reply)
        view = (await self._backend.visible(reply.sequence)).stream(request.stream, tenant)
        key = (view.stream_id, request.job)
        if key in self._under_way:
            raise Unavailable(f"job {request.job!r} is being attached by another call; ask again", reason="ATTACHING")
        self._under_way.add(key)
        try:
            directory = await on(self._backend.threads.jobs, store.incoming, tenant) / request.directory
            extent = (await on(self._backend.threads.jobs, read_manifest, directory)).extent
            await self._submit(Command(request.stream, request.job, extent, (), view.stream_id, tenant, batch))
            next_query = self._backend.host.next_query
            adopted = await on(
                self._backend.threads.jobs, store.adopt, directory, request.job, view.stream_id, view.spec, next_query
            )
            chunks = adopted.chunks
            command = Command(request.stream, request.job, adopted.extent, chunks, view.stream_id, tenant, batch)
            acknowledgement, _ = await self._backend.change(command)
            assert isinstance(acknowledgement, AttachAcknowledgement)
            return _response(acknowledgement, extent.chunks, extent.rows)
        finally:
            await on(self._backend.threads.jobs, store.disown, *key)
            self._under_way.discard(key)

    async def _submit(self, command: Command) -> AttachAcknowledgement:
        acknowledgement = await self._backend.host.submit(command, patience=PATIENCE_S)
        assert isinstance(acknowledgement, AttachAcknowledgement)
        return acknowledgement


def _batch(request: attach_pb2.BeginAttachRequest | attach_pb2.AttachRequest) -> int | None:
    return request.batch if request.HasField("batch") else None


def _response(acknowledgement: AttachAcknowledgement, chunks: int = 0, rows: int = 0) -> attach_pb2.AttachResponse:
    return attach_pb2.AttachResponse(
        sequence=acknowledgement.sequence,
        duplicate=acknowledgement.duplicate,
        chunks=chunks,
        rows=rows,
        first_time=convert.timestamp(acknowledgement.first_time),
        watermark=convert.timestamp(acknowledgement.watermark),
    )
