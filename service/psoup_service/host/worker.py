"""The base class of the host's threads, and the way from a thread to futures of event loops.

    stop(finish=True)    end when there is no more work        stop(finish=False)    end after the work in hand
    deliver(outcomes)    many futures resolved with one wake-up of each loop

Sequencer, writer and maintainer are such stages. A stage sleeps only on its condition: no polling, no time-outs. An
error that escapes `run` is a failure of the whole service, and is reported once. A wake-up costs a write to the loop's
socket; a group of commands shares one. Futures of callers that have left, and closed loops, are skipped; the outcome
still stands.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from psoup.errors import Corrupt
from psoup_service.host.frames import let_go

Outcome = tuple["asyncio.Future[Any]", Any]
"""A future, and its result or the exception to raise there."""


def deliver(outcomes: Iterable[Outcome]) -> None:
    """Resolve the futures in their own loops, in order. From any thread; never blocks, never raises."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome[0].get_loop(), []).append(outcome)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, group)
        except RuntimeError:  # the loop is closed: no caller waits there any more
            continue


def _resolve(group: list[Outcome]) -> None:
    for future, outcome in group:
        failed = isinstance(outcome, BaseException)
        if failed:
            let_go(outcome)
        if future.done():
            continue
        if failed:
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


_log = logging.getLogger(__name__)

Failure = Callable[[str], None]
"""Called with the reason of a failure, on the thread that failed."""

_WAY_OUT = (
    "nothing that is on disk is lost: start the service again, which builds its memory anew from there; if that ends in"
    " the same way, run psoup doctor on the data directory; PSOUP_VERIFY=off starts without checks, if a check is wrong"
)


def told(problem: BaseException) -> str:
    """A failure in the operator's words, with the way out if a check found a broken structure."""
    return f"{problem}; {_WAY_OUT}" if isinstance(problem, Corrupt) else str(problem)


class StageThread(ABC):
    """Base of the host's threads; a subclass gives `run` and `has_work`, and wakes it through `condition`."""

    def __init__(self, name: str, failed: Failure) -> None:
        self.condition = threading.Condition()
        self._failed = failed
        self._stopping = False
        self._finishing = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=False)

    def start(self) -> None:
        """Start the thread, once."""
        self._thread.start()

    def stop(self, *, finish: bool) -> None:
        """Ask the thread to end; a later call without `finish` overrides an earlier one with it."""
        with self.condition:
            self._stopping = True
            self._finishing = finish
            self.condition.notify_all()

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: without end) for the thread; returns whether it has ended."""
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def wait_for_work(self) -> bool:
        """Sleep until there is work. Returns False if the thread must end."""
        with self.condition:
            while not (self._stopping or self.has_work()):
                self.condition.wait()
            return self.has_work() if not self._stopping else self._finishing and self.has_work()

    @abstractmethod
    def has_work(self) -> bool:
        """Whether work waits; called with the condition held."""

    @abstractmethod
    def run(self) -> None:
        """The body of the thread."""

    def wind_up(self) -> None:  # noqa: B027 - a hook that most stages do not need
        """Clean up at the end of the thread, also after a failure, which is reported before."""

    def _main(self) -> None:
        try:
            self.run()
        except BaseException as problem:
            _log.exception("%s failed", self._thread.name)
            self._failed(f"{self._thread.name}: {type(problem).__name__}: {told(problem)}")
        finally:
            self.wind_up()
