"""The Data SteM of one stream: tuples wait until the watermark has passed them, then become the open chunk.

    push ──> ReorderBuffer: [run sorted by time] [run] [run]  ──release(watermark)──> tuples in stream order
    released ─> open chunk ─full─> close ─> closed chunk, which goes to the shelf (`psoup.engine.stream.shelf`)
                   └─ pieces: the newest tuples, at most `EngineConfig.piece_rows`, never across a chunk

    chunk   |...........................................|
    pieces  |---------|-----|--                             start: where in the chunk the piece begins

Each push is one run. A release takes from every run the tuples whose times are at most the watermark. A stable sort
then merges them, so tuples with equal times keep their order of arrival. If there are many runs, the buffer merges the
latest run with earlier runs that are not much larger. So each tuple is copied only a few times, however many wait. The
SteM assigns tuple IDs and chunk numbers, and knows no queries or results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from psoup.config import EngineConfig, Shape
from psoup.data.archived_chunk import Chunk
from psoup.data.arrivals import Numbers, joined, sorted_by
from psoup.data.chunk import ChunkView, OpenChunk
from psoup.data.schema_growth import widen_batch
from psoup.data.stored_chunk import Passed
from psoup.invariants import corrupt, ensure
from psoup.kernels.rows.radix_sort import order_keys
from psoup.model import Kind, Schema, StreamSpec
from psoup.values.columns import Array, Batch, Column, concat_batches


@dataclass(frozen=True, slots=True)
class Piece:
    """`n` consecutive tuples of a chunk.

    `columns`: in schema order. `ids`: tuple IDs, int64[n]. `times`: physical IDs, int64[n]. `start`: the offset of
    the first tuple in its chunk.
    """

    columns: Sequence[Column]
    ids: Array
    times: Array
    start: int

    def __len__(self) -> int:
        return len(self.ids)

    def slice(self, start: int, stop: int) -> Piece:
        """Tuples `start` to `stop`; memory is shared."""
        columns = tuple(column.slice(start, stop) for column in self.columns)
        return Piece(columns, self.ids[start:stop], self.times[start:stop], self.start + start)


class Run(NamedTuple):
    """Tuples in stream order, with the arrival number of each tuple (`psoup.data.arrivals`)."""

    batch: Batch
    numbers: Numbers


class ReorderBuffer:
    """The tuples that wait for the watermark: runs, each in stream order, with the oldest push first.

    A tuple is copied O(log n) times while n tuples wait.
    """

    def __init__(self, shape: Shape = Shape()) -> None:
        self._shape = shape
        self._runs: list[Run] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, batch: Batch, first: int = 0, own_times: Array | None = None) -> None:
        """Buffer the batch of one push. `first`: the arrival number of its first tuple.

        `own_times`: int64[n], if the physical ID of some tuples is greater than their own time. They are sorted by it.
        """
        if not len(batch):
            return
        self._count += len(batch)
        self._runs.append(_sorted(Run(batch, range(first, first + len(batch))), own_times))
        if len(self._runs) > self._shape.waiting_runs:
            self._join_latest()

    def release(self, watermark: int) -> Run | None:
        """Remove and return all tuples with a time of at most `watermark`, in stream order. None if there are none."""
        ready, rest = [], []
        for run in self._runs:
            length = len(run.batch)
            split = int(np.searchsorted(run.batch.times, watermark, side="right"))
            if split == length:
                ready.append(run)
            elif not split:
                rest.append(run)
            else:
                ready.append(_part(run, 0, split))
                rest.append(_part(run, split, length))
        self._runs = rest
        if not ready:
            return None
        released = _sorted(_joined(ready))
        self._count -= len(released.batch)
        return released

    def widen(self, schema: Schema) -> None:
        """Add the new columns of `schema` to the buffered tuples, with NULL in every row."""
        self._runs = [Run(widen_batch(run.batch, schema), run.numbers) for run in self._runs]

    def _join_latest(self) -> None:
        first = len(self._runs) - 1
        total = len(self._runs[first].batch)
        while first and len(self._runs[first - 1].batch) <= self._shape.join_ratio * total:
            first -= 1
            total += len(self._runs[first].batch)
        if len(self._runs) - first > 1:
            self._runs[first:] = [_sorted(_joined(self._runs[first:]))]

    @property
    def nbytes(self) -> int:
        """Bytes charged for the buffered tuples."""
        return sum(run.batch.nbytes for run in self._runs)

    def times(self) -> tuple[Array, ...]:
        """The times of each run, ascending; the arrays never change."""
        return tuple(run.batch.times for run in self._runs)

    def batches(self) -> tuple[Batch, ...]:
        """The tuples of each run."""
        return tuple(run.batch for run in self._runs)

    def numbers(self) -> tuple[Numbers, ...]:
        """The arrival numbers of each run; the arrays never change."""
        return tuple(run.numbers for run in self._runs)

    @property
    def first_time(self) -> int | None:
        """The least time buffered, or None."""
        return min((int(run.batch.times[0]) for run in self._runs), default=None)

    def check(self) -> None:
        """Check that every run is in time order and not empty, and that the count is right."""
        for batch, numbers in self._runs:
            ensure(len(batch) > 0, self, "an empty run stays in the buffer")
            ensure((batch.times[:-1] <= batch.times[1:]).all(), self, "a run is out of order", length=len(batch))
            ensure(len(numbers) == len(batch), self, "a run has other numbers than tuples", numbers=len(numbers))
        self.check_count()

    def check_count(self) -> None:
        """Check the number of tuples. O(runs)."""
        if self._count != sum(map(len, self.times())):
            raise corrupt(self, "tuples are miscounted", counted=self._count, runs=[*map(len, self.times())])


def _part(run: Run, start: int, stop: int) -> Run:
    return Run(run.batch.slice(start, stop), run.numbers[start:stop])


def _joined(runs: Sequence[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]
    return Run(concat_batches([run.batch for run in runs]), joined([run.numbers for run in runs]))


def _sorted(run: Run, own_times: Array | None = None) -> Run:
    times = run.batch.times if own_times is None else own_times
    if bool(np.all(times[:-1] <= times[1:])):
        return run
    order, spare = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
    order_keys(times, order, spare)
    return Run(run.batch.take(order), sorted_by(run.numbers, order))


class DataSteM:
    """The open chunk of one stream, for the writer. Any thread may read the views of the chunk."""

    def __init__(self, spec: StreamSpec, config: EngineConfig) -> None:
        self.spec = spec
        self._config = config
        self._begin(0, 0)
        self.last_time: int | None = None
        """The greatest physical ID of a released tuple."""
        self.first_time: int | None = None
        """The physical ID of the first released tuple."""

    @property
    def next_id(self) -> int:
        """The tuple ID of the next released tuple."""
        return self.open.first_id + self.open.length

    def append(self, batch: Batch) -> tuple[Piece, Batch | None]:
        """Append as many tuples as the open chunk has room for. Returns them, and the rest of the batch or None.

        The caller evaluates the tuples, closes the chunk if it is `full`, and appends the rest. One copy takes all
        tuples, although the caller evaluates them in pieces. Every long copy releases the interpreter lock, and then
        the thread must wait to get it back.
        """
        taken, start = self._room_for(batch), self.open.length
        part = batch.slice(0, taken)
        self.open.append(part)
        self.last_time = int(part.times[-1])
        if self.first_time is None:
            self.first_time = int(part.times[0])
        view = self.open.view()
        columns = tuple(column.slice(start, start + taken) for column in view.columns)
        piece = Piece(columns, view.ids_of(start, start + taken), view.times[start:], start)
        return piece, batch.slice(taken, len(batch)) if taken < len(batch) else None

    def _room_for(self, batch: Batch) -> int:
        """The number of tuples of the batch that go into the open chunk.

        The chunk has limits of its rows and of its bytes of texts. Texts are counted in steps of `piece_rows`, so they
        may exceed their limit by one step.
        """
        count, rows = min(self.open.room, len(batch)), self._config.piece_rows
        ends = [column.values for column in batch.columns if column.type.kind is Kind.TEXT] if count > rows else []
        left = self._config.chunk_text_bytes - self.open.text_bytes if ends else 0
        full = (
            end
            for end in range(rows, count, rows)
            if sum(int(offsets[end]) - int(offsets[0]) for offsets in ends) >= left
        )
        return next(full, count) if ends else count

    @property
    def full(self) -> bool:
        """Whether the open chunk must be closed before the next tuple."""
        return self.open.room == 0 or self.open.text_bytes >= self._config.chunk_text_bytes

    def close(self) -> ChunkView:
        """Close the open chunk and begin the next chunk. Returns the closed chunk."""
        view = self.open.close()
        self._begin(view.number + 1, view.end_id)
        return view

    def alter(self, spec: StreamSpec) -> None:
        """Apply `spec`. If it adds columns, the open chunk must be empty, as a chunk has one schema."""
        wider = spec.schema != self.spec.schema
        ensure(not (wider and self.open.length), self, "a chunk would have two schemas", length=self.open.length)
        self.spec = spec
        if wider:
            self._begin(self.open.number, self.open.first_id)

    def load(self, first_time: int | None, newest: Chunk | Passed | None) -> None:
        """Continue a stream from a store. `first_time`: the time of its first tuple. `newest`: its last chunk."""
        self.first_time = first_time
        if newest is not None:
            self.last_time = newest.last_time
            self._begin(newest.number + 1, newest.end_id)

    def follow(self, oldest: Chunk, newest: Chunk) -> None:
        """Record that the chunks `oldest` to `newest` have joined the stream at its end.

        The open chunk must be empty. It gets the next chunk number and the next tuple ID.
        """
        ensure(not self.open.length, self, "tuples that have an ID would get another", length=self.open.length)
        self.last_time = newest.last_time
        if self.first_time is None:
            self.first_time = oldest.first_time
        self._begin(newest.number + 1, newest.end_id)

    def precede(self, oldest: Chunk, newest: Chunk) -> None:
        """Record that the chunks `oldest` to `newest` have joined the stream before all its other tuples."""
        self.first_time = oldest.first_time
        if self.last_time is None:
            self.last_time = newest.last_time

    def _begin(self, number: int, first_id: int) -> None:
        rows, versioned = self._config.chunk_rows, self.spec.table is not None
        self.open = OpenChunk(self.spec.schema, number, first_id, rows, versioned=versioned)

    def check(self) -> None:
        """Check that the open chunk is in time order, and ends with the last released tuple."""
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
