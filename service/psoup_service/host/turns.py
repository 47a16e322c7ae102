"""Sharing among threads: short turns at the interpreter during long work, and priority on a processor.

    ShortTurns   binder ████████          reader ████
    interval     0.02 ms ──────── 5 ms ── 0.02 ms ─── 5 ms

While a thread works for milliseconds in Python, threads that answer a push wait a whole turn each time that they have
given the interpreter up, some twenty times a push. Otherwise short turns only cost: twice the changes of thread, and a
fifth more processor time for a push of 4,096 tuples (Emerald Rapids, two cores).
Beside one caller of MatchesMany for two million IDs, p99 of others' invocations went from 89 to 8 ms, of their pushes
from 106 to 15, and that caller got more done than before (Zen 5, two cores).
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

SHORT_SECONDS = 0.000_02
"""The length of a short turn. A thread that waits also sleeps some 0.06 ms until it is woken: less than this gains
little. Beside a client that asks new questions in a loop, the median and p99 of an invocation were 3.5 and 8.2 ms at
0.2 ms, and are 1.9 and 5.7; those of a push 8.2 and 14.7, now 4.6 and 9.7 (Zen 5, two cores). Two threads that both
compute in Python take 6 to 10 % more time than with long turns, of which 1 to 3 at 0.2 ms."""


BEHIND = 5
"""Niceness of a thread that goes behind other threads: it gets a quarter of a processor that another thread wants.
With 10, a tenth, it was itself waited for, by all, while it had the interpreter: a millisecond became 30."""


def go_behind() -> None:
    """Let the other threads go first on the processors from now on, where the system knows that of a thread (Linux).

    For a thread that computes for tens of milliseconds outside the interpreter, and for which no call of another tenant
    waits: else that call waits until a processor is free.
    """
    if sys.platform == "linux":
        os.nice(BEHIND)


class ShortTurns:
    """A context in which turns are short; any number at a time, in any thread. The last to end restores the interval,
    which is the interpreter's own."""

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
