"""Groups of followers in the log: rows of the kinds `group` and `ungroup`, and the removal of outdated ones.

A row `group` has all facts of one group, and its positions in the column `refused`. So the group's previous row is
deleted in its transaction. A dropped group's rows are deleted, and so are earlier drops.
"""

from __future__ import annotations

from typing import Any

import apsw

from psoup.events.groups import PARTITIONS, POSITION, FollowerGroup, GroupChanged
from psoup_storage.durable.log.rows import LogRow, new_row

_EARLIER = "DELETE FROM log WHERE kind = 'group' AND stream = ? AND body ->> 'name' = ? AND sequence < ?"
_EARLIER_DROPS = "DELETE FROM log WHERE kind = 'ungroup' AND stream = ? AND sequence < ?"


def encode_group(event: GroupChanged) -> LogRow:
    """The row of an event."""
    facts = {"tenant": event.tenant, "name": event.name, "time": event.time}
    if event.group is None:
        return new_row(event.sequence, "ungroup", event.stream_id, **facts)
    group = event.group
    facts |= {"form": group.form, "created": group.created, "confirmed": group.confirmed}
    return new_row(event.sequence, "group", event.stream_id, group.positions, **facts)


def decode_group(row: LogRow, facts: dict[str, Any]) -> GroupChanged:
    """The event of a row with the body `facts`. Raises KeyError and ValueError for a damaged one."""
    tenant, name, group = facts["tenant"], facts["name"], None
    if row.kind == "group":
        positions = row.refused or b""
        if len(positions) != PARTITIONS * 2 * POSITION.itemsize:
            raise ValueError(f"the positions of group {name!r} have {len(positions)} bytes")
        created, confirmed = facts["created"], facts["confirmed"]
        group = FollowerGroup(tenant, row.stream, name, facts["form"], positions, created, confirmed)
    return GroupChanged(row.sequence, tenant, row.stream, name, group, facts["time"])


def forget_group(connection: apsw.Connection, event: GroupChanged) -> None:
    """Delete the rows that an event makes outdated. O(rows of the stream)."""
    connection.execute(_EARLIER, (event.stream_id, event.name, event.sequence))
    if event.group is None:
        connection.execute(_EARLIER_DROPS, (event.stream_id, event.sequence))
