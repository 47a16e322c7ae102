"""The bytes that the streams of an equal plan keep in memory: each of their states once, and rows that wait for room.

streams at one position     share a state: it counts once
a stream elsewhere          has a state of its own, which counts too
"""

from __future__ import annotations

from collections import Counter


class PlanBytes:
    """The bytes of the streams of one plan, or of one stream alone. One thread at a time changes them."""

    def __init__(self) -> None:
        self.streams = set[int]()
        """The stream IDs of the streams, also of streams that do not run."""
        self._numbers, self._waiting = dict[int, int](), dict[int, int]()
        """The number of the state, and the bytes of the rows that wait for room, by stream ID."""
        self._sizes, self._sharers = dict[int, int](), Counter[int]()
        """The bytes of a state, and how many streams have it, by its number."""

    @property
    def nbytes(self) -> int:
        """All bytes. From any thread. O(different states, and streams whose rows wait)."""
        return sum(list(self._sizes.values())) + sum(list(self._waiting.values()))

    def put(self, stream_id: int, number: int, size: int, waiting: int) -> None:
        """Record the state of a stream by its number, and its bytes. `waiting`: the bytes of rows that wait. O(1)."""
        self._sizes[number] = size
        if self._numbers.get(stream_id) != number:
            self.clear(stream_id)
            self._numbers[stream_id] = number
            self._sharers[number] += 1
        if waiting:
            self._waiting[stream_id] = waiting
        else:
            self._waiting.pop(stream_id, None)

    def resize(self, number: int, size: int) -> None:
        """Record the bytes of a state, if a stream has it. O(1)."""
        if number in self._sizes:
            self._sizes[number] = size

    def clear(self, stream_id: int) -> None:
        """Record that a stream keeps nothing. A state goes with the last stream that has it. O(1)."""
        self._waiting.pop(stream_id, None)
        number = self._numbers.pop(stream_id, None)
        if number is not None:
            self._sharers[number] -= 1
            if not self._sharers[number]:
                del self._sharers[number], self._sizes[number]
