"""FollowService: matches of new tuples, told in stream order, from a position on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from psoup.admission.queries.tags import tag_in
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.told import FollowWanted, check_named
from psoup.errors import InvalidInput, NotFound
from psoup.published.snapshot import Snapshot, StreamView
from psoup_proto.v1 import follow_pb2, follow_pb2_grpc, groups_pb2
from psoup_service.following.follower import FollowClient, FollowForm
from psoup_service.following.followers import Followers
from psoup_service.following.positions import PositionLost, Positions
from psoup_service.servicers.backend import Backend
from psoup_service.servicers.invocation import most_bytes
from psoup_service.sync.tokens import Tokens
from psoup_service.wire.calls import Caller, ender

CALL = "FollowService/Follow"
_ROWS, _MOST_ROWS = 10_000, 100_000
_PROGRESS_S, _MOST_PROGRESS_S = 15, 300
_NAMED = 1_000
"""The most keys, and the most IDs, in a request."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{0,64}", re.ASCII)


class FollowServicer(follow_pb2_grpc.FollowServiceServicer):
    """See follow.proto."""

    def __init__(self, backend: Backend, tokens: Tokens) -> None:
        """`tokens`: the tokens of the store's data, which has one life."""
        self._backend = backend
        self._positions = Positions(tokens)
        self.followers = Followers(
            backend.host, self._positions, backend.ids, lambda tenant: backend.meters.pay(tenant, CALL)
        )
        backend.metrics.by_follower(self.followers.named_lags)

    async def Follow(
        self, request: follow_pb2.FollowRequest, caller: Caller
    ) -> AsyncIterator[follow_pb2.FollowResponse]:
        """Batches of matches from a position on."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        form, wanted = self._form(request, tenant), self.wanted(request)
        async with asyncio.timeout(backend.limits.default_deadline_s):
            snapshot = await backend.reflecting(request.min_sequence)
            await backend.derived([snapshot.stream(request.stream, tenant)], request.min_sequence)
            snapshot = backend.host.snapshot()
        view = snapshot.stream(request.stream, tenant)
        self.check(snapshot, view, wanted, begins=request.after in ("", "start"))
        place, lost = self._place(request.after, tenant, snapshot, view)
        client = FollowClient(view.stream_id, form, wanted, place, ender())
        async for response in self.followers.messages(client, lost):
            yield response

    def check(self, snapshot: Snapshot, view: StreamView, wanted: FollowWanted, *, begins: bool) -> None:
        """Check the named queries. Errors have the client's query ID instead of the engine's number."""
        ids = self._backend.ids
        try:
            check_named(snapshot, view, wanted, begins=begins)
        except (NotFound, InvalidInput) as problem:
            query = problem.facts.get("query")
            if query is None or isinstance(problem, InvalidInput):
                raise
            raise ids.named(problem, ids.query(int(query))) from None

    def _place(
        self, after: str, tenant: str, snapshot: Snapshot, view: StreamView
    ) -> tuple[FollowPlace, PositionLost | None]:
        """The place of a position, and its loss. A follower with a lost position begins at the oldest tuple kept."""
        if not after:
            return FollowPlace(view.next_id), None
        try:
            return self._positions.read(after, tenant, snapshot, view, self._backend.now()), None
        except PositionLost as lost:
            return FollowPlace(lost.reset.first_id), lost

    def _form(self, request: follow_pb2.FollowRequest, tenant: str) -> FollowForm:
        rows, progress = request.max_rows or _ROWS, request.progress_seconds or _PROGRESS_S
        if not 0 < rows <= _MOST_ROWS:
            raise InvalidInput(f"max_rows is {rows}; it must be from 1 to {_MOST_ROWS:,}", field="max_rows")
        if not 0 < progress <= _MOST_PROGRESS_S:
            raise InvalidInput(
                f"progress_seconds is {progress}; it must be from 1 to {_MOST_PROGRESS_S}", field="progress_seconds"
            )
        if _NAME.fullmatch(request.name) is None:
            raise InvalidInput(
                f"name is {request.name[:64]!r}; it may have at most 64 letters, digits, '_', '-' and '.'", field="name"
            )
        return FollowForm(tenant, request.name, rows, most_bytes(request.max_bytes, self._backend.limits), progress)

    def wanted(self, request: follow_pb2.FollowRequest | groups_pb2.TakeBatchRequest) -> FollowWanted:
        """The queries that a request selects. Raises InvalidInput."""
        for field in ("keys", "query_ids"):
            if len(getattr(request, field)) > _NAMED:
                raise InvalidInput(
                    f"{field} has {len(getattr(request, field)):,} names, and {_NAMED:,} is the most; give the queries"
                    " a label, and follow the label",
                    field=field,
                )
        query_ids = tuple(self._backend.ids.read_query(text) for text in request.query_ids)
        return FollowWanted(tag_in("", request.labels).labels, tuple(request.keys), query_ids, request.old)
