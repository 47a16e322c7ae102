"""The times of refused tuples, from which an answer counts those inside its window.

    refused so far    o o o o o o o o o o o o        counted, always
                      └ forgotten ┘ └ kept ─┘        by their times: the newest `KEPT` of each kind
    window                  [         ]              reaches forgotten times: unknown; otherwise counted exactly

The log drops events whose tuples are stored, and with them the times of their refusals. So a restart forgets these
times. Late tuples have times below the watermark of their arrival. So the counts of later windows are exact again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array

KEPT = 16_384
"""The most times of each kind that a stream keeps: 128 KiB."""

_LEAST = -(2**63)
"""The least time."""
_GREATEST = 2**63 - 1
"""The greatest time."""
_FIRST_SIZE = 16


@dataclass(frozen=True, slots=True)
class RefusedTimes:
    """The refused tuples of one kind. `times`: int64[k], the known times. `forgotten`: the range of all other times."""

    count: int
    times: Array
    forgotten: tuple[int, int] | None

    def within(self, begin: int | None, end: int | None) -> int | None:
        """The number of refused times in [begin, end], or None if it is unknown. O(KEPT).

        `begin` is None for a window without a beginning. `end` is None while the stream has no time.
        """
        if not self.count:
            return 0
        if end is None:
            return None
        begin = _LEAST if begin is None else begin
        if self.forgotten is not None and begin <= self.forgotten[1] and self.forgotten[0] <= end:
            return None
        return int(((self.times >= begin) & (self.times <= end)).sum())


class Refusals:
    """The refusals as the writer keeps them: their number and newest times. The array only grows or is replaced."""

    def __init__(self, forgotten: int = 0, below: int | None = None) -> None:
        """`forgotten`: the number of earlier refusals with unknown times. `below`: an upper bound of these times."""
        self._count = forgotten
        self._forgotten = (_LEAST, _GREATEST if below is None else below) if forgotten else None
        self._times = np.zeros(_FIRST_SIZE, np.int64)
        self._used = 0
        self._view: RefusedTimes | None = None
        """The view for readers; None after a further refusal."""

    def add(self, times: Array) -> None:
        """Add refusals. O(times), and occasionally O(KEPT)."""
        if not len(times):
            return
        self._view = None
        self._count += len(times)
        if len(times) > KEPT:
            self._forget(times[:-KEPT])
            times = times[-KEPT:]
        if self._used + len(times) > KEPT:
            drop = min(max(self._used + len(times) - KEPT, KEPT // 2), self._used)
            self._forget(self._times[:drop])
            self._grow(drop, len(times))
        elif self._used + len(times) > len(self._times):
            self._grow(0, len(times))
        self._times[self._used : self._used + len(times)] = times
        self._used += len(times)

    def view(self) -> RefusedTimes:
        """The refusals for readers; later ones do not change the view."""
        if self._view is None:
            self._view = RefusedTimes(self._count, self._times[: self._used], self._forgotten)
        return self._view

    def check(self) -> None:
        """Check that all counted times are kept, or that some are marked as forgotten."""
        ensure(
            0 <= self._used <= len(self._times), self, "times are miscounted", used=self._used, room=len(self._times)
        )
        whole = self._count == self._used or self._forgotten is not None
        ensure(whole and self._count >= self._used, self, "refusals are miscounted", count=self._count, used=self._used)

    def _grow(self, drop: int, more: int) -> None:
        newest = self._times[drop : self._used]
        self._times = np.zeros(min(max(2 * (len(newest) + more), _FIRST_SIZE), KEPT), np.int64)
        self._times[: len(newest)] = newest
        self._used = len(newest)

    def _forget(self, times: Array) -> None:
        if len(times):
            low, high = self._forgotten or (_GREATEST, _LEAST)
            self._forgotten = min(low, int(times.min())), max(high, int(times.max()))
