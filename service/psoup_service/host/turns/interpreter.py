"""Sharing among threads: short turns at the interpreter during long work, and priority on a processor.

    ShortTurns   binder ████████          reader ████
    interval     0.02 ms ──────── 5 ms ── 0.02 ms ─── 5 ms

A thread that answers a push gives the interpreter up some twenty times. While another thread works for milliseconds in
Python, it waits for a whole turn each time. Without such work, short turns have only costs: twice as many changes of
thread, and a fifth more processor time for a push of 4,096 tuples (Emerald Rapids, two cores).

Measured while one client calls MatchesMany for two million IDs: p99 of other clients' invocations went from 89 to 8 ms,
and of their pushes from 106 to 15 ms. That client got more done than before, too (Zen 5, two cores).
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

SHORT_SECONDS = 0.000_02
"""The length of a short turn. A waiting thread also sleeps some 0.06 ms until it is woken, so a shorter turn gains
little. Measured while a client asks new questions in a loop, against turns of 0.2 ms (Zen 5, two cores): median
and p99 of an invocation fell from 3.5 and 8.2 ms to 1.9 and 5.7, of a push from 8.2 and 14.7 ms to 4.6 and 9.7. Two
threads that compute in Python take 6 to 10 % more time than with long turns. With 0.2 ms it was 1 to 3 %.
"""


BEHIND = 5
"""Niceness of a thread with low priority: it gets a quarter of a processor that another thread wants. With 10 it got a
tenth, and other threads waited for it while it had the interpreter: a millisecond became 30.
"""


def go_behind() -> None:
    """Give the calling thread a low priority from now on, if the system supports that for a thread (Linux).

    For threads that compute for tens of milliseconds outside the interpreter. No call of another tenant may wait for
    such a thread, because it would wait until a processor is free.
    """
    if sys.platform == "linux":
        os.nice(BEHIND)


class ShortTurns:
    """Context in which turns are short. Any number may be open at a time, in any thread. The last one to end restores
    the interpreter's own interval.
    """

    _lock = threading.Lock()
    _users = 0
    _usual = 0.0

    def __enter__(self) -> None:
        kind = ShortTurns
        with kind._lock:
            if not kind._users:
                kind._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(kind._usual, SHORT_SECONDS))
            kind._users += 1

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        kind = ShortTurns
        with kind._lock:
            kind._users -= 1
            if not kind._users:
                sys.setswitchinterval(kind._usual)
