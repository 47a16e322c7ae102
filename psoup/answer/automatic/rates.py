"""Rates of events that are counted in each round: slow averages, which follow a shift at once.

    a count as expected         ─> the average moves by its half-life of ten minutes
    a count far from expected   ─> the average becomes the rate of this round, or of the last three

Far is more than two standard deviations of a Poisson count. So an invocation a minute is a steady rate. If a
query that was often invoked has no invocation, its rate is 0 after one round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.values.columns import Array

_HALF_LIFE_S = 600.0
"""The seconds after which a count has half of its weight."""
_FAR = 2.0
"""The standard deviations from which a count means that the rate has changed."""


class Rates(NamedTuple):
    """The rates of n counters: events in a second, float64[n]. `before`: float64[n, 2], the counts of the two rounds
    before the next one. After a shift, both are the count of the round that showed it."""

    rates: Array
    before: Array


def next_rates(last: Rates, counts: Array, seconds: float) -> Rates:
    """The rates after a round of `seconds` with `counts` events, float64[n]. All rounds take about as long. O(n)."""
    rates, before = last
    weight = 1 - 0.5 ** (seconds / _HALF_LIFE_S)
    after = rates + weight * (counts / seconds - rates)
    three = counts + before.sum(axis=1)
    after = np.where(_is_far(three, 3 * seconds * rates), three / (3 * seconds), after)
    shifted = _is_far(counts, seconds * rates)
    after = np.where(shifted, counts / seconds, after)
    first = np.where(shifted, counts, before[:, 1])
    return Rates(after, np.stack([first, counts], axis=1))


def _is_far(counts: Array, expected: Array) -> Array:
    """Whether counts do not fit the expected ones."""
    far: Array = np.abs(counts - expected) > _FAR * np.sqrt(expected + 1)
    return far
