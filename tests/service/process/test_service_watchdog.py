"""The watchdog of an event loop: it rests while the loop has no work, and a call rouses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from psoup.work.gc_pause import without_collector
from psoup_client import Client
from psoup_service.figures import watchdog as module
from psoup_service.figures.metrics import Metrics
from psoup_service.figures.watchdog import Watchdog
from psoup_service.process.settings import Settings
from psoup_testing.services.threaded_service import serving


@pytest.fixture(autouse=True)
def rests_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST_AFTER", 3)


@asynccontextmanager
async def watching() -> AsyncIterator[Watchdog]:
    watchdog = Watchdog(Metrics())
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.stop()


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not done():
            await asyncio.sleep(0)


def spend(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_it_rests_while_the_loop_has_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUSY_S", 1.0)  # also on a slow machine

    async def scenario() -> None:
        async with watching() as watchdog:
            assert not watchdog.resting
            await until(lambda: watchdog.resting)
            watchdog.rouse()
            assert not watchdog.resting
            await until(lambda: watchdog.resting)

    asyncio.run(scenario())


def test_a_stall_of_the_call_that_rouses_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST_S", 3_600.0)  # no tick of a resting watchdog sees it
    monkeypatch.setattr(module, "_BUSY_S", 1.0)

    async def scenario() -> None:
        async with watching() as watchdog:
            with without_collector():  # a collection would be a stall, too
                await until(lambda: watchdog.resting)
                watchdog.rouse()
                spend(0.1)
                await until(lambda: watchdog.resting)
            assert watchdog.stalls == 1 and watchdog.longest >= 0.1

    asyncio.run(scenario())


def test_it_stays_awake_while_the_loop_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUSY_S", 0.0)
    monkeypatch.setattr(module, "REST_AFTER", 5)
    ticks = list[float]()
    monkeypatch.setattr(Metrics, "loop_lag", lambda _, lag: ticks.append(lag))

    async def scenario() -> None:
        async with watching() as watchdog:
            await until(lambda: watchdog.resting or len(ticks) >= 20)
            assert not watchdog.resting

    asyncio.run(scenario())


def test_it_ends_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUSY_S", 1.0)

    async def scenario() -> None:
        async with watching() as watchdog:
            await until(lambda: watchdog.resting)
        watchdog.rouse()
        assert watchdog._thread is not None and not watchdog._thread.is_alive()

    asyncio.run(scenario())


def test_a_call_rouses_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_BUSY_S", 1.0)
    monkeypatch.setattr(module, "REST_S", 3_600.0)
    with serving(Settings(port=0)) as service, Client(service.address) as client:
        watchdog, roused = service.service.watchdog, list[bool]()
        rouse = watchdog.rouse
        monkeypatch.setattr(service.service._answering.calls.turns, "_came", lambda: (roused.append(True), rouse()))
        client.info()
        assert roused
