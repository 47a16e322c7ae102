"""Folding ahead in a service: every few seconds new chunks are folded on the threads of jobs.

every 2 s ─> steps of some tens of milliseconds, until nothing is left to fold      psoup.execution.ahead.folds_ahead
             each fold within a budget, noted on disk beforehand                    psoup_service.host.background

A look without a publication since the last one would find nothing, and is left out.
"""

from __future__ import annotations

import asyncio
import logging

from psoup.errors import PSoupError
from psoup.execution.ahead.attempts import Spare
from psoup.execution.ahead.folds_ahead import FoldingAhead
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host
from psoup_service.host.threads import Threads, on

EVERY_S = 2.0
"""Seconds between two looks. New chunks stay in memory for longer than that."""

_LOOKS = 15
"""The number of looks after which folds that a budget has refused are tried again, also without a publication."""

_log = logging.getLogger(__name__)


class FoldAhead:
    """Folds chunks for aggregates ahead of their readers: chunks that were sealed, or put on disk."""

    def __init__(self, host: Host[Snapshot], threads: Threads, spare: Spare) -> None:
        self._host = host
        self._threads = threads
        self._ahead = FoldingAhead(spare)
        self._news = True
        """Whether something was published since the last look."""

    async def run(self) -> None:
        """Look every few seconds if something was published, until cancelled."""
        end, skipped = self._host.listen(self._publish), 0
        try:
            while True:
                await asyncio.sleep(EVERY_S)
                skipped += 1
                if not self._news and skipped < _LOOKS:
                    continue
                self._news, skipped = False, 0
                try:
                    await self.once()
                except PSoupError as problem:  # harmless: a read folds what is missing
                    _log.warning("nothing was folded ahead: %s", problem.message)
        finally:
            end()

    def _publish(self) -> None:
        """Note a publication. On the writer's thread."""
        self._news = True

    async def once(self) -> int:
        """Fold all chunks that may be folded now. Returns the number of folds."""
        total = 0
        while made := await on(self._threads.jobs, self._ahead.step, self._host.snapshot()):
            total += made
        return total
