"""Thinning as maintenance: some rows of a closed chunk leave, and the chunk keeps its place in the stream.

    rows that stay ──> a copy with these rows ─> its file, through a port ─> the writer puts it in place of the chunk
                                                                            └─ its results, folds and pairs go

A rule of the stream decides which rows stay. The chunk must be sealed, and stored if the engine has a store. Results
are covered again by maintenance, over the rows that are left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from psoup.data.archived_chunk import ArchivedChunk, Chunk
from psoup.data.chunk import ChunkView, Thin
from psoup.data.thinning import thinned
from psoup.engine.stream.state import StreamState
from psoup.model import StreamSpec
from psoup.values.columns import Array
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class ThinTask:
    """A chunk to thin. `rows`: the positions of the rows that stay, int64, ascending. `thin`: None without a store."""

    stream_id: int
    spec: StreamSpec
    chunk: Chunk
    rows: Array
    thin: Thin | None
    name: str = "thin"

    def compute(self, run: Runner = serial) -> ThinnedChunk:
        """Copy the rows that stay, and replace the file of the chunk. Raises as the port, and as reads of the disk."""
        data = thinned(self.chunk, self.rows)
        file = None if self.thin is None else self.thin(self.stream_id, self.spec, data)
        return ThinnedChunk(self.stream_id, self.chunk, self.rows, data, file)


@dataclass(frozen=True, slots=True)
class ThinnedChunk:
    """The result: a copy of the chunk `seen` with fewer rows. `file` reads its file; None if it stays in memory."""

    stream_id: int
    seen: Chunk
    rows: Array
    data: ChunkView
    file: ArchivedChunk | None

    def install(self, state: StreamState) -> bool:
        """Put the copy in place of the chunk. Returns False if the chunk was dropped or thinned meanwhile."""
        data, versions = self.data, self.seen.versions
        if versions is not None:  # the writer may have changed them since the task was computed
            data = replace(data, versions=versions.take(self.rows))
        return state.thin(self.seen, data, self.file)


def begin(state: StreamState, number: int, rows: Array, thin: Thin | None) -> ThinTask | None:
    """The task that thins a closed chunk to `rows`. None if the chunk is gone, not sealed, or not stored yet."""
    chunk = state.shelf.to_thin(number)
    return None if chunk is None else ThinTask(state.stream_id, state.data.spec, chunk, rows, thin)
