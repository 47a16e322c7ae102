"""Rows that the service refused for their times. The client finds them from the counts in the reply.

    times of a batch   12:07  11:02  12:05  19:00  11:30        reply: 2 late, 1 ahead
    by time            11:02  11:30 | 12:05  12:07 | 19:00
                       '-- late --'                 ahead       the least times are late, the greatest are ahead

A row is late if its time is below the watermark of that moment, and ahead if it is above a bound. So the counts are
enough to find these rows. That also works for a lost reply that the service repeats from memory.

Of a table in event time, a row of a key without a version is never late. Replies then list the late rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from psoup_client import html
from psoup_client.html import SHOWN_ROWS
from psoup_proto.v1 import ingest_pb2

LISTED = 65_536
"""The greatest number of rows of each kind that a PushResult lists."""


@dataclass(frozen=True, slots=True)
class RefusedRows(html.Facts):
    """Numbers of refused rows, from 0 and ascending: `late` ones, and ones too far `ahead` of the clock."""

    late: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<RefusedRows: {len(self.late):,} too late, {len(self.ahead):,} too far ahead>"

    def _facts(self) -> dict[str, Any]:
        return {
            kind: ", ".join([*map(str, rows[:SHOWN_ROWS]), *["…"] * (len(rows) > SHOWN_ROWS)])
            for kind, rows in (("late", self.late), ("ahead", self.ahead))
        }

    def plus(self, later: RefusedRows) -> RefusedRows:
        """Add later rows, up to the limit of remembered rows."""
        return RefusedRows(_joined(self.late, later.late), _joined(self.ahead, later.ahead))


NONE_REFUSED = RefusedRows()

Refusing = Literal["raise", "count", "divert"]
"""The choices for rows that are too late or too far ahead; see `Client.push`."""

REFUSED = {"raise": ingest_pb2.REFUSED_RAISE, "count": ingest_pb2.REFUSED_COUNT}
"""The words on the wire."""


def check_refused(refused: str, *allowed: str) -> str:
    """Return `refused`. Raises ValueError if it is not one of the allowed words."""
    if refused not in allowed:
        words = [f'"{word}"' for word in allowed]
        raise ValueError(f"refused is {refused!r}: give {', '.join(words[:-1])} or {words[-1]}")
    return refused


OnRefused = Callable[[RefusedRows], None]
"""The function that receives refused rows."""


def behind(refused: RefusedRows, rows: int) -> RefusedRows:
    """Return the rows with numbers counted among all rows. `rows` rows came before them."""
    return RefusedRows(tuple(row + rows for row in refused.late), tuple(row + rows for row in refused.ahead))


def instants(times: Any) -> Any:
    """Return the times of an Arrow column without NULL, int64[n] of microseconds. A single chunk is not copied."""
    return times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()


def refused_rows(
    times: Any, late: int, ahead: int, before: int = 0, late_rows: Sequence[int] | None = None
) -> RefusedRows:
    """Find `late` and `ahead` refused rows by the times of all rows (int64[n]). Row numbers begin at `before`. O(n).

    If the counts do not fit the times, the reply belongs to other rows, and the result is empty. `late_rows`: the late
    rows that the reply lists, because they do not follow from the times.
    """
    if late + ahead > len(times):
        return NONE_REFUSED
    if late_rows is not None:
        listed = tuple(row + before for row in late_rows)
        return RefusedRows(listed, refused_rows(times, 0, ahead, before).ahead)
    rows = _of_least(times, late), _of_least(~times, ahead)  # ~ reverses the order, and unlike - it cannot overflow
    if [len(kind) for kind in rows] != [late, ahead]:
        return NONE_REFUSED
    return RefusedRows(*(tuple((kind + before).tolist()) for kind in rows))


def _of_least(values: Any, count: int) -> Any:
    """Find the rows of the `count` least values, and all rows equal to the last of these."""
    if not count:
        return np.zeros(0, np.int64)
    return np.flatnonzero(values <= np.partition(values, count - 1)[count - 1])


def _joined(first: tuple[int, ...], later: tuple[int, ...]) -> tuple[int, ...]:
    return first if not later or len(first) == LISTED else (first + later)[:LISTED]
