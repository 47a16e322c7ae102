"""The guarded clock: the one source of a service's time, which is the wall clock unless that was set forward.

    wall clock      ───────────┐ 2 h ahead              ┌──── followed: it has held for ten minutes, or is accepted
                               └──────── pending ───────┤
    service time    ───────────────────by boot time─────┘     nothing changes if the wall clock is set back before

Boot time counts seconds since the machine was started. It counts while the machine sleeps, and cannot be set. The
trusted time goes on by boot time. A step forward is a wall clock more than a minute past the trusted time. Smaller
steps, and steps back, are followed at once; admission keeps the times of tuples from decreasing. A test gives two
virtual clocks to a `GuardedClock`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from psoup.model import SECOND, time_text
from psoup.work.clock import Clock

STEP = 60 * SECOND
"""The most microseconds by which the wall clock may be set forward and still be followed at once."""
HOLD = 600 * SECOND
"""Microseconds of boot time for which a wall clock that was set forward must hold before it is followed."""
EVERY_S = 1.0
"""Seconds of boot time between two checks; a reading that differs by more than `_SLEW` is checked at once."""
_EVERY = int(EVERY_S * SECOND)
_SLEW = SECOND // 10
_TRIES = 10
_WAY_OUT = "psoup clock shows it; if the wall clock is right, psoup clock accept takes it over now"
_log = logging.getLogger(__name__)

Read = Callable[[], int]
"""Returns the time of a clock in microseconds. Any thread may call it."""


def wall_time() -> int:
    """The wall clock of this machine, in microseconds since 1970-01-01 00:00 UTC. An operator or NTP may set it."""
    return time.time_ns() // 1_000


def boot_time() -> int:
    """Microseconds since this machine started. On Linux they include the time in which it was suspended."""
    if _BOOT is None:
        return time.monotonic_ns() // 1_000
    return time.clock_gettime_ns(_BOOT) // 1_000


_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


@dataclass(frozen=True, slots=True)
class GuardedTime:
    """The clock at one moment; times in microseconds since 1970 UTC, durations in microseconds.

    `pending`: the service time since which a step is not followed; None without a step. `followed_in`: how long the
    step must still hold. `steps`: steps forward since the start. `last`: the greatest time so far, at least the last
    event's time before the start. `time` is less than `last` after a step back, or if the clock was wrong at the start.
    """

    wall: int
    time: int
    pending: int | None
    followed_in: int
    steps: int
    last: int

    @property
    def ahead(self) -> int:
        """Microseconds by which the wall clock is ahead of the service's time; 0 unless a step is pending."""
        return 0 if self.pending is None else self.wall - self.time

    @property
    def behind(self) -> int:
        """Microseconds by which the service's time lies before the greatest time so far, or the last event's."""
        return max(self.last - self.time, 0)

    def figures(self) -> dict[str, int]:
        """The figures of the clock for the operator's metrics."""
        seconds = {"clock_ahead_seconds": self.ahead // SECOND, "clock_behind_seconds": self.behind // SECOND}
        return {"clock_steps": self.steps, **seconds}

    def notice(self) -> str:
        """The state in words for an operator; "" if nothing is wrong."""
        if self.pending is not None:
            return (
                f"the wall clock was set forward and is {self.ahead // SECOND:,} s ahead; the service's time goes on by"
                f" boot time, and follows in {self.followed_in // SECOND:,} s: {_WAY_OUT}"
            )
        if self.behind >= STEP:
            return (
                f"the clock is {self.behind // SECOND:,} s before {time_text(self.last)}, the last time that the"
                " service had: until then new tuples of streams in system time get the time of the last one"
            )
        return ""


@dataclass(slots=True)
class _Pending:
    """A step forward that is not followed yet.

    `offset`: the wall clock minus boot time. `since`: the boot time of the check that found the step.
    """

    offset: int
    since: int


class GuardedClock:
    """The time of a service. Any thread may ask; it takes under a microsecond.

    `wall`, `boot`: the clocks of the machine; tests put virtual ones in their place.
    """

    def __init__(self, wall: Read = wall_time, boot: Read = boot_time) -> None:
        self._wall = wall
        self.boot = boot
        self._lock = threading.Lock()
        self._checked, now = self._readings()
        self._offset = now - self._checked
        """The service's time minus boot time."""
        self._trusted = now
        """The trusted time. A wall clock up to a minute past it is followed at once."""
        self._last = now
        """The greatest time of the service so far. At a start it is at least the time of the last event."""
        self._back: tuple[int, int] | None = None
        """The boot time at which the service's time fell below the trusted one, and the greatest `_offset` since
        then.
        """
        self._pending: _Pending | None = None
        self._steps = 0

    def now(self) -> int:
        """The service's time, in microseconds since 1970-01-01 00:00 UTC. It goes back if the wall clock does."""
        boot, wall = self.boot(), self._wall()
        differs = abs(wall - boot - self._offset) > _SLEW
        if not differs and self._pending is None and 0 <= boot - self._checked < _EVERY:
            return wall
        return self.check()

    def latest(self) -> int:
        """The greater of the wall clock and the service's time: the latest time that a right clock of another machine
        may show.
        """
        return max(self._wall(), self.now())

    def check(self) -> int:
        """Compare the wall clock with boot time, and follow it unless it was set forward; returns the time."""
        with self._lock:
            boot, wall = self._readings()
            offset, before = wall - boot, self._offset
            self._pass(boot)
            step = self._judge(boot, offset)
            time = boot + self._offset
            self._last = max(self._last, time)
            back = before - self._offset
        if step is not None:
            message, extra = step
            _log.warning(message, extra=extra | {"wall_clock": time_text(wall), "service_time": time_text(time)})
        if back > STEP:
            _log.warning(
                "the wall clock was set back, and is followed: new tuples of streams in system time get the time of the"
                " last one until it is reached",
                extra={"seconds": back // SECOND, "service_time": time_text(time), "reached_at": time_text(self._last)},
            )
        return time

    def accept(self) -> bool:
        """Follow the wall clock at once, because an operator accepts it. Returns whether a step was pending."""
        with self._lock:
            boot, wall = self._readings()
            skipped = wall - boot - self._offset
            accepted = self._pending is not None
            self._follow(boot, wall - boot)
            self._last = max(self._last, wall)
        if accepted:
            _log.warning(
                "an operator has accepted the wall clock: it is followed from now on",
                extra={"seconds_ahead": skipped // SECOND, "service_time": time_text(wall)},
            )
        return accepted

    def state(self) -> GuardedTime:
        """The wall clock, the service's time, and the distance between them."""
        self.check()
        with self._lock:
            boot, wall = self._readings()
            time, pending = boot + self._offset, self._pending
            since = None if pending is None else pending.since + self._offset
            left = 0 if pending is None else max(pending.since + HOLD - boot, 0)
            return GuardedTime(wall, time, since, left, self._steps, max(self._last, time))

    def begin(self, last: int | None) -> None:
        """Trust the wall clock as it is at the end of a start. `last`: the time of the last event before it, if any.

        A clock that is before the last event is reported.
        """
        with self._lock:
            boot, now = self._readings()
            self._follow(boot, now - boot)
            self._last = now if last is None else max(now, last)
        behind = self._last - now
        if last is not None and behind > 0:
            _log.warning(
                "the clock is before the last event: until it is reached, new tuples of streams in system time get the"
                " time of the last one; set the machine's clock if it is wrong",
                extra={"seconds": behind // SECOND, "last_event": time_text(last), "service_time": time_text(now)},
            )

    def take_up(self, wall: Read, boot: Read, last: int | None) -> None:
        """Go on with the clocks of the machine, because its standby is promoted. `last`: the time of the last event.

        A clock that is before the last event is reported.
        """
        with self._lock:
            self._wall, self.boot = wall, boot
            self._checked = boot()
            self._follow(self._checked, wall() - self._checked)
        self.begin(last)

    async def run(self) -> None:
        """Check every second, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.check()

    # Inside; the caller has the lock ---------------------------------------------------------------------------

    def _readings(self) -> tuple[int, int]:
        """Read boot time and the wall clock at one moment.

        Read again if the thread was stopped between the readings.
        """
        boot = self.boot()
        for _ in range(_TRIES):
            before, wall, boot = boot, self._wall(), self.boot()
            if abs(boot - before) < _SLEW:
                break
        return boot, wall

    def _pass(self, boot: int) -> None:
        """Advance the trusted time by boot time, and at twice this speed while the service's time is greater.

        After a step back, the trusted time goes on by boot time for `HOLD`, because the wall clock may come back. Then
        it becomes the greatest service time since the step.
        """
        elapsed, time = max(boot - self._checked, 0), boot + self._offset
        self._checked = boot
        self._trusted = self._trusted + elapsed
        if time >= self._trusted:
            self._trusted = min(time, self._trusted + elapsed)
            self._back = None
            return
        since, greatest = self._back or (boot, self._offset)
        self._back = since, max(greatest, self._offset)
        if boot - since >= HOLD:
            self._trusted = boot + self._back[1]
            self._back = None

    def _judge(self, boot: int, offset: int) -> tuple[str, dict[str, object]] | None:
        """Follow the wall clock, or leave a step pending. Returns a log message and its facts, or None."""
        pending, ahead = self._pending, (offset - self._offset) // SECOND
        if boot + offset <= self._trusted + STEP:
            self._offset = offset
            self._pending = None
            if pending is None:
                return None
            if abs(offset - pending.offset) <= STEP:
                return "the wall clock is within a minute of the trusted time, and is followed", {}
            return "the wall clock was set back before it was followed: nothing has changed", {}
        if pending is None or abs(offset - pending.offset) > STEP:
            self._pending = _Pending(offset, boot)
            self._steps = self._steps + 1
            extra = {"seconds_ahead": ahead, "followed_in_seconds": HOLD // SECOND, "way_out": _WAY_OUT}
            return "the wall clock was set forward, and is not followed yet", extra
        if boot - pending.since < HOLD:
            return None
        self._follow(boot, offset)
        return "the wall clock has held for ten minutes, and is followed", {"seconds_ahead": ahead}

    def _follow(self, boot: int, offset: int) -> None:
        self._offset = offset
        self._pending = None
        self._trusted = boot + offset
        self._back = None


def guarded(clock: Clock | None) -> GuardedClock:
    """The clock of a service: the machine's clock, or a given one. A given clock is its own boot time, so it never
    steps.
    """
    if isinstance(clock, GuardedClock):
        return clock
    return GuardedClock() if clock is None else GuardedClock(clock.now, clock.now)
