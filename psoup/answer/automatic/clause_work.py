"""The work of new tuples on a stream between two rounds: their rate, and the seconds for each clause.

    counters of a stream, now and ten seconds ago ──> tuples in a second
                                                  └─> seconds of the writer for a tuple, by SQC ID

The seconds come from measured time that is divided by counted work (`psoup.answer.figures.arrival_shares`). A host
that measures no time has estimates from the counted work alone.
"""

from __future__ import annotations

import numpy as np

from psoup.answer.automatic.rates import Rates, next_rates
from psoup.answer.figures.arrival_shares import StreamCounters, read_counters, seconds_by_slot, units_by_slot
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array

_UNIT_S = 2e-9
"""A unit of counted work, if the host measures no time."""


class StreamWork:
    """The counters of one stream, from round to round. One thread at a time."""

    def __init__(self, view: StreamView) -> None:
        self._before = read_counters(view)
        self._next_id = view.next_id
        self._rates = Rates(np.zeros(1), np.zeros((1, 2)))
        self._sqc_ids: Array = np.zeros(0, np.int64)
        self._seconds: Array = np.zeros(0)

    @property
    def rate(self) -> float:
        """New tuples in a second."""
        return float(self._rates.rates[0])

    def look(self, view: StreamView, seconds: float) -> None:
        """Read the counters at a round, `seconds` after the last one.

        O(slots log slots + entries of the index) if tuples have come, else O(1).
        """
        tuples, self._next_id = max(view.next_id - self._next_id, 0), view.next_id
        self._rates = next_rates(self._rates, np.array([float(tuples)]), seconds)
        self._sqc_ids = self._sqc_ids[:0]
        if not tuples:
            return
        before, now = self._before, read_counters(view)
        self._before = now
        order = np.argsort(now.owners)
        self._sqc_ids = now.owners[order]
        self._seconds = _seconds(view, before, now)[order] / tuples

    def of(self, sqc_ids: Array) -> Array:
        """The seconds of the writer for a new tuple, for each of some clauses (int64[k]): float64[k]; NaN if unknown.

        O(k log slots).
        """
        if not len(self._sqc_ids):
            return np.full(len(sqc_ids), np.nan)
        at = np.minimum(np.searchsorted(self._sqc_ids, sqc_ids), len(self._sqc_ids) - 1)
        return np.where(self._sqc_ids[at] == sqc_ids, self._seconds[at], np.nan)


def _seconds(view: StreamView, before: StreamCounters, now: StreamCounters) -> Array:
    """The seconds between two readings for each slot, float64."""
    if now.joined <= before.joined:
        return units_by_slot(before, now) * _UNIT_S
    by_expressions, by_index = seconds_by_slot(view, before, now)
    return by_expressions + by_index
