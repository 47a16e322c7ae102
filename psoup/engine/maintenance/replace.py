"""New results for a chunk, as sealing, covering and compacting make them. They fit while it has those they saw."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.engine.stream.state import StreamState
from psoup.results.chunk_results import ChunkResults


@dataclass(frozen=True, slots=True)
class Replace:
    """New results for one chunk, if they are still what the task saw."""

    stream_id: int
    number: int
    seen: ChunkResults
    results: ChunkResults

    def install(self, state: StreamState) -> bool:
        """Put them there; False if they are not."""
        return state.shelf.replace(self.number, self.seen, self.results)
