"""Memory for the texts that patches of a table keep. It is reserved before a batch is accepted.

    push      1,000 patches of 20 bytes, and the longest kept text has 64 KiB     reserved: 1,000 x 64 KiB
    release   the patches get their texts, which are charged instead              the reserved bytes are given back

A patch stores the texts that it keeps once more. So the batch itself does not tell the bytes that its rows take. Values
of other types are charged with the batch. In event time a longer text may come before patches that wait. The push with
this text then reserves more for them.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from psoup.data.newest_versions import key_lanes
from psoup.data.stored_chunk import Stored
from psoup.events.events import Pushed
from psoup.model import FIRST_AT, Kind, StreamSpec
from psoup.values.columns import Array, Batch, Column


class PatchRoom:
    """The longest text of each column of one table, and the patches that wait for the watermark."""

    def __init__(self) -> None:
        self._longest: dict[int, int] = {}
        """The bytes of the longest text of each column, by its position."""
        self._waiting: list[tuple[int, int]] = []
        """A heap of batches that wait: the last time of a batch, and the number of its patches."""
        self._rows = 0
        """The number of patches in these batches."""

    def restored(self, stored: Stored | None) -> None:
        """Load the longest texts from the part of the table that the store has. O(rows)."""
        for chunk in () if stored is None else stored.chunks:
            self._longest |= self._longer(chunk.batch.columns)

    def needed(self, spec: StreamSpec, batch: Batch, given: tuple[int, ...], used: int) -> int:
        """The bytes to reserve for a batch, whose patches give the columns at the positions `given`. O(rows).

        `used`: the bytes of all tuples. In system time each patch of a key keeps texts of a version that is among them.
        """
        longer = self._longer(batch.columns)
        needed = self._rows * sum(size - self._longest.get(place, 0) for place, size in longer.items())
        if not given or not len(batch):
            return needed
        longest = self._longest | longer
        row_bytes = sum(size for place, size in longest.items() if place not in given)
        each = _patches(batch) * row_bytes
        if not spec.event_time and each > used:
            each = min(each, _rows_of_a_key(spec, batch) * used)
        return needed + each

    def pushed(self, spec: StreamSpec, event: Pushed) -> None:
        """Adopt a push. O(rows)."""
        self._longest |= self._longer(event.batch.columns)
        if not spec.event_time:
            return
        if event.given and len(event.batch):
            rows = _patches(event.batch)
            heappush(self._waiting, (int(event.batch.times.max()), rows))
            self._rows += rows
        self.raised(event.watermark)

    def raised(self, watermark: int | None) -> None:
        """Forget the batches up to a watermark."""
        while self._waiting and watermark is not None and self._waiting[0][0] <= watermark:
            self._rows -= heappop(self._waiting)[1]

    def _longer(self, columns: tuple[Column, ...]) -> dict[int, int]:
        """The columns with a text that is longer than all before, and the bytes of the longest one."""
        longer: dict[int, int] = {}
        for place, column in enumerate(columns):
            earlier = self._longest.get(place, 0)
            if column.type.kind is Kind.TEXT and int(column.values[-1] - column.values[0]) > earlier:
                longest = int(np.diff(column.values).max())
                if longest > earlier:
                    longer[place] = longest
        return longer


def _patches(batch: Batch) -> int:
    flags = batch.columns[FIRST_AT]
    return int(np.count_nonzero(flags.values if flags.valid is None else flags.values & flags.valid))


def _rows_of_a_key(spec: StreamSpec, batch: Batch) -> int:
    """The number of rows of the most frequent key of a batch."""
    assert spec.table is not None
    lanes: Array = key_lanes([batch.columns[place] for place in spec.table.key])
    return int(np.unique(lanes, axis=0, return_counts=True)[1].max())
