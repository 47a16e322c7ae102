"""The thread that updates eager answers after publications (`psoup.answer.eager`).

    writer publishes ──> wakes the thread, if there are eager queries ──> a tenant's turn ──> a pause of 10 ms or more
                                                                            ^──── while further queries are due ───┘

So an answer is updated at most once in 10 ms. While publications keep coming, the thread uses at most 3 % of a core:
arrival goes first. The writer and the event loop do none of this work.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from psoup.answer.eager.eager_updates import EagerUpdates
from psoup.execution.ahead.attempts import Spare
from psoup.published.eager_queries import EagerQueries
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadEnded

EVERY_S = 0.01
"""The least seconds between two turns."""
_REST = 31
"""Seconds of pause for each second of processor time, while publications keep coming."""
_AFTER_ERROR_S = 1.0
"""Seconds of pause after an error that should not happen."""

_log = logging.getLogger(__name__)


class EagerAnswers:
    """The updates of one service. `start` and `stop` are called once; `stop` also without a `start`.

    `snapshot`: returns the published snapshot. `listen`: lets the writer call a function after each publication, and
    returns a function that ends this. `now`: the clock, microseconds.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        listen: Callable[[Callable[[], None]], Callable[[], None]],
        now: Callable[[], int],
        spare: Spare,
    ) -> None:
        self._snapshot = snapshot
        self._listen = listen
        self._now = now
        self._updates = EagerUpdates(spare)
        self._eager: EagerQueries | None = None
        self._end_listening: Callable[[], None] = lambda: None
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="psoup-eager")
        self.errors = 0
        """The number of errors that have ended a turn."""

    def start(self) -> None:
        """Start the thread. It first makes the answers of all eager queries, because a start finds none kept."""
        self._eager = self._snapshot().eager
        self._end_listening = self._listen(self._published)
        self._published()
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the update under way."""
        self._end_listening()
        self._stopping.set()
        self._wake.set()

    def join(self) -> None:
        """Wait until the thread has ended. Returns at once if it was never started."""
        if self._thread.ident is not None:
            self._thread.join()

    def _published(self) -> None:
        """Wake the thread if there are eager queries. On the writer's thread: less than a microsecond without them."""
        if self._eager is not None and self._eager.has_work and not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        while self._wake.wait() and not self._stopping.is_set():
            self._wake.clear()
            began, more = time.thread_time(), False
            try:
                more = self._updates.step(self._snapshot(), self._now())
            except ReadEnded:  # the service stops
                return
            except Exception:
                self.errors += 1
                _log.exception("eager answers were not updated: an invocation brings them up to date")
                self._stopping.wait(_AFTER_ERROR_S)
            self._pause(time.thread_time() - began)
            if more:
                self._wake.set()

    def _pause(self, worked: float) -> None:
        """Rest after `worked` seconds of processor time."""
        self._stopping.wait(EVERY_S)
        left = _REST * worked - EVERY_S
        if left > 0 and self._wake.is_set():  # further publications have come meanwhile
            self._stopping.wait(left)
