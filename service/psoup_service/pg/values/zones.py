"""The session's TimeZone: offsets from UTC for texts of timestamps.

    Zone.named("Europe/Berlin").offsets([1714557600000000])   ──> [7200]

A name is one of the IANA database, in any case, hours east of UTC ("+2"), and POSIX's form ("CET-1", hours west).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from psoup.errors import InvalidInput

Array = npt.NDArray[Any]

_SECOND = 1_000_000
_HOURS = re.compile(r"([+-]?)(\d{1,2})(?::?([0-5]\d))?(?::?([0-5]\d))?$")
_POSIX = re.compile(
    r"(?:<[A-Za-z0-9:+-]+>|[A-Za-z0-9+-]*[A-Za-z0-9])([+-]\d{1,2}(?::[0-5]\d){0,2}|(?<=[A-Za-z>])\d{1,2}(?::[0-5]\d){0,2})$"
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]*")
_MOST_LETTERS = 60
"""The most characters of a name."""
_MOST_SECONDS = 15 * 3600 + 59 * 60 + 59


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone. `name`: as SHOW TimeZone prints it. `seconds`: its offset from UTC; None if it changes."""

    name: str
    seconds: int | None = 0

    @staticmethod
    def named(name: str) -> Zone:
        """The zone with a name. Raises InvalidInput if there is none. O(1): recent zones are kept."""
        if len(name) <= _MOST_LETTERS:
            zone = _zone_of(name.strip())
            if zone is not None:
                return zone
        raise InvalidInput(
            f'invalid value for parameter "TimeZone": "{name[:_MOST_LETTERS]}"; write a name such as Europe/Berlin,'
            " or UTC",
            reason="INVALID_PARAMETER_VALUE",
        )

    def offsets(self, instants: Array) -> Array:
        """The offset from UTC in seconds at each instant, int64[n]. instants: int64[n], microseconds since 1970."""
        if self.seconds is not None:
            return np.full(len(instants), self.seconds, np.int64)
        if not len(instants):
            return np.zeros(0, np.int64)
        near = np.clip(instants, _FIRST, _LAST)  # beyond, Arrow's arithmetic may overflow
        zoned = pa.array(near, pa.timestamp("us", tz=self.name))
        local = pc.local_timestamp(zoned).cast(pa.int64()).to_numpy()
        offsets: Array = (local - near) // _SECOND
        late = instants >= _LAST
        if late.any():
            offsets[late] = _late_offsets(self.name, instants[late])
        return offsets

    def instants(self, local: Array) -> Array:
        """The instants at which clocks of the zone show local times. int64[n], microseconds since 1970.

        As in PostgreSQL, the later of two instants with one local time is returned. A local time within a gap has the
        offset from before the gap.
        """
        if self.seconds is not None:
            moved: Array = local - self.seconds * _SECOND
            return moved
        # The offsets half a day before and after: they differ only near a change.
        before, after = self.offsets(local - 43_200 * _SECOND), self.offsets(local + 43_200 * _SECOND)
        late = local - after * _SECOND
        valid = self.offsets(late) == after
        instants: Array = np.where(valid, late, local - before * _SECOND)
        return instants

    def local(self, instant: int) -> int:
        """The local time at an instant, in microseconds since 1970."""
        return instant + int(self.offsets(np.array([instant], np.int64))[0]) * _SECOND

    def instant(self, local: int) -> int:
        """The instant at which clocks of the zone show a local time: see `instants`."""
        if self.seconds is not None:
            return local - self.seconds * _SECOND
        return int(self.instants(np.array([local], np.int64))[0])


UTC = Zone("UTC")
_UTC = frozenset(
    {"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal"}
)
_FIRST = -62_135_596_800 * _SECOND
_LAST = 2_114_380_800 * _SECOND
"""The years 1 and 2037. After these, Arrow does not know summer time, and Python is asked."""
_CYCLE = 146_097 * 86_400
"""The seconds of 400 years, after which the calendar repeats itself."""
_BASE = 2_208_988_800
"""The year 2040."""


def _late_offsets(name: str, instants: Array) -> Array:
    """The offsets in seconds of instants after `_LAST`, by the rules that hold then. A microsecond each."""
    zone = ZoneInfo(name)
    seconds = (instants // _SECOND - _BASE) % _CYCLE + _BASE
    offsets = [datetime.fromtimestamp(each, zone).utcoffset() or _NO_TIME for each in seconds.tolist()]
    return np.array([offset.total_seconds() for offset in offsets], np.int64)


_NO_TIME = timedelta(0)


@lru_cache(256)
def _zone_of(text: str) -> Zone | None:
    name = text if _is_zone(text) else _names().get(text.lower())
    if name is not None and _is_zone(name):
        return Zone(name, 0 if name in _UTC else None)
    seconds = seconds_of(text)
    if seconds is not None:
        return Zone(text, seconds)
    match = _POSIX.match(text)
    seconds = seconds_of(match[1]) if match else None
    return None if seconds is None else Zone(text, -seconds)


def _is_zone(name: str) -> bool:
    """Whether Python and Arrow know a zone. O(1), unlike a look at all names, which takes 50 ms."""
    if not _NAME.fullmatch(name):
        return False
    try:
        ZoneInfo(name)
        pc.local_timestamp(pa.array([0], pa.timestamp("us", tz=name)))
    except (ValueError, OSError, KeyError):  # ArrowInvalid is a ValueError
        return False
    return True


@cache
def _names() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()} | {"utc": "UTC", "gmt": "GMT"}


def zone_east(seconds: float) -> str:
    """The name of the zone that is `seconds` east of UTC, as PostgreSQL shows it: "<+02>-02" for two hours."""
    minutes, rest = divmod(round(abs(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours:02}", *([f"{minutes:02}"] if minutes or rest else []), *([f"{rest:02}"] if rest else [])]
    offset, signs = ":".join(parts), "+-" if seconds >= 0 else "-+"
    return f"<{signs[0]}{offset}>{signs[1]}{offset}"


def seconds_of(text: str) -> int | None:
    """The seconds of an offset such as "+02", "-05:30" or "+0530"; None if it is not one."""
    match = _HOURS.match(text)
    if not match:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    total = hours * 3600 + minutes * 60 + seconds
    if total > _MOST_SECONDS:
        return None
    return -total if match[1] == "-" else total
