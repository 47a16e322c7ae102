"""Limits on processor time that hold whatever else the process and the machine do.

    query = within(1.0, lambda: bind(text))     what it returns; AssertionError if it took longer each time

A garbage collection falls into one run of three, and another process may make one run twice as slow. Slow code is slow
in every run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TRIES = 3


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, which must not remember anything: a run after a slow one counts like the first."""
    spent = []
    for _ in range(TRIES):
        started = time.thread_time()
        done = work()
        spent.append(time.thread_time() - started)
        if spent[-1] < seconds:
            return done
    raise AssertionError(f"it takes {min(spent):.2f} s of processor time, and may take {seconds:g}")
