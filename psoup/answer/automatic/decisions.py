"""The decisions of AUTO: from the estimates of a round to the queries that change their amounts.

    another amount costs less than half    ─> its streak grows by one; any other round ends the streak
    three such rounds in a row             ─> the query may change, if this pays for itself within ten minutes
    the work of all changes of a round     ─> at most what is left of one percent of a core

So a query stays as it is while the costs are alike. No query changes twice in three rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.values.columns import Array

ROUNDS = 3
"""The successive rounds in which another amount must cost less than half."""
_LESS = 0.5
"""The part of the present cost below which another amount is better."""
_PAYS_S = 600.0
"""The seconds within which a change must pay for itself."""


class Streaks(NamedTuple):
    """For each query: the place of the amount that was better in the last rounds, and the number of these rounds.

    uint8[n] each. A streak of 0 rounds is none.
    """

    wanted: Array
    rounds: Array


def next_streaks(streaks: Streaks, costs: Array, present: Array) -> Streaks:
    """The streaks after a round. `costs`: float64[choices, n]. `present`: int64[n], the places of the present choices.
    O(n)."""
    best = costs.argmin(axis=0)
    columns = np.arange(len(present))
    better = costs[best, columns] < _LESS * costs[present, columns]
    goes_on = better & (streaks.rounds > 0) & (streaks.wanted == best)
    rounds = np.where(goes_on, np.minimum(streaks.rounds.astype(np.int64) + 1, 255), better.astype(np.int64))
    return Streaks(best.astype(np.uint8), rounds.astype(np.uint8))


def chosen(streaks: Streaks, costs: Array, present: Array, work: Array, credit: float) -> Array:
    """The places of the queries that change now, int64[k] ascending. `work`: float64[n], the seconds that a change of
    each query takes. `credit`: the seconds that all changes may take. Changes that save most for their work come first.
    A change of more work waits until the credit suffices.

    O(n log n).
    """
    columns = np.arange(len(present))
    saving = costs[present, columns] - costs[streaks.wanted, columns]
    ready = np.flatnonzero((streaks.rounds >= ROUNDS) & (saving * _PAYS_S >= work) & (work <= credit))
    worth = saving[ready] / work[ready]
    order = ready[np.argsort(-worth, kind="stable")]
    fit: Array = np.sort(order[np.cumsum(work[order]) <= credit])
    return fit
