"""Tallying as maintenance: costs of queries counted in dropped chunks and indexes are added up by clause."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.clauses.costs import ClauseCosts, CostTally
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.values.columns import Array
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class TallyTask:
    """The counters of a stream, and the clause of each slot."""

    stream_id: int
    costs: ClauseCosts
    sqc_of_slot: Array
    name: str = "tally"

    def compute(self, run: Runner = serial) -> Tallied:
        """Add the counters up by clause."""
        return Tallied(self.stream_id, self.costs.tally(self.sqc_of_slot))


@dataclass(frozen=True, slots=True)
class Tallied:
    """Sums of the counters by clause."""

    stream_id: int
    tally: CostTally

    def install(self, state: StreamState) -> bool:
        """Add the sums to the clauses that still have their slots; readers see them when they read costs."""
        state.clauses.install_tally(self.tally)
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find counters of dropped chunks and indexes, if enough of them wait."""
    costs = state.clauses.index.costs
    if not costs.due(everything):
        return None
    return lambda: TallyTask(state.stream_id, costs, state.clauses.table.share())
