"""Limits on work that hold whatever else the process and the machine do.

    query = within(1.0, lambda: bind(text))          what it returns; AssertionError if it took longer each time
    query = in_calls(5_000_000, lambda: bind(text))  the same; AssertionError if Python makes more calls

Count calls where a limit is to be near to what is needed: the count is the same on every machine. A limit of time must
be ten times what an idle machine needs. A garbage collection falls into one run of three. Another process may make one
run several times as slow. Slow code is slow in every run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from psoup.work.gc_pause import without_collector

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


class _TooMany(BaseException):
    """Ends work that makes more calls than it may. No `except Exception` of the work takes it."""


def in_calls(limit: int, work: Callable[[], T]) -> T:
    """The result of `work`. It ends at once with an AssertionError after more than `limit` calls of functions, Python's
    and C's. Loops inside C are not counted.
    """
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > limit:
            sys.setprofile(None)
            raise _TooMany

    before = sys.getprofile()
    with without_collector():  # it calls finalizers
        sys.setprofile(count)
        try:
            return work()
        except _TooMany:
            raise AssertionError(f"it makes more than {limit:,} calls of functions") from None
        finally:
            sys.setprofile(before)
