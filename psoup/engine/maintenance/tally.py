"""Tallying as maintenance: costs of queries counted in gone chunks and indexes are summed up by clause."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.clauses.costs import ClauseCosts, CostTally
from psoup.columns import Array
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class TallyTask:
    """The counters of a stream, and which clause owned which slot."""

    stream_id: int
    costs: ClauseCosts
    sqc_of_slot: Array
    name: str = "tally"

    def compute(self, run: Runner = serial) -> Tallied:
        """Sum the counters up by clause."""
        return Tallied(self.stream_id, self.costs.tally(self.sqc_of_slot))


@dataclass(frozen=True, slots=True)
class Tallied:
    """Sums of the counters by clause."""

    stream_id: int
    tally: CostTally

    def install(self, state: StreamState) -> bool:
        """Add the sums up where clauses still own their slots; readers see them when they ask for costs."""
        state.clauses.install_tally(self.tally)
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find counters of gone chunks and indexes, once enough of them wait to be summed up."""
    costs = state.clauses.index.costs
    if not costs.due(everything):
        return None
    return lambda: TallyTask(state.stream_id, costs, state.clauses.table.share())
