"""Pushes: the checks of a batch, and the decision about it.

    columns ──> types, texts, finite times ──> accepted and refused rows ──> producer, memory ──> the event
                                               (`psoup.admission.rows.push_times`)

A batch must be its producer's next one, and fit into the memory budget. Rows stay in the order in which the client sent
them; the release sorts them by time. The functions change nothing. The state changes when admission adopts the event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from psoup.admission.attachment import check_push
from psoup.admission.budget import MemoryBudget
from psoup.admission.catalog import KnownStream, refuse_derived
from psoup.admission.clock_heartbeats import live_after
from psoup.admission.rows.batch_identity import check_identity
from psoup.admission.rows.first_versions import NewKeys, new_keys, new_keys_of
from psoup.admission.rows.idempotency_keys import is_key
from psoup.admission.rows.push_times import NONE_REFUSED, Taken, in_event_time, in_system_time, latest_time
from psoup.admission.rows.refused_rows import rows_refused
from psoup.admission.rows.table_rows import count_replaced, given_columns, table_columns
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidBatch
from psoup.events.acknowledgements import LATE_LISTED, Prepared, PushAcknowledgement
from psoup.events.commands import STAGED, Locate, Push, Recall
from psoup.events.events import Pushed
from psoup.model import Kind, StreamSpec
from psoup.published.selection import NothingPublished, Published
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array, Batch, Column
from psoup.values.digests import digest_of, payload_digest
from psoup.values.from_arrow import columns_from_arrow
from psoup.values.kinds import TYPES

_NO_PRODUCER: tuple[bytes, int | None, int, int] = (b"", None, 0, 0)
"""The facts of a push without a producer; see `_facts_of_producer`."""


def read_columns(
    spec: StreamSpec, table: pa.RecordBatch | pa.Table, config: EngineConfig, *, staged: bool = False
) -> tuple[Column, ...]:
    """Check the columns of a push, and convert them to the stream's types. Raises InvalidBatch. O(bytes).

    A column that has its type already is not copied. All buffers are verified first. A payload from the wire may have
    invalid UTF-8, or offsets that point outside its memory. `staged`: `table` has all parts of a staged batch, which
    may have more rows.
    """
    limit = config.staged_rows if staged else config.batch_rows
    if table.num_rows > limit:
        raise InvalidBatch(
            f"the batch has {table.num_rows:,} rows; {limit:,} is the most in one {'stage' if staged else 'push'},"
            f" send it in {'several' if staged else 'parts'}",
            reason="BATCH_TOO_LARGE",
            rows=table.num_rows,
            limit=limit,
        )
    _check_growth(spec, table, config.batch_bytes)
    try:
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as problem:
        raise InvalidBatch(f"the batch is not valid Arrow data: {problem}", reason="CORRUPT_BATCH") from problem
    columns = columns_from_arrow(spec.schema, _joined(table), spec.name)
    for attribute, column in zip(spec.schema.attributes, columns, strict=True):
        if column.type.kind is Kind.TEXT:
            check_text(attribute.name, column, config.text_bytes)
        check_finite(attribute.name, column)
    return columns if spec.table is None else table_columns(spec, spec.table, columns, table.schema.names)


def _joined(table: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """The same rows in one piece. PyArrow makes an object for each piece of a column that is joined alone."""
    if isinstance(table, pa.RecordBatch) or any(map(pa.types.is_dictionary, table.schema.types)):
        return table
    return table.combine_chunks()


def _check_growth(spec: StreamSpec, table: pa.RecordBatch | pa.Table, limit: int) -> None:
    """Raise InvalidBatch if the converted columns would take more than `limit` bytes. O(columns).

    Conversion may take much memory: a missing column gets a value for each row, and a value of one byte becomes eight.
    """
    kinds = [attribute.type.kind for attribute in spec.schema.attributes]
    grown = table.num_rows * sum(1 if kind is Kind.BOOLEAN else 8 for kind in kinds)
    if Kind.TEXT in kinds:  # Arrow reads every buffer to compute it
        grown += table.nbytes
    if grown > limit:
        raise InvalidBatch(
            f"the batch takes {grown:,} bytes in the {len(kinds):,} columns of {spec.noun} {spec.name!r};"
            f" {limit:,} is the most, send it in parts",
            reason="BATCH_TOO_LARGE",
            found=grown,
            limit=limit,
        )


def check_text(name: str, column: Column, limit: int) -> None:
    """Raise InvalidBatch for a text of more than `limit` bytes. O(rows); O(1) if the whole column has fewer bytes."""
    if int(column.values[-1] - column.values[0]) <= limit:
        return
    lengths = np.diff(column.values)
    row = int(np.argmax(lengths))
    if lengths[row] > limit:
        raise InvalidBatch(
            f"row {row}: the text in column {name!r} has {int(lengths[row]):,} bytes;"
            f" {limit:,} is the most in one value",
            reason="TEXT_TOO_LONG",
            column=name,
            row=row,
            limit=limit,
        )


def check_finite(name: str, column: Column) -> None:
    """Raise InvalidBatch for an infinite time or date. Its integer would be taken for an ordinary value."""
    last = TYPES[column.type.kind].infinite
    if last is None or not len(column):
        return
    values = column.values
    if int(values.max()) < last and int(values.min()) > -last:
        return
    infinite = np.abs(values) == last  # the least integer stays negative
    if not infinite.any():
        return
    row = int(np.argmax(infinite))
    sign = "-" if values[row] < 0 else ""
    raise InvalidBatch(
        f"row {row}: the {column.type} in column {name!r} is {sign}infinity, which is not a time here; send NULL or a"
        " time",
        reason="INFINITE_TIME",
        column=name,
        row=row,
    )


_Counts = tuple[int, int, int, int | None, int, int, tuple[int, ...] | None]
"""The fields of a `PushAcknowledgement` from `accepted` on."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The event that a push will likely get. The spooler writes its columns to disk before the decision.

    `spec`: the definition of the stream at that time.
    """

    spec: StreamSpec
    event: Pushed

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The checked columns of all rows. None if some rows were refused."""
        return None if self.event.refused.count else self.event.batch.columns

    def same(self, event: Pushed) -> Pushed:
        """The decided event, for the same stream. If it has the same rows, it gets the column objects of this event.

        O(refused rows).
        """
        before, now = self.event.refused, event.refused
        if event.floor is not None or self.event.floor is not None:  # other keys may be new by now
            return event
        if not (np.array_equal(before.late, now.late) and np.array_equal(before.ahead, now.ahead)):
            return event
        return replace(event, batch=Batch(self.event.batch.columns, event.batch.times))


