"""How selective the factors of WHERE are now: the share of the newest tuples that each lets pass by itself.

Looked at when an explanation asks, over the newest tuples in memory: nothing is counted while tuples arrive, so the
shares are of this sample, and follow the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.config import TextLimits
from psoup.expressions.guarded import every_row
from psoup.matching.scan import scan
from psoup.plan.factors import Factor
from psoup.published.snapshot import StreamView
from psoup.reading import ReadBudget

SAMPLE = 1_024
"""The most tuples that are looked at."""

_MOST_FACTORS = 32
"""The most factors that are looked at; an IN of many values is one."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`rows`: tuples looked at. `passed`: how many each factor lets pass; without those of which it is not known."""

    rows: int
    passed: tuple[int, ...]


NO_SAMPLE = Sample(0, ())


def sample_of(factors: Sequence[Factor], view: StreamView, texts: TextLimits, budget: ReadBudget) -> Sample:
    """Try each factor on the newest tuples. O(SAMPLE * factors); a tuple for which it raises does not pass."""
    looked = factors[:_MOST_FACTORS]
    rows, passed = 0, [0] * len(looked)
    compute = every_row(budget)
    for entry in reversed(view.chunks[view.archived :]):
        data = entry.data
        stop = len(data)
        start = max(0, stop - (SAMPLE - rows))
        if start == stop:
            continue
        columns = [column.slice(start, stop) for column in data.columns]
        ids, times = np.arange(data.first_id + start, data.first_id + stop), data.times[start:stop]
        for at, factor in enumerate(looked):
            budget.examine(stop - start)
            passed[at] += int(scan((factor,), columns, ids, times, texts, compute).mask.sum())
        rows += stop - start
        if rows == SAMPLE:
            break
    return Sample(rows, tuple(passed)) if rows else NO_SAMPLE
