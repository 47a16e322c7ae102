"""The rows of a push: which are taken, and with which physical IDs.

    event time                                            watermark W, bound = clock + max_ahead
      time:   ... late ... | W ... accepted ... bound | ... ahead ...
      late and ahead rows are refused alone; a NULL time refuses the batch
    system time
      every row of the batch gets max(clock, last physical ID)

Rows stay in the order they were sent; ordering by time is the release's work. Nothing here changes any state.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from psoup.columns import Array, Batch, Column, columns_from_arrow
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidBatch
from psoup.events.events import RefusedTuples
from psoup.kinds import TYPES
from psoup.model import Kind, StreamSpec

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_NO_TIMES: Array = np.zeros(0, np.int64)
_NO_TIMES.flags.writeable = False
NONE_REFUSED = RefusedTuples(_NO_TIMES, _NO_TIMES)
"""No row was refused; shared, read-only."""


def read_columns(
    spec: StreamSpec, table: pa.RecordBatch | pa.Table, config: EngineConfig, *, staged: bool = False
) -> tuple[Column, ...]:
    """The checked columns of a push; raises InvalidBatch. O(bytes), without a copy where types already fit.

    The buffers are verified before anything reads them: a payload off the wire may hold offsets or UTF-8 that would
    lead outside its memory. `staged`: all parts of a batch, which may have more rows.
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
    columns = columns_from_arrow(spec.schema, table)
    for attribute, column in zip(spec.schema.attributes, columns, strict=True):
        if column.type.kind is Kind.TEXT:
            _check_text(attribute.name, column, config.text_bytes)
        check_finite(attribute.name, column)
    return columns


def _check_growth(spec: StreamSpec, table: pa.RecordBatch | pa.Table, limit: int) -> None:
    """Refuse rows that grow too much in the columns of their stream, before they do.

    A column that is missing has a value for each row there, and a byte is eight. O(columns).
    """
    kinds = [attribute.type.kind for attribute in spec.schema.attributes]
    grown = table.num_rows * sum(1 if kind is Kind.BOOLEAN else 8 for kind in kinds)
    if Kind.TEXT in kinds:  # Arrow looks through every buffer for it
        grown += table.nbytes
    if grown > limit:
        raise InvalidBatch(
            f"the batch takes {grown:,} bytes in the {len(kinds):,} columns of stream {spec.name!r};"
            f" {limit:,} is the most, send it in parts",
            reason="BATCH_TOO_LARGE",
            found=grown,
            limit=limit,
        )


def _check_text(name: str, column: Column, limit: int) -> None:
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
    """Refuse the infinite times and dates of other systems: at the ends of their integers they would be ordinary."""
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


def payload_digest(columns: tuple[Column, ...]) -> bytes:
    """16 bytes that identify the values of a batch, for a caller that sent no digest of its own. O(bytes)."""
    state = hashlib.blake2b(digest_size=16)
    for column in columns:
        values = column.values
        state.update(np.array([len(column), column.valid is not None], np.int64).tobytes())
        if column.type.kind is Kind.TEXT:
            assert column.data is not None
            state.update(np.ascontiguousarray(values - values[0]).data)
            state.update(np.ascontiguousarray(column.data[int(values[0]) : int(values[-1])]).data)
        else:
            state.update(np.ascontiguousarray(values).data)
        if column.valid is not None:
            state.update(np.ascontiguousarray(column.valid).data)
    return state.digest()


def check_times(spec: StreamSpec, columns: tuple[Column, ...]) -> None:
    """Raise InvalidBatch for a NULL in the attribute that is the stream's time. O(rows)."""
    if spec.time_attribute is None:
        return
    column = columns[spec.time_attribute]
    if column.valid is not None and not column.valid.all():
        name, row = spec.schema.attributes[spec.time_attribute].name, int(np.argmin(column.valid))
        raise InvalidBatch(
            f"row {row}: {name!r} is NULL, but it is the stream's TIMESTAMP BY; leave out such rows",
            reason="NULL_TIMESTAMP",
            column=name,
            row=row,
        )


def in_event_time(
    spec: StreamSpec, columns: tuple[Column, ...], watermark: int | None, bound: int, *, whole: bool = False
) -> tuple[Batch, RefusedTuples, int | None]:
    """The accepted rows, the refused times, and the watermark after them. `bound`: the greatest time accepted.

    Raises InvalidBatch for a NULL time; FailedPrecondition if it is to be taken `whole` and a row would be refused,
    were it to come after the rows before it. No late and no ahead row: no copy.
    """
    assert spec.time_attribute is not None
    check_times(spec, columns)
    times = columns[spec.time_attribute].values
    batch, refused = Batch(columns, times), NONE_REFUSED
    if not len(times):
        return batch, refused, watermark
    least = _LEAST if watermark is None else watermark
    bound = min(bound, _GREATEST)
    some_refused = int(times.min()) < least or int(times.max()) > bound
    if whole and (some_refused or bool((times < np.maximum.accumulate(times) - spec.lateness).any())):
        raise FailedPrecondition("some of the rows would be refused alone", reason="NOT_WHOLE")
    if some_refused:
        late = times < least
        ahead = (times > bound) & ~late
        refused = RefusedTuples(times[late], times[ahead])
        batch = batch.take(np.flatnonzero(~(late | ahead)))
        if not len(batch):
            return batch, refused, watermark
    return batch, refused, max(least, int(batch.times.max()) - spec.lateness)


def in_system_time(columns: tuple[Column, ...], rows: int, watermark: int | None, now: int) -> tuple[Batch, int | None]:
    """The rows, all with one physical ID that is not below the last one's, and that ID as the watermark."""
    if not rows:
        return Batch(columns, _NO_TIMES), watermark
    physical = now if watermark is None else max(now, watermark)
    return Batch(columns, np.full(rows, physical, np.int64)), physical
