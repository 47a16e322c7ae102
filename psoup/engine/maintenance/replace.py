"""New results for a chunk, as sealing, covering and compacting make them; dropped if the chunk has others by then."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.engine.stream.state import StreamState
from psoup.results.chunk_results import ChunkResults


@dataclass(frozen=True, slots=True)
class Replace:
    """New results for one chunk, to be put in the place of those that the task saw."""

    stream_id: int
    number: int
    seen: ChunkResults
    results: ChunkResults

    def install(self, state: StreamState) -> bool:
        """Put them there; False if the chunk has other results by now."""
        return state.shelf.replace(self.number, self.seen, self.results)
