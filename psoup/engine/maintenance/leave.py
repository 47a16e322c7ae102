"""Leaving as maintenance: folds of chunks that left memory are written to disk, beside the chunks.

Results of such chunks are dropped, and their folds would be lost at the next start. Only the time of answers depends on
it.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.aggregates.folds import FoldRoom
from psoup.aggregates.stored_folds import ShelfOnDisk, shelf_of
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class LeaveTask:
    """The chunks on disk of a stream; chunks from the number `since` on have left memory lately."""

    stream_id: int
    shelf: ShelfOnDisk
    folds: FoldRoom
    since: int
    name: str = "leave"

    def compute(self, run: Runner = serial) -> Left:
        """Write the folds in memory; O(clauses that were invoked)."""
        folds_of_stream = [folds for *_, folds in self.folds.kept() if folds.stream == self.stream_id]
        self.shelf.shelve(folds_of_stream, self.folds.fan, self.since)
        return Left(self.stream_id, self.shelf.disk.stop)


@dataclass(frozen=True, slots=True)
class Left:
    """The result: folds of chunks with a number below `stop` are on disk."""

    stream_id: int
    stop: int

    def install(self, state: StreamState) -> bool:
        """Record it; readers see no change."""
        state.shelf.folds_left(self.stop)
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find chunks that left memory since the last check. O(1)."""
    shelf, since = state.shelf, state.shelf.folds_since
    if since is None or state.folds.fan < 2:
        return None
    disk = shelf_of(state.stream_id, shelf.entries, shelf.archived)
    return None if disk is None else lambda: LeaveTask(state.stream_id, disk, state.folds, since)
