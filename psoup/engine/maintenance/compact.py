"""Compacting as maintenance: a task removes the columns of removed clauses from the packs of a sealed chunk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from psoup.engine.maintenance.replace import Replace
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.published.snapshot import ChunkEntry
from psoup.values.columns import Array
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class CompactTask:
    """A chunk to compact: its packs lose the columns of the removed clauses `dead` (SQC IDs, ascending).

    `upto`: the mark of the chunk afterwards (`psoup.engine.stream.deaths`). `errors`: the chunk's counts of evaluation
    errors, by attributes that are still used.
    """

    stream_id: int
    entry: ChunkEntry
    dead: Array
    upto: int
    errors: dict[int, int]
    name: str = "compact"

    def compute(self, run: Runner = serial) -> Replace:
        """Copy the columns of the other clauses to new packs. O(packs)."""
        results = self.entry.results
        without = results.without(self.dead, self.upto, self.errors)
        return Replace(self.stream_id, self.entry.data.number, results, without)


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find the oldest sealed chunk with columns of enough removed clauses. O(1) after few removals, else O(chunks)."""
    deaths = state.shelf.deaths
    wait = 1 if everything else max(state.config.shape.compact_from, len(state.clauses.table) // 8)
    if len(deaths) < wait:
        return None
    for entry in state.shelf.in_memory:
        results = entry.results
        if results.open is None and deaths.mark - results.compacted >= wait:
            dead, errors = deaths.since(results.compacted), state.clauses.used(results.errors)
            return partial(CompactTask, state.stream_id, entry, dead, deaths.mark, errors)
    return None
