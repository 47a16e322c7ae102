"""The clocks of a machine that exists in a test only: a wall clock that is set, boot time, and the right time."""

from __future__ import annotations

from psoup.model import SECOND
from psoup_service.process.clock import GuardedClock

START = 1_790_000_000 * SECOND
"""The right time when the machine was started."""


class Machine:
    """A machine and the clock of its service. `true`: the right time; `off`: by how much the wall clock is wrong."""

    def __init__(self) -> None:
        self.true, self.off = START, 0
        self.clock = self.new_clock()

    def new_clock(self) -> GuardedClock:
        """The clock of a process that starts now."""
        return GuardedClock(lambda: self.true + self.off, lambda: self.true - START)

    def pass_seconds(self, seconds: float, *, observed: bool = True) -> None:
        """Let time go by, while the service looks at its clock every second, or not at all."""
        if observed:
            for _ in range(int(seconds)):
                self.true += SECOND
                self.clock.check()
        else:
            self.true += round(seconds * SECOND)

    def set_forward(self, seconds: float) -> None:
        """Set the wall clock."""
        self.off += round(seconds * SECOND)

    @property
    def error(self) -> float:
        """Seconds by which the service's time is ahead of the right time."""
        return (self.clock.now() - self.true) / SECOND
