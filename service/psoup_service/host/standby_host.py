"""The host of a standby: its events come from the copy of another service, and it takes no commands.

follow ──> Sequencer: take each event ──> log ──> Writer: apply, publish ──> reads, as at any host

Once it is promoted, it is a host as any other: its threads go on, and so do the calls under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from psoup.errors import FailedPrecondition, PSoupError, Unavailable
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.events import Event
from psoup_service.host.host import Host, SnapshotT
from psoup_service.host.pump_progress import PassedEvents
from psoup_service.host.room import TakenRoom
from psoup_storage import StandbyStore
from psoup_storage.contract import Store
from psoup_storage.replica.notes import WRITER

WAIT_S = 5.0
"""Seconds for which a read waits for an event that the standby does not have yet."""


class Promoted(NamedTuple):
    """The result of a promotion. `sequence`: the last event that the standby has. `time`: when the older writer stored
    it, in microseconds. `number`: of the promotion. `lost`: the events that the older writer may have acknowledged and
    that are lost, in words.
    """

    sequence: int
    time: int
    number: int
    lost: str


class PromotionStep(NamedTuple):
    """A report about a promotion. `applied`: the last event that the standby has. `sequence`: the last event that the
    copy has. `promoted`: the result, once there is one.
    """

    applied: int
    sequence: int
    promoted: Promoted | None = None


Promote = Callable[[], AsyncIterator[PromotionStep]]
"""Promotes a standby, and reports how far that is."""


class StandbyHost(Host[SnapshotT]):
    """A host that follows the copy at `copy`. It has the other arguments of `Host`, too."""

    def __init__(self, *parts: Any, copy: str, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.only_reads = f"this service is a standby, which only reads: it follows {copy}"
        self._copy = copy
        self.passed = PassedEvents(pumps=False)

    async def reserve(self, tenant: str, size: int, *, patience: float = 0.0) -> TakenRoom:
        """Refuse a command. Raises FailedPrecondition, reason STANDBY, and Unavailable in another state."""
        if not self.only_reads:
            return await super().reserve(tenant, size, patience=patience)
        if self._state != "serving":
            raise self._refusal()
        raise self.refused()

    def refused(self) -> FailedPrecondition:
        """The error for a call that only the service that writes takes, with its address if the copy has it."""
        writer = self._store.noted(WRITER)
        place, facts = ("there", {}) if not writer else (f"there, at {writer}", {"writer": writer})
        way = f"Send this call to the service that writes {place}"
        return FailedPrecondition(f"{self.only_reads}. {way}", reason="STANDBY", copy=self._copy, **facts)

    async def follow(self, events: Sequence[Event]) -> None:
        """Log and apply events of the copy; returns when readers see them. One call at a time. Raises as `submit`."""
        if self._state != "serving":
            raise self._refusal()
        answer: asyncio.Future[Acknowledgement] = asyncio.get_running_loop().create_future()
        self._sequencer.followed.put(events, answer)
        await answer
        await self._writer.reach(events[-1].sequence)

    @property
    def id_range(self) -> int:
        """The range that the IDs of the data have reached; see `NextIds`."""
        return self._admission.ids.range

    def give_ids(self, promotion: int) -> None:
        """Give IDs of the range of a promotion from now on. `promotion`: see `Store`. Called after the last event."""
        self._admission.ids.begin(promotion)

    def open(self) -> None:
        """Take commands from now on: the standby is promoted."""
        self.passed.pumps = True
        self.only_reads = ""

    def fail(self, reason: str) -> None:
        """Stop following, as the next events cannot be applied. `reason`: for the operator."""
        self._fail(reason)

    async def wait_for(self, sequence: int, timeout: float) -> None:
        """Return once `sequence` is applied, which may be an event that the copy does not have yet.

        Raises Unavailable, reason STANDBY_BEHIND, after `WAIT_S`. Raises TimeoutError, and as `Host.wait_for`.
        """
        if self._state == "starting" or sequence <= self._admission.sequence or not self.only_reads:
            await super().wait_for(sequence, timeout)
            return
        try:
            async with asyncio.timeout(min(timeout, WAIT_S)):
                await self._writer.reach(sequence)
        except TimeoutError:
            raise behind(self.applied, sequence) from None


def elsewhere(host: Host[Any]) -> Callable[[], PSoupError | None]:
    """Return a function for calls that write: it gives their error at a standby, and None at another host."""

    def refusal() -> PSoupError | None:
        refuses = isinstance(host, StandbyHost) and host.only_reads and host.state == "serving"
        return host.refused() if isinstance(host, StandbyHost) and refuses else None

    return refusal


def host_class(store: Store) -> Callable[..., Host[Any]]:
    """The class of the host of a store, with the arguments of `Host`."""
    return partial(StandbyHost, copy=store.copy) if isinstance(store, StandbyStore) else Host


def behind(applied: int, wanted: int) -> Unavailable:
    """The error for a read that must show the event `wanted`. `applied`: the last event that the standby has."""
    return Unavailable(
        f"this standby has the events up to {applied:,}, and the call asks for event {wanted:,}; try again in a moment,"
        " or ask the service that writes",
        reason="STANDBY_BEHIND",
        sequence=wanted,
        last=applied,
    )
