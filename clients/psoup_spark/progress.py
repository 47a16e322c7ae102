"""Progress of a running job: the output of its workers, seen from the driver.

    Watch   every half a second ──> Progress(phase, rows of total, chunks) ──> the command that shows it

The workers' directory is shared, so the driver counts files in it, and asks Spark only for ended tasks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """`phase`: reading, sorting, evaluating, attaching. `rows` of `total` (0: not known yet) are in `chunks` written.

    `tasks`: of Spark, ended and all, of the stages that run.
    """

    phase: str
    rows: int = 0
    total: int = 0
    chunks: int = 0
    tasks: tuple[int, int] = (0, 0)


Tell = Callable[[Progress], None]
"""Told of progress, on a thread of its own."""


class Watch:
    """Tells the progress of one job, if it is given a teller. `phase` and `total` are the driver's to set."""

    def __init__(self, tell: Tell | None, spark: Any) -> None:
        self._tell = tell
        self._spark = spark
        self.phase = "reading"
        self.total = 0
        self.written: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Rows and chunks so far; any thread."""

    def now(self) -> Progress:
        """Return how far the job is."""
        rows, chunks = self.written()
        phase = "evaluating" if self.phase == "sorting" and chunks else self.phase
        return replace(Progress(phase, rows, self.total, chunks), tasks=self._tasks())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Tell from now on, and a last time at the end of the block."""
        if self._tell is None:
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._loop, args=(ended, self._tell), name="psoup-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _loop(self, ended: threading.Event, tell: Tell) -> None:
        while not ended.wait(_PAUSE):
            tell(self.now())
        tell(self.now())

    def _tasks(self) -> tuple[int, int]:
        tracker = self._spark.sparkContext.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [info for info in infos if info is not None]
        return sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages)
