"""SyncService: what has changed in the answers of many queries since a client last asked, in one reply.

    wants ─ tokens, IDs, keys ─> queries ─ one snapshot ─> changes, as many as fit ─> one body, compressed

All of it runs on a reader thread. Nothing is kept of a client: its tokens say what it has.
"""

from __future__ import annotations

import time

from psoup.errors import Internal, InvalidInput, PSoupError
from psoup.published.snapshot import Snapshot
from psoup.reading import ReadBudget
from psoup_proto.v1 import sync_pb2, sync_pb2_grpc
from psoup_service.servicers.backend import Backend, Context
from psoup_service.servicers.invocation import MANY_S, most_bytes, one_window
from psoup_service.sync.changes import Copies, packed
from psoup_service.sync.tokens import MOST_BYTES, Tokens
from psoup_service.wire import convert

_WANTS = 1_000


class SyncServicer(sync_pb2_grpc.SyncServiceServicer):
    """See sync.proto."""

    def __init__(self, backend: Backend) -> None:
        """Begin a life of the data; waits for the disk."""
        self._backend = backend
        self._tokens = Tokens(backend.store, backend.ids.incarnation)

    async def Sync(self, request: sync_pb2.SyncRequest, context: Context) -> sync_pb2.SyncResponse:
        """What has changed."""
        if not 0 < len(request.wants) <= _WANTS:
            raise InvalidInput(
                f"wants has {len(request.wants):,} queries; it must be from 1 to {_WANTS:,}", field="wants"
            )
        if any(len(want.token) > MOST_BYTES for want in request.wants):
            raise InvalidInput("a token is longer than this service makes them", reason="TOKEN_INVALID", field="token")
        most = most_bytes(request.max_bytes, self._backend.limits)
        await self._backend.reflecting(request.min_sequence)
        tenant, now = self._backend.tenant(context), self._backend.now()

        def read(snapshot: Snapshot, budget: ReadBudget) -> sync_pb2.SyncResponse:
            copies = Copies(snapshot, self._tokens, self._backend.ids, tenant, now, budget, request.encoding)
            return packed(copies, self._some(request, copies, most), request.compression)

        response = await self._backend.host.evaluate(read, tenant=tenant)
        return response

    def _some(self, request: sync_pb2.SyncRequest, copies: Copies, most: int) -> list[sync_pb2.SyncOutcome]:
        """The outcomes of the first wants, at least of one: as many as fit `most` bytes and a fraction of a second."""
        outcomes, room, end = list[sync_pb2.SyncOutcome](), most, time.perf_counter() + MANY_S
        for want in request.wants:
            try:
                change = self._within(want, copies, room, most)
            except Internal:
                raise
            except PSoupError as error:
                outcomes.append(sync_pb2.SyncOutcome(failure=convert.failure(error)))
            else:
                if change is None:
                    break
                outcomes.append(sync_pb2.SyncOutcome(change=change))
                if not change.complete and not want.max_rows and not want.max_bytes:
                    break  # those behind it wait until it has all of its rows
                room -= change.ByteSize()
            if room <= 0 or time.perf_counter() > end:
                break
        return outcomes

    def _within(self, want: sync_pb2.Want, copies: Copies, room: int, most: int) -> sync_pb2.Change | None:
        """The change for one want in its own room, if it has any of it there; else in that of the reply."""
        if want.max_bytes < 0:
            raise InvalidInput(f"max_bytes is {want.max_bytes}; it must not be negative", field="max_bytes")
        if 0 < want.max_bytes < room:
            change = self._change(want, copies, want.max_bytes, most)
            if change is not None:
                return change
        return self._change(want, copies, room, most)

    def _change(self, want: sync_pb2.Want, copies: Copies, room: int, most: int) -> sync_pb2.Change | None:
        """The change for one want; errors name the query as the client did."""
        if want.max_rows < 0:
            raise InvalidInput(f"max_rows is {want.max_rows}; it must not be negative", field="max_rows")
        ids, query_id = self._backend.ids, None
        if want.query_id and want.key:
            raise InvalidInput("give a query_id or a key, not both", field="key")
        if want.key:
            query_id = copies.snapshot.query_with(want.key, copies.tenant).query_id
        elif want.query_id:
            query_id = ids.read_query(want.query_id)
        window = one_window(want.window) if want.window else None
        change = copies.change(query_id, want, window, room, most)
        if change is not None and change.reset and want.key and query_id is not None:
            change.query_id = ids.query(query_id)
        return change
