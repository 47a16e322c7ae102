"""The groups of a service: each call of a worker, from its lease to its batch.

    take ─> lease ─> confirm the batch before, in the log ─> partitions ─> a page on a reader ─> batch, or wait for news

Leases live in memory. After a restart every worker begins a new lease, and the log has what was confirmed. For the
event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from psoup.answer.follow.noted_places import note_place
from psoup.answer.follow.page import LATE_S
from psoup.answer.follow.told import FollowWanted
from psoup.errors import NotFound, Unavailable
from psoup.events.groups import POSITION, FollowerGroup, GroupKey, positions_array
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_service.groups.confirmations import Confirmations
from psoup_service.groups.leases import Worker, Workers, lease_lost
from psoup_service.groups.news import News
from psoup_service.groups.pages import PageForm, WorkerPage, worker_page
from psoup_service.host.host import Host

ROUND_S = 0.01
"""The least seconds between two looks of a waiting worker."""
_PATIENCE_S = 5.0
"""Seconds that a confirmation waits in line while the service is busy."""
STORE_S = 10.0
"""Seconds after which a position that moved without a match goes to the log."""


@dataclass(frozen=True, slots=True)
class Taking:
    """The terms of a worker's call. `lease`: "" for a new one. `confirm`: the number of a batch, or 0."""

    tenant: str
    lease: str
    confirm: int
    wait_s: float
    lease_s: float
    worker: str
    form: PageForm


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome of a worker's call. `number`: 0 without a batch. `lag`: tuples after the worker's oldest position.

    `sequence`: an event that a reading call must reflect to see what the worker has confirmed.
    """

    worker: Worker
    number: int
    page: WorkerPage | None
    lag: int
    workers: int
    sequence: int


class Groups:
    """All groups with workers."""

    def __init__(self, host: Host[Snapshot], clock: Callable[[], int]) -> None:
        """`clock`: returns the clock's time in microseconds, from any thread."""
        self._host = host
        self._clock = clock
        self._groups: dict[GroupKey, Workers] = {}
        self._news = News(host)
        self._draining = False

        self._confirmations = Confirmations(partial(host.submit, patience=_PATIENCE_S))

    def drain(self) -> None:
        """End the calls of waiting workers: they go on when the service is back."""
        self._draining = True
        for workers in self._groups.values():
            for worker in workers.all():
                worker.wake.set()

    def workers_of(self, group: FollowerGroup) -> Workers | None:
        """The workers of a group. None if it has had none since the start."""
        workers = self._groups.get((group.stream_id, group.name))
        return workers if workers is not None and workers.group.formed == group.formed else None

    def leased(self, group: FollowerGroup) -> Workers | None:
        """The workers of a group whose leases are not over. None if it has had none since the start."""
        workers = self.workers_of(group)
        if workers is not None:
            workers.expire(self._now())
        return workers

    def next_id(self, group: FollowerGroup) -> int:
        """The first tuple that a group has not confirmed. From any thread."""
        workers = self.workers_of(group)
        positions = positions_array(group.positions) if workers is None else workers.positions
        return int(positions[:, 0].min())

    def lags(self) -> dict[tuple[str, str, str], int]:
        """The number of tuples that each group has not confirmed, by tenant, stream and group. From any thread."""
        snapshot, lags = self._host.snapshot(), dict[tuple[str, str, str], int]()
        for group in snapshot.groups.values():
            view = snapshot.by_id.get(group.stream_id)
            if view is not None:
                lags[group.tenant, view.spec.name, group.name] = max(view.next_id - self.next_id(group), 0)
        return lags

    async def take(self, group: FollowerGroup, wanted: FollowWanted, taking: Taking) -> Taken:
        """Confirm a worker's batch, and give it another. Raises FailedPrecondition, reason LEASE_LOST."""
        workers, now = self._workers(group, wanted), self._now()
        if taking.lease:
            worker = workers.known(taking.lease, now)
        else:
            worker = workers.join(taking.worker, taking.lease_s, now)
        with self._calling(worker) as turn:
            async with worker.lock:
                if taking.confirm:
                    await self._confirm(workers, worker, taking.confirm)
                worker.delivery = None
                try:
                    return await self._batch(workers, worker, turn, taking)
                except asyncio.CancelledError:  # its client has left, perhaps for good
                    workers.free(worker)
                    raise

    async def confirm(self, group: FollowerGroup, lease: str, number: int) -> int:
        """Confirm a worker's batch. Returns the sequence of the group's last event; 0 if the start has seen none."""
        workers = self.workers_of(group)
        if workers is None:
            raise lease_lost(group.name)
        worker = workers.known(lease, self._now())
        with self._calling(worker):
            async with worker.lock:
                await self._confirm(workers, worker, number)
                return workers.sequence

    def leave(self, group: FollowerGroup, lease: str) -> None:
        """End a worker's lease. Nothing happens if it is over."""
        workers = self.workers_of(group)
        for worker in [] if workers is None else workers.all():
            if workers is not None and worker.lease == lease:
                workers.leave(worker)
                worker.turn += 1
                worker.wake.set()

    def wake(self, name: str) -> None:
        """Let the waiting workers of groups of a name look again, after a removal."""
        for workers in self._groups.values():
            if workers.group.name == name:
                for worker in workers.all():
                    worker.wake.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _workers(self, group: FollowerGroup, wanted: FollowWanted) -> Workers:
        workers = self.workers_of(group)
        if workers is None:
            logged = self._host.snapshot().groups
            for key in [key for key, old in self._groups.items() if key not in logged and not len(old)]:
                del self._groups[key]
            workers = self._groups[group.stream_id, group.name] = Workers(group, wanted)
        return workers

    @contextmanager
    def _calling(self, worker: Worker) -> Iterator[int]:
        """Count a call of a worker, whose lease does not end before the call. An older call that waits ends."""
        worker.calls += 1
        worker.turn += 1
        worker.wake.set()
        try:
            yield worker.turn
        finally:
            worker.calls -= 1
            worker.deadline = self._now() + worker.seconds

    async def _confirm(self, workers: Workers, worker: Worker, number: int) -> None:
        delivery = workers.delivered(worker, number)
        if delivery is None:
            return
        stored = workers.after(delivery)
        await self._log(workers, worker, stored)
        workers.confirm(worker, delivery)
        workers.stored, workers.stored_at = stored, self._now()

    async def _log(self, workers: Workers, worker: Worker, positions: bytes) -> None:
        """Log positions of a worker's group. Raises FailedPrecondition, reason LEASE_LOST, if it was removed."""
        try:
            sequence = await self._confirmations.confirm(workers.group, positions)
            workers.sequence = max(workers.sequence, sequence)
        except NotFound:
            workers.leave(worker)
            raise lease_lost(workers.group.name) from None

    async def _batch(self, workers: Workers, worker: Worker, turn: int, taking: Taking) -> Taken:
        """The next batch of a worker. Waits for matches, for partitions, or until the time of the call is over."""
        end = self._now() + taking.wait_s
        page: WorkerPage | None = None
        with self._news.heard(worker.wake):
            while True:
                worker.wake.clear()
                self._check(workers, worker, turn)
                workers.take(worker, self._now())
                if worker.count and self._has_news(workers, worker) and self._now() >= worker.due:
                    began, page = self._now(), await self._page(workers, worker, taking)
                    worker.due = began + LATE_S if worker.follower.late and page.caught_up else 0.0
                    self._check(workers, worker, turn)
                    if not page.is_empty:
                        number = workers.give(worker, page.place, self._now()).number
                        return self._taken(workers, worker, number, page)
                    workers.passed(worker.partitions, page.place)
                    if not page.caught_up:
                        continue
                if self._now() >= end:
                    await self._store(workers, worker)
                    return self._taken(workers, worker, 0, page)
                await self._wait(workers, worker, end)

    def _check(self, workers: Workers, worker: Worker, turn: int) -> None:
        """Raise the error of a call that must end: the service ends, the lease is over, or a later call took over."""
        if self._draining:
            raise Unavailable("the service is shutting down; go on when it is back", reason="DRAINING")
        group = workers.group
        standing = self._host.snapshot().groups.get((group.stream_id, group.name))
        gone = standing is None or standing.formed != group.formed
        if gone:
            workers.leave(worker)
        if gone or worker.turn != turn or not workers.has(worker):
            raise lease_lost(group.name)

    def _has_news(self, workers: Workers, worker: Worker) -> bool:
        """Whether the stream has tuples after a position of the worker."""
        view = self._host.snapshot().by_id.get(workers.group.stream_id)
        return view is not None and int(workers.positions[worker.partitions, 0].min()) < view.next_id

    async def _page(self, workers: Workers, worker: Worker, taking: Taking) -> WorkerPage:
        stream_id = workers.group.stream_id
        partitions, positions = worker.partitions.copy(), workers.positions.copy()

        def read(snapshot: Snapshot, budget: ReadBudget) -> WorkerPage:
            view = snapshot.by_id.get(stream_id)
            if view is None:
                raise NotFound("the stream was dropped while it was followed", reason="UNKNOWN_STREAM")
            return worker_page(
                snapshot, view, worker.follower, partitions, positions, taking.form, self._clock(), budget
            )

        try:
            return await self._host.evaluate(read, tenant=taking.tenant)
        finally:
            worker.follower.rest()

    async def _wait(self, workers: Workers, worker: Worker, end: float) -> None:
        """Wait for a publication, a free partition, the end of a lease, or the time `end`."""
        over = workers.next_end()
        if over is not None:
            end = min(end, over)
        if self._now() < worker.due:
            end = min(end, worker.due)
        try:
            async with asyncio.timeout_at(max(end, self._now())):
                await worker.wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(ROUND_S)

    async def _store(self, workers: Workers, worker: Worker) -> None:
        """Log positions that moved without a match, unless some were logged within `STORE_S`."""
        positions = workers.positions.astype(POSITION).tobytes()
        if positions == workers.stored or self._now() < workers.stored_at + STORE_S:
            return
        workers.stored_at = self._now()
        await self._log(workers, worker, positions)
        workers.stored = positions

    def _taken(self, workers: Workers, worker: Worker, number: int, page: WorkerPage | None) -> Taken:
        snapshot = self._host.snapshot()
        view, lag = snapshot.by_id.get(workers.group.stream_id), 0
        group = workers.group
        note_place(snapshot, group.stream_id, group.name, self.next_id(group), self._clock())
        if view is not None and worker.count:
            lag = max(view.next_id - int(workers.positions[worker.partitions, 0].min()), 0)
        return Taken(worker, number, page, lag, len(workers), max(snapshot.sequence, workers.sequence))
