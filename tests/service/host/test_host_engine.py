"""The host on the real engine: the same answers as the embedded one, whatever the groups and runs; budget; restart."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from psoup.admission import Admission
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import PSoupError, ResourceExhausted
from psoup.events.acknowledgements import Effects
from psoup.events.commands import Command, CreateStream, DropStream, Heartbeat, Push, Register, Unregister
from psoup.events.events import Event
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT, SECOND
from psoup.published.snapshot import Snapshot
from psoup.work.clock import VirtualClock
from psoup_service.host.host import Host
from psoup_service.host.runner import TaskPool
from psoup_storage import MemoryStore
from psoup_testing.engines.admission_gate import rows
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.services.host_rig import PATIENCE, Gate, happened, held
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16, delta_queries=4, shape=EAGER)
STREAMS = (
    "CREATE STREAM e (t TIMESTAMP, x BIGINT, name TEXT) TIMESTAMP BY t LATENESS 3 SECONDS RETENTION 60 SECONDS",
    "CREATE STREAM s (x BIGINT, name TEXT)",
)


class HeldEngine(Engine):
    """The real engine, with a gate in `apply`."""

    def __init__(self, config: EngineConfig, run: TaskPool) -> None:
        super().__init__(config, run)
        self.gate, self.entered = Gate(), Gate()

    def apply(self, events: Sequence[Event]) -> Effects:
        """As the engine's, but only while the gate is open."""
        self.entered.set()
        self.gate.pass_through()
        return super().apply(events)


class Service:
    """A host with its parts."""

    def __init__(self, store: MemoryStore, clock: VirtualClock, config: EngineConfig) -> None:
        self.pool = TaskPool(2)
        self.engine, self.admission = HeldEngine(config, self.pool), Admission(config)
        self.clock = clock
        self.host: Host[Snapshot] = Host(self.engine, self.admission, store, clock)

    async def answer(self, query_id: int) -> list[dict[str, object]]:
        """All rows of a query's answer."""
        now = self.clock.now()
        return await self.host.read(
            lambda snapshot: invoke(snapshot, query_id, tenant=DEFAULT_TENANT, now=now).to_table().to_pylist()
        )


@asynccontextmanager
async def serving(store: MemoryStore, clock: VirtualClock, config: EngineConfig = CONFIG) -> AsyncIterator[Service]:
    service = Service(store, clock, config)
    service.host.start()
    try:
        yield service
    finally:
        service.engine.gate.set()
        await asyncio.to_thread(service.host.close)
        service.pool.close()
        service.engine.check()
        service.admission.check()


def commands(seed: int, count: int) -> list[Command]:
    """A mixture, most of it pushes; some are refused."""
    chance, result, number = random.Random(seed), list[Command](), 0
    for step in range(count):
        kind = chance.random()
        xs = [chance.randrange(10) for _ in range(chance.randrange(12))]
        names = [chance.choice(["a", "bb", None]) for _ in xs]
        if kind < 0.45:
            times = [step + chance.uniform(-4, 4) for _ in xs]
            result.append(Push("e", rows(t=times, x=xs, name=names)))  # type: ignore[arg-type]
        elif kind < 0.7:
            result.append(Push("s", rows(x=xs, name=names), "p", 0, number))
            number += chance.random() < 0.9
        elif kind < 0.75:
            result.append(Heartbeat("e", (step - 1) * SECOND))
        elif kind < 0.92:
            window = chance.choice(["", " BEGIN (NOW - 20)", " BEGIN (NOW - 30 ROWS)"])
            result.append(
                Register(f"SELECT x, name FROM {chance.choice('es')} WHERE x > {chance.randrange(10)}{window}")
            )
        else:
            result.append(Unregister(chance.randrange(1, 20)))
    return result


