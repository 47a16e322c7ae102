"""The stored part of a stream at a start: stored chunks, and figures of events that the log has dropped."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.data.archived_chunk import ArchivedChunk
from psoup.values.columns import Batch


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """Tuples in stream order whose events the log has dropped; their IDs count up from `first_id`."""

    number: int
    first_id: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Passed:
    """The newest chunk that left the retention before it was stored. `end_id`: the ID after its last tuple."""

    number: int
    end_id: int
    last_time: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The part of a stream that a store knows beyond the events in its log. Only a replay has it.

    `chunks`: consecutive, up to the last stored chunk; empty if that one was `passed`. `first_time`: of the first
    released tuple. `dropped_time`: of the last tuple before `chunks`. `late`, `ahead`: refusals by dropped events,
    before the watermark was at `reached`. `archive`: for a stream with an archive, its stored chunks; earlier ones than
    `chunks` too.
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
        """Bytes that the tuples are charged."""
        return sum(chunk.batch.nbytes for chunk in self.chunks)
