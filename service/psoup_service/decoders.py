"""Two threads that decode: one for what is quickly done, one for what is long; whose turn it is goes by bytes.

    run(size, work)   size <= 1 MiB ──> quick thread      size > 1 MiB ──> long thread
                      each: the sender that had fewest bytes decoded of late is next, its own jobs in their order

A sender that fills a line with megabytes waits behind its own jobs; others' come in between (start-time fair queueing,
Goyal, Vin and Cheng 1996). Decoding releases the interpreter's lock, mostly.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from psoup_service.frames import let_go

T = TypeVar("T")

QUICK_BYTES = 1024 * 1024
"""What decodes to more than this goes to the long thread: a thread decodes about 1 GB a second."""

_JOB_BYTES = 4_096
"""What a job costs beside its bytes."""


class _Line:
    """One thread, and the jobs that wait for it."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._numbers = itertools.count()
        self._now = 0  # the tag of the job taken last
        self._last: dict[Hashable, int] = {}  # where each sender's next job may start, of those ahead of `_now`

    def put(self, sender: Hashable, size: int, work: Callable[[], T]) -> Future[T]:
        """Have `work` done in its turn."""
        future: Future[T] = Future()
        with self._lock:
            start = max(self._now, self._last.get(sender, 0))
            self._last[sender] = start + size + _JOB_BYTES
            heapq.heappush(self._heap, (start, next(self._numbers), future, work))
        self._pool.submit(self._next)
        return future

    def close(self) -> None:
        """Finish what is being done; the rest is cancelled."""
        with self._lock:
            for _, _, future, _ in self._heap:
                future.cancel()
        self._pool.shutdown()

    def _next(self) -> None:
        with self._lock:
            self._now, _, future, work = heapq.heappop(self._heap)
            if not self._heap:
                self._last.clear()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as problem:
            let_go(problem)
            future.set_exception(problem)


class Decoders:
    """Both threads. `run` is called on an event loop."""

    def __init__(self) -> None:
        self._quick, self._long = _Line("psoup-decoder"), _Line("psoup-decoder-long")

    async def run(
        self, sender: Hashable, size: int, work: Callable[[], T], *, dropped: Callable[[], None] | None = None
    ) -> T:
        """What `work` returns, which reads or makes about `size` bytes.

        `dropped` is called once if nobody gets the result: `work` raised, or the caller was cancelled (then after
        `work` has ended, if it had begun).
        """
        future = (self._quick if size <= QUICK_BYTES else self._long).put(sender, size, work)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            if dropped is not None:
                future.add_done_callback(lambda _: dropped())
            raise

    def close(self) -> None:
        """End both threads."""
        self._quick.close()
        self._long.close()
