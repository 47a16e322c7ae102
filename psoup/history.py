"""Chunks that somebody has written, attached: as history of a stream, or as the next batch of what feeds it.

    IDs      -3    -2    -1  |  0     1     2
             history         |  live data            history ends at or before the first time that is there
                             |  batch 0, batch 1     a standing job's: each begins at or after the watermark

A stream is fed by pushes or by batches, not by both, so what is there and what comes are in one order of time.
The command and the event; what is attached is on disk already, and read as archived chunks are. Whether it may be is
decided in `psoup.admission.attachment`.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.archive import ArchivedChunk
from psoup.model import DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is attached: chunks, tuples, and the times of the first and the last of them (microseconds)."""

    chunks: int
    rows: int
    first_time: int
    last_time: int


@dataclass(frozen=True, slots=True)
class Attach:
    """History for a stream; once for each `job`, whatever it holds when it is asked for again.

    With a number `batch`, tuples that come after all others; once for each job and number, and numbers ascend.

    `chunks` are consecutive, oldest first, with numbers and IDs from 0 on. Without them, asks only whether history of
    this extent would be taken, and without an `extent` only whether the job was. `stream_id`: it must be that stream.
    """

    stream: str
    job: str
    extent: Extent | None = None
    chunks: tuple[ArchivedChunk, ...] = ()
    stream_id: int | None = None
    tenant: str = DEFAULT_TENANT
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Attached:
    """History, or a `batch`, is part of the stream from here on.

    `watermark` is the stream's after it, `time` the clock at prepare. `chunks` have their numbers and IDs, below those
    of all there were, or above if it is a batch; a replay has none, as they come back with the stream.
    """

    sequence: int
    tenant: str
    stream_id: int
    job: str
    extent: Extent
    watermark: int | None
    time: int
    chunks: tuple[ArchivedChunk, ...] = ()
    batch: int | None = None
