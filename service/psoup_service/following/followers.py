"""The following clients of a service, and the calls that serve them.

    call ─> behind      a page of its own on a reader, charged to its tenant      ─┐
         ├> newest      waits for a mark of its stream                             ├─> batch with its position ─> client
         │              └─ marked: a page together with other marked clients      ─┤
         └> late        names a query with amount NONE: waits for the next second ─┘

A look at the new results of a stream serves all its followers at the newest tuple. There is one every ten milliseconds
at most.
No snapshot is held between two pages. No look runs while no client follows. For the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from contextvars import Context

from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.noted_places import note_place
from psoup.answer.follow.page import LATE_S
from psoup.errors import PSoupError, Unavailable
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import follow_pb2
from psoup_service.following.follower import FollowClient
from psoup_service.following.marks import StreamMarks
from psoup_service.following.page_line import NEAR, PageLine
from psoup_service.following.pages import FollowBatch, FollowPages, FollowTask
from psoup_service.following.positions import PositionLost, Positions
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids

ROUND_S = 0.01
"""Seconds between two looks."""
_FAR = 4
"""The most clients that are behind and read a page at the same time."""
_LONGEST_PAUSE_S = 1.0
"""The longest pause of a client, in seconds. It waits while the readers are full or its tenant has used up a rate."""

_log = logging.getLogger(__name__)


class Followers:
    """All following clients of a service. `pay`: raises ResourceExhausted if a tenant has used up its `read_share`."""

    def __init__(
        self, host: Host[Snapshot], positions: Positions, ids: Ids, pay: Callable[[str], None] = lambda _: None
    ) -> None:
        self._host = host
        self._positions = positions
        self._ids = ids
        self._pay = pay
        self._streams: dict[int, StreamMarks] = {}
        self._clients = set[FollowClient]()
        self._far = asyncio.Semaphore(_FAR)
        self._line, self._late_line = PageLine(host), PageLine(host)
        self._tasks = list[asyncio.Task[None]]()
        self._deaf: Callable[[], None] = lambda: None
        self._news = asyncio.Event()
        self._said = False
        self._draining = False
        self.looks = 0
        """The number of looks at new results so far."""

    async def messages(
        self, client: FollowClient, lost: PositionLost | None
    ) -> AsyncGenerator[follow_pb2.FollowResponse]:
        """Yield the batches of a client, until the call ends. The first one tells the position at once.

        `lost`: the reset with which the call begins, if the client's position cannot be continued.
        """
        self._enter(client)
        try:
            yield self._progress(client, lost)
            told_at, left_out, fresh = _now(), 0, True
            while True:
                client.marked.clear()  # before the snapshot is read, so that later news marks the client again
                marks = self._streams[client.stream_id]
                before = marks.seen
                try:
                    batch = await self._page(client, near=not fresh)
                except PositionLost as problem:
                    client.place, client.newest, fresh = FollowPlace(problem.reset.first_id), False, True
                    yield self._progress(client, problem)
                    continue
                newest = marks.follow_from(client, batch.place, batch.clauses, fresh=fresh, late=batch.late)
                client.late = batch.late
                told_all = newest or (batch.late and batch.place >= FollowPlace(before))
                if batch.matches or batch.left_out > left_out or _now() >= told_at + client.form.progress_s:
                    yield self._response(client, batch)
                    told_at, left_out = _now(), batch.left_out
                fresh = False
                client.follower.rest()
                while told_all and not await _marked(client, told_at + client.form.progress_s):
                    yield self._progress(client)
                    told_at = _now()
        finally:
            self._leave(client)

    def drain(self) -> None:
        """End all calls, also of clients that do not read."""
        self._draining = True
        for client in list(self._clients):
            client.end(_ending())

    def lags(self) -> dict[FollowClient, int]:
        """The number of tuples that each client has not been told. From any thread."""
        snapshot = self._host.snapshot()
        views = ((client, snapshot.by_id.get(client.stream_id)) for client in list(self._clients))
        return {
            client: 0 if view is None or client.newest else max(view.next_id - client.place.next_id, 0)
            for client, view in views
        }

    def named_lags(self) -> dict[tuple[str, str, str], int]:
        """The lag of the clients with a name, by tenant, stream and name: the greatest of clients with one name."""
        lags_by_name = dict[tuple[str, str, str], int]()
        named = [client for client in list(self._clients) if client.form.name]
        lags, streams = self.lags() if named else {}, self._host.snapshot().by_id if named else {}
        for client, lag in lags.items():
            view = streams.get(client.stream_id)
            if client.form.name and view is not None:
                name = client.form.tenant, view.spec.name, client.form.name
                lags_by_name[name] = max(lag, lags_by_name.get(name, 0))
        return lags_by_name

    def figures(self) -> dict[str, int]:
        """The number of clients, the greatest lag, and the number of looks."""
        lag = max(self.lags().values(), default=0) if self._clients else 0
        return {"followers": len(self._clients), "follow_lag_tuples": lag, "follow_looks": self.looks}

    # Clients ------------------------------------------------------------------------------------------------

    def _enter(self, client: FollowClient) -> None:
        if self._draining:
            raise _ending()
        snapshot = self._host.snapshot()
        if client.stream_id not in self._streams:
            self._streams[client.stream_id] = StreamMarks(snapshot, snapshot.by_id[client.stream_id])
        self._streams[client.stream_id].enter(client)
        self._clients.add(client)
        if len(self._clients) > 1:
            return
        loop = asyncio.get_running_loop()
        # In contexts of their own: in the first client's, the tasks would keep its request, and extend its trace.
        runs = (self._look, self._tick, self._line.serve, self._late_line.serve)
        self._tasks = [loop.create_task(run(), context=Context()) for run in runs]
        self._said = False

        def published() -> None:
            if not self._said:
                self._said = True
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._news.set)

        self._deaf = self._host.listen(published)
        self._news.set()

    def _leave(self, client: FollowClient) -> None:
        self._clients.discard(client)
        marks = self._streams[client.stream_id]
        marks.leave(client)
        if not marks.clients:
            del self._streams[client.stream_id]
        if not self._clients:
            self._deaf()
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def _look(self) -> None:
        """Look at what is new after each publication, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            self._said = False  # before the snapshot is read, so that the writer announces later publications again
            snapshot = self._host.snapshot()
            for stream_id, marks in list(self._streams.items()):
                try:
                    view = snapshot.by_id.get(stream_id)
                    if view is None:  # its clients' next pages say so
                        for client in marks.clients:
                            marks.mark(client)
                    else:
                        marks.look(snapshot, view)
                except Exception:
                    _log.exception("a look for followers has failed")
            self.looks += 1
            await asyncio.sleep(ROUND_S)

    async def _tick(self) -> None:
        """Mark the late followers of all streams, every `LATE_S` seconds, until cancelled."""
        while True:
            await asyncio.sleep(LATE_S)
            for marks in list(self._streams.values()):
                marks.tick()

    # Pages --------------------------------------------------------------------------------------------------

    async def _page(self, client: FollowClient, *, near: bool) -> FollowBatch:
        """The next page of a client. Waits while the readers have no room, or its tenant has used up a rate."""
        while True:
            try:
                if near and self._is_near(client):
                    line = self._late_line if client.late else self._line
                    return await line.page(client, self._streams[client.stream_id].seen)
                async with self._far:
                    return await self._far_page(client)
            except PSoupError as problem:
                if "retry_after_ms" not in problem.facts:
                    raise
                await asyncio.sleep(min(float(problem.facts["retry_after_ms"]) / 1_000, _LONGEST_PAUSE_S))

    def _is_near(self, client: FollowClient) -> bool:
        view = self._host.snapshot().by_id.get(client.stream_id)
        return view is not None and view.next_id - client.place.next_id <= NEAR

    async def _far_page(self, client: FollowClient) -> FollowBatch:
        tenant = client.form.tenant
        self._pay(tenant)

        def read(snapshot: Snapshot, budget: ReadBudget) -> FollowBatch:
            return FollowPages(snapshot, budget, self._host.clock.now()).page(FollowTask(client, client.place))

        return await self._host.evaluate(read, tenant=tenant)

    # Responses ----------------------------------------------------------------------------------------------

    def _response(self, client: FollowClient, batch: FollowBatch) -> follow_pb2.FollowResponse:
        self._note(client, batch.place)
        return follow_pb2.FollowResponse(
            tuples_ipc=batch.tuples,
            matches_ipc=batch.matches,
            queries_ipc=batch.queries,
            query_id_prefix=self._ids.query_prefix,
            position=self._positions.write(batch.place, client.stream_id, client.form.tenant, batch.sequence),
            next_id=batch.place.next_id,
            lag=batch.lag,
            left_out=batch.left_out,
            sequence=batch.sequence,
        )

    def _progress(self, client: FollowClient, lost: PositionLost | None = None) -> follow_pb2.FollowResponse:
        """A response with the present position, and no matches."""
        snapshot = self._host.snapshot()
        view, place = snapshot.by_id.get(client.stream_id), self._streams[client.stream_id].place_of(client)
        self._note(client, place)
        return follow_pb2.FollowResponse(
            query_id_prefix=self._ids.query_prefix,
            position=self._positions.write(place, client.stream_id, client.form.tenant, snapshot.sequence),
            next_id=place.next_id,
            lag=0 if view is None or client.newest else max(view.next_id - place.next_id, 0),
            reset=None if lost is None else lost.reset,
            sequence=snapshot.sequence,
        )

    def _note(self, client: FollowClient, place: FollowPlace) -> None:
        """Note the place of a position that the client gets: it may come back to it."""
        now = self._host.clock.now()
        note_place(self._host.snapshot(), client.stream_id, client.number, place.next_id, now)


async def _marked(client: FollowClient, end: float) -> bool:
    """Wait until a client has a mark, or until the time `end` of the loop. Returns whether it has one."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(end):
            await client.marked.wait()
    return client.marked.is_set()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _ending() -> Unavailable:
    return Unavailable("the service is shutting down; go on when it is back", reason="DRAINING")
