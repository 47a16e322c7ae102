"""The Data SteM: the tuples of one stream within its retention, in stream order, chunk by chunk.

    push ─> ReorderBuffer ─release─> open chunk ─full─> closed chunks ─stored─> archived chunks ─expired─> gone
                                        │                              (if the stream has an archive)
                                        └─ pieces: what was just appended, at most `piece_rows`, never across a chunk

It stores and hands out; it knows nothing of queries or results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from psoup.columns import Batch
from psoup.config import EngineConfig
from psoup.data.archived import ArchivedChunk, Chunk
from psoup.data.chunk import ChunkView, OpenChunk
from psoup.data.piece import Piece
from psoup.data.reorder import ReorderBuffer
from psoup.data.stored import Stored
from psoup.data.widening import widen_chunk
from psoup.invariants import ensure
from psoup.model import StreamSpec


class DataSteM:
    """Tuples of one stream. One writer; the views it hands out may be read by anyone."""

    def __init__(self, spec: StreamSpec, config: EngineConfig) -> None:
        self.spec = spec
        self._config = config
        self.pending = ReorderBuffer()
        self.archived: deque[ArchivedChunk] = deque()
        """Chunks on disk, all older than those in memory."""
        self.leaving: deque[ArchivedChunk] = deque()
        """How the oldest of the closed chunks are read once they have left the memory: those that are stored."""
        self.closed: deque[ChunkView] = deque()
        self.open = OpenChunk(spec.schema, 0, 0, config.chunk_rows)
        self.last_time: int | None = None
        """The greatest physical ID released."""
        self.first_time: int | None = None
        """The physical ID of the first tuple that was released."""
        self.dropped_time: int | None = None
        """The greatest physical ID of a dropped chunk."""
        self.closed_bytes = 0
        """Bytes charged for the closed chunks."""
        self.archived_bytes = 0
        """Bytes on disk of the archived chunks."""

    @property
    def next_id(self) -> int:
        """The tuple ID that the next released tuple gets."""
        return self.open.first_id + self.open.length

    @property
    def nbytes(self) -> int:
        """Bytes charged for all tuples, the reorder buffer's too. O(1)."""
        return self.closed_bytes + self.open.nbytes + self.pending.nbytes

    def release(self, watermark: int | None) -> Batch | None:
        """Tuples that the watermark has passed, in stream order; they are not appended yet."""
        return None if watermark is None else self.pending.release(watermark)

    def append(self, batch: Batch) -> tuple[Piece, Batch | None]:
        """Append what fits one piece of the open chunk; returns that piece and the rest of the batch, if any.

        The caller evaluates the piece, closes the chunk if it is `full`, and goes on with the rest.
        """
        taken = min(self.open.room, self._config.piece_rows, len(batch))
        part = batch.slice(0, taken)
        start = self.open.length
        self.open.append(part)
        self.last_time = int(part.times[-1])
        if self.first_time is None:
            self.first_time = int(part.times[0])
        view = self.open.view()
        columns = tuple(column.slice(start, start + taken) for column in view.columns)
        piece = Piece(columns, view.ids_of(start, start + taken), view.times[start:], start)
        return piece, batch.slice(taken, len(batch)) if taken < len(batch) else None

    @property
    def full(self) -> bool:
        """Whether the open chunk must be closed before anything else is appended."""
        return self.open.room == 0 or self.open.text_bytes >= self._config.chunk_text_bytes

    def close(self) -> ChunkView:
        """Close the open chunk and begin the next; returns the closed one."""
        view = self.open.close()
        self.closed.append(view)
        self.closed_bytes += view.nbytes
        self.open = OpenChunk(self.spec.schema, view.number + 1, view.end_id, self._config.chunk_rows)
        return view

    def alter(self, spec: StreamSpec) -> None:
        """`spec` has more columns at the end; tuples have NULL in them. The open chunk must be empty. O(chunks)."""
        ensure(not self.open.length, self, "a chunk would have two schemas", length=self.open.length)
        self.spec = spec
        self.pending.widen(spec.schema)
        self.closed = deque(widen_chunk(chunk, spec) for chunk in self.closed)
        self.archived = deque(widen_chunk(chunk, spec) for chunk in self.archived)
        self.leaving = deque(widen_chunk(chunk, spec) for chunk in self.leaving)
        self.open = OpenChunk(spec.schema, self.open.number, self.open.first_id, self._config.chunk_rows)

    def load(self, stored: Stored) -> None:
        """Take back what a store has of the stream, before anything else is released."""
        self.first_time, self.dropped_time = stored.first_time, stored.dropped_time
        hot = stored.chunks[0].number if stored.chunks else 2**62
        for entry in stored.archive:
            if entry.number < hot:
                self._archive(entry)
                self._follow(entry)
        for chunk in stored.chunks:
            batch = chunk.batch
            view = ChunkView(chunk.number, chunk.first_id, batch.times, batch.columns, batch.nbytes)
            self.closed.append(view)
            self.closed_bytes += view.nbytes
            self._follow(view)

    def attach(self, chunks: Sequence[ArchivedChunk]) -> None:
        """Chunks on disk, oldest first, come before all others."""
        self.archived.extendleft(reversed(chunks))
        self.archived_bytes += sum(chunk.source.nbytes for chunk in chunks)
        self.first_time = chunks[0].first_time
        if self.last_time is None:
            self.last_time = chunks[-1].last_time

    def follow(self, chunks: Sequence[ArchivedChunk]) -> None:
        """Chunks on disk, oldest first, come after all others, none of which is in memory."""
        empty = not self.closed and not self.open.length
        ensure(empty, self, "chunks on disk would come after tuples in memory", chunk=chunks[0].number)
        for chunk in chunks:
            self._archive(chunk)
            self._follow(chunk)
        if self.first_time is None:
            self.first_time = chunks[0].first_time

    def _follow(self, chunk: Chunk) -> None:
        self.last_time = chunk.last_time
        self.open = OpenChunk(self.spec.schema, chunk.number + 1, chunk.end_id, self._config.chunk_rows)

    def expired(self, now: int | None) -> int:
        """How many of the oldest chunks, without the open one, lie wholly before the retention edge at `now`."""
        return self._before_edge(chain(self.archived, self.closed), now, 0)

    def cold(self, now: int | None) -> int:
        """How many of the closed chunks lie wholly in the archive's part of the retention at `now`."""
        archive = self.spec.retention.archive
        return self._before_edge(self.closed, now, archive) if archive else 0

    def _before_edge(self, chunks: Iterable[Chunk], now: int | None, archive: int) -> int:
        rows = self.spec.retention.rows
        least = None if rows is None else self.next_id - rows + archive
        count = 0
        for chunk in chunks:
            by_rows = least is not None and chunk.end_id <= least
            if not (by_rows or self._outlived(chunk.last_time, now, archive)):
                break
            count += 1
        return count

    def open_expired(self, now: int | None) -> bool:
        """Whether the open chunk has tuples and all lie before the retention edge at `now`."""
        return self.open.length > 0 and self.last_time is not None and self._outlived(self.last_time, now, 0)

    def _outlived(self, time: int, now: int | None, archive: int) -> bool:
        duration = self.spec.retention.duration
        return duration is not None and now is not None and time < now - duration + archive

    def drop_oldest(self) -> Chunk:
        """Forget the oldest chunk but the open one."""
        chunk: Chunk
        if self.archived:
            chunk = entry = self.archived.popleft()
            self.archived_bytes -= entry.source.nbytes
        else:
            chunk = self.closed.popleft()
            self.closed_bytes -= chunk.nbytes
        self.dropped_time = chunk.last_time
        return chunk

    def archive_oldest(self, entry: ArchivedChunk) -> int:
        """Let the oldest closed chunk leave the memory: `entry` reads it from now on. Returns the bytes given back."""
        chunk = self.closed.popleft()
        ensure(chunk.number == entry.number, self, "a chunk leaves as another", chunk=chunk.number, entry=entry.number)
        self.closed_bytes -= chunk.nbytes
        self._archive(entry)
        return chunk.nbytes

    def _archive(self, entry: ArchivedChunk) -> None:
        self.archived.append(entry)
        self.archived_bytes += entry.source.nbytes

    def check(self) -> None:
        """Chunks are consecutive in number, ID and time; the open one follows the last."""
        self.pending.check()
        charged = sum(chunk.nbytes for chunk in self.closed)
        ensure(self.closed_bytes == charged, self, "closed chunks are charged otherwise", held=charged)
        on_disk = sum(entry.source.nbytes for entry in self.archived)
        ensure(self.archived_bytes == on_disk, self, "archived chunks are charged otherwise", held=on_disk)
        previous: Chunk | None = None
        chunks: list[Chunk] = [*self.archived, *self.closed, self.open.view()]
        for chunk in chunks:
            if previous is not None:
                number, before = chunk.number, previous.number
                ensure(number == before + 1, self, "chunks are not consecutive", chunk=number, before=before)
                ids = (previous.end_id, chunk.first_id)
                ensure(ids[0] == ids[1], self, "tuple IDs are not consecutive", chunk=number, ids=ids)
                later = not len(chunk) or chunk.first_time >= previous.last_time
                ensure(later, self, "a chunk goes back in time", chunk=number)
            previous = chunk
            if not chunk.in_memory:
                continue
            ordered = (chunk.times[:-1] <= chunk.times[1:]).all()
            ensure(ordered, self, "a chunk is out of time order", chunk=chunk.number)
            lengths = {len(column) for column in chunk.columns}
            ensure(lengths <= {len(chunk)}, self, "a column has another length", chunk=chunk.number, lengths=lengths)
