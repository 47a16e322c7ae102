"""A real service on a free port of loopback, in a thread of the test's process, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from psoup.config import EngineConfig
from psoup.work.clock import Clock
from psoup_service.process import event_loop
from psoup_service.process.settings import Settings
from psoup_service.service import Service, running_service
from psoup_storage import Store


class _FewProducers(Settings):
    def engine_config(self) -> EngineConfig:
        return replace(super().engine_config(), producers=2, producer_rest=0)


FEW_PRODUCERS = _FewProducers(port=0)
"""Two producers of a stream are remembered, and none must have been silent for long to make way."""


class Serving:
    """A service that runs until `stop`; `address` is where. `service` is its own object, of another thread."""

    def __init__(
        self, settings: Settings | None = None, clock: Clock | None = None, store: Store | None = None
    ) -> None:
        self._settings = settings or Settings(port=0)
        self._store = store
        self._clock = clock
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._problem: BaseException | None = None
        self.service: Service
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._problem is not None:
            raise self._problem
        self.address = self.service.address
        port = self.address.rpartition(":")[2]
        self.port = int(port) if port.isdecimal() else 0

    def _run(self) -> None:
        try:
            event_loop.run(self._serve())
        except BaseException as problem:
            self._problem = problem
            self._ready.set()

    async def _serve(self) -> None:
        async with running_service(self._settings, clock=self._clock, store=self._store) as service:
            self._loop, self._stop, self.service = asyncio.get_running_loop(), asyncio.Event(), service
            self._ready.set()
            await self._stop.wait()

    def expire(self) -> int:
        """Unregister what has expired, as the service does every hour; returns how many queries."""
        return asyncio.run_coroutine_threadsafe(self.service.regular.expiry.once(), self._loop).result()

    def park(self) -> int:
        """Park inactive queries that were not asked for long, as the service does; returns how many."""
        return asyncio.run_coroutine_threadsafe(self.service.regular.parking.once(), self._loop).result()

    def follow_clock(self) -> bool:
        """Let watermarks follow the clock, as the service does every second; returns whether one has moved."""
        return asyncio.run_coroutine_threadsafe(self.service.regular.heartbeats.once(), self._loop).result()

    def expire_rows(self) -> int:
        """Delete expired rows of tables, as the service does every second; returns how many."""
        return asyncio.run_coroutine_threadsafe(self.service.regular.row_expiry.once(), self._loop).result()

    def wait_until(self, done: Callable[[], bool]) -> None:
        """Wait until a condition holds, which the event loop evaluates again and again. Raises TimeoutError."""

        async def waited() -> None:
            async with asyncio.timeout(60):
                while not done():
                    await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(waited(), self._loop).result()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The event loop does nothing meanwhile."""
        holding, release = threading.Event(), threading.Event()

        def hold() -> None:
            holding.set()
            release.wait(600)

        self._loop.call_soon_threadsafe(hold)
        assert holding.wait(60)
        try:
            yield
        finally:
            release.set()

    def stop(self) -> None:
        """Drain and stop; raises if the service had failed. May be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        if self._problem is not None:
            raise self._problem


@contextmanager
def serving(
    settings: Settings | None = None, clock: Clock | None = None, store: Store | None = None
) -> Iterator[Serving]:
    """A `Serving` for a `with` statement."""
    service = Serving(settings, clock, store)
    try:
        yield service
    finally:
        service.stop()
