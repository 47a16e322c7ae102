"""A runner that cuts every probe into some tasks, however small, and runs the last first, without threads."""

from __future__ import annotations

from collections.abc import Sequence

from psoup.work.runner import Task


class Shards:
    """`threads`: into how many tasks. What tasks must not rely on, their order, is the opposite of what one expects."""

    handover = 0

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.shared = 0
        """Number of calls with more than one task."""

    def __call__(self, tasks: Sequence[Task]) -> None:
        self.shared += len(tasks) > 1
        for task in reversed(tasks):
            task()
