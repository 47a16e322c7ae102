"""Heartbeats by the clock: once a second, the watermarks of live streams follow the clock (WATERMARK BY CLOCK).

    every second ── does a stream have WATERMARK BY CLOCK? ── one command ──> admission: which watermarks move
         └── a stall, or a step of the clock: a pause in taking pushes

Admission decides, and one event has the watermarks of all streams (`psoup.admission.clock_heartbeats`). If applying it
takes long, the next one comes later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from psoup.errors import PSoupError
from psoup.events.commands import RaiseWatermarks
from psoup.model import SECOND
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host
from psoup_service.host.push_pauses import PushPauses
from psoup_service.process.clock import GuardedClock

EVERY_S = 1.0
"""The least seconds between two heartbeats."""

STALL = 5 * SECOND
"""Microseconds of boot time without a look at the clock, from which on the service may not have taken pushes."""

STEP = SECOND
"""Microseconds by which the clock jumps, from which on the clocks of producers may differ from it."""

_SHARE = 20
"""The divisor of the time that may pass with applying heartbeats: a twentieth."""
_PATIENCE_S = 60.0
_REPORTS = 60 * SECOND
"""The least microseconds between two lines of the log about watermarks that stand still."""
_log = logging.getLogger(__name__)


class ClockHeartbeats:
    """The heartbeats of one service. `wanted`: tells whether a stream has WATERMARK BY CLOCK."""

    def __init__(
        self, host: Host[Snapshot], clock: GuardedClock, pauses: PushPauses, wanted: Callable[[], bool]
    ) -> None:
        self._host = host
        self._clock = clock
        self.pauses = pauses
        self._wanted = wanted
        self._looked: tuple[int, int] | None = None
        """Boot time, and the clock less boot time, at the last look."""
        self._reported: int | None = None
        """The boot time of the last line of the log."""
        self.count = 0
        """The events since the start."""

    def begin(self) -> None:
        """Begin the grace after a start. Called once all events are replayed, before the first push is taken."""
        self.pauses.interrupt()
        self._looked = None

    async def run(self) -> None:
        """Send heartbeats, until cancelled."""
        pause, loop = EVERY_S, asyncio.get_running_loop()
        while True:
            await self._looking(asyncio.sleep(pause))
            began = loop.time()
            await self._looking(self.once())
            pause = max(EVERY_S, _SHARE * (loop.time() - began))

    async def _looking(self, work: Coroutine[Any, Any, object]) -> None:
        """Look at the clock every second while `work` goes on: else the pause after a slow heartbeat is a stall."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=EVERY_S)
                self._look()
            task.result()
        finally:
            task.cancel()

    async def once(self) -> bool:
        """Let watermarks follow the clock. Returns whether one has moved, once readers see it."""
        self._look()
        if not self._wanted():
            return False
        try:
            done = await self._host.submit(RaiseWatermarks(*self.pauses.steady()))
            if done.duplicate:
                return False
            self.count += 1
            await self._host.wait_for(done.sequence, _PATIENCE_S)
        except (PSoupError, TimeoutError) as problem:  # pushes would be refused, too
            self.pauses.interrupt()
            self._report(problem)
            return False
        return True

    def _report(self, reason: object) -> None:
        """Log why watermarks stand still, at most once a minute."""
        boot = self._clock.boot()
        if self._reported is None or boot - self._reported >= _REPORTS:
            self._reported = boot
            _log.info("watermarks do not follow the clock for now: %s", reason)

    def _look(self) -> None:
        """Note a pause if the process stood still since the last look, or if the clock has jumped."""
        boot = self._clock.boot()
        offset = self._clock.now() - boot
        before, self._looked = self._looked, (boot, offset)
        if before is None:
            return
        stall, step = boot - before[0], offset - before[1]
        if stall >= STALL or abs(step) >= STEP:
            self.pauses.interrupt()
            stood = f"the service stood still for {stall / SECOND:.0f} s"
            self._report(stood if stall >= STALL else f"the clock jumped by {step / SECOND:.0f} s")