@pytest.mark.parametrize("seed", swept(range(4), fast=1))
def test_the_host_answers_as_the_embedded_engine_and_again_after_a_restart(seed: int) -> None:
    history = [*map(CreateStream, STREAMS), *commands(seed, 150)]
    clock, store = VirtualClock(0), MemoryStore(keep_pushes=True)
    local = LocalPSoup(CONFIG, clock)
    queries = set[int]()
    for command in history:
        try:
            done = local.submit(command)
        except PSoupError:
            continue
        if isinstance(command, Register):
            queries.add(done.query_id)  # type: ignore[attr-defined]
        elif isinstance(command, Unregister):
            queries.discard(command.query_id)
    expected = {query: again(local.invoke, query).to_table().to_pylist() for query in queries}

    async def scenario() -> None:
        async with serving(store, clock) as service:
            await asyncio.gather(*map(service.host.submit, history), return_exceptions=True)
            await service.host.wait_for(service.admission.sequence, PATIENCE)
            assert {query: await service.answer(query) for query in queries} == expected
        assert service.host.failure == ""
        async with serving(store, clock) as again:
            assert {query: await again.answer(query) for query in queries} == expected
            assert again.admission.sequence == local.admission.sequence

    asyncio.run(scenario())


def test_an_invocation_returns_while_the_writer_is_inside_apply() -> None:
    async def scenario() -> None:
        async with serving(MemoryStore(), VirtualClock(0)) as service:
            host = service.host
            await host.submit(CreateStream(STREAMS[1]))
            await host.submit(Register("SELECT x FROM s"))
            first = await host.submit(Push("s", rows(x=[1])))
            await host.wait_for(first.sequence, PATIENCE)
            service.engine.entered.clear()
            with held(service.engine.gate):
                second = await host.submit(Push("s", rows(x=[2])))
                await happened(service.engine.entered)
                assert await service.answer(1) == [{"x": 1}]
            await host.wait_for(second.sequence, PATIENCE)
            assert await service.answer(1) == [{"x": 1}, {"x": 2}]

    asyncio.run(scenario())


def test_what_is_reserved_is_what_the_engine_holds() -> None:
    async def scenario() -> None:
        clock = VirtualClock(0)
        async with serving(MemoryStore(), clock) as service:
            host = service.host
            await host.submit(CreateStream(STREAMS[0]))
            for step in range(40):
                clock.set(step * 10 * SECOND)
                push = Push("e", rows(t=[step * 10 + i / 4 for i in range(30)], name=["abc"] * 30))
                last = await host.submit(push)
            await host.wait_for(last.sequence, PATIENCE)
            last = await host.submit(Heartbeat("e", clock.now() + SECOND))
            await host.wait_for(last.sequence, PATIENCE)
            async with asyncio.timeout(PATIENCE):
                while True:  # maintenance may free bytes after the heartbeat
                    held_bytes = host.snapshot().by_id[1].nbytes
                    service.admission.give_back(host._writer.take_freed())
                    if host.counters()["reserved_bytes"] == held_bytes:
                        break
                    await asyncio.sleep(0)
            assert held_bytes < 40 * 30 * 30 // 2
            last = await host.submit(DropStream("e"))
            await host.wait_for(last.sequence, PATIENCE)
            await host.submit(CreateStream(STREAMS[1]))
            assert host.counters()["reserved_bytes"] == 0

    asyncio.run(scenario())


def test_a_full_memory_is_freed_of_what_is_past_its_retention() -> None:
    """In system time nothing but a push moves time, and pushes are what is refused."""

    async def scenario() -> None:
        clock = VirtualClock(0)
        async with serving(MemoryStore(), clock, replace(CONFIG, memory_bytes=3_000)) as service:
            host, push = service.host, Push("s", rows(x=list(range(100))))
            await host.submit(CreateStream("CREATE STREAM s (x BIGINT) RETENTION 10 SECONDS"))
            await host.submit(push)
            with pytest.raises(ResourceExhausted):
                await host.submit(push)
            clock.set(11 * SECOND)
            async with asyncio.timeout(PATIENCE):
                while True:  # the refusal asks for room, and who tries again finds it
                    try:
                        await host.submit(push)
                        return
                    except ResourceExhausted:
                        await asyncio.sleep(0)

    asyncio.run(scenario())
