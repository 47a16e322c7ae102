"""The time that a thread keeps the interpreter while others wait: short turns while a thread computes at length.

    ShortTurns   binder ████████          reader ████
    interval     0.2 ms ───────── 5 ms ── 0.2 ms ──── 5 ms

While a thread works for milliseconds in Python, threads that answer a push wait a whole turn each time that they have
given the interpreter up, some twenty times a push. Otherwise short turns only cost: twice the changes of thread, and a
fifth more processor time for a push of 4,096 tuples (Emerald Rapids, two cores).
Beside one caller of MatchesMany for two million IDs, p99 of others' invocations went from 89 to 8 ms, of their pushes
from 106 to 15, and that caller got more done than before (Zen 5, two cores).
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType

SHORT_SECONDS = 0.000_2
"""The length of a short turn. With one long statement bound beside, the median of a push was 15 ms at 1 ms, and 6 ms
here."""


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
