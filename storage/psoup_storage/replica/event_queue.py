"""Events that are in the log and wait for the uploader, within a limit of bytes.

    committer   put ──> [ group group group ] ──take──> uploader

`put` only appends, since acknowledgements wait for the committer. While storage is away, the queue grows up to its
limit, and then forgets all its events. They are in the data directory, and a base image will have them. So memory is
bounded, and the service goes on.

The copy is behind from the arrival of the oldest event that it lacks: one that waits, is being sent, or was forgotten.
A base image covers forgotten events.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from psoup.events.events import Event, Pushed, RegisteredMany

SEGMENT_BYTES = 4 * 1024 * 1024
"""Bytes of waiting events from which on a segment is written at once."""
SEGMENT_S = 1.0
"""Seconds after which a segment is written, however small."""
_SMALL = 256
"""The assumed bytes of an event without its tuples, and of a query of many."""


def _size(event: Event) -> int:
    """The approximate bytes of an event."""
    if isinstance(event, Pushed):
        return _SMALL + event.batch.nbytes
    return _SMALL * (1 + len(event.queries)) if isinstance(event, RegisteredMany) else _SMALL


class EventGroup(NamedTuple):
    """Events of one commit, or a part of a large one. `after`: the event before them.

    `committed`: the time of the commit, in microseconds. `arrived`: the same by the monotonic clock, in seconds.
    `size`: approximate bytes.
    """

    after: int
    events: Sequence[Event]
    committed: int
    arrived: float
    size: int


def _groups_of(after: int, events: Sequence[Event], committed: int) -> list[EventGroup]:
    """The events of a commit in groups, each for one segment. A larger event is a group by itself."""
    groups, begin, size, arrived = list[EventGroup](), 0, 0, time.monotonic()
    for place, event in enumerate(events):
        more = _size(event)
        if size and size + more > SEGMENT_BYTES:
            groups.append(EventGroup(after, events[begin:place], committed, arrived, size))
            after, begin, size = events[place - 1].sequence, place, 0
        size += more
    return [*groups, EventGroup(after, events[begin:], committed, arrived, size)]


class EventQueue:
    """See the module. `most_bytes`: the limit. `now`: the time in microseconds; times never decrease here.

    `at_once`: a segment is due as soon as an event waits, since its acknowledgement waits for it.
    """

    def __init__(self, most_bytes: int, now: Callable[[], int], *, at_once: bool = False) -> None:
        self._most = most_bytes
        self._at_once = at_once
        self._now = now
        self._groups: deque[EventGroup] = deque()
        self._condition = threading.Condition()
        self._committed = 0
        self._size = 0
        self._closed = False
        self._behind: tuple[int, float] | None = None
        """The event before the oldest one that the copy lacks, and when that arrived, by the monotonic clock."""
        self._gap = -1
        """The last event that was forgotten, and that no base image covers; -1 without one."""
        self.dropped = 0
        """The times that the queue was over its limit."""

    def begin_at(self, time: int) -> None:
        """Let no event be committed before a time, in microseconds. The last event in the copy has this time."""
        self._committed = max(self._committed, time)

    def put(self, after: int, events: Sequence[Event]) -> None:
        """Add the events of a commit. O(events)."""
        groups = _groups_of(after, events, self.moment())
        size = sum(group.size for group in groups)
        with self._condition:
            if self._groups and self._size + size > self._most:
                self._groups.clear()
                self._size = 0
                self.dropped += 1
                self._gap = after
            self._groups.extend(groups)
            if self._behind is None:
                self._behind = after, groups[0].arrived
            self._size += size
            if self._size >= SEGMENT_BYTES or self._at_once:
                self._condition.notify_all()

    def moment(self) -> int:
        """The time of a commit that would come now, in microseconds. Any thread."""
        with self._condition:
            self._committed = max(self._committed, self._now())
            return self._committed

    def take(self, timeout: float) -> list[EventGroup]:
        """The groups of the next segment, once they are large or old enough; none after `timeout` seconds.

        After `close` all that wait are large enough.
        """
        end = time.monotonic() + timeout
        with self._condition:
            while not self._closed and self._size < SEGMENT_BYTES:
                now = time.monotonic()
                due = min(end, self._groups[0].arrived + self._rest_s) if self._groups else end
                if due <= now:
                    break
                self._condition.wait(due - now)
            if not self._is_due():
                return []
            taken, size = list[EventGroup](), 0
            while self._groups and (not taken or size + self._groups[0].size <= SEGMENT_BYTES):
                taken.append(self._groups.popleft())
                size += taken[-1].size
            self._size -= size
            return taken

    @property
    def _rest_s(self) -> float:
        """The seconds for which an event waits for more to come."""
        return 0.0 if self._at_once else SEGMENT_S

    def _is_due(self) -> bool:
        if not self._groups:
            return False
        old = time.monotonic() >= self._groups[0].arrived + self._rest_s
        return self._closed or old or self._size >= SEGMENT_BYTES

    def close(self) -> None:
        """Take no more events: `take` then returns the waiting ones without a pause. Idempotent."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    @property
    def closed(self) -> bool:
        """Whether `close` was called. Any thread."""
        return self._closed

    def after(self, last: int) -> int:
        """The event before the oldest that waits; `last`, the last event of all, if none waits. Any thread."""
        with self._condition:
            return self._groups[0].after if self._groups else last

    def sent(self) -> None:
        """Note that the copy has the groups that the last `take` returned."""
        with self._condition:
            if self._gap < 0:
                first = self._groups[0] if self._groups else None
                self._behind = None if first is None else (first.after, first.arrived)

    def covered(self, sequence: int) -> None:
        """Note that the copy has a base image as of an event. No group may be on its way to the copy."""
        with self._condition:
            if self._gap > sequence:
                return
            self._gap = -1
        self.sent()

    def behind(self) -> tuple[int, float] | None:
        """The event before the oldest one that the copy lacks, and the seconds since that arrived. Any thread.

        None if the copy has all events.
        """
        with self._condition:
            return None if self._behind is None else (self._behind[0], time.monotonic() - self._behind[1])

    def waiting(self) -> int:
        """The number of waiting events. Any thread."""
        with self._condition:
            return sum(len(group.events) for group in self._groups)
