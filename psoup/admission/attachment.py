"""Decisions about attaching history or a batch, and the state of a stream's past on which they depend.

    history      |------------|
    the stream                 |---- its tuples; history must end before the first one
    retention           |edge                    history before the edge would expire at once: refused
    a batch                         |---- begins at or after the watermark; there were no pushes

The functions change nothing. `Past` changes when admission adopts an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from psoup.admission.release_count import RecentPushes
from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.chunk_caches import Zone
from psoup.data.stored_chunk import Stored
from psoup.errors import FailedPrecondition, InvalidInput, NotFound, OutOfRange
from psoup.events.acknowledgements import AttachAcknowledgement, Prepared
from psoup.events.commands import Attach, Extent
from psoup.events.events import Attached, Pushed
from psoup.expressions.tree import ID_INDEX
from psoup.model import StreamSpec, time_text
from psoup.phrases import counted
from psoup.sql.identifiers import name_text

MAX_JOB_BYTES = 256
"""The most bytes of a job's name."""


@dataclass(slots=True)
class Past:
    """The past of a stream. `tuples`: the number of tuples so far, without history. `chunks`, `rows`: of history.

    `jobs`: the sequence of the event that attached history, for each job. `batches`: the number and the sequence of the
    last batch, for each job that feeds the stream. `next_chunk`: the number of the first chunk of the next batch.
    """

    first_time: int | None = None
    tuples: int = 0
    chunks: int = 0
    rows: int = 0
    jobs: dict[str, int] = field(default_factory=dict)
    batches: dict[str, tuple[int, int]] = field(default_factory=dict)
    next_chunk: int = 0
    settled: bool = False
    """Whether no tuple before `first_time` can come any more."""
    recent: RecentPushes = field(default_factory=RecentPushes)

    def restored(self, stored: Stored | None) -> None:
        """Load the state from the part of the stream that the store has."""
        if stored is None:
            return
        self.first_time = stored.first_time
        ends = [chunk.places.end_id for chunk in stored.chunks[-1:]]
        passed = 0 if stored.passed is None else stored.passed.end_id
        self.tuples = max([passed, *ends, *(chunk.end_id for chunk in stored.archive[-1:])])
        self.next_chunk = max([0, *(chunk.number + 1 for chunk in stored.archive[-1:])])

    def pushed(self, event: Pushed) -> None:
        """Record a push. O(1) as soon as no earlier tuple can come, else O(rows)."""
        self.tuples += len(event.batch)
        self.recent.add(event.sequence, event.batch)
        if self.settled or not len(event.batch):
            return
        first = int(event.batch.times.min())
        self.first_time = first if self.first_time is None else min(first, self.first_time)
        self.settled = event.watermark is not None and event.watermark >= self.first_time

    def attached(self, event: Attached) -> None:
        """Record attached history, or a batch."""
        if event.batch is not None:
            self.batches[event.job] = event.batch, event.sequence
            self.tuples += sum(len(chunk) for chunk in event.chunks)  # in a replay, `restored` has counted the chunks
            self.next_chunk += len(event.chunks)
            if self.first_time is None:
                self.first_time = event.extent.first_time
            self.settled = True
            return
        self.first_time = event.extent.first_time
        self.settled = True
        self.chunks += event.extent.chunks
        self.rows += event.extent.rows
        self.jobs[event.job] = event.sequence

    def state(self) -> tuple[object, ...]:
        """The state on which later decisions depend, as plain values."""
        fed = self.next_chunk if self.batches else 0, dict(self.batches)
        return self.first_time, self.tuples, self.chunks, self.rows, dict(self.jobs), fed


@dataclass(frozen=True, slots=True)
class AttachTarget:
    """The stream of an attachment, and the event's sequence, the clock time, and the latest time allowed."""

    stream_id: int
    spec: StreamSpec
    past: Past
    watermark: int | None
    sequence: int
    now: int
    latest: int
    closed: int | None = None
    """The greatest instant that a derived stream has passed, as in `KnownStream`."""
    pin: int | None = None
    """The least time of a tuple that derived streams still need. None if they need none."""


