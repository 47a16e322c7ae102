"""Two decoding threads, one for short and one for long work. Senders take turns by bytes.

    run(size, work)   size <= 1 MiB ──> quick thread      size > 1 MiB ──> long thread
                      each: the sender with the fewest recently decoded bytes is next, its own jobs in their order

A sender that fills a line with megabytes waits behind its own jobs; other senders' jobs come in between (start-time
fair queueing, Goyal, Vin and Cheng 1996). Decoding mostly releases the interpreter's lock. The long thread has a low
priority on the processors.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from psoup_service.host.turns.interpreter import go_behind
from psoup_service.host.worker import deliver

T = TypeVar("T")

QUICK_BYTES = 1024 * 1024
"""The most bytes of a job on the quick thread; larger jobs go to the long thread. A thread decodes about 1 GB a second.
"""

_JOB_BYTES = 4_096
"""The bytes that each job is charged in addition to its size."""


class _Job:
    """A job: its work, and the future that its caller awaits.

    `left`: the caller has left. `dropped`: called once if no caller gets the result, but not while the work runs.
    """

    __slots__ = ("answer", "doing", "dropped", "left", "work")

    def __init__(self, work: Callable[[], Any], dropped: Callable[[], None] | None) -> None:
        self.work = work
        self.dropped = dropped
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.doing = self.left = False


class _DecodingLine:
    """A thread, and the jobs that wait for it. The thread begins with the first job."""

    def __init__(self, name: str, *, behind: bool = False) -> None:
        """`behind`: the thread has a low priority on the processors."""
        self._behind = behind
        self._condition = threading.Condition()
        self._heap: list[tuple[int, int, _Job]] = []
        self._numbers = itertools.count()
        self._now = 0  # the start tag of the job that was taken last
        self._last: dict[Hashable, int] = {}  # the earliest start tag of each sender's next job, if above `_now`
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def put(self, sender: Hashable, size: int, job: _Job) -> None:
        """Queue a job; after `close` it is cancelled."""
        with self._condition:
            if self._closed:
                job.answer.cancel()
                return
            if self._thread.ident is None:
                self._thread.start()
            start = max(self._now, self._last.get(sender, 0))
            self._last[sender] = start + size + _JOB_BYTES
            heapq.heappush(self._heap, (start, next(self._numbers), job))
            self._condition.notify()

    def leave(self, job: _Job) -> None:
        """Mark a job as left by its caller, who is gone or got an error."""
        with self._condition:
            job.left = True
            doing = job.doing
        if not doing and job.dropped is not None:
            job.dropped()

    def close(self) -> None:
        """Finish the job in hand, and cancel the rest."""
        with self._condition:
            self._closed = True
            for _, _, job in self._heap:
                job.answer.cancel()
            self._condition.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        if self._behind:
            go_behind()
        while (job := self._next()) is not None:
            try:
                outcome = job.work()
            except BaseException as problem:
                outcome = problem
            with self._condition:
                job.doing = False
                left = job.left
            if not left:
                deliver([(job.answer, outcome)])
            elif job.dropped is not None:
                job.dropped()
            del job, outcome  # else they hold megabytes until the next job comes

    def _next(self) -> _Job | None:
        """Wait for the job whose turn it is; None at the end."""
        with self._condition:
            while True:
                while not self._heap and not self._closed:
                    self._condition.wait()
                if self._closed:
                    return None
                self._now, _, job = heapq.heappop(self._heap)
                if not self._heap:
                    self._last.clear()
                if not job.left:
                    job.doing = True
                    return job


class Decoders:
    """The quick thread and the long thread. `run` is called on an event loop."""

    def __init__(self) -> None:
        self._quick = _DecodingLine("psoup-decoder")
        self._long = _DecodingLine("psoup-decoder-long", behind=True)

    async def run(
        self, sender: Hashable, size: int, work: Callable[[], T], *, dropped: Callable[[], None] | None = None
    ) -> T:
        """The result of `work`, which reads or makes about `size` bytes.

        Calls `dropped` once if the caller gets no result: `work` raised, or the caller was cancelled. Then a `work`
        that has begun ends first.
        """
        line, job = self._quick if size <= QUICK_BYTES else self._long, _Job(work, dropped)
        line.put(sender, size, job)
        try:
            return await job.answer
        except BaseException:
            line.leave(job)
            raise

    def close(self) -> None:
        """End both threads."""
        self._quick.close()
        self._long.close()
