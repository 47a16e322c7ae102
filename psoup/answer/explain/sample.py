"""Selectivity of each factor of WHERE: the share of a sample of tuples that passes the factor alone.

The sample holds the newest tuples in memory; of a table only the versions among them that hold. Every explanation
evaluates the sample again. The writer keeps no counters for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.config import TextLimits
from psoup.expressions.error_guard import every_row
from psoup.matching.scan import scan
from psoup.plan.factors import Factor
from psoup.published.shown_rows import shown_rows
from psoup.published.snapshot import StreamView
from psoup.work.read_budget import ReadBudget

SAMPLE = 1_024
"""The most tuples of the sample."""

_MOST_FACTORS = 32
"""The most factors that an explanation evaluates. An IN with many values counts as one factor."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`rows`: tuples of the sample. `passed`: for each evaluated factor, the number of tuples that pass it."""

    rows: int
    passed: tuple[int, ...]


NO_SAMPLE = Sample(0, ())


def sample_of(factors: Sequence[Factor], view: StreamView, texts: TextLimits, budget: ReadBudget) -> Sample:
    """Evaluate each factor on the newest tuples. A tuple with an error does not pass. O(SAMPLE * factors)."""
    looked = factors[:_MOST_FACTORS]
    rows, read, passed = 0, 0, [0] * len(looked)
    compute = every_row(budget)
    for entry in reversed(view.chunks[view.archived :]):
        data = entry.data
        stop = len(data)
        start = max(0, stop - (SAMPLE - read))
        if start == stop:
            continue
        columns = [column.slice(start, stop) for column in data.columns]
        ids, times = data.ids_of(start, stop), data.times[start:stop]
        shown = shown_rows(view, data, np.arange(start, stop)) - start
        for at, factor in enumerate(looked):
            budget.examine(stop - start)
            passed[at] += int(scan((factor,), columns, ids, times, texts, compute).mask[shown].sum())
        rows, read = rows + len(shown), read + stop - start
        if read == SAMPLE:
            break
    return Sample(rows, tuple(passed)) if rows else NO_SAMPLE
