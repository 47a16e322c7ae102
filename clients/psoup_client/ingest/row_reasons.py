"""The reason for each row that a push refuses for its time. The client finds them from the limits in the reply.

times of a push   12:03  12:06  12:30       reply: watermark 12:05, latest time 12:15, clock 12:10
                  row 0: late by 0:02:00    row 2: ahead by 0:20:00
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from psoup_client.errors import LISTED_ROWS, RefusedRow, RowsRefused
from psoup_client.times import from_micros

_ZONES_OFF = (14 * 60 * 1_000_000, 15 * 3_600 * 1_000_000)
"""The least and the greatest distance, in microseconds, of a present time that was taken as UTC."""


def outside(problem: RowsRefused, times: Any) -> Any:
    """Find the rows that the service refused: int64[k], ascending. `times`: the times of all rows, int64[n]. O(n).

    If the limits in the reply do not explain its counts, the result is empty.
    """
    late, ahead = masks(problem, times)
    if [int(late.sum()), int(ahead.sum())] != [problem.late, problem.ahead]:
        return np.zeros(0, np.int64)
    return np.flatnonzero(late | ahead)


def masks(problem: RowsRefused, times: Any) -> tuple[Any, Any]:
    """Return which rows are too late, and which are too far ahead: two arrays, bool[n].

    A row of a new key of a table is never late. So the late rows of a table are the rows that the reply lists. It may
    not list all of them.
    """
    watermark, latest = _limit(problem, "watermark"), _limit(problem, "latest")
    late = np.zeros(len(times), bool)
    late_rows = late_rows_of(problem)
    if late_rows is not None:
        late[[row for row in late_rows if row < len(times)]] = True
    elif watermark is not None:
        late = times < watermark
    ahead = np.zeros(len(times), bool) if latest is None else (times > latest) & ~late
    return late, ahead


def late_rows_of(problem: RowsRefused) -> Sequence[int] | None:
    """Return the late rows that a refused push to a table lists, perhaps not all. None: they follow from the times."""
    return _numbers(problem, "late_rows") if "late_by_key" in problem.facts else None


def reason_of(problem: RowsRefused, time: int) -> str:
    """Describe why a row with that time is refused."""
    watermark, now = _limit(problem, "watermark"), _limit(problem, "now")
    if watermark is not None and time < watermark:
        return (
            f"its time {_text(time)} is too late by {_distance(watermark - time)}: the watermark is {_text(watermark)}"
        )
    by = "" if now is None else f" by {_distance(time - now)}"
    return f"its time {_text(time)} is too far ahead of the clock{by}: the sender's clock is fast"


def explained(problem: RowsRefused, stream: str, times: Any, taken: int = 0) -> RowsRefused:
    """Return the same error with the reasons of the first rows. O(n).

    `times`: the times of the sent rows, int64[n]. `taken`: the number of rows before them, which were taken.
    """
    places = outside(problem, times)[:LISTED_ROWS]
    rows = tuple(RefusedRow(taken + int(row), reason_of(problem, int(times[row]))) for row in places)
    way = f' (refused="count"); refused="divert" also keeps these in stream {late_name(stream)!r}'
    before = f". The {taken:,} rows before were taken; go on from row {taken:,}" if taken else ""
    return shifted(problem, taken, rows, way + before)


def of_stage(problem: RowsRefused) -> RowsRefused:
    """Return the same error with the first refused rows, whose times the client does not have."""
    watermark, latest = _limit(problem, "watermark"), _limit(problem, "latest")
    late = "it is too late" + ("" if watermark is None else f": its time is below the watermark {_text(watermark)}")
    ahead = "it is too far ahead of the clock" + ("" if latest is None else f": its time is after {_text(latest)}")
    numbers = [(row, late) for row in _numbers(problem, "late_rows")]
    numbers += [(row, ahead) for row in _numbers(problem, "ahead_rows")]
    rows = tuple(RefusedRow(row, why) for row, why in sorted(numbers))
    return shifted(problem, 0, rows, ' (refused="count")')


def _numbers(problem: RowsRefused, name: str) -> list[int]:
    """The first row numbers in a fact. Its text may be cut."""
    return [int(text) for text in problem.facts.get(name, "").split(",") if re.fullmatch(r"[0-9]{1,18}", text)]


def shifted(problem: RowsRefused, by: int, rows: tuple[RefusedRow, ...] = (), more: str = "") -> RowsRefused:
    """Return the same error for rows whose numbers are `by` greater. `more`: text that is added to the message."""
    row = problem.facts.get("row", "")
    among = str(int(row) + by) if row.isdigit() else row
    message = re.sub(rf"\brow {row}\b", f"row {among}", problem.message, count=1) if row else problem.message
    facts = {**problem.facts, "row": among} if row else problem.facts
    taken = problem.taken or (by if more else 0)
    return RowsRefused(message + more, rows=rows, taken=taken, reason=problem.reason, facts=facts)


def zone_hint(problem: RowsRefused, times: Any) -> str:
    """The sentence about times that were taken as UTC. "" if the first refused row has another cause.

    `times`: the times of the sent rows, int64[n]. A row of another zone is 15 minutes to 15 hours off the clock.
    """
    now, row = _limit(problem, "now"), problem.rows[0].row - problem.taken if problem.rows else -1
    if now is None or not 0 <= row < len(times) or not _ZONES_OFF[0] <= abs(int(times[row]) - now) <= _ZONES_OFF[1]:
        return ""
    return '. These times have no zone and were taken as UTC; say which it is: Client(timezone="Europe/Berlin")'


def late_name(stream: str) -> str:
    """Return the name of the stream that keeps the refused rows of `stream`."""
    return f"{stream}_late"


def _limit(problem: RowsRefused, name: str) -> int | None:
    text = problem.facts.get(name, "")
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else None


def _text(micros: int) -> str:
    return from_micros(micros).isoformat(sep=" ").replace("+00:00", "Z")


def _distance(micros: int) -> str:
    try:
        return str(dt.timedelta(microseconds=micros))
    except OverflowError:
        return f"{micros:,} microseconds"
