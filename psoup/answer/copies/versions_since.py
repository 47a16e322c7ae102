"""The versions of a table that have ended since a client got its rows.

    token    next tuple ID 40          entries 40, 41, 42 since        their versions before: 7, -, 12
    client   [0, 40)                   of these 7 matches              ──> row 7 leaves

The cost depends on the new entries alone. An entry that has ended itself may have left its chunk. Then the rows of the
client that stay are all versions that hold and match.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.answer.copies.id_intervals import Interval, Intervals
from psoup.data.versions import without_deletions
from psoup.execution.select.clause_matches import chunk_matches, search_of
from psoup.execution.select.version_entries import entries_between, located
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget

MOST_ENDED = 65_536
"""The most rows that leave a copy one by one. A copy that loses more gets all its rows again."""


def ended_since(
    snapshot: Snapshot, view: StreamView, sqc_id: int, intervals: Sequence[Interval], next_id: int, budget: ReadBudget
) -> Array | None:
    """The IDs of versions that match a clause and have ended since the tuple ID `next_id`: int64, ascending.

    All are in the `intervals` that the client has. Versions that have left their chunks are not tested. Returns None if
    an entry since has left its chunk, so that the versions before are not known. O(new entries + their chunks).
    """
    entries = entries_between(view, next_id, view.next_id)
    if not entries.all:
        return None
    budget.examine(len(entries.ids))
    before = np.sort(entries.before[(entries.before >= 0) & (entries.before < next_id)])
    before = before[_inside(before, intervals)]
    clause, stays = snapshot.clause(sqc_id), np.ones(len(before), np.bool_)
    search = search_of(view, clause, snapshot.config.texts)
    for entry, at, rows in located(view, before):
        budget.check()
        low, high = int(rows[0]), int(rows[-1]) + 1
        matches = chunk_matches(entry, clause, low, high, budget, search).offsets
        stays[at] = np.isin(rows, without_deletions(entry.data, matches))
    return before[stays]


def _inside(ids: Array, intervals: Sequence[Interval]) -> Array:
    """Whether each ID (int64[n]) is in an interval: bool[n]."""
    ends: Array = np.array([end for interval in intervals for end in interval], np.int64)
    inside: Array = np.searchsorted(ends, ids, "right") % 2 == 1
    return inside


def without_ids(intervals: Intervals, ids: Array) -> Intervals:
    """The intervals without some of their IDs (int64[n], ascending). O(intervals + n)."""
    left = list[Interval]()
    for low, high in intervals:
        first, stop = np.searchsorted(ids, (low, high))
        gone = ids[first:stop].tolist()
        pieces = zip([low, *(tuple_id + 1 for tuple_id in gone)], [*gone, high], strict=True)
        left += [piece for piece in pieces if piece[0] < piece[1]]
    return tuple(left)


def runs_of(ids: Array) -> Intervals:
    """The intervals of some IDs (int64[n], ascending and distinct). O(n)."""
    if not len(ids):
        return ()
    cuts = np.flatnonzero(np.diff(ids) != 1)
    lows, ends = ids[np.append(0, cuts + 1)], ids[np.append(cuts, len(ids) - 1)] + 1
    return tuple(zip(lows.tolist(), ends.tolist(), strict=True))


def is_too_old(view: StreamView, next_id: int, now: int, share: float = 1.0) -> bool:
    """Whether an entry since the tuple ID `next_id` is older than a share of DELETED FOR. `now`: the clock."""
    table, current = view.spec.table, view.now(now)
    if table is None or current is None:
        return False
    first = next((entry for entry in view.chunks[view.archived :] if entry.data.end_id > next_id), None)
    if first is None or next_id >= view.next_id or not len(first.data):
        return False
    entries = entries_between(view, next_id, first.data.end_id)
    oldest = max(current - share * table.deleted_for, table.forgotten_before)
    if not len(entries.ids):
        return int(first.data.last_time) < oldest
    ((_, _, rows),) = located(view, entries.ids[:1])
    return int(first.data.times[rows[0]]) < oldest
