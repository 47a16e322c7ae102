"""The progress of a running job, which the driver measures while workers write.

    Watch   every half a second ──> Progress(phase, rows of total, chunks) ──> the command that shows it

The workers' directory is shared. So the driver counts files in it, and asks Spark only for the number of ended tasks.
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
    """The progress of a job at one moment. `phase`: reading, sorting, evaluating or attaching.

    `rows`: rows in the written `chunks`. `total`: all rows of the job; 0 if not known yet. `tasks`: numbers of ended
    tasks and of all tasks, in Spark's running stages.
    """

    phase: str
    rows: int = 0
    total: int = 0
    chunks: int = 0
    tasks: tuple[int, int] = (0, 0)


Tell = Callable[[Progress], None]
"""The function that receives the progress, on a thread of its own."""


class Watch:
    """The thread that reports the progress of one job to a `Tell`. The driver sets `phase` and `total`."""

    def __init__(self, tell: Tell | None, spark: Any) -> None:
        self._tell = tell
        self._spark = spark
        self.phase = "reading"
        self.total = 0
        self.written: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """The function that counts written rows and chunks. Any thread may call it."""

    def now(self) -> Progress:
        """Measure the present progress of the job."""
        rows, chunks = self.written()
        phase = "evaluating" if self.phase == "sorting" and chunks else self.phase
        return replace(Progress(phase, rows, self.total, chunks), tasks=self._tasks())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Report progress during the block, and once more at its end."""
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
