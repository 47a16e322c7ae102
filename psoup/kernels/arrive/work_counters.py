"""Counts of the join's work for each clause, as it goes: some additions a clause or a cell, none a tuple.

Counters are int64 and only grow; they say where the time goes, no answer depends on them.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def tally_work(clauses, walked, room, slots, tuples, looked, anded):
    """Count the work that a plan asks for; see `psoup.kernels.arrive.index_probe.plan`.

    clauses: int32[k], walked: int32[k], room: int64[k + 1], slots: uint32[S]: clause to slot. tuples: of the piece.
    Read. looked: int64[capacity], by slot, += tuples that are looked at one by one; anded: int64[capacity], += tuples
    that are looked at as bits. O(k).
    """
    for j in range(clauses.shape[0]):
        slot = slots[clauses[j]]
        if walked[j] >= 0:
            looked[slot] += room[j + 1] - room[j]
        else:
            anded[slot] += tuples


@njit(cache=True, nogil=True)
def tally_cells(cells, hits):
    """hits[c] += 1 for each cell whose lists are tested. cells: int32[k], ~c if hot: not counted. O(k)."""
    for j in range(cells.shape[0]):
        if cells[j] >= 0:
            hits[cells[j]] += 1
