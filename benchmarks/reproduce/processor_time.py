"""The processor time of a call on this thread. Other programs on the machine disturb it less than wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from benchmarks.tool.measure import Sample


def milliseconds(call: Callable[[], object]) -> float:
    """The processor time of one call."""
    start = time.thread_time()
    call()
    return 1e3 * (time.thread_time() - start)


def in_turns(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Milliseconds of each call, by its name. The calls take turns.

    The figure is the 10th percentile, because other work of the machine only adds to a time.
    """
    spent = [{name: milliseconds(call) for name, call in calls.items()} for _ in range(repeats)]
    return {name: Sample.of([times[name] for times in spent]).low for name in calls}
