"""Watch for queries that take much of the writer's time as tuples arrive. They are looked for every half minute.

    share of a query ── warn_share or more ────────> logged once while it stays so, counted, and told by EXPLAIN
                     └─ quarantine_share or more ──> its clause leaves the index until the next start: answers evaluate
                                                     it row by row (`psoup.clauses.quarantine`). An AUTO query becomes
                                                     NONE instead.

All clients of a service share the writer, so all of them wait for the time that one query takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import numpy as np

from psoup.answer.figures.arrival_shares import ArrivalShare, ArrivalShares
from psoup.engine.maintenance.dear import TooDear
from psoup.errors import PSoupError
from psoup.plan.amounts import Amount
from psoup.published.automatic import AmountChoice
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids
from psoup_storage.contract import Store

EVERY_S = 30.0
"""Seconds between two looks. The share of a query is measured over the same time."""

_log = logging.getLogger(__name__)


class ArrivalWatch:
    """Watch over the queries of one service. Belongs to one event loop.

    `warn`: from this share of the writer's time on (0 to 1), a query is reported. `quarantine`: from this share on, it
    leaves the index. 0 switches either off. `now`: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        host: Host[Snapshot],
        store: Store,
        warn: float,
        quarantine: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._ids = Ids(store.incarnation)
        self._now = now
        self._warn = warn
        self._quarantine = quarantine
        self._least = min((share for share in (warn, quarantine) if share), default=0.0)
        self._shares = ArrivalShares(self._least)
        self._looked = now()
        self._warned: frozenset[int] = frozenset()
        self.quarantined = 0
        """Clauses that this process has asked to leave the index."""

    def figures(self) -> dict[str, int]:
        """Figures for the operator."""
        return {"dear_queries": len(self._warned), "dear_clauses_left_index": self.quarantined}

    async def run(self) -> None:
        """Look every half minute, until cancelled. Returns at once if both limits are 0."""
        while self._least:
            await asyncio.sleep(EVERY_S)
            try:
                await self.once()
            except PSoupError as problem:  # too many reads are under way: the next look measures again
                _log.info("what queries take was not looked at: %s", problem.message)

    async def once(self) -> Sequence[ArrivalShare]:
        """Measure each query's share of the writer's time since the last call; warn, and quarantine costly clauses.

        Returns the queries whose share reaches the lower of the two limits. Raises the errors of `Host.read`.
        """
        now = self._now()
        passed, self._looked = max(now - self._looked, 1e-9), now
        finding = await self._host.read(lambda snapshot: self._shares.look(snapshot, passed))
        dear = [share for share in finding if self._warn and share.share >= self._warn]
        for share in dear:
            if share.query_id not in self._warned:
                self._tell(share)
        self._warned = frozenset(share.query_id for share in dear)
        too_dear = [share for share in finding if self._quarantine and share.share >= self._quarantine]
        automatic = self._automatic({share.query_id for share in too_dear})
        if automatic:
            ids = np.array(sorted(automatic), np.int64)
            self._host.install(AmountChoice(Amount.NONE, ids, dear=True, time=self._host.clock.now()))
        for share in too_dear:
            if share.query_id not in automatic:
                self._take_out(share)
        return finding

    def _automatic(self, query_ids: set[int]) -> set[int]:
        """The AUTO queries among some queries. Leaves out idle ones, and ones that no round has seen."""
        snapshot = self._host.snapshot()
        records = [record for i in query_ids if (record := snapshot.queries.get(i)) is not None]
        auto = [record.query_id for record in records if record.keeping.auto and not record.keeping.idle]
        return {query_id for query_id in auto if snapshot.automatic.rows.place(query_id) >= 0}

    def _tell(self, share: ArrivalShare) -> None:
        _log.warning(
            "a query takes much of the time in which tuples arrive; psoup explain shows it; other queries wait for it",
            extra={"query": self._ids.query(share.query_id), "share": round(share.share, 3)},
        )

    def _take_out(self, share: ArrivalShare) -> None:
        """Take the dearest clause of a query out of the index.

        For a join, a later look takes out a further clause if the share is still too large.
        """
        why = (
            f"query {self._ids.query(share.query_id)} took {share.share:.0%} of the time in which tuples arrive,"
            f" and {self._quarantine:.0%} is the most (quarantine_share): it comes back when the service starts,"
            " or when all queries that have it are unregistered"
        )
        dearest = share.dearest
        self._host.install(TooDear(dearest.clause, dearest.exprs, why))
        self.quarantined += 1
