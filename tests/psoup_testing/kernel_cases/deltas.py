"""Arguments for the kernels of `psoup.kernels.delta`."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.delta.spans import FOREVER
from psoup.kernels.delta.value_ends import ABSENT

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _ends(rng: Rng, start: Any) -> Any:
    """Ends of rows, some of them FOREVER."""
    ends = start + rng.integers(0, 8, len(start))
    return np.where(rng.random(len(start)) < 0.05, FOREVER, ends)


def prolong_values(rng: Rng) -> Arguments:
    """Rows of few values, and some values are absent."""
    rows, values = int(rng.integers(0, 40)), int(rng.integers(1, 9))
    start = np.sort(rng.integers(10, 50, rows))
    ends = np.where(rng.random(values) < 0.5, ABSENT, rng.integers(9, 15, values))
    changed, signs, instants = np.zeros(2 * rows, np.int32), np.zeros(2 * rows, np.int8), np.zeros(2 * rows, np.int64)
    numbers = rng.integers(0, values, rows).astype(np.int32)
    return numbers, start, _ends(rng, start), ends, changed, signs, instants, np.zeros(rows, np.int32)


CASES = {"delta.value_ends.prolong_values": prolong_values}
