"""Binds statements beside the sequencer: what takes long must not hold back what is quick.

    sequencer ──long registration──> sender s [ r1 r2 r4 ] ──a slice of r1, r3, r2, …──> bound ──> sequencer, which
    a call    ──long question──────> sender t [ r3 q1 ]                                    │        decides
                                                                                           └─────> the call goes on

A block of thousands of statements takes seconds, and one statement may take a fifth of one; a push waits for neither.
Senders take turns, and the registrations of each among themselves: who sends a hundred at once has the time of one.
They compete for the interpreter only: turns are short meanwhile (`ShortTurns`), and while others have something to do,
each slice is followed by a rest. A caller who has left is left out. Knows nothing of what is decided.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from psoup.errors import PSoupError
from psoup_service.host.worker import Failure, StageThread, deliver
from psoup_service.turns import ShortTurns

T = TypeVar("T")

SLICE_SECONDS = 0.005
"""After which the next registration has its turn."""

REST_SECONDS = 0.005
"""Between two slices while others are busy: a push asks for the interpreter some twenty times (each step of SQLite
gives it up), and what comes in a rest has it at once."""


@dataclass(frozen=True, eq=False, slots=True)
class BindingJob:
    """Something to be bound for a `sender`. `left`: whether its caller has left meanwhile.

    `advance` takes steps while its argument says so, and tells whether nothing is left to be done; it raises nothing.
    `end` is called once, when that is so or when the job is given up, on the binder's thread.
    """

    sender: Hashable
    left: Callable[[], bool]
    advance: Callable[[Callable[[], bool]], bool]
    end: Callable[[], None]


class BindingThread(StageThread):
    """`others`: how many commands of others have been taken up so far."""

    def __init__(self, others: Callable[[], int], failed: Failure) -> None:
        super().__init__("psoup-binder", failed)
        self._others = others
        self._works: OrderedDict[Hashable, deque[BindingJob]] = OrderedDict()
        """By sender; the first job of the first one is next."""
        self._ended = False

    def put(self, job: BindingJob) -> None:
        """Take a job in. From any thread."""
        with self.condition:
            if not self._ended:
                self._works.setdefault(job.sender, deque()).append(job)
                self.condition.notify()
                return
        job.end()

    async def made(self, make: Callable[[], T], sender: Hashable, refusal: Callable[[], PSoupError]) -> T:
        """What `make` returns, which is one step, in turn with the other jobs. Raises what it raises.

        Raises a `refusal` if the stage has ended before. If the caller is cancelled, it is left out.
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

        self.put(BindingJob(sender, answer.cancelled, advance, end))
        return await answer

    def has_work(self) -> bool:
        """Whether something is being bound."""
        return bool(self._works)

    def run(self) -> None:
        """Bind until stopped."""
        while self.wait_for_work():
            with ShortTurns():
                self._bind()

    def _bind(self) -> None:
        """Slice after slice, until nothing is left, or the stage is to end."""
        before = self._others()
        while self._works and (self._finishing or not self._stopping):
            job = self._next()
            if job.left() or job.advance(_until(time.perf_counter() + SLICE_SECONDS)):
                self._take_out(job)
                job.end()
            del job
            if self._others() != before:
                with self.condition:
                    self.condition.wait(REST_SECONDS)
            before = self._others()

    def _next(self) -> BindingJob:
        """Whose turn it is; it is the last of its sender's next time, and its sender the last of all."""
        with self.condition:
            sender, own = next(iter(self._works.items()))
            job = own[0]
            own.rotate(-1)
            self._works.move_to_end(sender)
            return job

    def _take_out(self, job: BindingJob) -> None:
        """One whose turn it was needs no other."""
        with self.condition:
            own = self._works[job.sender]
            at = next(at for at in reversed(range(len(own))) if own[at] is job)
            del own[at]
            if not own:
                del self._works[job.sender]

    def wind_up(self) -> None:
        """Give back what is left."""
        with self.condition:
            self._ended = True
            left = [job for own in self._works.values() for job in own]
            self._works.clear()
        for job in left:
            job.end()


def _until(end: float) -> Callable[[], bool]:
    return lambda: time.perf_counter() < end
