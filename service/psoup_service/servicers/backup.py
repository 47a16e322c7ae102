"""BackupService: the data directory as of one event, streamed.

    Backup   freeze (a thread) ─> plan ─> file, content, content … ─> file …      the client's pace is the pace

One message of content is in memory at a time. The copy on the service's disk goes when the call ends, however it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from psoup.errors import FailedPrecondition
from psoup_proto.v1 import backup_pb2, backup_pb2_grpc
from psoup_service.servicers.backend import Backend, Context
from psoup_storage import DurableStore
from psoup_storage.durable.backup import Frozen


class BackupServicer(backup_pb2_grpc.BackupServiceServicer):
    """See backup.proto."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Backup(
        self, request: backup_pb2.BackupRequest, context: Context
    ) -> AsyncIterator[backup_pb2.BackupResponse]:
        """Stream a copy of everything."""
        store = self._backend.store
        if not isinstance(store, DurableStore):
            raise FailedPrecondition(
                "this service keeps its data in memory only, so there is nothing to copy; start it with --data-dir",
                reason="NOT_DURABLE",
            )
        freezing = asyncio.create_task(asyncio.to_thread(store.freeze))
        try:
            frozen = await asyncio.shield(freezing)
            plan = backup_pb2.BackupPlan(
                sequence=frozen.sequence,
                incarnation=frozen.incarnation,
                files=len(frozen.files),
                bytes=frozen.size,
            )
            yield backup_pb2.BackupResponse(plan=plan)
            for name, size in frozen.files:
                yield backup_pb2.BackupResponse(file=backup_pb2.BackupFile(name=name, bytes=size))
                pieces = frozen.read(name)
                while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                    yield backup_pb2.BackupResponse(content=piece)
        finally:
            freezing.add_done_callback(_give_up)


def _give_up(freezing: asyncio.Task[Frozen]) -> None:
    """Remove the copy, also one that is still being made when its call is cancelled."""
    if not freezing.cancelled() and freezing.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, freezing.result().close)
