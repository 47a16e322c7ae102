"""Tuples of a stream that a store gives back at a start: stored chunks, and figures of events the log has forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.columns import Batch
from psoup.data.archived import ArchivedChunk


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """Tuples in stream order whose events the log has forgotten; their IDs count up from `first_id`."""

    number: int
    first_id: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Passed:
    """The last of the chunks that retention passed before they were stored. `end_id`: one more than its last ID."""

    number: int
    end_id: int
    last_time: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The part of a stream that a store knows beyond the events it still has. Only a replay has it.

    `chunks` are consecutive, the last stored chunk among them; there are none if that was `passed`. `first_time`: of
    the first tuple released.
    `dropped_time`: of the last tuple of the chunks before these. `late`, `ahead`: refused by forgotten events, before
    the watermark was at `reached`.
    `archive`: of a stream with an archive, how to read each of its stored chunks; those before `chunks` are not there.
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
        """Bytes charged for the tuples."""
        return sum(chunk.batch.nbytes for chunk in self.chunks)
