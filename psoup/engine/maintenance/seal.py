"""Sealing as maintenance: the open results of a full chunk become a pack, and its columns get codes for searches.

Until then the results keep their open form. That takes a bitmap of the whole chunk for each clause with many matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from psoup.data.chunk import ChunkView
from psoup.data.zones import narrow_all
from psoup.engine.maintenance.replace import Replace
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.published.snapshot import ChunkEntry
from psoup.results.pack import seal
from psoup.results.room import RowRoom
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class SealTask:
    """A chunk to seal. The memory of its bitmaps returns to `room`."""

    stream_id: int
    entry: ChunkEntry
    list_limit: int
    most_packs: int
    room: RowRoom
    name: str = "seal"

    def compute(self, run: Runner = serial) -> Replace:
        """Make the codes of the columns, and pack the results. O(tuples + results)."""
        results = self.entry.results
        assert results.open is not None and isinstance(self.entry.data, ChunkView)
        narrow_all(self.entry.data)
        pack = seal(results.open, results.open.sqc_of_slot, self.list_limit, self.room)
        self.room.make_ready(results.open.count)
        return Replace(self.stream_id, self.entry.data.number, results, results.sealed(pack, self.most_packs))


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find the oldest unsealed chunk. The unsealed chunks are the newest ones, as chunks are sealed in order."""
    oldest: ChunkEntry | None = None
    for entry in reversed(state.shelf.entries):
        if entry.results.open is None:
            break
        oldest = entry
    if oldest is None:
        return None
    config = state.config
    return partial(SealTask, state.stream_id, oldest, config.list_limit, config.shape.most_packs, state.open.room)
