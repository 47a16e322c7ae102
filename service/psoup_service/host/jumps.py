"""Warnings in the log about watermarks far past the clock, because present tuples of other producers are late then.

    clock ──────|──── 60 s ────|────────────▲ watermark          counted, and logged with its producer or job

For the sequencer's thread. It logs a stream again when its watermark has moved by another minute. If the clock is set
back, a stream in system time keeps its watermark; that is not a jump.
"""

from __future__ import annotations

import logging
from typing import assert_never

from psoup.events.commands import Command
from psoup.events.events import Attached, Event, Pushed, WatermarkRaised
from psoup.model import SECOND, time_text

JUMP = 60 * SECOND
"""A watermark that is more than this many microseconds past the clock is a jump."""
_MOST = 10_000
"""The most streams that are remembered."""
_log = logging.getLogger(__name__)


class Jumps:
    """The jumps since the start. `count`: their number."""

    def __init__(self) -> None:
        self.count = 0
        self._told: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        """The watermark of each stream's last event. An event that does not raise it is not a jump."""

    def see(self, command: Command, event: Event | None) -> None:
        """Log and count a jump if the event of `command` makes one. O(1)."""
        if not isinstance(event, Pushed | WatermarkRaised | Attached) or event.watermark is None:
            return
        if len(self._seen) >= _MOST:
            self._seen.clear()
        before, self._seen[event.stream_id] = self._seen.get(event.stream_id), event.watermark
        if before is not None and event.watermark <= before:
            return
        if event.watermark - event.time <= JUMP or event.watermark - self._told.get(event.stream_id, -JUMP) < JUMP:
            return
        if len(self._told) >= _MOST:
            self._told.clear()
        self._told[event.stream_id] = event.watermark
        self.count += 1
        _log.warning(
            "a watermark has jumped past the clock: tuples before it are late",
            extra={
                "stream": getattr(command, "stream", ""),
                "watermark": time_text(event.watermark),
                "seconds_ahead": (event.watermark - event.time) // SECOND,
                "by": _who(event),
            },
        )


def _who(event: Pushed | WatermarkRaised | Attached) -> str:
    match event:
        case WatermarkRaised():
            return "a heartbeat"
        case Attached():
            return f"job {event.job!r}"
        case Pushed():
            return f"producer {event.producer!r}" if event.producer else "a push without a producer"
        case _:
            assert_never(event)
