"""The error of a push that takes all rows or none, and that has rows outside of the accepted times.

    times      12:03   12:06   12:30        watermark 12:05, clock 12:10, latest 12:15
               late            ahead        facts: counts, first row numbers, watermark, latest, now

A client that has the rows finds all refused ones by `watermark` and `latest`. The text names the first one.
"""

from __future__ import annotations

import datetime

from psoup.errors import RowsRefused
from psoup.model import StreamSpec, time_text
from psoup.values.columns import Array, Column

_LISTED_CHARS = 160
"""The most characters of the row numbers of one kind in the facts. A gRPC status has room for 200."""


def rows_refused(
    spec: StreamSpec,
    columns: tuple[Column, ...],
    refused: tuple[Array, Array],
    watermark: int | None,
    latest: int,
    now: int,
) -> RowsRefused:
    """Make the error for rows below `watermark` or after `latest`. O(rows refused).

    `refused`: the numbers of the late rows and of the rows ahead, int64 ascending. There is at least one.
    """
    assert spec.time_attribute is not None
    times = columns[spec.time_attribute].values
    late, ahead = refused
    row = int(min(rows[0] for rows in (late, ahead) if len(rows)))
    count = len(late) + len(ahead)
    time = int(times[row])
    if watermark is not None and time < watermark:
        why = f"is too late by {_distance(watermark - time)}: the watermark is {time_text(watermark)}"
        why += "" if spec.table is None else ", and its key has a version"
    else:
        why = (
            f"is too far ahead of the clock by {_distance(time - now)}: rows up to {time_text(latest)} are accepted"
            " now. The sender's clock is fast, or it sends times of the future (ALTER STREAM … AHEAD)"
        )
    more = f"; {count - 1:,} more {'row is' if count == 2 else 'rows are'} refused" if count > 1 else ""
    if len(times) == 1:
        none = "The row was not taken; leave it out, or ask that refused rows are counted"
    else:
        none = f"None of the {len(times):,} rows was taken; leave such rows out, or ask that the other rows are taken"
    error = RowsRefused(
        f"row {row}: its time {time_text(time)} {why}{more}. {none}",
        row=row,
        rows=len(times),
        late=len(late),
        ahead=len(ahead),
        late_rows=_listed(late),
        ahead_rows=_listed(ahead),
        latest=latest,
        now=now,
        stream=spec.name,
    )
    if watermark is not None:
        error.facts["watermark"] = str(watermark)
    if spec.table is not None:
        error.facts["late_by_key"] = "1"
    return error


def _distance(micros: int) -> str:
    """A duration as text: hours, minutes and seconds, after the number of days."""
    try:
        return str(datetime.timedelta(microseconds=micros))
    except OverflowError:
        return f"{micros:,} microseconds"


def _listed(rows: Array) -> str:
    """The first row numbers as text, cut before `_LISTED_CHARS`."""
    numbers = list(map(str, rows[:_LISTED_CHARS].tolist()))
    text = ",".join(numbers)
    if len(rows) <= len(numbers) and len(text) <= _LISTED_CHARS:
        return text
    return text[:_LISTED_CHARS].rpartition(",")[0] + ",…"
