"""The condition on a version of a table: it holds at the time of the answer.

    deletion           it is a version of a row, not a deletion     no
    version, now       it holds now                                 no     end is 12:00, next entry is 7
    version, as of T   it holds at T                                yes    begin is 10:00, end is 12:00

A tuple of a stream has a window instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.answer.tuples.conditions import MatchCondition
from psoup.data.versions import EVER, LATEST, begins_of, ends_of, versions_of
from psoup.expressions.tree import Literal
from psoup.model import DELETED_AT, TIMESTAMP, TableSpec, time_text
from psoup.plan.canonical import literal_text
from psoup.published.snapshot import StreamView
from psoup.values.columns import Column

_ALWAYS = np.iinfo(np.int64)


class VersionTimes(NamedTuple):
    """The times between which a version holds, microseconds. None: from the beginning, or without an end.

    `successor`: the ID of the entry that ended the version.
    """

    begin: int | None
    end: int | None
    successor: int | None


def is_deletion(columns: Sequence[Column]) -> bool:
    """Whether an entry, of one row, is a deletion."""
    deleted = columns[DELETED_AT]
    return bool(deleted.values[0]) and (deleted.valid is None or bool(deleted.valid[0]))


def times_of_version(view: StreamView, table: TableSpec, tuple_id: int) -> VersionTimes:
    """The times of a stored version, as a reader of the view knows them. O(log chunks)."""
    data = view.chunk_of(tuple_id).data
    row = data.places.rows(np.array([tuple_id], np.int64))
    begin, end = int(begins_of(data, table, row)[0]), int(ends_of(data, row)[0])
    successor = int(versions_of(data).successors[row[0]])
    if successor == 0 or successor >= view.next_id:
        return VersionTimes(None if begin == _ALWAYS.min else begin, None, None)
    return VersionTimes(None if begin == _ALWAYS.min else begin, end, successor)


def version_condition(columns: Sequence[Column], times: VersionTimes | None, at: int) -> MatchCondition:
    """The condition that an entry, of one row, holds at the time `at`, microseconds, or now: LATEST. EVER: at any time.

    `times`: None for a row that is not pushed. Such a row would hold from now on.
    """
    if is_deletion(columns):
        return MatchCondition("version", "it is a version of a row, not a deletion", passed=False)
    if times is None:
        return MatchCondition("version", "it would hold from now on", passed=True)
    values = list[tuple[str, str]]()
    if times.begin is not None:
        values.append(("begin", literal_text(Literal(TIMESTAMP, times.begin))))
    if times.end is not None:
        values += [("end", literal_text(Literal(TIMESTAMP, times.end))), ("next entry", str(times.successor))]
    if at == EVER:  # of a table AS OF a stream
        lasts = times.begin is None or times.end is None or times.begin < times.end
        return MatchCondition("version", "it held for some time", lasts, tuple(values))
    begun, ended = times.begin is None or times.begin <= at, times.end is not None and times.end <= at
    text = "it holds now" if at == LATEST else f"it holds at {time_text(at)}"
    return MatchCondition("version", text, begun and not ended, tuple(values))
