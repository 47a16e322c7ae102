"""New results for a chunk, from sealing, covering or compacting. The writer drops them if the chunk has changed."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.engine.stream.state import StreamState
from psoup.results.chunk_results import ChunkResults


@dataclass(frozen=True, slots=True)
class Replace:
    """New results for one chunk, which replace the results `seen` that the task read."""

    stream_id: int
    number: int
    seen: ChunkResults
    results: ChunkResults

    def install(self, state: StreamState) -> bool:
        """Install the results. Returns False if the chunk was dropped, or has other results than `seen` now."""
        return state.shelf.replace(self.number, self.seen, self.results)
