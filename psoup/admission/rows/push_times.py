"""The times of a push: its accepted rows, the refused ones, their physical IDs, and the new watermark.

    event time                                            watermark W, bound = clock + max_ahead
      time:   ... late ... | W ... accepted ... bound | ... ahead ...
      only late and ahead rows are refused; a NULL time refuses the batch
      accepted rows move W to their greatest time less LATENESS
      rows past the clock move W as if they had its time, unless the stream states AHEAD
    system time
      every row of the batch gets max(clock, last physical ID)

So a sender with a fast clock makes no row late. A row of a table below W is late only if its key has a version. The
first versions of a key get the physical ID W.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psoup.admission.rows.first_versions import NewKeys
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidBatch
from psoup.events.events import RefusedTuples
from psoup.model import StreamSpec
from psoup.values.columns import Array, Batch, Column

_LEAST = -(2**63)
"""The least time, in microseconds."""
_GREATEST = 2**63 - 1
"""The greatest time, in microseconds."""
_NO_TIMES: Array = np.zeros(0, np.int64)
_NO_TIMES.flags.writeable = False
NONE_REFUSED = RefusedTuples(_NO_TIMES, _NO_TIMES)
"""The value without any refused row. All events share it, so its arrays are read-only."""


def check_times(spec: StreamSpec, columns: tuple[Column, ...]) -> None:
    """Raise InvalidBatch for a NULL in the stream's time attribute. O(rows)."""
    if spec.time_attribute is None:
        return
    column = columns[spec.time_attribute]
    if column.valid is not None and not column.valid.all():
        name, row = spec.schema.attributes[spec.time_attribute].name, int(np.argmin(column.valid))
        raise InvalidBatch(
            f"row {row}: {name!r} is NULL, but it is the {spec.noun}'s TIMESTAMP BY; leave out such rows",
            reason="NULL_TIMESTAMP",
            column=name,
            row=row,
        )


class Taken(NamedTuple):
    """The rows of a push: the accepted ones, the times of refused ones, and the new watermark.

    `late`, `ahead`: bool[n], the refused rows; None if there are none. `floor`: as in `psoup.events.Pushed`.
    """

    batch: Batch
    refused: RefusedTuples
    watermark: int | None
    late: Array | None = None
    ahead: Array | None = None
    floor: int | None = None


def in_event_time(
    spec: StreamSpec,
    columns: tuple[Column, ...],
    watermark: int | None,
    bound: int,
    now: int,
    *,
    alone: Sequence[int] | None = None,
    new: NewKeys | None = None,
) -> Taken:
    """Find the accepted rows, the refused times, and the new watermark. `bound`: the greatest accepted time.

    `now`: the clock, past which no tuple moves the watermark, unless the stream states AHEAD. Raises InvalidBatch for a
    NULL time. `alone`: the rows are of several pushes with these numbers of rows; empty if each row is a push. Then
    raises FailedPrecondition if a row would be refused, here or if the pushes came one after the other. `new`: the test
    for keys of a table without a version. Without refused rows nothing is copied.
    """
    assert spec.time_attribute is not None
    check_times(spec, columns)
    times = columns[spec.time_attribute].values
    batch, refused = Batch(columns, times), NONE_REFUSED
    if not len(times):
        return Taken(batch, refused, watermark)
    earliest = _LEAST if watermark is None else watermark
    bound = min(bound, _GREATEST)
    some_refused = int(times.min()) < earliest or int(times.max()) > bound
    furthest = now if spec.clock_bound else _GREATEST
    if alone is not None and (some_refused or _refused_alone(times, furthest, spec.lateness, alone)):
        raise FailedPrecondition("some of the rows would be refused alone", reason="NOT_WHOLE")
    if not some_refused:
        return Taken(batch, refused, max(earliest, min(int(times.max()), furthest) - spec.lateness))
    late = times < earliest
    ahead = (times > bound) & ~late
    floor = _take_first_versions(columns, late, new, earliest)
    refused = RefusedTuples(times[late], times[ahead])
    if refused.count:
        batch = batch.take(np.flatnonzero(~(late | ahead)))
    if not len(batch):
        return Taken(batch, refused, watermark, late, ahead)
    if floor is not None:
        batch = replace(batch, times=np.maximum(batch.times, floor))
    following = max(earliest, min(int(batch.times.max()), furthest) - spec.lateness)
    return Taken(batch, refused, following, late, ahead, floor)


def _take_first_versions(columns: tuple[Column, ...], late: Array, new: NewKeys | None, watermark: int) -> int | None:
    """Take the rows whose keys are new out of `late` (bool[n]). Returns the watermark, or None if there is none."""
    rows = np.flatnonzero(late)
    if new is None or not len(rows):
        return None
    first = rows[new([column.take(rows) for column in columns])]
    late[first] = False
    return watermark if len(first) else None


def _refused_alone(times: Array, furthest: int, lateness: int, sizes: Sequence[int]) -> bool:
    """Whether a row would be late after the pushes before its push. `sizes`: as `alone` of `in_event_time`. O(rows)."""
    oldest = newest = times
    if sizes:
        ends = np.cumsum([size for size in sizes if size])
        starts = np.concatenate([[0], ends[:-1]])
        oldest, newest = np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)
    if len(oldest) == 1:
        return False
    reached = np.maximum.accumulate(newest)
    reached = np.minimum(reached, furthest) if reached[-1] > furthest else reached
    return bool((oldest[1:] < reached[:-1] - lateness).any())


def in_system_time(columns: tuple[Column, ...], rows: int, watermark: int | None, now: int) -> tuple[Batch, int | None]:
    """Give all rows one physical ID: the clock time, but at least the watermark. Returns them and the new watermark."""
    if not rows:
        return Batch(columns, _NO_TIMES), watermark
    physical = now if watermark is None else max(now, watermark)
    return Batch(columns, np.full(rows, physical, np.int64)), physical


def latest_time(spec: StreamSpec, config: EngineConfig, now: int) -> int:
    """The greatest time that a tuple of a stream, or a heartbeat, may have at clock time `now`."""
    return now + (config.max_ahead if spec.ahead is None else min(spec.ahead, config.max_ahead))
