"""The supervisor of background tasks: a task that ends by an error is logged, counted, and started again.

    folding   run ── MemoryError ── 1 s ── run ── MemoryError ── 2 s ── run …      pauses double, up to a minute
    failing   three errors without a run between them that lasted longer than a step of the task: readiness names it

A cancelled task ends for good; so does one that returns. All tasks belong to one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

FIRST_S = 1.0
"""Seconds of the first pause."""

MOST_S = 60.0
"""Seconds of the longest pause."""
FAILING = 3
"""Errors in a row at which a task counts as failing."""

_log = logging.getLogger(__name__)

Run = Callable[[], Awaitable[None]]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class _Supervised:
    """A task. `steady_s`: a run that lasts longer has done a step without an error."""

    name: str
    run: Run
    steady_s: float
    errors: int = 0
    """Errors in a row."""
    began: float = 0.0
    running: bool = False
    last: str = ""


class Supervisor:
    """Background tasks of one event loop. `sleep` and `now`: a test has its own time, in seconds."""

    def __init__(self, sleep: Sleep = asyncio.sleep, now: Callable[[], float] = time.monotonic) -> None:
        self._sleep = sleep
        self._now = now
        self._supervised: list[_Supervised] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.failures = 0
        """Errors that have ended a task since the start."""

    def start(self, name: str, run: Run, period_s: float) -> None:
        """Run a task until `stop`. `period_s`: the seconds between two of its steps."""
        supervised = _Supervised(name, run, 1.5 * period_s)
        self._supervised.append(supervised)
        self._tasks.append(asyncio.get_running_loop().create_task(self._keep(supervised), name=f"psoup-{name}"))

    def stop(self) -> None:
        """Cancel all tasks; idempotent."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    @property
    def names(self) -> list[str]:
        """The names of the tasks, in the order of their start."""
        return [task.name for task in self._supervised]

    @property
    def failing(self) -> str:
        """The tasks that keep failing, and their last errors, for the operator; empty if none does. Any thread."""
        return "; ".join(
            f"{task.name} keeps failing ({task.last})"
            for task in self._supervised
            if task.errors >= FAILING and not self._is_steady(task)
        )

    def _is_steady(self, task: _Supervised) -> bool:
        """Whether the task runs, and has done a step since its last error."""
        return task.running and self._now() - task.began > task.steady_s

    async def _keep(self, task: _Supervised) -> None:
        """Run a task again and again."""
        while True:
            task.began, task.running = self._now(), True
            try:
                await task.run()
                task.errors = 0
                return
            except Exception as problem:  # MemoryError is one of them
                task.errors = 1 if self._is_steady(task) else task.errors + 1
                task.running, task.last = False, f"{type(problem).__name__}: {problem}".removesuffix(": ")
                self.failures += 1
                pause = min(FIRST_S * 2 ** (min(task.errors, 16) - 1), MOST_S)
                facts = {"task": task.name, "errors": task.errors, "pause_s": pause}
                _log.exception("a background task has ended by an error, and is started again", extra=facts)
            await self._sleep(pause)
