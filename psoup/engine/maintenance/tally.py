"""Tallying as maintenance: a task adds up counters of query costs by clause, from dropped chunks and index parts."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.clauses.costs import ClauseCosts, CostTally
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.values.columns import Array
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class TallyTask:
    """The task: the cost counters of a stream, and the SQC ID of the clause in each slot."""

    stream_id: int
    costs: ClauseCosts
    sqc_of_slot: Array
    name: str = "tally"

    def compute(self, run: Runner = serial) -> Tallied:
        """Add up the counters for each clause."""
        return Tallied(self.stream_id, self.costs.tally(self.sqc_of_slot))


@dataclass(frozen=True, slots=True)
class Tallied:
    """The result: the sum of the counters for each clause."""

    stream_id: int
    tally: CostTally

    def install(self, state: StreamState) -> bool:
        """Add the sums to the costs of clauses that still have their slots. Readers of costs then see them."""
        state.clauses.install_tally(self.tally)
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find enough counters of dropped chunks and index parts that are not added up yet."""
    costs = state.clauses.index.costs
    if not costs.due(everything):
        return None
    return lambda: TallyTask(state.stream_id, costs, state.clauses.table.share())
