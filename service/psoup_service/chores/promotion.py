"""The promotion of a standby: it becomes the service that writes, in the same process and for the same clients.

    psoup promote ─> apply what the copy has ─> fence ─> apply the last events before it ─> write
                     reads go on; all of it is said to the caller                            a new life begins

The standby takes no command before it has all events before the fence. Engine, connections and calls under way stay.
Work that makes events begins with the promotion: heartbeats, expiry, pumps, webhooks.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable

from psoup.errors import FailedPrecondition, Unavailable
from psoup.model import time_text
from psoup.published.snapshot import Snapshot
from psoup_service.chores.expiry import Expiry, ExpiryWait
from psoup_service.chores.standby import Following
from psoup_service.host.host import Host
from psoup_service.host.standby_host import Promoted, PromotionStep, StandbyHost
from psoup_service.host.threads import Threads, on
from psoup_service.process.clock import boot_time, wall_time
from psoup_service.sync.tokens import Tokens
from psoup_storage import Replication, StandbyStore, uploader_of
from psoup_storage.contract import Store
from psoup_storage.replica.fences import COPY_FENCED, Fence

LOOK_S = 0.02
"""Seconds between two looks whether the standby has gone on."""
TELL_S = 1.0
"""Seconds between two reports to the caller."""
PAUSE_S = 0.5
"""Seconds of pause after an error of the storage."""
FEW = 16
"""The objects that the standby may lack when the fence is written."""
_log = logging.getLogger(__name__)


class Promotion:
    """The promotion of one service, which may be no standby. Belongs to the event loop.

    `following`, `expiry`, `wait`: of the service. `work`: starts the work that makes events.
    """

    def __init__(
        self,
        host: Host[Snapshot],
        store: Store,
        threads: Threads,
        following: Following,
        expiry: Expiry,
        wait: ExpiryWait,
        work: Callable[[], None],
    ) -> None:
        self._host, self._store, self._threads = host, store, threads
        self._following, self._expiry, self._wait, self._work = following, expiry, wait, work
        self._tokens: Tokens | None = None
        self._deliver: Callable[[], None] = lambda: None
        following.reached = self._take_up
        self._promoted: Promoted | None = None
        self._newest = 0
        self._task: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        """Held while the fence is written, and while the store becomes a writer. A fence that is written after the
        store writes would stop it.
        """

    def serve(self, tokens: Tokens, deliver: Callable[[], None]) -> None:
        """Start webhooks at a service that writes. A standby notes how, for its promotion. Called before it follows."""
        self._tokens, self._deliver = tokens, deliver
        if not self._store.follows:
            deliver()

    async def steps(self) -> AsyncIterator[PromotionStep]:
        """Promote the standby, and report every second until it writes. Joins a promotion that is under way.

        A caller that leaves does not end the promotion. Raises FailedPrecondition: NOT_STANDBY for a service that was
        no standby, COPY_FENCED if another service took over later. Raises Unavailable, and as `begin_promotion`.
        """
        host, store = self._host, self._store
        if not (isinstance(host, StandbyHost) and isinstance(store, StandbyStore)):
            raise FailedPrecondition(
                "this service is not a standby, so there is nothing to promote: it writes already. A standby is started"
                " by psoup serve --standby",
                reason="NOT_STANDBY",
            )
        if self._promoted is None and (self._task is None or self._task.done()):
            self._check(host)
            self._task = asyncio.create_task(self._promote(host, store))
            self._task.add_done_callback(_report)
        while self._promoted is None:
            assert self._task is not None
            await asyncio.wait([self._task], timeout=TELL_S)
            self._check(host)
            if self._task.done():
                self._task.result()
            if self._promoted is None:
                yield PromotionStep(host.applied, max(self._newest, host.applied))
        yield PromotionStep(self._promoted.sequence, self._promoted.sequence, self._promoted)

    def stop(self) -> None:
        """End what is under way. The next start goes on if there is a fence."""
        if self._task is not None:
            self._task.cancel()

    async def _promote(self, host: StandbyHost[Snapshot], store: StandbyStore) -> None:
        await self._catch_up(host, store)
        _log.warning("this standby is promoted: it fences the older service", extra={"copy": store.copy})
        number = 0
        async with self._changing:
            if store.follows:  # else a fence whose reply was lost has promoted it meanwhile
                number = await on(self._threads.life, store.begin_promotion, host.id_range)
        self._following.hurry()
        while self._promoted is None:
            self._check(host)
            if store.follows and store.place.number >= number:
                await self._check_lead(store)
            await asyncio.sleep(LOOK_S)

    async def _check_lead(self, store: StandbyStore) -> None:
        """Raise FailedPrecondition if this standby follows on behind its fence, since another service took over."""
        if not await on(self._threads.life, store.leads) and store.follows:
            raise FailedPrecondition(
                f"another service took over {store.copy} meanwhile, and this standby follows that one; see which one"
                " is to write, and promote it again if it is this one",
                reason=COPY_FENCED,
            )
        await asyncio.sleep(PAUSE_S)  # it was started again at its fence, and is promoted in a moment

    async def _catch_up(self, host: StandbyHost[Snapshot], store: StandbyStore) -> None:
        """Wait until the standby lacks few objects, or lacks no fewer after a round."""
        before = math.inf
        while True:
            number, self._newest = await on(self._threads.life, store.newest)
            missing = number - store.place.number
            if missing <= FEW or 2 * missing > before:
                return
            before = missing
            while store.place.number < number:
                self._check(host)
                await asyncio.sleep(LOOK_S)

    def _check(self, host: StandbyHost[Snapshot]) -> None:
        """Raise Unavailable if the service has failed or ends."""
        if host.failure:
            raise Unavailable(
                f"the standby has stopped: {host.failure}. Start it again: if the fence is written, it is promoted",
                reason="FAILED",
            )
        if host.state == "starting":
            raise Unavailable("the standby is starting; try again in a moment", reason="STARTING")
        if host.state != "serving":
            raise Unavailable("the service is shutting down; try again when it is back", reason="DRAINING")

    async def _take_up(self, fence: Fence) -> bool:
        """Become the writer after the fence of this promotion. Returns False if another service took over later."""
        host, store, tokens = self._host, self._store, self._tokens
        assert isinstance(host, StandbyHost) and isinstance(store, StandbyStore) and tokens is not None
        sequence, time = store.sequence, store.place.time
        async with self._changing:
            if not await self._promote_store(store, fence):
                return False
        await on(self._threads.life, tokens.begin_life)
        host.give_ids(store.promotion)
        self._wait.begin_again(wall_time, boot_time)
        self._expiry.count_all_as_asked()
        uploader = uploader_of(store)
        assert uploader is not None
        uploader.stop = host.fence
        await on(self._threads.life, store.copy_gate.begin, lambda: self._check(host))
        host.open()
        self._deliver()
        self._work()
        self._promoted = Promoted(sequence, time, store.promotion, lost(store.replication))
        facts = {"sequence": sequence, "time": time_text(time), "promotion": store.promotion}
        _log.warning(f"this service writes from now on: it was a standby. {self._promoted.lost}", extra=facts)
        return True

    async def _promote_store(self, store: StandbyStore, fence: Fence) -> bool:
        while True:
            try:
                await on(self._threads.life, store.promote, fence)
            except Unavailable as problem:
                _log.warning("the copy cannot be reached; it is tried again", extra={"why": problem.message})
                await asyncio.sleep(PAUSE_S)
            except FailedPrecondition as problem:
                if problem.reason != COPY_FENCED:
                    raise
                return False
            else:
                return True


def _report(task: asyncio.Task[None]) -> None:
    """Report the end of a promotion by an error, as its caller may have left."""
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.warning("the promotion has failed: %s", problem)


def lost(replication: Replication) -> str:
    """The events of the older service that are lost, in words, if it has the same settings."""
    later = "Later events that the older service acknowledged, if there are any, are lost"
    if replication.remote:
        return f"{later}. There are none if it had replicate_ack = remote, as this service has."
    if math.isinf(replication.lag_most_s):
        return f"{later}. With replicate_lag_most = off they may be any number. End that service now."
    limit = f"{replication.lag_most_s:g} s (replicate_lag_most)"
    return f"{later}. They are of its last {limit} at most, if it had the settings of this service."
