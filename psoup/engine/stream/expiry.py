"""The edge of a stream's retention, or of its archive: chunks whose tuples are all before it have outlived their time.

    by time   last time < now - duration
    by rows   rows after the chunk >= rows to keep

The shelf drops such chunks, or moves them to the archive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.data.archived_chunk import Chunk
from psoup.data.thinning import nth_last
from psoup.engine.stream.attention import Attention
from psoup.model import StreamSpec
from psoup.published.snapshot import ChunkEntry


class Edge(NamedTuple):
    """The edge at a time `now`. `first_id`: the first kept tuple ID of a retention by rows, else None."""

    spec: StreamSpec
    now: int | None
    archive: int
    first_id: int | None

    @classmethod
    def of(cls, spec: StreamSpec, now: int | None, next_id: int, archive: int, chunks: Sequence[Chunk]) -> Edge:
        """The edge of the retention, less its part `archive`. O(1), or O(chunks).

        `chunks`: all closed chunks, oldest first, if some are thinned, else none.
        """
        rows = spec.retention.rows
        if rows is None:
            return cls(spec, now, archive, None)
        count = rows - archive
        return cls(spec, now, archive, nth_last(chunks, count, next_id) if chunks else next_id - count)

    def outlived(self, chunk: Chunk) -> bool:
        """Whether all tuples of a chunk are before the edge."""
        by_rows = self.first_id is not None and chunk.end_id <= self.first_id
        return by_rows or outlived(self.spec, chunk.last_time, self.now, self.archive)


def outlived(spec: StreamSpec, time: int, now: int | None, archive: int = 0) -> bool:
    """Whether a tuple of this time is past the retention at `now`, or in the archive's part of it (with `archive`)."""
    duration = spec.retention.duration
    return duration is not None and now is not None and time < now - duration + archive


class Pins:
    """The tuples of a stream that derived streams need: for each of these, the least time of such a tuple."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention
        self._times: dict[int, int] = {}

    @property
    def first_time(self) -> int | None:
        """The least time that a tuple needs to stay. None if none needs to."""
        return min(self._times.values(), default=None)

    def set(self, stream_id: int, time: int | None) -> None:
        """Set the least time for a derived stream. None removes its pin."""
        if time is None:
            self._times.pop(stream_id, None)
        else:
            self._times[stream_id] = time
        self._attention.look_after()  # tuples may go now

    def first(self, entries: Sequence[ChunkEntry]) -> int:
        """The number of oldest chunks without a pinned tuple. O(1) without pins, else O(chunks)."""
        time = self.first_time
        if time is None:
            return len(entries)
        return next((at for at, entry in enumerate(entries) if entry.data.last_time >= time), len(entries))
