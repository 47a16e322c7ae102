"""A check that the log has all required batches of each producer.

    producer   pump: … 17 18 19 _ 21 22          20 is missing: it was acknowledged, as 21 was

The log forgets a producer's rows beyond its last acknowledgements, and all rows of an idle producer. Gaps there are not
damage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise

from psoup.events.events import Pushed
from psoup.retry_memory import REMEMBERED, Remembered

_Key = tuple[int, str]


class ProducerNumbers:
    """The last batch numbers of each producer, within the limits of `remembered`."""

    def __init__(self, remembered: Remembered = REMEMBERED) -> None:
        self._remembered = remembered
        self._seen: dict[_Key, deque[tuple[int, int]]] = {}
        self._active: dict[_Key, int] = {}
        self._now = 0

    def add(self, event: Pushed) -> None:
        """Note the numbers of a push. Call it for all pushes, in the order of the log."""
        self._now = max(self._now, event.time)
        if event.producer:
            key = (event.stream_id, event.producer)
            seen = self._seen.setdefault(key, deque(maxlen=self._remembered.acknowledgements))
            seen.extend((event.epoch, event.number + place) for place in range(len(event.batches)))
            self._active[key] = event.time

    def gaps(self, name: Callable[[int], str]) -> Iterator[str]:
        """The missing batches, in words. `name`: returns the name of a stream."""
        for (stream, producer), seen in self._seen.items():
            if self._active[stream, producer] < self._now - self._remembered.idle:
                continue
            for (epoch, number), (later, following) in pairwise(seen):
                if (
                    later == epoch and following and following != number + 1
                ):  # 0: the producer was forgotten, and began again
                    yield (
                        f"batches {number + 1} to {following - 1} of producer {producer!r}, epoch {epoch}, of"
                        f" {name(stream)} are missing"
                    )
