"""Binding of long statements on a thread of their own, so that the sequencer stays free for quick commands.

    sequencer ──long registration──> sender s [ r1 r2 r4 ] ──a slice of r1, r3, r2, …──> bound ──> sequencer, which
    a call    ──long question──────> sender t [ r3 q1 ]                                    │        decides
                                                                                           └─────> the call goes on

A block of thousands of statements takes seconds, and one statement up to a fifth of a second. A push waits for neither.
Tenants take turns by the processor time of this thread. Within a tenant its senders take turns, and within a sender its
jobs do. So a sender of a hundred registrations gets the time of one sender. The binder competes with other threads for
the interpreter only. So its turns at the interpreter are short (`ShortTurns`). After each slice the thread rests while
other commands come, or while calls of other tenants are under way (`giving_way`). Within a slice it rests for such
calls, too, if one statement takes long (`psoup.work.rest_points`). The binder drops the job of a caller that has left.
It accepts and refuses no command; the sequencer does.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from psoup.errors import PSoupError
from psoup.work.rest_points import resting
from psoup_service.host.turns.fair_turns import FairTurns, TenantTimes, Weight, equal
from psoup_service.host.turns.giving_way import LEAST_S, GivingWay, Rests
from psoup_service.host.turns.interpreter import ShortTurns
from psoup_service.host.worker import Failure, StageThread, deliver

T = TypeVar("T")

SLICE_SECONDS = 0.005
"""Length of a slice, after which the next registration has its turn."""

REST_SECONDS = 0.005
"""Seconds of rest after a slice if the sequencer took other commands meanwhile.

A push takes the interpreter some twenty times, because each step of SQLite releases it. During a rest, it gets the
interpreter at once.
"""


@dataclass(frozen=True, eq=False, slots=True)
class BindingJob:
    """Statements to bind for a `sender`. `left`: whether the caller has left meanwhile.

    `advance` takes steps while its argument returns True, and returns whether the job is complete; it raises nothing.
    The binder calls `end` once, when it has completed or dropped the job.
    """

    tenant: str
    sender: Hashable
    left: Callable[[], bool]
    advance: Callable[[Callable[[], bool]], bool]
    end: Callable[[], None]


class BindingThread(StageThread):
    """The thread that binds. `others`: number of commands that the sequencer has taken so far. `weight`: a tenant's
    weight.
    """

    def __init__(self, others: Callable[[], int], failed: Failure, weight: Weight = equal) -> None:
        super().__init__("psoup-binder", failed)
        self._others = others
        self.way = GivingWay()
        """The calls under way. A slice ends when another tenant's call begins, and the next slice waits for its end."""
        self.times = TenantTimes(weight)
        self._turns = FairTurns(self.times)
        self._works: dict[str, OrderedDict[Hashable, deque[BindingJob]]] = {}
        """The jobs by tenant and sender, in order. A tenant's next job is the first job of its first sender."""
        self._ended = False

    def put(self, job: BindingJob) -> None:
        """Queue a job. From any thread."""
        with self.condition:
            if not self._ended:
                self._works.setdefault(job.tenant, OrderedDict()).setdefault(job.sender, deque()).append(job)
                self._turns.wait(job.tenant)
                self.condition.notify()
                return
        job.end()

    async def made(self, make: Callable[[], T], tenant: str, sender: Hashable, refusal: Callable[[], PSoupError]) -> T:
        """Call `make` on the binder's thread, in turn with other jobs. Returns its result, or raises its error.

        Raises `refusal` if the stage has ended before. After a cancellation `make` is not called.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        outcome: list[Any] = []

        def advance(_: Callable[[], bool]) -> bool:
            try:
                outcome.append(make())
            except Exception as problem:
                outcome.append(problem)
            return True

        def end() -> None:
            deliver([(answer, outcome.pop() if outcome else refusal())])

        self.put(BindingJob(tenant, sender, answer.cancelled, advance, end))
        return await answer

    def has_work(self) -> bool:
        """Whether jobs wait or are being bound."""
        return bool(self._works)

    def run(self) -> None:
        """Bind until stopped."""
        while self.wait_for_work():
            with ShortTurns():
                self._bind()

    def _bind(self) -> None:
        """Bind slice after slice until no job is left, or the stage is to end."""
        before, rests = self._others(), Rests(self.way)
        while self._works and (self._finishing or not self._stopping):
            job, began = self._next(), time.thread_time()
            tenant, start = job.tenant, time.perf_counter()
            rests.begin(tenant)
            with resting(rests.rest):
                done = job.left() or job.advance(self._until(tenant, start + SLICE_SECONDS))
            with self.condition:
                self.times.charge(tenant, time.thread_time() - began)
            if done:
                self._take_out(job)
                job.end()
            del job
            if not rests.rest() and self._others() != before:
                with self.condition:
                    self.condition.wait(REST_SECONDS)
            before = self._others()

    def _next(self) -> BindingJob:
        """Take the job whose turn it is. Its sender then goes to the end of the tenant's line."""
        with self.condition:
            senders = self._works[self._turns.serve()]
            sender, jobs = next(iter(senders.items()))
            job = jobs[0]
            jobs.rotate(-1)
            senders.move_to_end(sender)
            return job

    def _take_out(self, job: BindingJob) -> None:
        """Remove a job that is complete or dropped."""
        with self.condition:
            senders = self._works[job.tenant]
            jobs = senders[job.sender]
            at = next(at for at in reversed(range(len(jobs))) if jobs[at] is job)
            del jobs[at]
            if not jobs:
                del senders[job.sender]
            if not senders:
                del self._works[job.tenant]
                self._turns.leave(job.tenant)

    def wind_up(self) -> None:
        """End the jobs that are left."""
        with self.condition:
            self._ended = True
            left = [job for senders in self._works.values() for jobs in senders.values() for job in jobs]
            self._works.clear()
        for job in left:
            job.end()

    def _until(self, tenant: str, end: float) -> Callable[[], bool]:
        """A function that returns whether a slice may go on.

        It returns False after `end`. After the first `LEAST_S` of the slice, it also returns False while another
        tenant's call is young.
        """
        earliest = end - SLICE_SECONDS + LEAST_S

        def may_go_on() -> bool:
            now = time.perf_counter()
            return now < earliest or (now < end and not self.way.wanted(tenant))

        return may_go_on
