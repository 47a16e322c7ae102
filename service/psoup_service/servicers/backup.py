"""BackupService: the data directory as of one event, streamed.

    Backup   freeze (a thread) ─> plan ─> file, content, content … ─> file …      as fast as the client reads

One message of content is in memory at a time. The copy on the service's disk is removed when the call ends, however it
ends. Because each backup has a copy, one backup runs at a time, and a stalled backup is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from psoup.errors import FailedPrecondition, Unavailable
from psoup_proto.v1 import backup_pb2, backup_pb2_grpc
from psoup_service.host.threads import on
from psoup_service.servicers.backend import Backend
from psoup_service.wire.calls import Caller
from psoup_storage import DurableStore
from psoup_storage.durable.tools.backup import Frozen

LEAST_PACE = 256 * 1024
"""The lowest rate, in bytes a second, at which a client must read after a grace."""


class BackupServicer(backup_pb2_grpc.BackupServiceServicer):
    """See backup.proto."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._current: asyncio.Future[Frozen] | None = None

    async def Backup(
        self, request: backup_pb2.BackupRequest, caller: Caller
    ) -> AsyncIterator[backup_pb2.BackupResponse]:
        """Stream a copy of the data directory, as of one event."""
        store = self._backend.store
        if not isinstance(store, DurableStore):
            raise FailedPrecondition(
                "this service keeps its data in memory only, so there is nothing to copy; start it with --data-dir",
                reason="NOT_DURABLE",
            )
        if self._current is not None:
            raise FailedPrecondition(
                "a backup is running, and one runs at a time: each holds a copy of the database; try again when it has"
                f" ended, at the latest after {self._backend.limits.stream_age_s:g} s",
                reason="ALREADY_RUNNING",
            )
        loop, pool = asyncio.get_running_loop(), self._backend.threads.backup
        freezing = self._current = loop.run_in_executor(pool, store.freeze)
        try:
            frozen = await asyncio.shield(freezing)
            pace = Pace(loop.time, self._backend.limits.stream_idle_s)
            yield backup_pb2.BackupResponse(plan=_plan(frozen))
            for name, size in frozen.files:
                yield backup_pb2.BackupResponse(file=backup_pb2.BackupFile(name=name, bytes=size))
                pieces = frozen.read(name)
                while (piece := await on(pool, next, pieces, None)) is not None:
                    yield backup_pb2.BackupResponse(content=piece)
                    pace.moved(len(piece))
            await on(pool, frozen.close)  # before the client knows that it may ask for another
            self._current = None
        finally:
            if self._current is freezing:
                freezing.add_done_callback(self._give_up)

    def _give_up(self, freezing: asyncio.Future[Frozen]) -> None:
        """Remove the copy, also if the call was cancelled while the copy was made. Then another backup may run."""
        if freezing.cancelled() or freezing.exception() is not None:
            self._current = None
            return
        with suppress(RuntimeError):  # the service has ended: the next start removes the copy
            removed = asyncio.get_running_loop().run_in_executor(self._backend.threads.backup, freezing.result().close)
            removed.add_done_callback(self._ended)

    def _ended(self, removed: asyncio.Future[None]) -> None:
        self._current = None


class Pace:
    """The lowest pace of a backup.

    A backup whose client reads too slowly is ended, because other backups wait and the copy takes disk space.
    """

    def __init__(self, now: Callable[[], float], grace: float) -> None:
        self._now = now
        self._end = now() + grace

    def moved(self, size: int) -> None:
        """Count `size` bytes that the client took; raises Unavailable if they came too late."""
        self._end += size / LEAST_PACE
        if self._now() > self._end:
            raise Unavailable(
                f"the backup is taken more slowly than {LEAST_PACE:,} bytes a second, and others wait for it; make it"
                " again over a faster way",
                reason="BACKUP_STALLED",
            )


def _plan(frozen: Frozen) -> backup_pb2.BackupPlan:
    return backup_pb2.BackupPlan(
        sequence=frozen.sequence, incarnation=frozen.incarnation, files=len(frozen.files), bytes=frozen.size
    )
