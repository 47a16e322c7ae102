"""New results for a chunk, made by sealing, covering or compacting; dropped if the chunk has changed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.engine.stream.state import StreamState
from psoup.results.chunk_results import ChunkResults


@dataclass(frozen=True, slots=True)
class Replace:
    """New results for one chunk, which replace those that the task saw."""

    stream_id: int
    number: int
    seen: ChunkResults
    results: ChunkResults

    def install(self, state: StreamState) -> bool:
        """Install the results; False if the chunk has others now."""
        return state.shelf.replace(self.number, self.seen, self.results)
