"""The rounds of AUTO: every ten seconds, the service chooses the amounts of AUTO queries anew.

    snapshot ──round, on a reader's thread──> choices ──install──> the writer, between two runs

A round waits longer if the last one took more than a percent of ten seconds (`psoup.answer.automatic.rounds`).
"""

from __future__ import annotations

import asyncio
import logging
import time

from psoup.answer.automatic.rounds import AutoRounds
from psoup.errors import PSoupError
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host

_log = logging.getLogger(__name__)


class AutoWork:
    """The rounds of one service. Belongs to one event loop."""

    def __init__(self, host: Host[Snapshot]) -> None:
        self._host = host
        self._rounds = AutoRounds(time.thread_time)

    async def run(self) -> None:
        """Do a round every ten seconds, until cancelled."""
        while True:
            await asyncio.sleep(self._rounds.wait_s)
            try:
                await self.once()
            except PSoupError as problem:  # too many reads are under way: the next round looks again
                _log.info("the amounts of AUTO queries were not chosen: %s", problem.message)

    async def once(self) -> int:
        """Do a round. Returns the number of queries whose amount changes. Raises the errors of `Host.read`."""
        if not self._host.snapshot().automatic:
            return 0
        now = self._host.clock.now()
        choices = await self._host.read(lambda snapshot: self._rounds.look(snapshot, now))
        for choice in choices:
            self._host.install(choice)
        return sum(len(choice.query_ids) for choice in choices)
