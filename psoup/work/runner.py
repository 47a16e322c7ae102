"""Runners: functions that run independent tasks, either in sequence or on threads of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Task = Callable[[], None]

Runner = Callable[[Sequence[Task]], None]
"""A function that runs all tasks, in any order, on any threads, and returns when all are done. Tasks write to disjoint
ranges.

A runner may have the attribute `threads`: the most tasks into which a probe may be cut (default 1). It may have the
attribute `handover`: the least nanoseconds of work that are worth another thread (default 150,000).
"""

_HANDOVER_NS = 150_000
"""The default of `handover`. Two threads for 0.2 ms of work saved nothing: it takes half of that to wake the other
thread."""


def serial(tasks: Sequence[Task]) -> None:
    """A runner without threads: it runs one task after the other."""
    for task in tasks:
        task()


def threads_of(run: Runner) -> int:
    """The number of tasks that `run` can use at once."""
    return max(1, int(getattr(run, "threads", 1)))


def handover_of(run: Runner) -> int:
    """The least work, in nanoseconds, for which `run` should use another thread."""
    return int(getattr(run, "handover", _HANDOVER_NS))