@dataclass(frozen=True, slots=True)
class PushRows:
    """The rows that a push would accept, and those that it would refuse.

    `rows`, `late`, `ahead`: the positions of accepted rows and of refused rows, int64, ascending. `batch`: the accepted
    rows.
    """

    columns: tuple[Column, ...]
    times: Array
    """The times of all rows."""
    batch: Batch
    rows: Array
    late: Array
    ahead: Array

    def refused_for(self) -> str:
        """The reason why a push of a single row would be refused. Empty if it would be accepted."""
        if len(self.late):
            return "it is too late: its time is below the watermark"
        return "it is too far ahead of the clock: the sender's clock is fast" if len(self.ahead) else ""


def offered(
    spec: StreamSpec,
    table: pa.RecordBatch | pa.Table,
    watermark: int | None,
    last_time: int | None,
    config: EngineConfig,
    now: int,
    new: NewKeys | None = None,
) -> PushRows:
    """Find the rows of `table` that a push would accept at clock time `now`. Raises InvalidBatch. O(bytes).

    `new`: the test for keys of a table without a version.
    """
    columns = read_columns(spec, table, config)
    rows, none = np.arange(table.num_rows), np.zeros(0, np.int64)
    if not spec.event_time:
        batch, _ = in_system_time(columns, len(rows), last_time, now)
        return PushRows(columns, batch.times, batch, rows, none, none)
    bound = latest_time(spec, config, now)
    taken = in_event_time(spec, columns, watermark, bound, now, new=new)
    assert spec.time_attribute is not None
    times = columns[spec.time_attribute].values
    if taken.late is None or taken.ahead is None:
        return PushRows(columns, times, taken.batch, rows, none, none)
    rows = np.flatnonzero(~(taken.late | taken.ahead))
    return PushRows(columns, times, taken.batch, rows, np.flatnonzero(taken.late), np.flatnonzero(taken.ahead))


