"""The producer of a partition: batches of records, each with the next offset as source position.

recorded ── replies ──> sent ──────────> next
what the service has    on its way       what is read next from Kafka
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from psoup_client import Producer
from psoup_client.inputs import Rows
from psoup_kafka.place import Place


class PartitionFeed:
    """The feed of one partition. `recorded`: the place that the service has, None for none.

    `open_producer`: starts the producer. That happens at the first batch, because a producer has a thread.
    """

    def __init__(self, number: int, recorded: Place | None, open_producer: Callable[[], Producer]) -> None:
        self.number = number
        self.next = 0
        """The offset of the next record to send."""
        self.touched = time.monotonic()
        """The time of the last batch."""
        self._recorded = recorded
        self._last = recorded
        self._open = open_producer
        self._producer: Producer | None = None
        self._sent = deque[tuple[int, Place]]()
        """The numbers of batches without a reply, each with the place behind it."""

    def begin(self, place: Place, claim: bool) -> None:
        """Go on at a place. It is recorded if the service has another one, or with `claim`."""
        self.next = place.next
        if claim or place != self._recorded:
            self.push([], place)

    @property
    def recorded(self) -> int | None:
        """The next offset by the last batch that the service has acknowledged; None without one."""
        return None if self._recorded is None else self._recorded.next

    @property
    def last(self) -> Place:
        """The place behind the last batch that was sent."""
        return self._last or Place(self.next)

    @property
    def producer(self) -> Producer | None:
        """The producer, if a batch was sent."""
        return self._producer

    def push(self, rows: Rows, place: Place) -> None:
        """Send rows, or none, with the place behind them. Waits while the window is full. Raises PSoupError."""
        if self._producer is None:
            self._producer = self._open()
        after = b"" if self._last is None else self._last.encoded
        number = self._producer.push(rows, position=place.encoded, after=after) - 1
        self._sent.append((number, place))
        self._last, self.touched = place, time.monotonic()
        self.next = place.next

    def note_replies(self) -> bool:
        """Move `recorded` on. Returns whether all batches are acknowledged."""
        if self._producer is None or not self._sent:
            return True
        acknowledged = self._producer.acknowledged
        while self._sent and self._sent[0][0] < acknowledged:
            self._recorded = self._sent.popleft()[1]
        return not self._sent

    def flush(self, seconds: float) -> None:
        """Wait until all batches are acknowledged. Raises PSoupError."""
        if self._producer is not None:
            self._producer.flush(seconds)
            self.note_replies()

    def close(self) -> None:
        """End the producer without waiting."""
        if self._producer is not None:
            self._producer.close(flush=False)
