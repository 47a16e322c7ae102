"""The parts that every servicer shares: the host, the IDs of its incarnation, the limits, the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from psoup.errors import FailedPrecondition, InvalidInput
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command
from psoup.plan.sides import FIRST_SIDE
from psoup.published.snapshot import Snapshot, StreamView
from psoup_service.figures.metrics import Metrics
from psoup_service.gate.meters import Meters
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids
from psoup_service.host.reads.held_snapshots import HELD
from psoup_service.host.room import TakenRoom
from psoup_service.host.threads import Threads
from psoup_service.process.clock import GuardedClock
from psoup_service.wire.calls import Caller
from psoup_service.wire.limits import Limits
from psoup_service.wire.payload_decoder import Decoding
from psoup_storage import DurableStore
from psoup_storage.contract import Store

T = TypeVar("T")

PATIENCE_S = 5.0
"""Seconds that a command waits in line while the service is busy. Then it is refused."""

_FEW = 64
"""The most parts of a reply, columns or IDs, that the event loop converts: a tenth of a millisecond."""

NAMED = 1_000
"""The most queries of a call whose streams are looked up one by one."""
_WAIT_S = 3_600.0
"""The longest wait for a sequence, in seconds. The deadline of the call ends the wait sooner."""


MessageT = TypeVar("MessageT", bound=Message)


def fitting(messages: Iterable[MessageT], max_bytes: int) -> list[MessageT]:
    """The longest prefix of the messages that fits into `max_bytes`. It has at least one message, if there is any."""
    fit: list[MessageT] = []
    room = max_bytes
    for message in messages:
        room -= message.ByteSize()
        if room < 0 and fit:
            break
        fit.append(message)
    return fit


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts that servicers share. `started` is the clock's time of the start, in microseconds.

    `clock`: the clock that the host uses, too.
    """

    host: Host[Snapshot]
    store: Store
    ids: Ids
    limits: Limits
    metrics: Metrics
    started: int
    threads: Threads
    decoding: Decoding
    meters: Meters
    clock: GuardedClock

    def tenant(self, caller: Caller) -> str:
        """The tenant of a call. Only the caller's credential decides it."""
        return caller.principal.tenant

    def query_of(self, query_id: str, key: str, tenant: str) -> tuple[int, str]:
        """The engine's ID and the wire ID of a query that a request names by ID or key.

        Raises InvalidInput if both are given.
        """
        if not key:
            return self.ids.read_query(query_id), query_id
        if query_id:
            raise InvalidInput("give a query_id or a key, not both", field="key")
        number = self.host.snapshot().query_with(key, tenant).query_id
        return number, self.ids.query(number)

    def check_stream(self, name: str, caller: Caller) -> None:
        """Raise NotFound for a stream that is not there, or that the caller may not push to."""
        caller.principal.check_stream(name)
        self.host.snapshot().stream(name, self.tenant(caller))

    def durable(self) -> DurableStore:
        """The store on disk; raises FailedPrecondition without one."""
        if not isinstance(self.store, DurableStore):
            raise FailedPrecondition(
                "this service keeps its data in memory only, and history is kept on disk; start it with --data-dir",
                reason="NOT_DURABLE",
            )
        return self.store

    def now(self) -> int:
        """The clock's time in microseconds; in a call with a held snapshot, the time of its first read."""
        moment = HELD.get()
        return self.clock.now() if moment is None else moment.now(self.clock.now)

    async def visible(self, sequence: int) -> Snapshot:
        """Wait until the snapshot reflects `sequence`, and return it. The deadline of the call ends the wait."""
        if sequence > self.host.applied:
            await self.host.wait_for(sequence, _WAIT_S)
        return self.host.snapshot()

    async def reflecting(self, min_sequence: int) -> Snapshot:
        """The snapshot for a read with this `min_sequence`. Returns at once if it is 0."""
        if min_sequence < 0:
            raise InvalidInput(f"min_sequence is {min_sequence}; events count from 1", field="min_sequence")
        return await self.visible(min_sequence)

    async def derived(self, streams: Iterable[StreamView], min_sequence: int) -> None:
        """Wait until readers of derived streams see all that the event `min_sequence` has closed.

        Returns at once for other streams, and if `min_sequence` is 0. The deadline of the call ends the wait.
        """
        ids = [view.stream_id for view in streams if view.spec.derived is not None] if min_sequence else []
        await self._reach(ids, min_sequence)

    async def derived_of_query(self, query_id: int, min_sequence: int) -> None:
        """Wait as `derived` for the streams of a query. Returns at once for an unknown query."""
        snapshot = self.host.snapshot()
        record = snapshot.queries.get(query_id) if min_sequence else None
        if record is not None and self.host.passed.derived(snapshot.by_id, record.tenant):
            await self.derived([snapshot.by_id[i] for i in snapshot.streams_of(record)], min_sequence)

    async def derived_of_queries(
        self, tenant: str, names: Sequence[str], min_sequence: int, *, by_key: bool = False
    ) -> None:
        """Wait as `derived` for the streams of some queries. `names`: their IDs or keys. Unknown ones are left out.

        With more than `NAMED`, waits for all streams of the tenant that have queries. O(names).
        """
        snapshot = self.host.snapshot()
        ids = self.host.passed.derived(snapshot.by_id, tenant) if min_sequence else ()
        if not ids:
            return
        if len(names) > NAMED:
            await self.derived_of_tenant(tenant, min_sequence)
            return
        numbers = [snapshot.tags.query_of(tenant, name) if by_key else self.ids.number_in(name) for name in names]
        records = [snapshot.queries.get(number) for number in numbers if 0 <= number < FIRST_SIDE]
        streams = {i for record in records if record is not None for i in snapshot.streams_of(record)}
        await self._reach([i for i in ids if i in streams], min_sequence)

    async def derived_of_tenant(self, tenant: str, min_sequence: int) -> None:
        """Wait as `derived` for all streams of a tenant that have queries, for a call about many queries."""
        if min_sequence:
            streams = self.host.snapshot().by_id
            ids = [i for i in self.host.passed.derived(streams, tenant) if i in streams and streams[i].queries]
            await self._reach(ids, min_sequence)

    async def _reach(self, ids: Sequence[int], sequence: int) -> None:
        if ids:
            await self.host.passed.reach(ids, sequence, _WAIT_S, lambda i: i in self.host.snapshot().by_id)

    async def change(
        self, command: Command, place: TakenRoom | None = None, sender: str = ""
    ) -> tuple[Acknowledgement, Snapshot]:
        """Submit a command other than a push, and wait until every call sees its effect."""
        acknowledgement = await self.host.submit(command, patience=PATIENCE_S, place=place, sender=sender)
        return acknowledgement, await self.visible(acknowledgement.sequence)

    async def made(self, parts: int, make: Callable[[Snapshot], T]) -> T:
        """Return `make(snapshot)` for the present snapshot. A reader thread makes it if it has many parts."""
        return make(self.host.snapshot()) if parts <= _FEW else await self.host.read(make)
