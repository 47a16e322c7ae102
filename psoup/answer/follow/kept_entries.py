"""Places at which a follower can go on: no tuple after them has left.

    stream    the retention edge, and all tuples after it
    table     all entries after the place, and the entry of the same key before each

A follower is never told of attached history.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.data.windows import retention_edge
from psoup.execution.select.version_entries import VersionEntries, entries_between, located
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array

LOOKED_AT = 65_536
"""The most tuples that a page looks at."""


class FollowPlace(NamedTuple):
    """A place in the matches of a stream: before the tuple `next_id`.

    `after`: of this tuple, the queries with IDs up to this one have been told. -1: no query.
    """

    next_id: int
    after: int = -1


def oldest_place(view: StreamView, now: int) -> FollowPlace:
    """The place before the oldest tuple that is kept, without attached history, whose IDs are below 0.

    In a table: after the last entry that has left, or whose entry before has left. O(1), in a table O(entries).
    """
    oldest = max(retention_edge(view.timeline(), view.spec.retention, view.now(now)), 0)
    if view.spec.table is None:
        return FollowPlace(oldest)
    entries = entries_between(view, oldest, view.next_id)
    gone = _incomplete(view, entries)
    return FollowPlace(max(_last_run(entries.ids, oldest, view.next_id), int(gone[-1]) + 1 if len(gone) else 0))


def _last_run(ids: Array, low: int, high: int) -> int:
    """The first of the last consecutive IDs of [low, high). `ids`: int64[n], ascending, in [low, high)."""
    if low >= high or not len(ids) or int(ids[-1]) + 1 != high:
        return high
    gaps = np.flatnonzero(np.diff(ids) > 1)
    return int(ids[gaps[-1] + 1] if len(gaps) else ids[0])


def kept_from(view: StreamView, place: FollowPlace, now: int) -> FollowPlace:
    """The place itself if the tuples of its next page are kept, else the oldest place. O(tuples of a page)."""
    if view.spec.table is None:
        oldest = oldest_place(view, now)
        return place if place.next_id >= oldest.next_id else oldest
    entries = entries_between(view, place.next_id, min(place.next_id + LOOKED_AT, view.next_id))
    if place.next_id >= view.first_id and entries.all and not len(_incomplete(view, entries)):
        return place
    oldest = oldest_place(view, now)
    return place if place.next_id >= oldest.next_id else oldest


def _incomplete(view: StreamView, entries: VersionEntries) -> Array:
    """The IDs of the entries whose entry before has left, or may have left, ascending."""
    present = np.flatnonzero(entries.before >= 0)
    stored: Array = np.zeros(len(present), np.bool_)
    for _, at, _ in located(view, entries.before[present]):
        stored[at] = True
    incomplete = entries.unsure.copy()
    incomplete[present[~stored]] = True
    return entries.ids[incomplete]
