"""The time that small pushes wait for further ones, so that one group has them all: a `commit_delay` that is measured.

    p1 ──wait──> p2 ──wait──> p3, as many as expected ──> one event, one sync, one publication
       '─ for as long as the last groups took

A group takes about a millisecond, however few pushes it has: its log, its application, and about as long again for its
preparation and the hand-overs between threads. So it pays to wait as long for a push that shares it. The number of
pushes that come in that time is learned. A group that has more than expected raises it, and a group that waits in vain
lowers it. A client that pushes alone, one row after the other, soon expects no company. It then waits in a trial only,
one group in `MOST_PAUSE` at most.

PostgreSQL has the settings `commit_delay` and `commit_siblings` for this purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_S = 0.005
"""The longest time that a small push waits for further ones, in seconds."""

MOST_PAUSE = 64
"""The most groups from a trial that was in vain to the next one."""


class CommitDelay:
    """Decides when the next group of small pushes begins. Its methods are called under the lock of the sequencer.

    `cost`: the seconds that a group takes. `clock`: the time in seconds.
    """

    def __init__(self, cost: Callable[[], float] = lambda: 0.0, clock: Callable[[], float] = time.perf_counter) -> None:
        self._cost = cost
        self._clock = clock
        self._first = self._end = 0.0
        """When the first push of the next group came, and when the wait of its last one ends.

        The end is set once, as a push comes. If it moved with `cost`, a wait that has ended could begin again. The
        sequencer looks twice, and would then sleep with nothing to wake it up.
        """
        self._count = 0
        """The number of pushes that came for the next group."""
        self._expected = 1
        """The number of pushes that need not wait any longer."""
        self._hurried = False
        """Whether the next group does not wait."""
        self._trial = False
        """Whether the next group waits for one push more than came last."""
        self._pause = self._rounds = 1
        """The groups between two trials, and those that are left before the next one."""

    def come(self) -> None:
        """Note that a small push comes."""
        now = self._clock()
        if self._count == 0:
            self._first = now
        self._end = min(now + self._cost(), self._first + MOST_S)
        self._count += 1

    def hurry(self) -> None:
        """Let the next group begin at once: a command has come that waits for these pushes, and cannot share it."""
        self._hurried = self._count > 0

    def left(self) -> float:
        """The seconds for which the pushes wait for a further one; 0 if their group may begin. O(1)."""
        if self._hurried or self._count == 0 or self._count >= self._expected:
            return 0.0
        return max(self._end - self._clock(), 0.0)

    def begin(self) -> None:
        """Note that the group begins, and set how many pushes the next one waits for."""
        count, self._count = self._count, 0
        hurried, self._hurried = self._hurried, False
        if count == 0 or hurried:  # without pushes that came for it, or too early to tell how many would come
            return
        if self._trial:
            self._pause = 1 if count >= self._expected else min(2 * self._pause, MOST_PAUSE)
            self._rounds = self._pause
        self._rounds -= 1
        self._trial = self._rounds < 0
        self._expected = count + self._trial

    def join(self) -> None:
        """Note that the pushes that came since `begin` are in that group, too."""
        self._expected += self._count
        self._count = 0