def offered_to(view: StreamView, table: pa.RecordBatch | pa.Table, config: EngineConfig, now: int) -> PushRows:
    """As `offered`, for the stream of a view. Raises FailedPrecondition for a derived stream."""
    refuse_derived(view.spec, "a row that is not pushed")
    return offered(view.spec, table, view.watermark, view.last_time, config, now, new_keys_of(view))


def decide_recall(stream: KnownStream, command: Recall | Locate, sequence: int, now: int) -> Prepared:
    """Find out whether a batch was accepted. `sequence`: the last event. Raises the errors of the batch's push.

    For Locate, find a producer's position: its epoch and the number of its next batch. Raises NotFound for an unknown
    producer. O(1).
    """
    if isinstance(command, Locate):
        return Prepared(stream.producers.position(command, now))
    check_identity(command)
    earlier = stream.producers.admit(command, command.digest, now, sequence)
    earlier = None if earlier is None else _repeated(stream.spec, command, earlier)
    return Prepared(earlier or PushAcknowledgement(sequence, watermark=stream.watermark))


def _not_whole(why: str) -> FailedPrecondition:
    """The error for pushes that cannot share an event. No caller gets it, because each push is then prepared alone."""
    return FailedPrecondition(why, reason="NOT_WHOLE")


def _counts(spec: StreamSpec, command: Push, taken: Taken) -> _Counts:
    """The counts of an acknowledgement. Raises FailedPrecondition if joined pushes would replace each other's rows."""
    replaced = count_replaced(spec, taken.batch)
    if replaced and command.whole:
        raise _not_whole("a row of one push would replace a row of another push")
    late_rows = None
    if spec.table is not None and taken.late is not None and len(taken.refused.late):
        late_rows = tuple(np.flatnonzero(taken.late)[:LATE_LISTED].tolist())
    late, ahead = len(taken.refused.late), len(taken.refused.ahead)
    return len(taken.batch), late, ahead, taken.watermark, 0, replaced, late_rows


def _repeated(spec: StreamSpec, command: Push | Recall, earlier: PushAcknowledgement) -> PushAcknowledgement:
    """The acknowledgement of a repeated batch. A producer's memory does not have the numbers of late rows.

    Raises FailedPrecondition if further batches share the push, because they may be new.
    """
    if isinstance(command, Push) and command.shared:
        raise _not_whole("the first batch is a repeat")
    by_key = spec.table is not None and spec.event_time and earlier.late > 0
    return replace(earlier, late_rows=()) if by_key else earlier


