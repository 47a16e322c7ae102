"""The tail of a directory whose copy was taken over: its events after the last one that counts, and their rows.

    event             1 … 40 │ 41 … 57          `end`: 40, the last event that the copy has
    log               ░░░░░░ │ ▓▓ ░░ ▓▓▓        ▓ still has its tuples, so the rows are known by the event
    stored chunks     ███████│█                 the log has forgotten these tuples

The rows in chunks are told by their places in the stream. The image is the copy as of `end`, and its last stored chunk
ends at a tuple ID. The directory may have more rows of one time from this ID on than the log of the image. The first
ones belong to the copy. The tail has the rest, because tuples of one time are in the order of their events.

After a gap (expired chunks) and where a chunk was thinned, this count is not exact. There all rows count as rows of the
tail: some of them may be in the copy, too, and none is left out. Rows that the retention had removed are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from psoup.errors import FailedPrecondition
from psoup.events.events import Pushed, StreamAltered, StreamCreated
from psoup.model import StreamSpec
from psoup.values.columns import Array, Batch
from psoup_storage.durable.chunks.folder import ChunkRow
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.replica.old_directory import OldDirectory
from psoup_storage.replica.tail_words import lines_of


class TailRows(NamedTuple):
    """Rows of the tail of one stream. `sequence`: their event; None if the log has forgotten it.

    `given`: the positions of the columns that the rows give, if some of them are patches of a table; else empty.
    """

    stream: int
    batch: Batch
    sequence: int | None = None
    given: tuple[int, ...] = ()


class _Pending(NamedTuple):
    """The tuples of a stream that an image has in no chunk: from the ID `end_id` on, `counts` of each time."""

    end_id: int = 0
    times: Array = np.zeros(0, np.int64)
    counts: Array = np.zeros(0, np.int64)

    def of(self, times: Array) -> Array:
        """The number of tuples of each time."""
        if not len(self.times):
            return np.zeros(len(times), np.int64)
        places = np.minimum(np.searchsorted(self.times, times), len(self.times) - 1)
        return np.where(self.times[places] == times, self.counts[places], 0)


class Tail:
    """The events of `old` after the event `end`. `image`: the copy as of `end`; its chunk files are not needed.

    Raises FailedPrecondition, reason COPY_OTHER_HISTORY, if an earlier push is another one in the image: then both have
    parted before `end`. O(log).
    """

    def __init__(self, old: OldDirectory, image: OldDirectory, end: int) -> None:
        self._old, self._end = old, end
        self.specs: dict[int, StreamSpec] = {}
        """The last definition of each stream by its ID, also of dropped ones."""
        self.tenants: dict[int, str] = {}
        """The tenant of each stream."""
        self._pending, pushes = _read(image)
        self._attached = {(row.stream, row.number, row.first_id) for row in image.chunks if row.attached}
        self.events = 0
        """The events of the tail that the log still has, once `read` has ended."""
        self._define(pushes)

    def _define(self, pushes: dict[int, int]) -> None:
        decoder = self._old.decoder()
        for row in self._old.rows(lambda row: row.kind in ("stream", "alter", "push"), whole=False):
            if row.kind == "push":
                if row.sequence <= self._end and pushes.get(row.sequence, row.checksum) != row.checksum:
                    raise FailedPrecondition(
                        f"event {row.sequence:,} of {self._old.path} is another one in the copy, so both parted before"
                        f" event {self._end:,}: two services wrote under one incarnation. Keep the directory, and look"
                        " at it with psoup serve, without --replicate",
                        reason="COPY_OTHER_HISTORY",
                    )
                continue
            event = decoder.decode(row)
            if isinstance(event, StreamCreated | StreamAltered):
                self.specs[event.stream_id] = event.spec
                self.tenants[event.stream_id] = event.tenant

    def read(self, tell: Callable[[str], None]) -> Iterator[TailRows]:
        """The rows of the tail. `tell`: called with each line about an event that the log still has. O(log + rows)."""
        dropped = {row.stream for row in self._old.rows(lambda row: row.kind == "drop", whole=False)}
        for stream, rows in groupby(self._old.chunks, lambda row: row.stream):
            if stream not in dropped:
                yield from self._of_chunks(self.specs[stream], list(rows))
        decoder = self._old.decoder()
        for row in self._old.rows(self._needed):
            event = decoder.decode(row)
            if row.sequence <= self._end:
                continue
            self.events += 1
            for line in lines_of(event, self.specs):
                tell(line)
            if isinstance(event, Pushed) and len(event.batch):
                yield TailRows(event.stream_id, event.batch, event.sequence, event.given)

    def _needed(self, row: LogRow) -> bool:
        """Whether a row is decoded: earlier pushes have a part in the times that end the stored chunks."""
        return row.sequence > self._end or row.kind in ("stream", "alter", "push")

    def _of_chunks(self, spec: StreamSpec, rows: list[ChunkRow]) -> Iterator[TailRows]:
        """The rows of the tail in the chunks of a stream."""
        for row in rows:
            if row.attached and (row.stream, row.number, row.first_id) not in self._attached:
                yield TailRows(row.stream, self._old.load(spec, row).batch)
        logged = [row for row in rows if not (row.attached or row.passed)]
        pending = self._pending[rows[0].stream]
        expected, unsure, last, count = pending.end_id, -1, -1, 0
        for row in logged:
            if row.end_id <= pending.end_id:
                continue
            chunk = self._old.load(spec, row)
            batch = chunk.batch.slice(chunk.places.row_from(pending.end_id), row.rows)
            times = batch.times
            order = np.arange(len(times)) - np.searchsorted(times, times)
            lost = order + np.where(times == last, count, 0) >= pending.of(times)
            if row.first_id > expected and len(times):
                unsure = int(times[0])
            lost |= (times == unsure) | row.thinned
            if lost.any():
                yield TailRows(row.stream, batch if lost.all() else batch.take(np.flatnonzero(lost)))
            if len(times):
                count = int((times == times[-1]).sum()) + (count if times[-1] == last else 0)
                last = int(times[-1])
            expected, unsure = row.end_id, row.last_time if row.thinned else unsure


def _read(image: OldDirectory) -> tuple[defaultdict[int, _Pending], dict[int, int]]:
    """Read what an image has behind the stored chunks of each stream, and the checksums of its pushes. O(log)."""
    times, pushes = defaultdict[int, list[Array]](list), dict[int, int]()
    decoder = image.decoder()
    for row in image.rows(lambda row: row.kind in ("stream", "alter", "push")):
        event = decoder.decode(row)
        if isinstance(event, Pushed):
            pushes[row.sequence] = row.checksum
            if len(event.batch):
                times[row.stream].append(event.batch.times)
    ends = {row.stream: row.end_id for row in image.logged}
    pending = defaultdict[int, _Pending](_Pending)
    for stream in {*times, *ends}:
        values, counts = np.unique(np.concatenate(times[stream] or [_Pending().times]), return_counts=True)
        pending[stream] = _Pending(ends.get(stream, 0), values, counts)
    return pending, pushes
