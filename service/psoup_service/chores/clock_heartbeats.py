"""Heartbeats by the clock: once a second, the watermarks of live streams follow the clock (WATERMARK BY CLOCK).

    every second ── does a stream have WATERMARK BY CLOCK? ── one command ──> admission: which watermarks move
         └── a stall, or a step of the clock: a pause in taking pushes

Admission decides, and one event has the watermarks of all streams (`psoup.admission.clock_heartbeats`). If applying it
takes long, the next one comes later.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

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
        self.count = 0
        """The events since the start."""

    def begin(self) -> None:
        """Begin the grace after a start. Called once all events are replayed, before the first push is taken."""
        self.pauses.interrupt()
        self._looked = None

    async def run(self) -> None:
        """Send heartbeats, until cancelled."""
        pause = EVERY_S
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            await self.once()
            pause = max(EVERY_S, _SHARE * (time.monotonic() - began))

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
            _log.info("watermarks do not follow the clock for now: %s", problem)
            return False
        return True

    def _look(self) -> None:
        """Note a pause if the process stood still since the last look, or if the clock has jumped."""
        boot = self._clock.boot()
        offset = self._clock.now() - boot
        before, self._looked = self._looked, (boot, offset)
        if before is not None and (boot - before[0] >= STALL or abs(offset - before[1]) >= STEP):
            self.pauses.interrupt()
