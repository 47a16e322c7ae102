"""The Data SteM of one stream: released tuples become the open chunk, in stream order, and closed chunks leave it.

    released ─> open chunk ─full─> close ─> closed chunk, which goes to the shelf (`psoup.engine.stream.shelf`)
                   └─ pieces: what was just appended, at most `piece_rows`, never across a chunk

It gives tuple IDs and chunk numbers, and hands out; it knows nothing of queries or results. What is not released yet
waits in `psoup.engine.stream.feed`.
"""

from __future__ import annotations

from psoup.columns import Batch
from psoup.config import EngineConfig
from psoup.data.archived import Chunk
from psoup.data.chunk import ChunkView, OpenChunk
from psoup.data.piece import Piece
from psoup.invariants import ensure
from psoup.model import StreamSpec


class DataSteM:
    """The open chunk of one stream. One writer; the views it hands out may be read by anyone."""

    def __init__(self, spec: StreamSpec, config: EngineConfig) -> None:
        self.spec = spec
        self._config = config
        self.open = OpenChunk(spec.schema, 0, 0, config.chunk_rows)
        self.last_time: int | None = None
        """The greatest physical ID released."""
        self.first_time: int | None = None
        """The physical ID of the first tuple that was released."""

    @property
    def next_id(self) -> int:
        """The tuple ID that the next released tuple gets."""
        return self.open.first_id + self.open.length

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
        self._begin(view.number + 1, view.end_id)
        return view

    def alter(self, spec: StreamSpec) -> None:
        """`spec` may have more columns at the end: then the open chunk must be empty, as a chunk has one schema."""
        wider = spec.schema != self.spec.schema
        ensure(not (wider and self.open.length), self, "a chunk would have two schemas", length=self.open.length)
        self.spec = spec
        if wider:
            self._begin(self.open.number, self.open.first_id)

    def load(self, first_time: int | None, newest: Chunk | None) -> None:
        """Take up a stream where a store left it: its first tuple was of `first_time`, its last chunk is `newest`."""
        self.first_time = first_time
        if newest is not None:
            self.follow(newest, newest)

    def follow(self, oldest: Chunk, newest: Chunk) -> None:
        """The open chunk, still empty, comes after the tuples of `oldest` to `newest`, which have joined the stream."""
        ensure(not self.open.length, self, "tuples that have an ID would get another", length=self.open.length)
        self.last_time = newest.last_time
        if self.first_time is None:
            self.first_time = oldest.first_time
        self._begin(newest.number + 1, newest.end_id)

    def precede(self, oldest: Chunk, newest: Chunk) -> None:
        """The tuples of `oldest` to `newest` have joined the stream, before all others."""
        self.first_time = oldest.first_time
        if self.last_time is None:
            self.last_time = newest.last_time

    def _begin(self, number: int, first_id: int) -> None:
        self.open = OpenChunk(self.spec.schema, number, first_id, self._config.chunk_rows)

    def check(self) -> None:
        """The open chunk is in time order, as far as the last tuple released."""
        view = self.open.view()
        number, first, last = view.number, self.first_time, self.last_time
        ensure((view.times[:-1] <= view.times[1:]).all(), self, "the open chunk is out of time order", chunk=number)
        lengths = {len(column) for column in view.columns}
        ensure(lengths <= {len(view)}, self, "a column has another length", chunk=number, length=len(view), of=lengths)
        if len(view):
            ensure(view.last_time == last, self, "the last tuple has another time", chunk=view.last_time, told=last)
        if last is not None:
            ensure(
                first is not None and first <= last, self, "the first tuple is not before the last", times=(first, last)
            )
