"""Twins of `psoup.kernels.arrive.work_counters`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def tally_work(
    clauses: Array, walked: Array, room: Array, slots: Array, tuples: int, looked: Array, anded: Array
) -> None:
    """See the kernel."""
    one_by_one = walked >= 0
    np.add.at(looked, slots[clauses[one_by_one]], np.diff(room)[one_by_one])
    np.add.at(anded, slots[clauses[~one_by_one]], tuples)


def tally_cells(cells: Array, hits: Array) -> None:
    """See the kernel."""
    np.add.at(hits, cells[cells >= 0], 1)
