"""Runners: functions that run independent tasks, one after the other or on threads of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Task = Callable[[], None]

Runner = Callable[[Sequence[Task]], None]
"""Runs all tasks and returns when all are done, in any order, on any threads. The tasks write to disjoint ranges.

A runner may have the attribute `threads`: the most tasks into which a probe may be cut (default 1). It may have the
attribute `handover`: the least nanoseconds of work that are worth another thread (default 150,000).
"""

_HANDOVER_NS = 150_000
"""A division of 0.2 ms of work between two threads saved nothing: half of it is the time to wake the other thread."""


def serial(tasks: Sequence[Task]) -> None:
    """The runner without threads: one task after the other."""
    for task in tasks:
        task()


def threads_of(run: Runner) -> int:
    """The number of tasks that `run` can use at once."""
    return max(1, int(getattr(run, "threads", 1)))


def handover_of(run: Runner) -> int:
    """The least work of a task, in nanoseconds."""
    return int(getattr(run, "handover", _HANDOVER_NS))
