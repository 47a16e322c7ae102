"""Compacting as maintenance: the packs of a sealed chunk forget clauses that are gone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from psoup.columns import Array
from psoup.engine.maintenance.replace import Replace
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.published.snapshot import ChunkEntry
from psoup.runner import Runner, serial

COMPACT_FROM = 64
"""Clauses that must have gone since a chunk was last compacted; an eighth of the live ones, if these are many."""


@dataclass(frozen=True, slots=True)
class CompactTask:
    """A chunk whose packs shall forget the clauses `dead` (SQC IDs, ascending): all that died until `upto` had.

    `errors`: the chunk's evaluation errors that are still of use.
    """

    stream_id: int
    entry: ChunkEntry
    dead: Array
    upto: int
    errors: dict[int, int]
    name: str = "compact"

    def compute(self, run: Runner = serial) -> Replace:
        """Copy what is left. O(packs)."""
        results = self.entry.results
        without = results.without(self.dead, self.upto, self.errors)
        return Replace(self.stream_id, self.entry.data.number, results, without)


def due(state: StreamState, everything: bool) -> Begin | None:
    """The oldest sealed chunk that has columns of enough dead clauses. O(chunks) if any may have."""
    total = state.results.died
    wait = 1 if everything else max(COMPACT_FROM, len(state.live) // 8)
    if len(state.results.deaths) < wait:
        return None
    for entry in state.closed:
        if entry.results.open is None and total - entry.results.compacted >= wait:
            since = entry.results.compacted - state.results.deaths_before
            dead = np.array(sorted(state.results.deaths[since:]), np.int64)
            errors = state.standing.used(entry.results.errors)
            return partial(CompactTask, state.stream_id, entry, dead, total, errors)
    return None