def decide_attach(command: Attach, target: AttachTarget) -> Prepared:
    """Accept the attachment, or repeat the answer if it was accepted before.

    Raises NotFound if another stream has the name now, and FailedPrecondition for a table. Raises OutOfRange with the
    bound to use, and InvalidInput.
    """
    past, name = target.past, target.spec.name
    _check_stream(target.spec)
    if command.stream_id not in (None, target.stream_id):
        raise NotFound(f"stream {name!r} was dropped and made anew; begin again", reason="OTHER_STREAM", stream=name)
    if not 0 < len(command.job.encode("utf-8", "surrogatepass")) <= MAX_JOB_BYTES:
        raise InvalidInput(f"the job's name must have 1 to {MAX_JOB_BYTES} bytes; name it", field="job")
    before, last = _earlier(command, past), past.batches.get(command.job, (None, 0))[0]
    if before is not None:
        return Prepared(AttachAcknowledgement(before, True, past.first_time, target.watermark, last))
    if command.batch is not None:
        _check_fed(target)
    extent = command.extent
    if extent is None:
        return Prepared(AttachAcknowledgement(target.sequence - 1, False, past.first_time, target.watermark, last))
    watermark = extent.last_time if target.watermark is None else max(extent.last_time, target.watermark)
    _check_ahead(extent, target)
    _check_closed(extent, target)
    if command.batch is None:
        _check_end(extent, target)
        _check_retention(extent, target, watermark if target.spec.event_time else max(watermark, target.now))
    else:
        _check_begin(extent, target)
    if not command.chunks:
        return Prepared(AttachAcknowledgement(target.sequence - 1, False, past.first_time, target.watermark, last))
    event = Attached(
        target.sequence,
        command.tenant,
        target.stream_id,
        command.job,
        extent,
        watermark,
        target.now,
        tuple(_placed(chunk, *_place(command, past)) for chunk in command.chunks),
        command.batch,
        target.pin,
    )
    first = extent.first_time if command.batch is None or past.first_time is None else past.first_time
    return Prepared(AttachAcknowledgement(event.sequence, False, first, watermark), event)


def _check_stream(spec: StreamSpec) -> None:
    """Raise FailedPrecondition for a table."""
    if spec.table is not None:
        raise FailedPrecondition(
            f"{spec.name!r} is a table, and history is attached to streams only; push the rows to the table, or attach"
            " them to a stream",
            reason="IS_TABLE",
            stream=spec.name,
        )


def check_stored(spec: StreamSpec, stored: bool) -> None:
    """Raise FailedPrecondition unless the service stores chunks on disk, as attached chunks are files."""
    if not stored:
        raise FailedPrecondition(
            f"history of stream {spec.name!r} is kept on disk, and nothing is kept there by this service; run it with a"
            " data directory",
            reason="NO_ARCHIVE",
            stream=spec.name,
        )


def check_push(spec: StreamSpec, past: Past) -> None:
    """Raise FailedPrecondition if a job feeds the stream, as pushes and batches exclude each other. O(1)."""
    if past.batches:
        raise _fed(spec, past, "push to another stream, or add these rows to the job's source")


def check_heartbeat(spec: StreamSpec, past: Past) -> None:
    """Raise FailedPrecondition if a job feeds the stream and has lateness. The rows that it holds back would be late.

    O(1).
    """
    if past.batches and spec.lateness:
        raise _fed(spec, past, "rows that the job holds would be late; a later row in its source moves the watermark")


def check_not_fed(spec: StreamSpec, past: Past, way_out: str) -> None:
    """Raise FailedPrecondition if a job feeds a stream whose definition shall change. `way_out`: a clause. O(1)."""
    if past.batches:
        raise _fed(spec, past, way_out)


def _fed(spec: StreamSpec, past: Past, way_out: str) -> FailedPrecondition:
    job, (batch, _) = next(reversed(past.batches.items()))
    return FailedPrecondition(
        f"stream {spec.name!r} is fed in batches, by job {job!r} (number {batch} is the last); {way_out}",
        reason="FED_BY_JOB",
        stream=spec.name,
        job=job,
    )


def _earlier(command: Attach, past: Past) -> int | None:
    """The sequence of the event that accepted the job's history, or this batch or a later one. None without one."""
    if command.batch is None:
        return past.jobs.get(command.job)
    if not 0 <= command.batch < 2**63:
        raise InvalidInput(f"batch {command.batch} is not the number of a batch; count them from 0", field="batch")
    last, sequence = past.batches.get(command.job, (-1, 0))
    return sequence if command.batch <= last else None


def _place(command: Attach, past: Past) -> tuple[int, int]:
    """The number and the first tuple ID of the first attached chunk: before all chunks for history, else after them."""
    if command.batch is not None:
        return past.next_chunk, past.tuples
    assert command.extent is not None
    return -past.chunks - command.extent.chunks, -past.rows - command.extent.rows


