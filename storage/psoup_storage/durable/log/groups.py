"""Groups of followers in the log: rows of the kinds `group` and `ungroup`, and the removal of outdated ones.

A row `group` has all facts of one group, and its positions in the column `refused`. So the group's previous row is
deleted in its transaction. A dropped group's rows are deleted, and so are earlier drops. The rows of a stream's groups
have a separate stream ID. So the index finds them without reading the stream's pushes and queries.
"""

from __future__ import annotations

from typing import Any

import apsw

from psoup.events.groups import PARTITIONS, POSITION, FollowerGroup, GroupChanged
from psoup_storage.durable.log.rows import OF_ALL_STREAMS, LogRow, new_row

_EARLIER = "DELETE FROM log WHERE stream = ? AND kind = 'group' AND body ->> 'name' = ? AND sequence < ?"
_EARLIER_DROPS = "DELETE FROM log WHERE stream = ? AND kind = 'ungroup' AND sequence < ?"


def groups_of(stream: int) -> int:
    """The stream ID in the rows of a stream's groups, and the reverse. Streams have IDs from 1 on."""
    return OF_ALL_STREAMS - stream


def encode_group(event: GroupChanged) -> LogRow:
    """The row of an event."""
    facts = {"tenant": event.tenant, "name": event.name, "time": event.time}
    if event.group is None:
        return new_row(event.sequence, "ungroup", groups_of(event.stream_id), **facts)
    group = event.group
    facts |= {"form": group.form, "created": group.created, "confirmed": group.confirmed, "formed": group.formed}
    return new_row(event.sequence, "group", groups_of(event.stream_id), group.positions, **facts)


def decode_group(row: LogRow, facts: dict[str, Any]) -> GroupChanged:
    """The event of a row with the body `facts`. Raises KeyError and ValueError for a damaged one."""
    tenant, stream_id, name, group = facts["tenant"], groups_of(row.stream), facts["name"], None
    if row.kind == "group":
        positions = row.refused or b""
        if len(positions) != PARTITIONS * 2 * POSITION.itemsize:
            raise ValueError(f"the positions of group {name!r} have {len(positions)} bytes")
        numbers = facts["created"], facts["confirmed"], facts.get("formed", 0)
        group = FollowerGroup(tenant, stream_id, name, facts["form"], positions, *numbers)
    return GroupChanged(row.sequence, tenant, stream_id, name, group, facts["time"])


def forget_group(connection: apsw.Connection, event: GroupChanged) -> None:
    """Delete the rows that an event makes outdated. O(groups of the stream)."""
    rows = groups_of(event.stream_id)
    connection.execute(_EARLIER, (rows, event.name, event.sequence))
    if event.group is None:
        connection.execute(_EARLIER_DROPS, (rows, event.sequence))


def forget_groups(connection: apsw.Connection, stream: int) -> None:
    """Delete the rows of a dropped stream's groups."""
    connection.execute("DELETE FROM log WHERE stream = ?", (groups_of(stream),))
