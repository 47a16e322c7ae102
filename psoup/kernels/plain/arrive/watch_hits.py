"""Twins of `psoup.kernels.arrive.watch_hits`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def hits_in_run(slots: Array, offsets: Array, place_of_slot: Array, start: int, hits: Array) -> None:
    """See the kernel."""
    places = np.append(place_of_slot, -1)[np.minimum(slots, len(place_of_slot))]
    hits[places[(places >= 0) & (offsets >= start)]] = 1


def hits_in_rows(rows: Array, count: int, row_of_slot: Array, slots: Array, start: int, stop: int, hits: Array) -> None:
    """See the kernel."""
    row = np.append(row_of_slot, -1)[np.minimum(slots, len(row_of_slot))]
    for place in np.flatnonzero((row >= 0) & (row < count)).tolist():
        words = np.ascontiguousarray(rows[:, row[place]])
        bits = np.unpackbits(words.view(np.uint8).reshape(-1), bitorder="little")
        hits[place] |= bits[start:stop].any()
