"""The end of queries that nobody has asked for as long as they said: looked for every hour, and unregistered together.

    start     the days that the last process left ("asked"), or today for all        `take_over`
    hour      tick ─ due? ─ UnregisterMany(expired) ─ prepare looks again ─ event    `once`
    stop      the days are left for the next process                                 `leave`

A process that is killed leaves nothing, and what it knew of the last days is lost with it: all queries live on as if
they were asked at the next start. So a note is valid only until the next process has taken it.
"""

from __future__ import annotations

import asyncio
import logging

import numpy as np

from psoup.errors import PSoupError
from psoup.events.acknowledgements import RemovalAcknowledgement
from psoup.events.commands import UnregisterMany
from psoup.published.lifetimes import Lifetimes
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host
from psoup_storage.contract import Store

EVERY_S = 3_600.0
"""Seconds between two looks; lives are counted in days."""

_NOTE = "asked"
_TOGETHER = 8_192
"""Queries that are unregistered at once, at most: other commands come between."""
_PATIENCE_S = 60.0
_log = logging.getLogger(__name__)


class Expiry:
    """Unregisters what has expired. On the event loop, but for looking through all queries."""

    def __init__(self, host: Host[Snapshot], store: Store) -> None:
        self._host = host
        self._store = store
        self.expired = 0
        """Queries that were unregistered by this process."""

    @property
    def _lifetimes(self) -> Lifetimes:
        return self._host.snapshot().lifetimes

    def take_over(self) -> None:
        """Take over the days of the last process, once all events are replayed. O(queries)."""
        self._lifetimes.restore(self._store.noted(_NOTE), self._host.clock.now())
        self._store.note(_NOTE, "", sync=True)

    def leave(self) -> None:
        """Leave the days to the next process: after the last event, before the store is closed. O(queries)."""
        self._store.note(_NOTE, self._lifetimes.save(self._host.clock.now()), sync=True)

    async def run(self) -> None:
        """Look every hour, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.once()
            except (PSoupError, TimeoutError) as problem:  # no room, or no time for it: an hour later
                _log.warning("queries that have expired stay for now: %s", problem)

    async def once(self) -> int:
        """Unregister what has expired by now; returns how many queries, once no call sees them.

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
        for record in map(snapshot.queries.get, snapshot.lifetimes.due(now).tolist()):
            if record is not None:
                due.setdefault(record.tenant, []).append(record.query_id)
        return due
