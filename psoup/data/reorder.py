"""The reorder buffer: accepted tuples of an event-time stream that the watermark has not passed yet.

    push ──> [run sorted by time] [run] [run]  ──release(watermark)──> tuples in stream order

Each push is one run; a release takes the prefix of every run that is not above the watermark and sorts the prefixes
together, equal times staying in the order they were sent. When runs become many, the latest are joined with those
before that are not much larger: so each tuple is copied a few times, however many are waiting.
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Array, Batch, concat_batches
from psoup.config import Shape
from psoup.data.widening import widen_batch
from psoup.invariants import corrupt, ensure
from psoup.kernels.order import order_keys
from psoup.model import Schema


class ReorderBuffer:
    """Runs of tuples, each in stream order, oldest push first. O(n log n) per tuple over its stay."""

    def __init__(self, shape: Shape = Shape()) -> None:
        self._shape = shape
        self._runs: list[Batch] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, batch: Batch) -> None:
        """Take a batch in the order it was sent."""
        if not len(batch):
            return
        self._count += len(batch)
        self._runs.append(_sorted(batch))
        if len(self._runs) > self._shape.waiting_runs:
            self._join_latest()

    def release(self, watermark: int) -> Batch | None:
        """Take out all tuples with a time not above `watermark`, in stream order; None if there are none."""
        ready, rest = [], []
        for run in self._runs:
            split = int(np.searchsorted(run.times, watermark, side="right"))
            if split:
                ready.append(run.slice(0, split))
            if split < len(run):
                rest.append(run.slice(split, len(run)))
        self._runs = rest
        if not ready:
            return None
        released = _sorted(concat_batches(ready))
        self._count -= len(released)
        return released

    def widen(self, schema: Schema) -> None:
        """Give the buffered tuples the columns that `schema` has more, with NULL in them."""
        self._runs = [widen_batch(run, schema) for run in self._runs]

    def _join_latest(self) -> None:
        first = len(self._runs) - 1
        total = len(self._runs[first])
        while first and len(self._runs[first - 1]) <= self._shape.join_ratio * total:
            first -= 1
            total += len(self._runs[first])
        if len(self._runs) - first > 1:
            self._runs[first:] = [_sorted(concat_batches(self._runs[first:]))]

    @property
    def nbytes(self) -> int:
        """Bytes charged for the buffered tuples."""
        return sum(run.nbytes for run in self._runs)

    def times(self) -> tuple[Array, ...]:
        """The times of each run, ascending; arrays that stay as they are."""
        return tuple(run.times for run in self._runs)

    @property
    def first_time(self) -> int | None:
        """The least time buffered, or None."""
        return min((int(run.times[0]) for run in self._runs), default=None)

    def check(self) -> None:
        """Every run is in time order and not empty; the count is right."""
        for run in self._runs:
            ensure(len(run) > 0, self, "an empty run stays in the buffer")
            ensure((run.times[:-1] <= run.times[1:]).all(), self, "a run is out of order", length=len(run))
        self.check_count()

    def check_count(self) -> None:
        """As many tuples are there as are counted. O(runs)."""
        if self._count != sum(map(len, self._runs)):
            raise corrupt(self, "tuples are miscounted", counted=self._count, runs=[len(run) for run in self._runs])


def _sorted(batch: Batch) -> Batch:
    times = batch.times
    if bool(np.all(times[:-1] <= times[1:])):
        return batch
    order, spare = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
    order_keys(times, order, spare)
    return batch.take(order)
