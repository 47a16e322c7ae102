"""The edge of a stream's retention, or of its archive: chunks whose tuples are all before it have outlived their time.

    by time   last time < now - duration
    by rows   rows after the chunk >= rows to keep

The shelf drops such chunks, or moves them to the archive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from psoup.data.archived_chunk import Chunk
from psoup.data.thinning import nth_last
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


def first_pinned(entries: Sequence[ChunkEntry], pins: Mapping[int, int]) -> int:
    """The number of oldest chunks without a tuple that a derived stream needs. O(1) without `pins`, else O(chunks).

    `pins`: for each derived stream the least time of the tuples that it needs.
    """
    if not pins:
        return len(entries)
    least = min(pins.values())
    return next((at for at, entry in enumerate(entries) if entry.data.last_time >= least), len(entries))
