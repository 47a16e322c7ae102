"""Limits of a recharge: bytes, of which some copies have shares, seconds, and the size of a reply.

bytes   [ share of a  | share of b |            for all others            ]      first pass: each within its part
        [ ............................................................... ]      then what they left, by priority
reply   64 KiB, then so many as come in a second over this line
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from psoup_recharge.entry import Entry

_FIRST = 64 * 1024
"""Bytes of rows in the first reply, before compression."""

_LEAST = 8 * 1024
"""Least bytes of rows in a reply, before compression."""

_MOST = 3 * 1024 * 1024
"""Most bytes of rows in a reply, before compression."""
_SECONDS = 1.0
"""Seconds that a reply should take."""

_FACTOR = 4.0
"""Most by which the size of a reply differs from the one before, as a factor."""


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
        """Reserve parts of the bytes for entries with shares. The remaining entries have the rest in common."""
        shares = {entry.name: entry.share for entry in entries if entry.share}
        if self.max_bytes is None or not shares:
            return
        whole = max(sum(shares.values()), 1.0)
        self._parts = {name: self.max_bytes * share / whole for name, share in shares.items()}
        self._parts[""] = self.max_bytes - sum(self._parts.values())

    def share_in(self) -> None:
        """Let what is left be for all."""
        self._parts = {}

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float | None:
        """Seconds that are left."""
        return None if self.max_seconds is None else self.max_seconds - self.seconds

    @property
    def why_spent(self) -> str:
        """The limit that is reached: `bytes` or `time`; "" if there is some of both."""
        if self.max_bytes is not None and self.received >= self.max_bytes:
            return "bytes"
        left = self.seconds_left
        return "time" if left is not None and left <= 0 else ""

    @property
    def room(self) -> int:
        """Bytes of rows for the next reply."""
        return self.reply if self.max_bytes is None else min(self.max_bytes - self.received, self.reply)

    def part_of(self, entry: Entry) -> int:
        """Bytes that are left of an entry's part; 0 if none are, and -1 without parts."""
        if not self._parts:
            return -1
        return max(int(self._parts[self._whose(entry)]), 0)

    def spend(self, entry: Entry, size: int) -> None:
        """Note that bytes came for an entry."""
        if self._parts:
            self._parts[self._whose(entry)] -= size

    def note_reply(self, sent: int, received: int, filled: int, seconds: float) -> None:
        """Note a reply with `filled` bytes before compression; one that was full tells how fast the line is."""
        self.sent = self.sent + sent
        self.received = self.received + received
        if filled >= self.reply // 2:
            by = _SECONDS / max(seconds, 1e-3)
            self.reply = int(min(max(self.reply * min(max(by, 1 / _FACTOR), _FACTOR), _LEAST), _MOST))

    def end(self) -> None:
        """Note that a call was cut off as the time was spent."""
        self.max_seconds = 0.0

    def widen(self) -> bool:
        """Let the next reply have the largest size, for an answer that comes whole. Returns whether it has more
        room.
        """
        before, self.reply = self.room, _MOST
        return self.room > before

    def _whose(self, entry: Entry) -> str:
        return entry.name if entry.name in self._parts else ""