def decide_push(
    stream: KnownStream,
    command: Push,
    budget: MemoryBudget,
    config: EngineConfig,
    sequence: int,
    now: int,
    foreseen: Foreseen | None = None,
    published: Callable[[], Published] = NothingPublished,
) -> Prepared:
    """Decide on a push. `sequence`: the last event. Raises an error if the push is refused. Changes nothing. O(bytes).

    `foreseen`: the result of an earlier decision. If the stream's definition has not changed, its columns are used.
    `published`: the writer's snapshots, which have the keys of tables.
    """
    foreseen = foreseen if foreseen is not None and foreseen.spec is stream.spec else None
    check_push(stream.spec, stream.past)
    check_identity(command)
    columns, digest = None if foreseen is None else foreseen.columns, command.digest
    source, before, needed, forgotten = _NO_PRODUCER
    if command.producer:
        columns, digest = _identified(stream.spec, command, columns, config)
        if (earlier := stream.producers.admit(command, digest, now, sequence)) is not None:
            return Prepared(_repeated(stream.spec, command, earlier))
        source, before, needed, forgotten = _facts_of_producer(stream, command, budget, now)
    if columns is None:
        columns = read_columns(stream.spec, command.table, config, staged=digest == STAGED)
    batch = (taken := _taken(stream, command, columns, config, now, published)).batch
    given = given_columns(stream.spec, command.table.schema.names, columns)
    room = stream.room_of_patches(batch, given, budget.tuples)
    budget.check_batch(stream.spec, needed + (batch.nbytes + room if len(batch) else 0), room)
    counts = _counts(stream.spec, command, taken)
    if not (command.producer or len(batch) or taken.refused.count):
        return Prepared(PushAcknowledgement(sequence, False, *counts))
    event = Pushed(
        sequence + 1,
        stream.tenant,
        stream.stream_id,
        *taken[:3],
        now,
        command.producer,
        command.epoch,
        command.number,
        digest,
        forgotten=forgotten,
        before=before,
        live=stream.spec.by_clock and live_after(stream, batch, now),
        source=source,
        given=given,
        room=room,
        floor=taken.floor,
        shared=command.shared,
    )
    event = event if foreseen is None else foreseen.same(event)
    return Prepared(PushAcknowledgement(event.sequence, False, *counts), event)


def _facts_of_producer(
    stream: KnownStream, command: Push, budget: MemoryBudget, now: int
) -> tuple[bytes, int | None, int, int]:
    """Facts of a producer's batch: its source position, the rows before it, its bytes, and `Pushed.forgotten`.

    Raises the errors of `Producers`, and FailedPrecondition for batches that cannot share an event."""
    if command.shared and (stream.spec.table is not None or is_key(command.producer)):
        raise _not_whole("a table, or a producer of one batch, takes each batch alone")
    source, before = stream.producers.source_after(command, now), stream.producers.sent_before(command)
    needed = stream.producers.needed(command)
    forgotten = stream.producers.making_way(command, now, budget.full_of_producers(stream.tenant, needed))
    return source, before, needed, forgotten


def _identified(
    spec: StreamSpec, command: Push, columns: tuple[Column, ...] | None, config: EngineConfig
) -> tuple[tuple[Column, ...] | None, bytes]:
    """The columns of a producer's batch, if they are read, and its digest. O(bytes) if the client sent no digest.

    The same rows with another source position are another batch. A staged batch has the same digest in all cases.
    """
    digest = command.digest
    if not digest:
        columns = columns or read_columns(spec, command.table, config)
        given = given_columns(spec, command.table.schema.names, columns)
        digest = digest_of([payload_digest(columns), np.array(given)]) if given else payload_digest(columns)
    return columns, digest_of([digest, command.source]) if command.source and digest != STAGED else digest


def _taken(
    stream: KnownStream,
    command: Push,
    columns: tuple[Column, ...],
    config: EngineConfig,
    now: int,
    published: Callable[[], Published],
) -> Taken:
    """Divide the rows of a push."""
    if stream.spec.event_time:
        bound = latest_time(stream.spec, config, now)
        new = new_keys(stream, published)
        sizes = [batch.rows for batch in command.shared] if command.whole else None
        taken = in_event_time(stream.spec, columns, stream.watermark, bound, now, alone=sizes, new=new)
        if command.all_or_none and taken.late is not None and taken.ahead is not None and taken.refused.count:
            facts = (np.flatnonzero(taken.late), np.flatnonzero(taken.ahead))
            raise rows_refused(stream.spec, columns, facts, stream.watermark, bound, now)
        return taken
    batch, watermark = in_system_time(columns, command.table.num_rows, stream.least_stamp, now)
    return Taken(batch, NONE_REFUSED, watermark)
