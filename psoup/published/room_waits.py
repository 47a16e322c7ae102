"""The derived streams that wait for room in memory. Pumps note them here, and readers of a snapshot see them.

    step finds no room ── begin ──> waits, since the first such step ── a step is logged ── end ──> runs
                                        └─ LAG AT MOST has passed: the pump stops, and its pins are released

The waits belong to the process. After a restart they begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class RoomWait(NamedTuple):
    """The wait of a stream. `since`: the time of the first step without room, in microseconds. `why`: the last refusal,
    for people."""

    since: int
    why: str


class RoomWaits:
    """The present waits by stream ID, in this process. Only the thread of the pumps changes them; any thread reads."""

    def __init__(self) -> None:
        self._waits: dict[int, RoomWait] = {}

    def begin(self, stream_id: int, now: int, why: str) -> None:
        """Note that a step has found no room at the time `now`. A stream that waits already waits since its first such
        step. O(1)."""
        before = self._waits.get(stream_id)
        self._waits[stream_id] = RoomWait(now if before is None else before.since, why)

    def end(self, stream_id: int) -> None:
        """Note that a stream does not wait. O(1)."""
        self._waits.pop(stream_id, None)

    def of(self, stream_id: int) -> RoomWait | None:
        """The wait of a stream, None if it does not wait. O(1)."""
        return self._waits.get(stream_id)

    def items(self) -> Iterable[tuple[int, RoomWait]]:
        """The waits with the IDs of their streams. O(waits)."""
        return list(self._waits.items())
