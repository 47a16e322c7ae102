"""Storing as maintenance: a closed chunk is written to the store, through a port; then the log may drop its tuples.

Results are not stored: they follow from the tuples and the queries. A chunk that retention has passed before is not
written either; it only leaves the log, and then memory. After a full disk, storing is tried again at the stream's next
event. Until then the chunk stays in memory and in the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.chunk import ChunkView, Keep
from psoup.data.schema_growth import widen_chunk
from psoup.engine.maintenance.task import Begin, Installable
from psoup.engine.stream.state import StreamState
from psoup.errors import ResourceExhausted
from psoup.model import StreamSpec
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class StoreTask:
    """A chunk to store; `oldest`: the number of the oldest chunk that the stream needs, which may be a later one."""

    stream_id: int
    spec: StreamSpec
    chunk: ChunkView
    oldest: int
    keep: Keep
    name: str = "store"

    def compute(self, run: Runner = serial) -> Installable:
        """Write the chunk, and wait for the disk."""
        try:
            entry = self.keep(self.stream_id, self.spec, self.chunk, self.oldest)
        except ResourceExhausted:
            return NoRoom(self.stream_id)
        if self.chunk.number < self.oldest:
            return ChunkPassed(self.stream_id, self.chunk.number)
        return ChunkStored(self.stream_id, self.chunk.number, entry)


@dataclass(frozen=True, slots=True)
class ChunkStored:
    """A chunk that is on disk; `entry` reads it, if its stream has an archive."""

    stream_id: int
    number: int
    entry: ArchivedChunk | None

    def install(self, state: StreamState) -> bool:
        """Let the chunk leave memory from now on; no answer changes."""
        entry = self.entry if self.entry is None else widen_chunk(self.entry, state.data.spec)
        state.shelf.stored(self.number, entry)
        return False


@dataclass(frozen=True, slots=True)
class ChunkPassed:
    """A chunk whose tuples the log has dropped, as the stream does not need them."""

    stream_id: int
    number: int

    def install(self, state: StreamState) -> bool:
        """Let the chunk leave memory too: it would not exist after a start."""
        state.shelf.passed(self.number)
        return False


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A chunk that could not be stored, as the disk is full."""

    stream_id: int

    def install(self, state: StreamState) -> bool:
        """Store nothing until the stream's next event."""
        state.shelf.disk_is_full()
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find the oldest closed chunk to store, or to pass, if the engine has a store. O(chunks that wait)."""
    shelf, spec = state.shelf, state.data.spec
    chunk = shelf.to_store(spec)
    if chunk is None or state.keep is None:
        return None
    overdue = chunk.number < shelf.first_number + shelf.overdue
    oldest = chunk.number + 1 if overdue else shelf.first_number
    return partial(StoreTask, state.stream_id, spec, chunk, oldest, state.keep)
