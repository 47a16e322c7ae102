"""The part of a stream that a start reads from the store: chunks, and counts of events that the log has dropped."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.places import Places
from psoup.values.columns import Batch


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A stored chunk whose events the log has dropped. The tuples are in stream order, and `places` has their IDs.

    `span`: the first and the last time before a thinned chunk was thinned. None for any other chunk.
    """

    number: int
    places: Places
    batch: Batch
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """The newest chunk that left the retention before it was stored. `end_id`: the tuple ID after its last tuple."""

    number: int
    end_id: int
    last_time: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The part of a stream that the store has and its log no longer has. Only a replay uses it.

    `chunks`: consecutive chunks up to the last one; empty if the last chunk was `passed`. `first_time`: the time of the
    first released tuple. `dropped_time`: the time of the last tuple before `chunks`. `late`, `ahead`: the numbers of
    tuples that dropped events refused before the watermark was at `reached`. `archive`: the stored chunks of a stream
    with an archive, also those before `chunks`.
    """

    chunks: tuple[StoredChunk, ...]
    first_time: int | None
    dropped_time: int | None
    late: int
    ahead: int
    archive: tuple[ArchivedChunk, ...] = ()
    reached: int | None = None
    passed: Passed | None = None

    @property
    def nbytes(self) -> int:
        """The bytes that the memory budget charges for the tuples of `chunks`."""
        return sum(chunk.batch.nbytes for chunk in self.chunks)
