"""Tallying as maintenance: what queries cost in chunks and indexes that are gone is counted by clause."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.clauses.costs import ClauseCosts, CostTally
from psoup.columns import Array
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class TallyTask:
    """The counters of a stream, and who owned which slot."""

    stream_id: int
    costs: ClauseCosts
    sqc_of_slot: Array
    name: str = "tally"

    def compute(self, run: Runner = serial) -> Tallied:
        """Sum them up by clause."""
        return Tallied(self.stream_id, self.costs.tally(self.sqc_of_slot))


@dataclass(frozen=True, slots=True)
class Tallied:
    """The sums."""

    stream_id: int
    tally: CostTally

    def install(self, state: StreamState) -> bool:
        """Add them up where clauses still own their slots; readers ask for them when they want them."""
        state.clauses.install_tally(self.tally)
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Enough has gone that is not counted by clause yet."""
    costs = state.clauses.index.costs
    if not costs.due(everything):
        return None
    return lambda: TallyTask(state.stream_id, costs, state.clauses.table.share())
