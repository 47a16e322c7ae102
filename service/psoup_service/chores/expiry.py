"""Expiry: tuples wait after a start, and queries end that were not asked for during their `expires_after`.

    start     tuples of before the start do not expire for a minute: its clock may be wrong     `ExpiryWait`

Expired queries are looked for every hour, and one command unregisters many of them:

    start     the days that the last process left ("asked"), or today for all        `take_over`
    hour      tick ─ due? ─ UnregisterMany(expired) ─ prepare looks again ─ event    `once`
    stop      the days are left for the next process                                 `leave`

A killed process leaves no note of the days on which queries were last asked. All queries then live on as if they were
asked at the next start. So a note is valid only until the next process has taken it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import numpy as np

from psoup.answer.follow.noted_places import note_groups
from psoup.errors import PSoupError
from psoup.events.acknowledgements import RemovalAcknowledgement
from psoup.events.commands import UnregisterMany
from psoup.model import SECOND
from psoup.published.lifetimes import Lifetimes
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host
from psoup_service.process.clock import GuardedClock
from psoup_storage.contract import Store

EVERY_S = 3_600.0
"""Seconds between two looks for expired queries. Their lifetimes are counted in days."""

WAIT = 60 * SECOND
"""Microseconds of boot time after a start during which older tuples do not expire."""

_NOTE = "asked"
_TOGETHER = 8_192
"""The most queries that one command unregisters, so that other commands come between."""
_PATIENCE_S = 60.0
_log = logging.getLogger(__name__)


def last_time(snapshot: Snapshot) -> int | None:
    """The latest time that a clock gave to an event of the snapshot; None without any. O(streams + tokens)."""
    times = [token.issued for token in snapshot.tokens.values()]
    times += [tenant.created for tenant in snapshot.tenants.values() if tenant.created]
    for view in snapshot.by_id.values():
        times += [view.created, view.heard or view.created]
        if not view.spec.event_time and view.last_time is not None:
            times.append(view.last_time)
    return max(times, default=None)


class ExpiryWait:
    """The limit on expiry after a start. For a minute, tuples in system time expire only up to the last event's time.

    A service may start before its machine's clock is right. `replaying`: tells whether a start still replays events.
    Replayed events expire the same tuples as before. `snapshot`: returns the published snapshot.
    """

    def __init__(self, clock: GuardedClock, replaying: Callable[[], bool], snapshot: Callable[[], Snapshot]) -> None:
        self._clock = clock
        self._replaying = replaying
        self._snapshot = snapshot
        self._last: int | None = None
        self._end: int | None = None

    def edge(self) -> int | None:
        """The time up to which tuples may expire; None without a limit.

        O(1), but O(streams) for the first call after the replay.
        """
        if self._replaying():
            return None
        if self._end is None:
            self._last, self._end = last_time(self._snapshot()), self._clock.boot() + WAIT
        return self._last if self._clock.boot() < self._end else None

    def begin(self) -> None:
        """Begin to wait, and to guard the clock. Called after the replay.

        A clock that is before the last event is reported in the log.
        """
        self.edge()
        self._clock.begin(self._last)

    def begin_again(self, wall: Callable[[], int], boot: Callable[[], int]) -> None:
        """Begin anew by the clocks of the machine, as after a start: a standby is promoted."""
        last = last_time(self._snapshot())
        self._clock.take_up(wall, boot, last)
        self._last, self._end = last, boot() + WAIT


class Expiry:
    """Unregisters expired queries. Belongs to the event loop; a reader thread looks through the queries."""

    def __init__(self, host: Host[Snapshot], store: Store) -> None:
        self._host = host
        self._store = store
        self.expired = 0
        """Queries that were unregistered by this process."""

    @property
    def _lifetimes(self) -> Lifetimes:
        return self._host.snapshot().lifetimes

    def count_all_as_asked(self) -> None:
        """Count all queries as used today: the older writer of a standby has not left its days. O(queries)."""
        self._lifetimes.restore("", self._host.clock.now())

    def take_over(self) -> None:
        """Read the days that the last process left, and delete the note.

        Called once all events are replayed. O(queries).
        """
        self._lifetimes.restore(self._store.noted(_NOTE), self._host.clock.now())
        note_groups(self._host.snapshot(), self._host.clock.now())
        self._store.note(_NOTE, "", sync=True)

    def leave(self) -> None:
        """Note the days for the next process. Called after the last event, before the store is closed. O(queries)."""
        self._store.note(_NOTE, self._lifetimes.save(self._host.clock.now()), sync=True)

    async def run(self) -> None:
        """Look every hour, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.once()
            except (PSoupError, TimeoutError) as problem:  # no room, or no time for it: the next look is in an hour
                _log.warning("queries that have expired stay for now: %s", problem)

    async def once(self) -> int:
        """Unregister expired queries; returns their number once no call sees them.

        Raises what a host raises, and TimeoutError.
        """
        due = await self._host.read(self._due)
        before, last = self.expired, 0
        for tenant, query_ids in due.items():
            for start in range(0, len(query_ids), _TOGETHER):
                some = np.array(query_ids[start : start + _TOGETHER], np.int64)
                done = await self._host.submit(UnregisterMany(some, tenant=tenant, expired=True), patience=_PATIENCE_S)
                assert isinstance(done, RemovalAcknowledgement)
                self.expired, last = self.expired + done.count, done.sequence
        await self._host.wait_for(last, _PATIENCE_S)
        if self.expired > before:
            _log.info("queries have expired", extra={"queries": self.expired - before})
        return self.expired - before

    def _due(self, snapshot: Snapshot) -> dict[str, list[int]]:
        """The queries that have expired, by tenant."""
        now, due = self._host.clock.now(), dict[str, list[int]]()
        snapshot.lifetimes.tick(now)
        note_groups(snapshot, now)
        for record in map(snapshot.queries.get, snapshot.lifetimes.due(now).tolist()):
            if record is not None:
                due.setdefault(record.tenant, []).append(record.query_id)
        return due
