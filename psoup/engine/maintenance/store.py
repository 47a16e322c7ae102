"""Storing as maintenance: a task writes a closed chunk to the store, through a port. Then the log may drop its tuples.

Results are not stored, as they follow from the tuples and the queries. If a chunk is past its retention before it is
stored, it is *passed*: it leaves the log and then memory, without a file. If the disk is full, the chunk stays in
memory and in the log. Then the stream's next event makes the rule try again.
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
    """A chunk to store. `oldest`: the number of the oldest chunk that the stream needs.

    If `oldest` is later than the chunk, the chunk is passed, not stored.
    """

    stream_id: int
    spec: StreamSpec
    chunk: ChunkView
    oldest: int
    keep: Keep
    name: str = "store"

    def compute(self, run: Runner = serial) -> Installable:
        """Write the chunk, or pass it, and wait for the disk."""
        try:
            entry = self.keep(self.stream_id, self.spec, self.chunk, self.oldest)
        except ResourceExhausted:
            return NoRoom(self.stream_id)
        if self.chunk.number < self.oldest:
            return ChunkPassed(self.stream_id, self.chunk.number)
        return ChunkStored(self.stream_id, self.chunk.number, entry)


@dataclass(frozen=True, slots=True)
class ChunkStored:
    """The result: a chunk is on disk. `entry` reads its file. It is None if the stream has no archive."""

    stream_id: int
    number: int
    entry: ArchivedChunk | None

    def install(self, state: StreamState) -> bool:
        """Record the file, so that the chunk may leave memory from now on. No answer changes."""
        entry = self.entry if self.entry is None else widen_chunk(self.entry, state.data.spec)
        state.shelf.stored(self.number, entry)
        return False


@dataclass(frozen=True, slots=True)
class ChunkPassed:
    """The result for a passed chunk: the log has dropped its tuples, as the stream does not need them."""

    stream_id: int
    number: int

    def install(self, state: StreamState) -> bool:
        """Let the chunk leave memory, too, as a start would no longer find it."""
        state.shelf.passed(self.number)
        return False


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The result if the disk is full: the chunk is not stored."""

    stream_id: int

    def install(self, state: StreamState) -> bool:
        """Store nothing until the stream's next event."""
        state.shelf.disk_is_full()
        return False


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find the oldest closed chunk to store or to pass, if the engine has a store. O(unstored chunks)."""
    shelf, spec = state.shelf, state.data.spec
    chunk = shelf.to_store(spec)
    if chunk is None or state.keep is None:
        return None
    overdue = chunk.number < shelf.first_number + shelf.overdue
    oldest = chunk.number + 1 if overdue else shelf.first_number
    return partial(StoreTask, state.stream_id, spec, chunk, oldest, state.keep)
