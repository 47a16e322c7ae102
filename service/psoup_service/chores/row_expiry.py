"""Expiry of rows: once a second, rows of tables are deleted whose time in the column of EXPIRES BY has come.

    every second ── a reader looks at a snapshot ── ExpireRows for each table ──> admission looks again ── deletions
         ^                                                                                                     │
         └────────────────────────────────── at once, while a table has more of them <─────────────────────────┘

A look reads a snapshot only after an event, or at the time of the next row.

An event deletes at most `MOST_ROWS` rows, so that other commands come between. In the first minute after a start the
clock may be wrong. Then rows expire only up to the time of the last event, as tuples do (`ExpiryWait`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from psoup.errors import PSoupError
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import ExpireRows
from psoup.published.expired_rows import MOST_ROWS, ExpiredRows
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host

EVERY_S = 1.0
"""Seconds between two looks for expired rows."""

_PATIENCE_S = 60.0
_REPORTS_S = 60.0
"""The least seconds between two lines of the log about rows that stay."""
_log = logging.getLogger(__name__)


class RowExpiry:
    """Deletes the expired rows of one service. `edge`: the time up to which they expire now, None without a limit."""

    def __init__(self, host: Host[Snapshot], edge: Callable[[], int | None]) -> None:
        self._host = host
        self._edge = edge
        self._looks = ExpiredRows()
        self._looked: int | None = None
        """The sequence of the snapshot of the last look."""
        self._reported: float | None = None
        self.expired = 0
        """Rows that were deleted by this process."""

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            if self.is_due():
                await self.once()

    def is_due(self) -> bool:
        """Whether rows have come since the last look, or the time of the next row has."""
        next_time = self._looks.next_time
        return self._host.applied != self._looked or (next_time is not None and next_time <= self._now())

    async def once(self) -> int:
        """Delete all rows that have expired. Returns their number, once readers see that they are gone."""
        before, more = self.expired, True
        while more:
            more, last = False, 0
            for command in await self._host.read(self._due):
                count, sequence = await self._delete(command)
                last = max(last, sequence)
                more = more or (count > 0 and len(command.ids) == MOST_ROWS)
            more = await self._visible(last) and more
        return self.expired - before

    def _due(self, snapshot: Snapshot) -> list[ExpireRows]:
        due = self._looks.due(snapshot, self._now())
        self._looked = snapshot.sequence
        return due

    def _now(self) -> int:
        """The time up to which rows expire."""
        now, edge = self._host.clock.now(), self._edge()
        return now if edge is None else min(now, edge)

    async def _delete(self, command: ExpireRows) -> tuple[int, int]:
        """Delete some rows of one table. Returns their number, and the sequence of the event; 0 and 0 without one."""
        try:
            done = await self._host.submit(command, patience=_PATIENCE_S)
        except (PSoupError, TimeoutError) as problem:  # no room for the deletions: the next look is in a second
            self._report(problem)
            return 0, 0
        assert isinstance(done, PushAcknowledgement)
        if done.duplicate:
            return 0, 0
        self.expired += done.accepted
        return done.accepted, done.sequence

    async def _visible(self, sequence: int) -> bool:
        """Wait until readers see an event. Returns False if that takes too long."""
        try:
            await self._host.wait_for(sequence, _PATIENCE_S)
        except (PSoupError, TimeoutError):
            return False
        return True

    def _report(self, reason: object) -> None:
        """Log why rows stay, at most once a minute."""
        now = asyncio.get_running_loop().time()
        if self._reported is None or now - self._reported >= _REPORTS_S:
            self._reported = now
            _log.warning("rows of tables have expired, and stay for now: %s", reason)
