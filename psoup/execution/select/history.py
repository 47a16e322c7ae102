"""The HISTORY of a table: the times about which its answers are exact.

    edge = NOW of the table - HISTORY      ──── lost ────│──── exact ──── NOW
                                                        edge
    version    [────────[                  it ended before the edge: it counts as lost
    version         [──────────────[       it is kept

A lost version is in no answer, whether or not it is still in memory. So an answer does not depend on the time at which
maintenance removes it.
"""

from __future__ import annotations

from psoup.data.versions import EVER, NOTHING_LOST
from psoup.errors import OutOfRange
from psoup.model import time_text
from psoup.plan.canonical import describe_duration
from psoup.published.snapshot import StreamView


def history_edge(view: StreamView, current: int | None) -> int:
    """The earliest time about which a table's answers are exact. `current`: NOW of the table."""
    table = view.spec.table
    return NOTHING_LOST if table is None or current is None else table.history_edge(current)


def with_history(view: StreamView, current: int | None, as_of: int | None) -> StreamView:
    """The view of a table for a reader at `as_of`, or at present. Lost versions are not in it. O(1)."""
    if view.at == EVER:
        return view.as_of(EVER, history_edge(view, current))
    return view if as_of is None else view.as_of(as_of, history_edge(view, current))


def is_before_history(view: StreamView, as_of: int | None) -> bool:
    """Whether versions that held at `as_of` may be lost. `view`: the result of `with_history`.

    A reader of all versions asks at the time of each row of a stream instead. Its answer counts the unknown versions.
    """
    return as_of is not None and view.at != EVER and as_of < view.lost_before


def refuse_before_history(view: StreamView, as_of: int | None) -> None:
    """Raise OutOfRange if `is_before_history`."""
    table = view.spec.table
    if table is not None and as_of is not None and is_before_history(view, as_of):
        shorter = ", as HISTORY was shorter before" if view.lost_before == table.exact_from else ""
        raise OutOfRange(
            f"as_of {time_text(as_of)} lies before the HISTORY of table {view.spec.name!r}, which keeps the versions of"
            f" {describe_duration(table.history)}, now from {time_text(view.lost_before)} on{shorter}; ask for a later"
            " time, or accept truncation: the answer then lacks the rows that ended before",
            reason="AS_OF_BEFORE_HISTORY",
            stream=view.spec.name,
        )
