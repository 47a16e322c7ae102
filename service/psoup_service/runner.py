"""The engine's task runner on real threads: `run(tasks)` returns when all are done.

    run([t0, t1, t2])    t1, t2 go to the pool, t0 is done by the caller, who then waits

Tasks are kernels that release the GIL and write disjoint ranges. With one thread it is the engine's own serial runner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait


class TaskPool:
    """Runs tasks on `threads` threads, the caller's included. Call the object itself; `close` it at the end."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"{threads} threads cannot run anything; give at least 1")
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1, "psoup-task") if threads > 1 else None

    def __call__(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run all of `tasks`; the first exception, in their order, is raised after all have ended."""
        if self._pool is None or len(tasks) < 2:
            for task in tasks:
                task()
            return
        futures = [self._pool.submit(task) for task in tasks[1:]]
        try:
            tasks[0]()
        finally:
            wait(futures)  # their arrays belong to the caller: never leave a task behind that still writes
        for future in futures:
            future.result()

    def close(self) -> None:
        """End the threads; idempotent."""
        if self._pool is not None:
            self._pool.shutdown()
