"""Merging as maintenance: a task merges the index of recent clauses into the main index, if the index asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.clauses.index.combine import MergeResult, MergeTask
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class Merge:
    """The task: parts of a stream's predicate index to merge into one."""

    stream_id: int
    task: MergeTask
    name: str = "merge"

    def compute(self, run: Runner = serial) -> Merged:
        """Merge the parts. O(their clauses)."""
        return Merged(self.stream_id, self.task.compute())


@dataclass(frozen=True, slots=True)
class Merged:
    """The result: the part that replaces the merged parts."""

    stream_id: int
    result: MergeResult

    def install(self, state: StreamState) -> bool:
        """Install the part. Returns False if one of the merged parts was replaced since."""
        return state.clauses.install_merge(self.result)


def due(state: StreamState, everything: bool) -> Begin | None:
    """Ask the index whether it has parts to merge. `Begin` freezes the recent clauses, as the task reads them."""
    index = state.clauses.index
    if not index.merge_due(everything):
        return None
    return lambda: Merge(state.stream_id, index.merge_task(everything))
