"""Leaving as maintenance: what was folded of chunks that have left the memory goes to the disk, beside them.

Results of such chunks are gone, and their folds would be with the next start. Nothing but time depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.aggregates.folds import FoldRoom
from psoup.aggregates.shelved import ShelfOnDisk, shelf_of
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class LeaveTask:
    """The chunks on disk of a stream, of which those from the number `since` on have left the memory of late."""

    stream_id: int
    shelf: ShelfOnDisk
    folds: FoldRoom
    since: int
    name: str = "leave"

    def compute(self, run: Runner = serial) -> Left:
        """Write the folds that are kept; O(clauses that were asked)."""
        kept = [folds for *_, folds in self.folds.kept() if folds.stream == self.stream_id]
        self.shelf.shelve(kept, self.folds.fan, self.since)
        return Left(self.stream_id, self.shelf.disk.stop)


@dataclass(frozen=True, slots=True)
class Left:
    """Chunks with a number below `stop`, whose folds are on disk."""

    stream_id: int
    stop: int

    def install(self, state: StreamState) -> bool:
        """Note it; readers see nothing of it."""
        state.shelf.folds_left(self.stop)
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find chunks that have left the memory since the last look. O(1)."""
    shelf, since = state.shelf, state.shelf.folds_since
    if since is None or state.folds.fan < 2:
        return None
    disk = shelf_of(state.stream_id, shelf.entries, shelf.archived)
    return None if disk is None else lambda: LeaveTask(state.stream_id, disk, state.folds, since)
