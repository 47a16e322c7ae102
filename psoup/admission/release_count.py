"""The number of tuples of a stream that are released, as of the last prepared event: the ID of its next tuple.

    accepted so far          t t t t t t t t t t          `Past.tuples`
    wait for the watermark           t   t   t            published runs, and pushes that the writer has not published
    released                 7                            the ID of the next tuple

Only registrations ask for it. A push costs O(1).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable

import numpy as np

from psoup.published.selection import Published
from psoup.values.columns import Array, Batch


class RecentPushes:
    """The rows of the recent pushes of one stream in event time.

    The references are weak, so a large push leaves memory with its event. The writer holds an event until it has
    published the event. So a push that has left memory is published.
    """

    __slots__ = ("_pushes",)

    def __init__(self) -> None:
        self._pushes = deque[tuple[int, weakref.ref[Batch]]]()

    def add(self, sequence: int, batch: Batch) -> None:
        """Note a push. O(1), amortised."""
        while self._pushes and self._pushes[0][1]() is None:
            self._pushes.popleft()
        self._pushes.append((sequence, weakref.ref(batch)))

    def held(self) -> list[tuple[int, Batch]]:
        """The sequences and rows of the pushes that are still in memory. They include all unpublished pushes."""
        return [(sequence, batch) for sequence, ref in self._pushes if (batch := ref()) is not None]

    def waiting(self, stream_id: int, watermark: int | None, published: Callable[[], Published]) -> int:
        """The number of tuples that wait for the watermark. O(runs log tuples + tuples of unpublished pushes)."""
        recent = self.held()
        snapshot = published()  # after the references: a push that has none left is published
        view = snapshot.by_id.get(stream_id)
        count = sum(len(times) - _through(times, watermark) for times in (() if view is None else view.waiting))
        for sequence, batch in recent:
            times = batch.times
            if sequence > snapshot.sequence:
                count += len(times) if watermark is None else int(np.count_nonzero(times > watermark))
        return count


def _through(times: Array, watermark: int | None) -> int:
    """The number of ascending times up to the watermark."""
    return 0 if watermark is None else int(np.searchsorted(times, watermark, "right"))
