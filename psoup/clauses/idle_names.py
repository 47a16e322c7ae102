"""The names of the idle clauses of one stream. A new clause of the index finds its equals by them.

    runs     high 3 5 5 9     low 1 7 7 2     SQC IDs …       sorted by the first half of the name
             high 4 6         low …

An idle clause belongs to one query, so several may have the same name. A removed clause stays in its run until half of
all entries are of removed ones. The caller knows which clauses exist.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.values.columns import Array

_MOST_RUNS = 8
_NONE: Array = np.zeros(0, np.int64)

Run = tuple[Array, Array, Array]
"""Both halves of the names, uint64[n] each, ascending by the first half, and the SQC IDs, int64[n]."""


class IdleNames:
    """A table from the names of idle clauses to their SQC IDs; see the module. Only the writer uses it."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._count = self._gone = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return sum(part.nbytes for run in self._runs for part in run)

    def add(self, names: Array, sqc_ids: Array) -> None:
        """Add clauses: their names, uint64[n, 2], and SQC IDs, int64[n]. Amortised O(n log n)."""
        if not len(sqc_ids):
            return
        self._runs.append(_sorted(names[:, 0], names[:, 1], sqc_ids))
        self._count += len(sqc_ids)
        if len(self._runs) > _MOST_RUNS:
            smallest = sorted(self._runs, key=lambda run: len(run[2]))
            joined = [np.concatenate(parts) for parts in zip(*smallest[: _MOST_RUNS // 2 + 1], strict=True)]
            self._runs = [*smallest[_MOST_RUNS // 2 + 1 :], _sorted(joined[0], joined[1], joined[2])]

    def find(self, names: Array) -> Array:
        """The SQC IDs of all clauses with one of these names (uint64[m, 2]), also of removed ones: int64[k].

        O(m log n + k).
        """
        parts = [_NONE]
        for high, low, sqc_ids in self._runs:
            first, end = np.searchsorted(high, names[:, 0], "left"), np.searchsorted(high, names[:, 0], "right")
            counts = end - first
            if not counts.any():
                continue
            ends = np.cumsum(counts)
            rows = np.repeat(np.arange(len(names)), counts)
            places = np.repeat(first - (ends - counts), counts) + np.arange(len(rows))
            same = low[places] == names[rows, 1]
            parts.append(sqc_ids[places[same]])
        return np.concatenate(parts)

    def removed(self, count: int, exist: Callable[[Array], Array]) -> None:
        """Note that some clauses were removed. `exist`: for SQC IDs (int64[k]), whether each still exists, bool[k]."""
        self._gone += count
        if 2 * self._gone <= self._count:
            return
        left = [np.concatenate(parts) for parts in zip(*self._runs, strict=True)] if self._runs else []
        stay = np.flatnonzero(exist(left[2])) if left else _NONE
        self._runs = [_sorted(left[0][stay], left[1][stay], left[2][stay])] if len(stay) else []
        self._count, self._gone = len(stay), 0


def _sorted(high: Array, low: Array, sqc_ids: Array) -> Run:
    order = np.argsort(high, kind="stable")
    return high[order], low[order], sqc_ids[order]
