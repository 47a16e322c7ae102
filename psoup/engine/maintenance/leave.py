"""Leaving as maintenance: a task writes the folds of chunks that left memory to disk, in the folder of the chunks.

A fold is a kept aggregate of a span of chunks (`psoup.aggregates`). The results of these chunks are dropped. Without
this task the next start would lose their folds, too. Then answers would be slower, but the same.
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
    """The chunks of a stream on disk. Chunks from number `since` on left memory after the last such task."""

    stream_id: int
    shelf: ShelfOnDisk
    folds: FoldRoom
    since: int
    turn: int
    """The number of thinnings of the stream: folds of another number may have rows that have left."""
    name: str = "leave"

    def compute(self, run: Runner = serial) -> Left:
        """Write the folds that are in memory. O(clauses with folds)."""
        folds_of_stream = [
            folds for *_, folds in self.folds.kept() if (folds.stream, folds.turn) == (self.stream_id, self.turn)
        ]
        self.shelf.shelve(folds_of_stream, self.folds.fan, self.since)
        return Left(self.stream_id, self.shelf.disk.stop)


@dataclass(frozen=True, slots=True)
class Left:
    """The result: the folds of all chunks with numbers below `stop` are on disk."""

    stream_id: int
    stop: int

    def install(self, state: StreamState) -> bool:
        """Record that these folds are on disk. Returns False, as readers see no change."""
        state.shelf.folds_left(self.stop)
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find chunks that left memory since the last task of this kind. O(1)."""
    shelf, since = state.shelf, state.shelf.folds_since
    if since is None or state.folds.fan < 2:
        return None
    disk = shelf_of(state.stream_id, shelf.entries, shelf.archived)
    return None if disk is None else lambda: LeaveTask(state.stream_id, disk, state.folds, since, shelf.turns[0])
