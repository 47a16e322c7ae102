"""The places in tables that a service has told: `psoup.published.followed_places` keeps the versions for them."""

from __future__ import annotations

from collections.abc import Hashable

from psoup.events.groups import positions_array
from psoup.published.snapshot import Snapshot


def note_place(snapshot: Snapshot, stream_id: int, reader: Hashable, next_id: int, now: int) -> None:
    """Note the place of a reader, if it follows a table. `now`: the clock, microseconds. O(1)."""
    view = snapshot.by_id.get(stream_id)
    if view is not None and view.spec.table is not None:
        snapshot.followed.note(stream_id, reader, next_id, now, newest=next_id >= view.next_id)


def note_groups(snapshot: Snapshot, now: int) -> None:
    """Forget the places of readers that were away for too long, and note what all groups have confirmed. O(groups)."""
    snapshot.followed.tick(now)
    for (stream_id, name), group in snapshot.groups.items():
        note_place(snapshot, stream_id, name, int(positions_array(group.positions)[:, 0].min()), now)
