"""A service on disk: what a restart keeps, what is refused meanwhile, retries, a disk that fails or is full."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from psoup.admission import Admission
from psoup.engine.engine import Engine
from psoup.errors import Internal, Unavailable
from psoup.events.commands import DropStream
from psoup.work.clock import VirtualClock
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.host import committer
from psoup_service.host.host import Host
from psoup_service.process.settings import Settings
from psoup_service.service import running_service
from psoup_storage import DurableStore, MemoryStore, Store
from psoup_storage.durable.directory import DataDirectory
from psoup_testing.crash.faults import EIO, ENOSPC, failing
from psoup_testing.engines.admission_gate import Gate, rows
from psoup_testing.oracles.questions import again_awaited
from psoup_testing.services.host_rig import Gate as Barrier
from psoup_testing.services.host_rig import happened
from psoup_testing.services.wire import Wire, refused

Script = Callable[[Wire], Awaitable[Any]]


async def session(store: Store, script: Script) -> Any:
    """One life of a service on `store`."""
    async with (
        running_service(Settings(port=0), store=store, clock=VirtualClock(10**9)) as service,
        grpc.aio.insecure_channel(service.address) as channel,
    ):
        done = await script(Wire(service, channel))
    service.host._engine.check()  # once nothing of the service goes on
    service.host._admission.check()
    return done


async def seen(wire: Wire, query: str) -> dict[str, Any]:
    """What a client sees of stream s and of the query."""
    answer = await wire.queries.Invoke(queries.InvokeRequest(query_id=query))
    stream = await wire.streams.GetStream(streams.GetStreamRequest(name="s"))
    info = await wire.server.GetServerInfo(server_pb2.GetServerInfoRequest())
    assert (info.store, info.durable) == ("disk", True)
    return {
        "rows": pa.ipc.open_stream(answer.arrow_ipc).read_all().to_pylist(),
        "completeness": answer.completeness,
        "stream": stream,
        "incarnation": info.incarnation,
    }


def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    async def first(wire: Wire) -> dict[str, Any]:
        await wire.create("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 10 SECONDS")
        query = await wire.register("SELECT x FROM s WHERE x > 1 BEGIN (NOW - 100)", "request")
        gone = await wire.register("SELECT x FROM s", "gone")
        await wire.queries.Unregister(queries.UnregisterRequest(query_id=gone))
        await wire.push("s", rows(t=[20, 30], x=[1, 2]), producer="p", epoch=7, number=0)
        done = await wire.push("s", rows(t=[19, 25, 40], x=[3, 4, 5]), producer="p", epoch=7, number=1)
        assert done.late == 1
        await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))
        return {"query": query, "gone": gone, **await seen(wire, query)}

    async def second(wire: Wire, before: dict[str, Any]) -> None:
        again = await seen(wire, before["query"])
        assert again == {name: before[name] for name in again}
        assert again["rows"] == [{"x": 4}, {"x": 2}]
        assert await wire.register("SELECT x FROM s WHERE x > 1 BEGIN (NOW - 100)", "request") == before["query"]
        await refused(
            wire.queries.GetQuery(queries.GetQueryRequest(query_id=before["gone"])), grpc.StatusCode.NOT_FOUND
        )
        same = await wire.push("s", rows(t=[19, 25, 40], x=[3, 4, 5]), producer="p", epoch=7, number=1)
        assert (same.duplicate, same.accepted, same.late) == (True, 2, 1)
        other = wire.push("s", rows(t=[41], x=[9]), producer="p", epoch=7, number=1)
        assert (await refused(other, grpc.StatusCode.ABORTED)).reason == "PAYLOAD_CONFLICT"
        late = await wire.push("s", rows(t=[29], x=[9]), producer="p", epoch=7, number=2)
        assert (late.accepted, late.late) == (0, 1)  # the watermark is where it was
        fenced = wire.push("s", rows(t=[50], x=[9]), producer="p", epoch=6, number=0)
        await refused(fenced, grpc.StatusCode.FAILED_PRECONDITION)
        fresh = await wire.register("SELECT x FROM s WHERE x > 2")
        assert fresh not in (before["query"], before["gone"])  # no ID is given twice

    before = asyncio.run(session(DurableStore(tmp_path), first))
    for _ in range(2):
        asyncio.run(session(DurableStore(tmp_path), lambda wire: seen(wire, before["query"])))
    asyncio.run(session(DurableStore(tmp_path), lambda wire: second(wire, before)))


def test_retries_in_any_order_are_taken_once(tmp_path: Path) -> None:
    """T7: requests are doubled and overtake each other, replies are dropped, the service is restarted in between."""
    chance, total = random.Random(5), 75
    acknowledged: set[tuple[int, int]] = set()

    async def send(wire: Wire, producer: int, number: int) -> None:
        batch = pa.table({"k": [producer] * 3, "n": [number] * 3})
        try:
            await wire.push("s", batch, producer=f"p{producer}", epoch=1, number=number)
        except grpc.aio.AioRpcError as problem:
            assert problem.code() is grpc.StatusCode.FAILED_PRECONDITION  # it overtook its predecessor
            return
        if chance.random() > 0.3:
            acknowledged.add((producer, number))

    async def life(wire: Wire) -> int:
        wanted = [(k, n) for k in range(3) for n in range(total // 3) if (k, n) not in acknowledged]
        due = wanted[: 15 + chance.randrange(40)]
        due += chance.choices(due, k=len(due) // 3) if due else []
        due.sort(key=lambda one: one[1] + chance.uniform(0, 3))
        await asyncio.gather(*(send(wire, *one) for one in due))
        return len(wanted)

    async def finish(wire: Wire) -> None:
        while await life(wire):
            pass
        query = await wire.register("SELECT k, n FROM s BEGIN (START)")
        found = (await again_awaited(wire.invoke, query)).to_pylist()
        assert len(found) == 3 * total
        for k in range(3):
            assert [row["n"] for row in found if row["k"] == k] == [n for n in range(total // 3) for _ in range(3)]

    asyncio.run(session(DurableStore(tmp_path), lambda wire: wire.create("CREATE STREAM s (k BIGINT, n BIGINT)")))
    for _ in range(3):
        asyncio.run(session(DurableStore(tmp_path), life))
    asyncio.run(session(DurableStore(tmp_path), finish))


class SlowStore(MemoryStore):
    """Holds the replay at a gate."""

    def __init__(self) -> None:
        super().__init__(keep_pushes=True)
        self.gate, self.inside = Barrier(), threading.Event()

    def read(self, after: int = 0) -> Any:
        """Wait in the middle."""
        for number, event in enumerate(super().read(after)):
            if number == 2:
                self.inside.set()
                self.gate.pass_through()
            yield event


def test_nothing_is_answered_before_the_replay_is_done() -> None:
    history, store = Gate(), SlowStore()
    history.create("CREATE STREAM s (x BIGINT)")
    history.register("SELECT x FROM s")
    history.push("s", x=[1])
    store.append(history.events)

    async def scenario() -> None:
        host = Host(Engine(), Admission(), store, VirtualClock(0))
        store.gate.clear()
        start = asyncio.create_task(asyncio.to_thread(host.start))
        await happened(store.inside)
        assert host.state == "starting"
        for call in (host.read(lambda s: s), host.wait_for(1, 1.0), host.submit(DropStream("s"))):
            with pytest.raises(Unavailable, match="starting"):
                await call
        with pytest.raises(Unavailable, match="starting"):
            host.snapshot()
        store.gate.set()
        await start
        assert host.snapshot().sequence == 3
        await asyncio.to_thread(host.close)

    asyncio.run(scenario())


def test_a_disk_that_fails_stops_the_service(tmp_path: Path) -> None:
    async def main(disk: Any) -> None:
        store = DurableStore(tmp_path, vfs=disk.name)
        async with (
            running_service(Settings(port=0), store=store) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            wire = Wire(service, channel)
            await wire.create("CREATE STREAM s (x BIGINT)")
            done = await wire.push("s", pa.table({"x": [1]}))
            query = await wire.register("SELECT x FROM s")
            disk.at = disk.count
            await refused(wire.push("s", pa.table({"x": [2]})), grpc.StatusCode.INTERNAL)
            await service.ended()
            await refused(wire.push("s", pa.table({"x": [3]})), grpc.StatusCode.INTERNAL)
            assert (await wire.invoke(query, min_sequence=done.sequence)).to_pylist() == [{"x": 1}]
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            while (await watch.read()).status != health_pb2.HealthCheckResponse.NOT_SERVING:
                pass
            watch.cancel()

    with failing(-1, EIO) as disk, pytest.raises(Internal, match=r"the host failed: .*injected"):
        asyncio.run(main(disk))
    store = DurableStore(tmp_path)  # the next start is clean: nothing acknowledged is lost
    assert [event.sequence for event in store.read()][:3] == [1, 2, 3]
    store.close()


def test_what_found_no_room_in_the_log_is_logged_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T4: a write that the free space did not foretell finds the disk full; later commands are refused at once."""
    monkeypatch.setattr(committer, "RETRY_SECONDS", 0.02)

    async def main(disk: Any) -> None:
        store = DurableStore(tmp_path, vfs=disk.name)
        async with (
            running_service(Settings(port=0), store=store) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            wire = Wire(service, channel)
            await wire.create("CREATE STREAM s (x BIGINT)")
            query = await wire.register("SELECT x FROM s")
            full = asyncio.Event()
            loop, check = asyncio.get_running_loop(), service.host._sequencer._committer._log_full
            service.host._sequencer._committer._log_full = lambda problem: (
                check(problem),
                loop.call_soon_threadsafe(full.set),
            )
            for number in range(3):
                disk.at = disk.count
                waits = asyncio.create_task(wire.push("s", pa.table({"x": [number]})))
                await full.wait()
                said = await refused(wire.push("s", pa.table({"x": [9]})), grpc.StatusCode.RESOURCE_EXHAUSTED)
                assert said.reason == "DISK_FULL"
                assert "is full" in service.host.shortage(), "though the disk says that it has room"
                assert service.host.counters()["short_of_disk"] == 1
                assert len(await wire.invoke(query)) == number
                disk.at = -1
                done = await waits
                full.clear()
                assert (await wire.invoke(query, min_sequence=done.sequence))["x"].to_pylist() == [*range(number + 1)]

    with failing(-1, ENOSPC) as disk:
        asyncio.run(main(disk))
    store = DurableStore(tmp_path)
    assert [event.sequence for event in store.read()] == [1, 2, 3, 4, 5]
    store.close()


def test_a_full_disk_is_back_pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T4: reads go on, ingest says so, and goes on by itself once there is room."""
    free = [2**40]
    monkeypatch.setattr(DataDirectory, "free_bytes", lambda _: free[0])

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s")
        done = await wire.push("s", pa.table({"x": [1]}))
        assert wire.service.host.shortage() == wire.service._notices() == ""
        free[0] = 1
        wire.service.store.room.look_again()  # type: ignore[attr-defined]
        for call in (wire.push("s", pa.table({"x": [2]})), wire.register("SELECT x FROM s WHERE x > 1")):
            said = await refused(call, grpc.StatusCode.RESOURCE_EXHAUSTED)
            assert said.reason == "DISK_FULL"
        assert re.match("the disk of .* is full: 1 bytes are free", wire.service._notices()), "as /readyz says"
        info = await wire.server.GetServerInfo(server_pb2.GetServerInfoRequest())
        assert (info.state, info.refusing) == ("serving", wire.service.host.shortage())
        assert (await wire.invoke(query, min_sequence=done.sequence)).to_pylist() == [{"x": 1}]
        await wire.queries.Unregister(queries.UnregisterRequest(query_id=query))  # the way out stays open
        free[0] = 2**40
        assert (await wire.push("s", pa.table({"x": [2]}))).accepted == 1
        assert wire.service.host.shortage() == ""

    asyncio.run(session(DurableStore(tmp_path), script))


@pytest.mark.long
def test_a_second_service_on_a_directory_ends_at_once(tmp_path: Path) -> None:
    store = DurableStore(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "psoup_service.main"],
        env={**os.environ, "PSOUP_DATA_DIR": str(tmp_path), "PSOUP_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    store.close()
    assert done.returncode == 1
    assert f"{tmp_path} is in use by another service" in done.stderr
    assert "Traceback" not in done.stderr
