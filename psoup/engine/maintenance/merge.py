"""Merging as maintenance: the index of recent clauses is merged into the main index, when the index asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.clauses.index.combine import MergeResult, MergeTask
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class Merge:
    """Parts of a stream's index to merge."""

    stream_id: int
    task: MergeTask
    name: str = "merge"

    def compute(self, run: Runner = serial) -> Merged:
        """Merge the parts. O(their clauses)."""
        return Merged(self.stream_id, self.task.compute())


@dataclass(frozen=True, slots=True)
class Merged:
    """The part that replaces the merged ones."""

    stream_id: int
    result: MergeResult

    def install(self, state: StreamState) -> bool:
        """Install the part; False if its sources have changed since."""
        return state.clauses.install_merge(self.result)


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find parts that the index wants to merge. Making the task freezes the recent clauses."""
    index = state.clauses.index
    if not index.merge_due(everything):
        return None
    return lambda: Merge(state.stream_id, index.merge_task(everything))
