"""Errands: work of threads with a low priority, which the committer does for them between two groups.

    maintenance ── in_turn(forget) ──> [ e1 e2 ] ──in the turn of a large push──> committer ── result ──> maintenance

Before the host starts, and after it has ended, the thread that asks does the work itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Errand:
    """Work that the committer does for another thread, in its turn. The other thread waits in `result`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._over = threading.Event()
        self._outcome: Any = None
        self._problem: BaseException | None = None
        self._own = False

    def result(self) -> Any:
        """The result of the work; raises its error. Called once, by the thread that asked."""
        self._over.wait()
        if self._own:
            return self._work()
        if self._problem is not None:
            raise self._problem
        return self._outcome

    def do(self) -> None:
        """Do the work, unless it was waived. `result` raises its exception on the thread that asked."""
        if self._over.is_set():
            return
        try:
            self._outcome = self._work()
        except BaseException as problem:
            self._problem = problem
        self._over.set()

    def waive(self) -> None:
        """Let the waiting thread do the work itself, at once. Has no effect once the work is done."""
        if not self._over.is_set():
            self._own = True
            self._over.set()


class Errands:
    """The errands that wait. `condition`: the sequencer sleeps on it, and starts them."""

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._waiting: deque[Errand] = deque()
        self._open = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def begin(self) -> None:
        """Let errands wait for the committer from now on."""
        self._open = True

    def in_turn(self, work: Callable[[], T]) -> T:
        """The result of `work`, which the committer does in the turn of a large push. Raises the errors of `work`.

        The work waits for earlier small pushes, and later small pushes wait for it. From any thread but the sequencer's
        and the committer's.
        """
        errand = Errand(work)
        with self._condition:
            if self._open:
                self._waiting.append(errand)
                self._condition.notify()
            else:
                errand.waive()
        result: T = errand.result()
        return result

    def take(self) -> Errand | None:
        """Take the next errand; None if none waits."""
        with self._condition:
            return self._waiting.popleft() if self._waiting else None

    def end(self) -> None:
        """Let the threads that wait do their work themselves. The caller holds the condition."""
        self._open = False
        while self._waiting:
            self._waiting.popleft().waive()
