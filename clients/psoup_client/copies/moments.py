"""NOW at a service that cannot be reached: the last known NOW, plus the time since then by the local clocks.

    last sync   NOW of the service   wall clock 12:00:00   since boot 5,000 s
    later                            wall clock 11:10:00   since boot 5,600 s     NOW = then + 600 s; the clock was set

The boot clock cannot be set, and counts while the machine sleeps. After another boot the wall clock is used instead. An
estimate is never before an earlier one, so hidden rows stay hidden until the next sync.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_STEP_US = 5_000_000
"""The greatest error of the wall clock, in microseconds, that does not count as a step."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The local clocks at one moment, in microseconds: the wall clock, and the time since the boot `boot_id`.

    `boot_id` is "" on systems that cannot tell boots apart.
    """

    wall: int
    boot: int = 0
    boot_id: str = ""


def moment() -> Moment:
    """Read the local clocks."""
    boot_id = _boot_id()
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000 if boot_id else 0
    return Moment(time.time_ns() // 1_000, boot, boot_id)


def elapsed(then: Moment, later: Moment) -> int:
    """Return the microseconds between two moments, at least 0.

    They are measured by the boot clock if the boot is the same, else by the wall clock.
    """
    if _same_boot(then, later):
        return later.boot - then.boot
    return max(later.wall - then.wall, 0)


def step(then: Moment, later: Moment) -> int:
    """Return the microseconds by which the wall clock was set between two moments; 0 if that is unknown."""
    if not _same_boot(then, later):
        return 0
    by = (later.wall - then.wall) - (later.boot - then.boot)
    return by if abs(by) > _STEP_US else 0


def _same_boot(then: Moment, later: Moment) -> bool:
    return bool(then.boot_id) and then.boot_id == later.boot_id and later.boot >= then.boot


@cache
def _boot_id() -> str:
    """Return the identity of this boot of the machine; "" if it is not known."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return ""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
