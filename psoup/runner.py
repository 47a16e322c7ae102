"""Runners: functions that run independent tasks, one after the other or on threads that the host lends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Task = Callable[[], None]

Runner = Callable[[Sequence[Task]], None]
"""Runs all tasks and returns when all are done, in any order, on any threads; the tasks write disjoint ranges.

A runner may have an attribute `threads`: the number of tasks into which a probe may be cut (default 1), and another,
`handover`: nanoseconds of work that a task should have at least, to be worth another thread (default 150,000)."""

_HANDOVER_NS = 150_000
"""Sharing 0.2 ms of work between two threads was found to save nothing: waking the other thread takes half of it."""


def serial(tasks: Sequence[Task]) -> None:
    """The runner that needs no threads: one task after the other."""
    for task in tasks:
        task()


def threads_of(run: Runner) -> int:
    """The number of tasks that `run` can use at once."""
    return max(1, int(getattr(run, "threads", 1)))


def handover_of(run: Runner) -> int:
    """The least work of a task, in nanoseconds."""
    return int(getattr(run, "handover", _HANDOVER_NS))
