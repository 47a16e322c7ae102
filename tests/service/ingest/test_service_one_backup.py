"""One backup at a time, whatever becomes of its client; and no kind of work keeps the end of the service waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import ResourceExhausted, Unavailable
from psoup_proto.v1 import backup_pb2 as backup
from psoup_service.process.settings import Settings
from psoup_service.service import Service, running_service
from psoup_service.servicers.backup import LEAST_PACE, Pace
from psoup_storage import DurableStore
from psoup_storage.durable.tools.backup import Frozen
from psoup_testing.services.wire import Wire, refusal_of, refused

CODE = grpc.StatusCode


def durable(path: Path, script: Callable[[Wire], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        store = DurableStore(path, reserve_bytes=0)
        async with (
            running_service(Settings(port=0, **settings), store=store) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            await script(Wire(service, channel))

    asyncio.run(main())


def copies(path: Path) -> list[Path]:
    return list(path.glob("backup-*"))


async def made(wire: Wire) -> bool:
    """Make a backup; False if another is running."""
    call = wire.backup.Backup(backup.BackupRequest())
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        assert refusal_of(error).reason == "ALREADY_RUNNING"
        return False
    return await call.code() is grpc.StatusCode.OK


@pytest.mark.long
@pytest.mark.seeded("F13: backups that nobody reads")
def test_a_backup_that_nobody_reads_is_the_only_one(tmp_path: Path) -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        values = np.random.default_rng(1)
        for _ in range(8):  # more than waits in a connection
            await wire.push("s", pa.table({"x": values.integers(0, 2**62, 120_000)}))
        stalled = wire.backup.Backup(backup.BackupRequest())
        assert (await stalled.read()).plan.files
        for _ in range(4):
            refusal = await refused(wire.backup.Backup(backup.BackupRequest()).read(), CODE.FAILED_PRECONDITION)
            assert refusal.reason == "ALREADY_RUNNING"
            assert len(copies(tmp_path)) == 1
        stalled.cancel()
        async with asyncio.timeout(60):
            while not await made(wire):  # the copy is being removed
                pass
        assert await made(wire)

    durable(tmp_path, script)
    assert not copies(tmp_path)


def test_a_backup_that_cannot_be_made_does_not_keep_the_next_one_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: DurableStore) -> Frozen:
        raise ResourceExhausted("no room", reason="DISK_FULL")

    async def script(wire: Wire) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(DurableStore, "freeze", fail)
            for _ in range(2):
                refusal = await refused(wire.backup.Backup(backup.BackupRequest()).read(), CODE.RESOURCE_EXHAUSTED)
                assert refusal.reason == "DISK_FULL"
        assert await made(wire)

    durable(tmp_path, script)


def test_a_backup_that_is_taken_too_slowly_is_ended() -> None:
    now = 100.0
    pace = Pace(lambda: now, grace=10)
    pace.moved(LEAST_PACE)
    now = 111
    pace.moved(0)
    now = 111.1
    with pytest.raises(Unavailable) as caught:
        pace.moved(0)
    assert caught.value.reason == "BACKUP_STALLED"


def test_a_service_ends_whatever_other_threads_do(tmp_path: Path) -> None:
    """Threads of the loop's own pool, of jobs and of backups are all in use for ever, so it seems."""
    go = threading.Event()

    async def main() -> None:
        service = Service(Settings(port=0), store=DurableStore(tmp_path, reserve_bytes=0))
        await service.start(warm=False)
        threads, loop = service._backend.threads, asyncio.get_running_loop()
        held = [loop.run_in_executor(pool, go.wait) for pool in (None, threads.jobs, threads.backup) for _ in range(40)]
        try:
            async with asyncio.timeout(60):
                assert await service.stop()
        finally:
            go.set()
        await asyncio.gather(*held, return_exceptions=True)

    asyncio.run(main())