def _placed(chunk: ArchivedChunk, number: int, first_id: int) -> ArchivedChunk:
    """A copy of the chunk with its number moved up by `number`, and its tuple IDs by `first_id`."""
    places = chunk.places.moved(first_id)
    zones = {**chunk.zones, ID_INDEX: Zone(places.first_id, places.end_id - 1, False)}
    return replace(chunk, number=chunk.number + number, places=places, zones=zones)


def _check_fed(target: AttachTarget) -> None:
    """Raise FailedPrecondition if tuples were pushed. They may wait in memory, and would come after the batch."""
    if target.spec.by_clock:
        raise FailedPrecondition(
            f"stream {target.spec.name!r} has WATERMARK BY CLOCK, which would make rows late that a job holds; first"
            f" ALTER STREAM {name_text(target.spec.name)} WATERMARK BY ROWS",
            reason="WATERMARK_BY_CLOCK",
            stream=target.spec.name,
        )
    if target.past.tuples and not target.past.batches:
        raise FailedPrecondition(
            f"stream {target.spec.name!r} has tuples that were pushed, and a stream is fed by pushes or in batches;"
            " create another stream for the job",
            reason="FED_BY_PUSHES",
            stream=target.spec.name,
        )


def _check_begin(extent: Extent, target: AttachTarget) -> None:
    """Raise OutOfRange for a batch with a late tuple."""
    bound, name = target.watermark, target.spec.name
    if bound is not None and extent.first_time < bound:
        raise OutOfRange(
            f"a batch of stream {name!r} must begin at or after {time_text(bound)}, the watermark; this begins at"
            f" {time_text(extent.first_time)}: leave out what is earlier",
            reason="BATCH_LATE",
            stream=name,
            bound=bound,
            first_time=extent.first_time,
        )


def _check_end(extent: Extent, target: AttachTarget) -> None:
    bound, name = target.past.first_time, target.spec.name
    if bound is not None and extent.last_time > bound:
        raise OutOfRange(
            f"history of stream {name!r} must end at or before {time_text(bound)}, the time of the first tuple there;"
            f" this ends at {time_text(extent.last_time)}: leave out what is later (--until {time_text(bound)})",
            reason="HISTORY_OVERLAPS",
            stream=name,
            bound=bound,
            last_time=extent.last_time,
        )


def _check_closed(extent: Extent, target: AttachTarget) -> None:
    """Raise OutOfRange for tuples at instants that a derived stream has passed, as it would lack them."""
    bound, name = target.closed, target.spec.name
    if bound is not None and extent.first_time <= bound:
        raise OutOfRange(
            f"a stream that derives from {name!r} has passed {time_text(bound)}, and this begins at"
            f" {time_text(extent.first_time)}: leave out what is not later, or drop the derived stream, attach, and"
            " derive it again FROM START",
            reason="DERIVED_PASSED",
            stream=name,
            bound=bound,
            first_time=extent.first_time,
        )


def _check_ahead(extent: Extent, target: AttachTarget) -> None:
    name = target.spec.name
    if extent.last_time > target.latest:
        raise OutOfRange(
            f"what is attached to stream {name!r} ends at {time_text(extent.last_time)}, too far past the clock;"
            f" {time_text(target.latest)} is the most, or all tuples until then would be late",
            reason="TOO_FAR_AHEAD",
            stream=name,
            bound=target.latest,
        )


def _check_retention(extent: Extent, target: AttachTarget, now: int) -> None:
    retention, past, name = target.spec.retention, target.past, target.spec.name
    if retention.duration is not None and extent.first_time < now - retention.duration:
        edge = now - retention.duration
        raise OutOfRange(
            f"stream {name!r} keeps nothing before {time_text(edge)}, and this history begins at"
            f" {time_text(extent.first_time)}: leave out what is older (--since {time_text(edge)}), or create the"
            " stream with a longer RETENTION",
            reason="HISTORY_BEYOND_RETENTION",
            stream=name,
            bound=edge,
        )
    if retention.rows is not None and past.tuples + past.rows + extent.rows > retention.rows:
        room = max(0, retention.rows - past.tuples - past.rows)
        raise OutOfRange(
            f"stream {name!r} keeps {counted(retention.rows, 'tuple')}, so there is room for {room:,} of history,"
            f" and this has"
            f" {extent.rows:,}; attach the newest of them, or create the stream with a longer RETENTION",
            reason="HISTORY_BEYOND_RETENTION",
            stream=name,
            rows=room,
        )
