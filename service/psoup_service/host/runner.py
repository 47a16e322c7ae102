"""The engine's task runner on real threads: `run(tasks)` returns when all are done.

    run([t0, t1, t2])    t1, t2 are taken by the threads of the pool, t0 is done by the caller, who then waits

Tasks are kernels that release the GIL and write disjoint ranges. With one thread the pool works like the engine's
serial runner. A thread waits at a lock of its own: it works 40 microseconds after the call, where an executor took 60.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

Task = Callable[[], None]


class TaskPool:
    """Runs tasks on `threads` threads, the caller's included. Call the object itself; `close` it at the end.

    For one caller at a time: another caller does its tasks by itself.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"{threads} threads cannot run anything; give at least 1")
        self.threads = threads
        self._taken = threading.Lock()
        self._workers = [_RunnerThread(number) for number in range(threads - 1)]

    def __call__(self, tasks: Sequence[Task]) -> None:
        """Run all of `tasks`; raises the first exception, in the order of tasks, after all have ended."""
        errors: list[BaseException | None] = [None] * len(tasks)
        if len(tasks) < 2 or not self._workers or not self._taken.acquire(blocking=False):
            _do(tasks, range(len(tasks)), errors)
        else:
            try:
                self._share(tasks, errors)
            finally:
                self._taken.release()
        for error in errors:
            if error is not None:
                raise error

    def _share(self, tasks: Sequence[Task], errors: list[BaseException | None]) -> None:
        """Run task k on thread k, modulo the threads; the caller is thread 0."""
        busy = self._workers[: len(tasks) - 1]
        for number, worker in enumerate(busy, 1):
            worker.begin(tasks, range(number, len(tasks), self.threads), errors)
        try:
            _do(tasks, range(0, len(tasks), self.threads), errors)
        finally:
            for worker in busy:
                worker.done.acquire()  # their arrays belong to the caller: never leave a task behind that still writes

    def close(self) -> None:
        """End the threads; idempotent."""
        with self._taken:
            for worker in self._workers:
                worker.end()
            self._workers = []


class _RunnerThread:
    """A thread that runs shares of tasks, one after the other."""

    def __init__(self, number: int) -> None:
        self._go = threading.Lock()
        self.done = threading.Lock()
        self._go.acquire()
        self.done.acquire()
        self._work: tuple[Sequence[Task], range, list[BaseException | None]] | None = None
        self._thread = threading.Thread(target=self._live, name=f"psoup-task_{number}", daemon=True)
        self._thread.start()

    def begin(self, tasks: Sequence[Task], mine: range, errors: list[BaseException | None]) -> None:
        """Run some of the tasks; `done` is released afterwards."""
        self._work = tasks, mine, errors
        self._go.release()

    def end(self) -> None:
        """Stop the thread, and wait for it."""
        self._work = None
        self._go.release()
        self._thread.join()

    def _live(self) -> None:
        while True:
            self._go.acquire()
            if self._work is None:
                return
            _do(*self._work)
            self._work = None
            self.done.release()


def _do(tasks: Sequence[Task], mine: range, errors: list[BaseException | None]) -> None:
    """Run each of the tasks, also after one has failed."""
    for number in mine:
        try:
            tasks[number]()
        except BaseException as error:  # `__call__` raises it
            errors[number] = error


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
