"""The limits of a recharge: bytes, shares of some copies in these bytes, seconds, and the size of one reply.

bytes   [ share of a  | share of b |            for all others            ]      first pass: each within its part
        [ ............................................................... ]      then the unused bytes, by priority
reply   first 64 KiB, later as many bytes as arrive in about a second
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from psoup_recharge.entry import Entry

_FIRST = 64 * 1024
"""The size that the first call asks for, in bytes of rows before compression."""

_LEAST = 8 * 1024
"""The smallest size that a call asks for, in bytes of rows before compression."""

_MOST = 3 * 1024 * 1024
"""The largest size that a call asks for, in bytes of rows before compression."""
_SECONDS = 1.0
"""The number of seconds that one reply should take."""

_FACTOR = 4.0
"""The greatest factor between the sizes that two successive calls ask for."""


@dataclass(slots=True)
class RechargeBudget:
    """The limits of one recharge, and the amounts spent so far. None means no limit."""

    max_bytes: int | None
    max_seconds: float | None
    received: int = 0
    sent: int = 0
    reply: int = _FIRST
    _parts: dict[str, float] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    def share_out(self, entries: Sequence[Entry]) -> None:
        """Reserve a part of the bytes for each entry with a share. The other entries share the rest."""
        shares = {entry.name: entry.share for entry in entries if entry.share}
        if self.max_bytes is None or not shares:
            return
        whole = max(sum(shares.values()), 1.0)
        self._parts = {name: self.max_bytes * share / whole for name, share in shares.items()}
        self._parts[""] = self.max_bytes - sum(self._parts.values())

    def share_in(self) -> None:
        """End the reservations: copies may use all remaining bytes, in the order of their priority."""
        self._parts = {}

    @property
    def seconds(self) -> float:
        """The seconds since the recharge began."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float | None:
        """The remaining seconds; None without a limit of time."""
        return None if self.max_seconds is None else self.max_seconds - self.seconds

    @property
    def why_spent(self) -> str:
        """The limit that is reached, `bytes` or `time`; "" if neither is reached."""
        if self.max_bytes is not None and self.received >= self.max_bytes:
            return "bytes"
        left = self.seconds_left
        return "time" if left is not None and left <= 0 else ""

    @property
    def room(self) -> int:
        """The greatest number of bytes of rows for the next reply."""
        return self.reply if self.max_bytes is None else min(self.max_bytes - self.received, self.reply)

    def part_of(self, entry: Entry) -> int:
        """The remaining bytes of the part that the entry uses: its share, or the common rest.

        Returns -1 without parts.
        """
        if not self._parts:
            return -1
        return max(int(self._parts[self._whose(entry)]), 0)

    def spend(self, entry: Entry, size: int) -> None:
        """Subtract the received bytes from the part that the entry uses."""
        if self._parts:
            self._parts[self._whose(entry)] -= size

    def note_reply(self, sent: int, received: int, filled: int, seconds: float) -> None:
        """Add the bytes of one call to the totals, and adapt the size of the next reply.

        A reply that was at least half full shows the speed of the connection. `filled`: its bytes before compression.
        """
        self.sent = self.sent + sent
        self.received = self.received + received
        if filled >= self.reply // 2:
            by = _SECONDS / max(seconds, 1e-3)
            self.reply = int(min(max(self.reply * min(max(by, 1 / _FACTOR), _FACTOR), _LEAST), _MOST))

    def end(self) -> None:
        """Mark the time as spent, because the deadline cut off a call."""
        self.max_seconds = 0.0

    def widen(self) -> bool:
        """Ask for the largest size in the next reply, because the service sends some answers only whole.

        Returns whether the next reply may be larger than before.
        """
        before, self.reply = self.room, _MOST
        return self.room > before

    def _whose(self, entry: Entry) -> str:
        return entry.name if entry.name in self._parts else ""
