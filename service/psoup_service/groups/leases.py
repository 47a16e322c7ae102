"""Leases: which worker of a group has which partitions. Pure state; times are arguments.

    join   ──> a lease without partitions
    take   ──> free partitions, up to an equal share; surplus ones become free for other workers
    give   ──> a batch of these partitions is with the worker until a deadline
    confirm ─> its partitions move on; the worker may give some of them up
    the deadline has passed: the lease is over, and its partitions are free

A lease is a random text, so that a worker whose lease is over cannot act for its successor.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field

import numpy as np

from psoup.answer.follow.page import (
    Follower,
)
from psoup.answer.follow.told import FollowWanted
from psoup.errors import FailedPrecondition, ResourceExhausted
from psoup.events.groups import PARTITIONS, POSITION, FollowerGroup, positions_array
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch that is with a worker: its number, its partitions (bool[PARTITIONS]), and the position after it."""

    number: int
    partitions: Array
    end: tuple[int, int]


@dataclass(eq=False, slots=True)
class Worker:
    """A worker of a group. `seconds`: the time that it may take for a batch. `deadline`: the end of its lease."""

    lease: str
    name: str
    seconds: float
    deadline: float
    follower: Follower
    partitions: Array = field(default_factory=lambda: np.zeros(PARTITIONS, np.bool_))
    delivery: Delivery | None = None
    confirmed: int = 0
    """The number of the last confirmed batch."""
    calls: int = 0
    """The calls of the worker that are under way. Its lease does not end before them."""
    turn: int = 0
    """The number of its calls. An older call that still waits ends."""
    due: float = 0.0
    """The time before which no page is made, because the last one evaluated a query with amount NONE."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a waiting call of the worker must look again."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def count(self) -> int:
        """The number of its partitions."""
        return int(self.partitions.sum())


class Workers:
    """The workers of one group, and the positions that they have reached.

    `positions`: int64[PARTITIONS, 2], the position up to which each partition is confirmed, or has no match. `stored`:
    the positions that were last sent to the log, at the time `stored_at`. `sequence`: the last event in the log that
    moved positions since the start, which may not be published yet. For the event loop.
    """

    def __init__(self, group: FollowerGroup, wanted: FollowWanted) -> None:
        self.group = group
        self.wanted = wanted
        self.positions: Array = positions_array(group.positions).copy()
        self.stored = group.positions
        self.stored_at = 0.0
        self.sequence = 0
        self._workers: dict[str, Worker] = {}

    def __len__(self) -> int:
        return len(self._workers)

    def all(self) -> list[Worker]:
        """The workers, in the order in which they came."""
        return list(self._workers.values())

    def has(self, worker: Worker) -> bool:
        """Whether the lease of a worker is not over."""
        return worker.lease in self._workers

    def join(self, name: str, seconds: float, now: float) -> Worker:
        """A new worker. Raises ResourceExhausted if there is one for each partition already."""
        self.expire(now)
        if len(self._workers) >= PARTITIONS:
            raise ResourceExhausted(
                f"group {self.group.name!r} has {PARTITIONS} workers, one for each partition; end one first",
                reason="TOO_MANY_WORKERS",
                limit=PARTITIONS,
            )
        worker = Worker(secrets.token_hex(16), name, seconds, now + seconds, Follower(self.wanted))
        self._workers[worker.lease] = worker
        return worker

    def known(self, lease: str, now: float) -> Worker:
        """The worker with a lease. Raises FailedPrecondition, reason LEASE_LOST, if the lease is over."""
        self.expire(now)
        worker = self._workers.get(lease)
        if worker is None:
            raise lease_lost(self.group.name)
        return worker

    def expire(self, now: float) -> None:
        """End the leases whose deadlines have passed. O(workers)."""
        for worker in [worker for worker in self._workers.values() if not worker.calls and worker.deadline <= now]:
            self.leave(worker)

    def leave(self, worker: Worker) -> None:
        """End a lease: its partitions become free. Nothing happens if it is over."""
        if self._workers.pop(worker.lease, None) is not None:
            worker.delivery = None
            self.free(worker)

    def free(self, worker: Worker, keep: int = 0) -> None:
        """Take partitions from a worker, except the first `keep`. All waiting workers look again."""
        worker.partitions[np.flatnonzero(worker.partitions)[keep:]] = False
        for other in self._workers.values():
            other.wake.set()

    def next_end(self) -> float | None:
        """The earliest deadline of a worker without a call under way. None if there is none."""
        return min((worker.deadline for worker in self._workers.values() if not worker.calls), default=None)

    def take(self, worker: Worker, now: float) -> None:
        """Give a worker without a batch its share of the partitions, as far as they are free. O(workers)."""
        self.expire(now)
        share = -(-PARTITIONS // len(self._workers))
        if worker.count > share:
            self.free(worker, keep=share)
            return
        taken = np.logical_or.reduce([other.partitions for other in self._workers.values()])
        worker.partitions[np.flatnonzero(~taken)[: share - worker.count]] = True

    def give(self, worker: Worker, end: tuple[int, int], now: float) -> Delivery:
        """Note that a batch goes to a worker. `end`: the position after it."""
        worker.delivery = Delivery(worker.confirmed + 1, worker.partitions.copy(), end)
        worker.deadline = now + worker.seconds
        return worker.delivery

    def delivered(self, worker: Worker, number: int) -> Delivery | None:
        """The batch that a worker confirms. None if it was confirmed already.

        Raises FailedPrecondition, reason LEASE_LOST, if the worker does not have the batch.
        """
        if worker.delivery is not None and number == worker.delivery.number:
            return worker.delivery
        if number == worker.confirmed:
            return None
        raise lease_lost(self.group.name)

    def after(self, delivery: Delivery) -> bytes:
        """The positions of all partitions once a batch is confirmed."""
        return self._moved(delivery.partitions, delivery.end).astype(POSITION).tobytes()

    def confirm(self, worker: Worker, delivery: Delivery) -> None:
        """Note that a batch is confirmed, and that the log has it."""
        self.positions = self._moved(delivery.partitions, delivery.end)
        if worker.delivery is delivery:
            worker.delivery = None
            worker.confirmed = delivery.number

    def passed(self, partitions: Array, end: tuple[int, int]) -> None:
        """Note that partitions (bool[PARTITIONS]) have no match before a position."""
        self.positions = self._moved(partitions, end)

    def _moved(self, partitions: Array, end: tuple[int, int]) -> Array:
        behind = (self.positions[:, 0] < end[0]) | ((self.positions[:, 0] == end[0]) & (self.positions[:, 1] < end[1]))
        return np.where((partitions & behind)[:, None], np.array(end, np.int64), self.positions)


def lease_lost(group: str) -> FailedPrecondition:
    """The error of a worker whose lease is over."""
    return FailedPrecondition(
        f"the lease of this worker of group {group!r} is over: it neither confirmed its batch nor asked for another in"
        " time, the service has started again, or the group was removed. What it has not confirmed comes again, perhaps"
        " to another worker; follow again for a new lease, and give a longer one if batches take longer",
        reason="LEASE_LOST",
        group=group,
    )
