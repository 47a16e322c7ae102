"""SyncService: changes in the answers of many queries since a client's last request, in one reply or as a stream.

    wants ─ tokens, IDs, keys ─> queries ─ one snapshot ─> changes, as many as fit ─> one body, compressed

A sync runs on a reader thread. The event loop runs the sync of one copy that lacks a few rows, because that is quicker
than the hop to a thread. The service keeps no state of a client: the client's tokens name the rows that it holds. While
a client watches, `psoup_service.watching` keeps its state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from psoup.answer.copies.range_plans import ranged
from psoup.errors import InvalidInput, PSoupError
from psoup.plan.sides import FIRST_SIDE
from psoup.published.records import NO_CLAUSE
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import sync_pb2, sync_pb2_grpc
from psoup_service.host.reads.expectations import Expectations, Unexpected
from psoup_service.servicers.backend import Backend
from psoup_service.servicers.invocation import most_bytes
from psoup_service.servicers.invoke_request import is_in_memory
from psoup_service.servicers.many import MANY_S
from psoup_service.sync.changes import Copies, packed
from psoup_service.sync.outcomes import check_wants, outcome_of
from psoup_service.sync.tokens import Tokens, query_id_in, query_in
from psoup_service.watching.rounds import Rounds
from psoup_service.watching.watcher import Watcher, WatchForm
from psoup_service.wire.calls import Caller, ender

_WATCH_BYTES = 64 * 1024
_FEW_ROWS = 128
"""The most new rows of a sync that runs on the event loop."""
_PROGRESS_S = 15
_MOST_PROGRESS_S = 300


class SyncServicer(sync_pb2_grpc.SyncServiceServicer):
    """See sync.proto."""

    def __init__(self, backend: Backend) -> None:
        """Begin a new life of the data in the store. Blocks for the disk."""
        self._backend = backend
        self._tokens = Tokens(backend.store, backend.ids.incarnation)
        self._expectations = Expectations()
        self._rounds = Rounds(backend.host, self._tokens, backend.ids, backend.metrics.refused)

    @property
    def rounds(self) -> int:
        """The number of rounds that have looked for changes of watched queries."""
        return self._rounds.count

    @property
    def watches(self) -> Rounds:
        """The watchers of the service."""
        return self._rounds

    @property
    def tokens(self) -> Tokens:
        """The tokens of the store's data."""
        return self._tokens

    def drain(self) -> None:
        """End the calls of clients that watch: they go on when the service is back."""
        self._rounds.drain()

    async def Sync(self, request: sync_pb2.SyncRequest, caller: Caller) -> sync_pb2.SyncResponse:
        """Changes of some copies."""
        check_wants(request.wants)
        limit = most_bytes(request.max_bytes, self._backend.limits)
        await self._backend.reflecting(request.min_sequence)
        await self._derived(request, self._backend.tenant(caller))
        tenant, now = self._backend.tenant(caller), self._backend.now()

        def make(snapshot: Snapshot, budget: ReadBudget) -> sync_pb2.SyncResponse:
            copies = Copies(snapshot, self._tokens, self._backend.ids, tenant, now, budget, request.encoding)
            return packed(copies, _some(request, copies, limit, self._backend.metrics.refused), request.compression)

        query_id = _alone(request)
        if query_id is not None and (answer := self._at_once(query_id, now, make)) is not None:
            return answer

        def read(snapshot: Snapshot, budget: ReadBudget) -> sync_pb2.SyncResponse:
            if query_id is None:
                return make(snapshot, budget)
            return self._expectations.measured(query_id, lambda granted: make(snapshot, granted), budget)

        response = await self._backend.host.evaluate(read, tenant=tenant)
        return response

    async def _derived(self, request: sync_pb2.SyncRequest | sync_pb2.WatchRequest, tenant: str) -> None:
        """Wait until the derived streams of the wanted queries show what `min_sequence` has closed."""
        if not request.min_sequence:
            return
        keys = [want.key for want in request.wants if want.key]
        names = [want.query_id or query_id_in(want.token) for want in request.wants if not want.key]
        await self._backend.derived_of_queries(tenant, names, request.min_sequence)
        await self._backend.derived_of_queries(tenant, keys, request.min_sequence, by_key=True)

    def _at_once(
        self, query_id: int, now: int, make: Callable[[Snapshot, ReadBudget], sync_pb2.SyncResponse]
    ) -> sync_pb2.SyncResponse | None:
        """Make the reply on the event loop. Returns None if a reader thread must make it.

        A hop to a thread costs as much as a few new rows.
        """
        if not self._expectations.is_quick(query_id):
            return None
        snapshot = self._backend.host.snapshot()
        record = snapshot.queries.get(query_id) if 0 <= query_id < FIRST_SIDE else None
        if record is None or record.sqc_id == NO_CLAUSE or record.keeping.parked:
            return None  # a parked query is on the disk
        if ranged(record.query.plan) is None:
            return None
        if not is_in_memory(snapshot, query_id, now):
            return None
        try:
            return self._expectations.on_loop(query_id, lambda budget: make(snapshot, budget), _FEW_ROWS)
        except Unexpected:
            return None

    async def Watch(self, request: sync_pb2.WatchRequest, caller: Caller) -> AsyncIterator[sync_pb2.WatchResponse]:
        """Changes of some copies now, and then each change."""
        check_wants(request.wants)
        progress = request.progress_seconds or _PROGRESS_S
        if not 0 < progress <= _MOST_PROGRESS_S:
            raise InvalidInput(
                f"progress_seconds is {progress}; it must be from 1 to {_MOST_PROGRESS_S}", field="progress_seconds"
            )
        limits, tenant = self._backend.limits, self._backend.tenant(caller)
        limit = most_bytes(request.max_bytes or _WATCH_BYTES, limits)
        async with asyncio.timeout(limits.default_deadline_s):
            await self._backend.reflecting(request.min_sequence)
            await self._derived(request, tenant)
        form = WatchForm(tenant, request.encoding, request.compression, limit, progress)
        async for reply in self._rounds.messages(Watcher(request.wants, form, ender())):
            yield reply


def _alone(request: sync_pb2.SyncRequest) -> int | None:
    """The query ID in the token of a request for one copy in its own window; else None."""
    if len(request.wants) > 1 or request.wants[0].window:
        return None
    return query_in(request.wants[0].token)


def _some(
    request: sync_pb2.SyncRequest, copies: Copies, limit: int, refused: Callable[[PSoupError], None]
) -> list[sync_pb2.SyncOutcome]:
    """The outcomes of the first wants, at least one, up to `limit` bytes and a fraction of a second."""
    outcomes, room, end = list[sync_pb2.SyncOutcome](), limit, time.perf_counter() + MANY_S
    for want in request.wants:
        outcome = outcome_of(want, copies, room, limit, refused)
        if outcome is None:
            break
        outcomes.append(outcome)
        if outcome.HasField("change"):
            if not outcome.change.complete and not want.max_rows and not want.max_bytes:
                break  # later wants wait until this copy has all of its rows
            room -= outcome.change.ByteSize()
        if room <= 0 or time.perf_counter() > end:
            break
    return outcomes
