"""Parking: inactive queries are parked that were not asked for `park_after_s`.

    every 24th part of that time    the inactive queries of a snapshot ── asked since the last look? ──> their time
                                                                        └ not for long ──> AlterQueries(unused)
    every hour                      parked queries that were asked for before the last hour leave the memory again

The times are in memory: after a start, all inactive queries count as asked at the start. One command parks many
queries, and `prepare` looks again: a query that became active meanwhile stays.
"""

from __future__ import annotations

import asyncio
import logging

import numpy as np

from psoup.errors import PSoupError
from psoup.events.acknowledgements import AlterationAcknowledgement
from psoup.events.commands import AlterQueries
from psoup.model import SECOND
from psoup.plan.amounts import KeepingChange, inactive_codes, parked_codes
from psoup.plan.sides import is_side
from psoup.published.parked_queries import RecalledQueries
from psoup.published.record_block import picked
from psoup.published.records import QueryBlock
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array
from psoup_service.host.host import Host

FORGET_S = 3_600.0
"""Seconds for which a parked query stays in memory after its last use, at least. At most it is twice as long."""
_LOOKS = 24
"""The number of looks in the time after which a query is parked."""
_TOGETHER = 65_536
"""The most queries that one command parks, so that other commands come between."""
_PATIENCE_S = 60.0
_log = logging.getLogger(__name__)


class Parking:
    """Parks the queries of one service. `park_after_s`: see the settings; 0 parks none. `recalled`: see `Engine`."""

    def __init__(self, host: Host[Snapshot], recalled: RecalledQueries, park_after_s: int) -> None:
        self._host = host
        self._recalled = recalled
        self._park_after = park_after_s * SECOND
        self.every_s = max(1.0, park_after_s / _LOOKS) if park_after_s else FORGET_S
        """Seconds between two looks."""
        self._ids: Array = np.zeros(0, np.int64)
        """The inactive queries at the last look that are not parked, ascending."""
        self._since: Array = np.zeros(0, np.int64)
        """For each, the time (microseconds) of the first look at it, or of the first look after its last use."""
        self.parked = 0
        """Queries that were parked by this process, without a call."""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(self.every_s)
            try:
                await self.once()
            except (PSoupError, TimeoutError) as problem:  # no room, or no time for it: until the next look
                _log.warning("inactive queries stay in memory for now: %s", problem)

    async def forget(self) -> None:
        """Forget parked queries that were not asked, every hour, until cancelled."""
        while True:
            await asyncio.sleep(FORGET_S)
            self._recalled.forget()

    async def once(self) -> int:
        """Park queries that were not asked for long. Returns their number, once readers see it. Raises what a host
        raises, and TimeoutError."""
        if not self._park_after:
            return 0
        due = await self._host.read(self._due)
        before, last = self.parked, 0
        for tenant, query_ids in due.items():
            for start in range(0, len(query_ids), _TOGETHER):
                some = query_ids[start : start + _TOGETHER]
                command = AlterQueries(some, change=KeepingChange(parked=True), tenant=tenant, unused=True)
                done = await self._host.submit(command, patience=_PATIENCE_S)
                assert isinstance(done, AlterationAcknowledgement)
                self.parked, last = self.parked + done.changed, done.sequence
        await self._host.wait_for(last, _PATIENCE_S)
        return self.parked - before

    def _due(self, snapshot: Snapshot) -> dict[str, Array]:
        """The queries to park, by tenant: ascending. O(n log n) for n inactive queries; see `inactive_queries`."""
        now, by_tenant = self._host.clock.now(), inactive_queries(snapshot)
        ids = np.sort(np.concatenate([np.zeros(0, np.int64), *by_tenant.values()]))
        since: Array = np.full(len(ids), now)
        place = np.minimum(np.searchsorted(self._ids, ids), max(len(self._ids) - 1, 0))
        if len(self._ids):
            seen = self._ids[place] == ids
            since[seen] = self._since[place[seen]]
        since[np.isin(ids, snapshot.lifetimes.asked.take())] = now
        self._ids, self._since = ids, since
        return _of_tenants(by_tenant, ids, since <= now - self._park_after)


def _of_tenants(by_tenant: dict[str, Array], ids: Array, due: Array) -> dict[str, Array]:
    """The queries of each tenant (int64[k], ascending) that are due. Leaves out tenants without such queries.

    `ids`: the queries of all tenants, ascending. `due`: a flag for each. O(n log n), however many tenants there are.
    """
    parts = {tenant: np.sort(owned[due[np.searchsorted(ids, owned)]]) for tenant, owned in by_tenant.items()}
    return {tenant: part for tenant, part in parts.items() if len(part)}


def inactive_queries(snapshot: Snapshot) -> dict[str, Array]:
    """The inactive queries that are not parked, by tenant: int64[k] each, without sides.

    O(queries of blocks), and a step of Python for each other query.
    """
    parts: dict[str, list[Array]] = {}
    for block in snapshot.queries.blocks:
        assert isinstance(block, QueryBlock)
        if is_side(block.first) or block.is_parked:
            continue
        places = block.standing()
        codes = block.codes_at(places)
        some = places[inactive_codes(codes) & ~parked_codes(codes)]
        if len(some):
            parts.setdefault(block.tenant, []).append(picked(block.ids, some))
    for record in snapshot.queries.single():
        if not (record.keeping.active or record.keeping.parked or is_side(record.query_id)):
            parts.setdefault(record.tenant, []).append(np.array([record.query_id], np.int64))
    return {tenant: np.concatenate(ids) for tenant, ids in parts.items()}
