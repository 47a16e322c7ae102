"""Turns of tenants in covering and pairing: one task of another tenant is the most that a tenant waits for."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import groupby

import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.config import EngineConfig, Shape
from psoup.engine.engine import Engine
from psoup.engine.maintenance.agenda import tenant_of
from psoup.events.commands import CreateStream, Push, Register
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_service.host.background import BackgroundBudgets
from psoup_service.host.host import Host
from psoup_service.host.maintainer import Maintainer
from psoup_service.host.precautions import Guard
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.runner import TaskPool
from psoup_service.host.turns.evaluation_turns import EvaluationTurns
from psoup_service.host.turns.giving_way import GivingWay
from psoup_service.host.turns.interpreter import SHORT_SECONDS
from psoup_storage import MemoryStore
from psoup_testing.services.host_rig import PATIENCE
from psoup_testing.suite.log_records import own_records

CHUNKS = 6
COVER, PAIRS = "SELECT x FROM s0 WHERE x > 3", "SELECT s0.x FROM s0, s1 WHERE s0.x = s1.x"
ONE_BY_ONE = EngineConfig(chunk_rows=64, shape=Shape(cover_pairs=1))


class Means:
    """The turns of a service, an engine, and its maintainer without a thread. `takes`: seconds of each evaluation."""

    def __init__(self, **takes: float) -> None:
        self.takes, self.seconds, self.served = takes, 0.0, ""
        self.charged = dict[str, float]()
        self.turns = EvaluationTurns(self.charge, timer=self.tick)
        self.soup = LocalPSoup(ONE_BY_ONE)
        self.maintainer = Maintainer(lambda _: None, pytest.fail, Guard(MemoryStore()), self.turns)
        self.done = list[tuple[str, str]]()

    def tick(self) -> float:
        """The time, which goes on from the beginning of an evaluation to its end."""
        self.seconds += self.takes.get(self.served, 0.0)
        return self.seconds

    def charge(self, tenant: str, seconds: float) -> None:
        self.charged[tenant] = self.charged.get(tenant, 0.0) + seconds

    def fill(self, tenant: str, streams: int) -> None:
        """Make streams of a tenant with closed chunks."""
        self.soup.tenant = tenant
        for number in range(streams):
            self.soup.execute(f"CREATE STREAM s{number} (x BIGINT)")
            self.push(tenant, number)
        self.soup.maintain()

    def ask(self, tenant: str, streams: int, query: str = COVER, *, pairs: bool = False) -> None:
        """Register a query of each stream, which comes after the chunks."""
        self.soup.tenant = tenant
        for number in range(streams):
            self.soup.register(query.replace("s0", f"s{number}"), keep_pairs=pairs)

    def push(self, tenant: str, number: int) -> None:
        """Push some chunks."""
        self.soup.tenant = tenant
        self.soup.push(f"s{number}", pa.table({"x": pa.array(range(64 * CHUNKS), pa.int64())}))

    def step(self) -> bool:
        """Do the next piece of maintenance, if there is one."""
        task = self.soup.engine.maintenance(self.turns.first)
        if task is not None:
            self.served = tenant_of(task) or ""
            self.done.append((task.name, self.served))
            self.soup.engine.install(self.maintainer._outcome(task))
        return task is not None

    def drain(self) -> list[str]:
        """Do all maintenance; returns the tenants of its evaluations."""
        self.done.clear()
        while self.step():
            pass
        self.soup.check()
        return [tenant for _, tenant in self.done if tenant]


def test_streams_of_a_tenant_delay_the_covering_of_another_one_by_a_task() -> None:
    means = Means(acme=1.0, birch=1.0)
    means.fill("acme", 5)
    means.fill("birch", 1)
    means.ask("acme", 5)
    assert means.step()
    means.ask("birch", 1)
    served = means.drain()
    assert served[: 2 * CHUNKS].count("birch") == CHUNKS, "not one in six"
    assert served.index("birch") <= 1
    assert Counter(served) == {"acme": 5 * CHUNKS - 1, "birch": CHUNKS}
    assert means.charged == {"acme": 5.0 * CHUNKS, "birch": 1.0 * CHUNKS}


@pytest.mark.parametrize(("query", "pairs"), [(COVER, False), (PAIRS, True)])
def test_a_tenant_of_slow_evaluations_waits_for_its_next_turn(query: str, pairs: bool) -> None:
    means = Means(acme=10.0, birch=0.001)
    for tenant in ("acme", "birch"):
        means.fill(tenant, 2)
    for tenant in ("acme", "birch"):
        means.ask(tenant, 1 if pairs else 2, query, pairs=pairs)
    served = means.drain()
    assert "acme" not in served[1 : served.count("birch") + 1]
    assert means.charged["acme"] == pytest.approx(10.0 * served.count("acme")) and served.count("acme") > 1
    assert {name for name, tenant in means.done if tenant == "acme"} >= {"pair" if pairs else "cover"}


def test_upkeep_and_evaluations_take_turns() -> None:
    means = Means()
    for tenant in ("acme", "birch"):
        means.fill(tenant, 1)
    for tenant in ("acme", "birch"):
        means.ask(tenant, 1)
    for number in range(3):
        means.soup.tenant = "cedar"
        means.soup.execute(f"CREATE STREAM s{number} (x BIGINT)")
        means.push("cedar", number)
    means.drain()
    names = [name for name, _ in means.done]
    assert names.count("seal") == 3 * CHUNKS and names.count("cover") == 2 * CHUNKS
    last = len(names) - names[::-1].index("seal")
    runs = [(name, len([*run])) for name, run in groupby(names[:last])]
    assert max(count for name, count in runs if name == "cover") == 1, "no seal waits for two evaluations"
    assert max(count for name, count in runs if name == "seal") <= 3, "an evaluation waits for one of each stream"


def test_pairs_are_made_within_half_of_what_the_reads_of_the_tenant_could_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for room, refused in ((1 << 20, False), (4_000, True)):
        means, allowance = Means(acme=1.0), ReadLimits(all_sort_bytes=room)
        budgets = BackgroundBudgets(allowance, GivingWay(), lambda *_: None)
        means.maintainer.budgets = budgets
        means.fill("acme", 2)
        means.ask("acme", 1, PAIRS, pairs=True)
        with caplog.at_level(logging.WARNING):
            means.drain()
        (table,) = means.soup.engine.snapshot().pairs.tables.values()
        assert (table.pairs == 0, f"{room // 2:,} were free" in table.refused) == (refused, refused)
        assert allowance.sorts.used == 0, "all is given back"
        assert [record.__dict__["why"] for record in own_records(caplog)] == [table.refused] * refused


def test_covering_rests_between_two_chunks_in_short_turns() -> None:
    means, rests, usual = Means(acme=1.0), list[float](), sys.getswitchinterval()

    class Resting(BackgroundBudgets):
        def resting(self) -> Callable[[], object]:
            rest = super().resting()
            return lambda: (rests.append(sys.getswitchinterval()), rest())

    means.maintainer.budgets = Resting(ReadLimits(), GivingWay(), lambda *_: None)
    means.soup = LocalPSoup(EngineConfig(chunk_rows=64))
    means.fill("acme", 1)
    means.ask("acme", 1)
    means.ask("acme", 1, "SELECT x FROM s0 WHERE x + 1 > 7")
    assert means.drain() == ["acme"], "one task for all chunks"
    assert rests == pytest.approx([min(usual, SHORT_SECONDS)] * CHUNKS) and sys.getswitchinterval() == usual


def test_a_host_lends_its_maintenance_bytes_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lent, seen = list[str](), threading.Event()
    budget = BackgroundBudgets.budget

    def lend(self: BackgroundBudgets, tenant: str, size: int) -> AbstractContextManager[ReadBudget]:
        lent.append(tenant)
        seen.set()
        return budget(self, tenant, size)

    monkeypatch.setattr(BackgroundBudgets, "budget", lend)

    async def body() -> None:
        host = Host(Engine(ONE_BY_ONE), Admission(ONE_BY_ONE), MemoryStore(), VirtualClock(0))
        host.start()
        try:
            for name in ("s0", "s1"):
                await host.submit(CreateStream(f"CREATE STREAM {name} (x BIGINT)"))
                await host.submit(Push(name, pa.table({"x": pa.array(range(128), pa.int64())})))
            await host.submit(Register(PAIRS, keep_pairs=True))
            assert await asyncio.to_thread(seen.wait, PATIENCE)
        finally:
            await asyncio.to_thread(host.close)
        assert set(lent) == {DEFAULT_TENANT} and host.times["join_share"][0].used[DEFAULT_TENANT] > 0

    asyncio.run(body())


def test_a_dropped_stream_waits_no_more() -> None:
    means = Means()
    means.fill("acme", 2)
    means.ask("acme", 2)
    assert means.step()
    for number in range(2):
        means.soup.execute(f"DROP STREAM s{number} CASCADE")
    assert means.drain() == []


def test_a_tenant_pays_for_the_threads_that_help() -> None:
    local, charged = threading.local(), dict[str, float]()

    def tick() -> float:
        local.seconds = getattr(local, "seconds", 0.0) + 1.0
        return float(local.seconds)

    turns, pool = EvaluationTurns(charged.__setitem__, timer=tick), TaskPool(3)
    together = threading.Barrier(3, timeout=PATIENCE)
    with turns.measured("acme", pool) as run:
        run([together.wait] * 3)
        with pytest.raises(ValueError, match="broken"):
            run([together.wait, _broken(together), together.wait])
    pool.close()
    assert charged == {"acme": 1.0 + 2 * 2.0}


def _broken(together: threading.Barrier) -> Callable[[], None]:
    def task() -> None:
        together.wait()
        raise ValueError("broken")

    return task
