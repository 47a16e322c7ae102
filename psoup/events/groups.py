"""Groups of followers: the record of a group, the commands about groups, and their event.

    FormGroup ────prepare──> GroupChanged    the group stands, and every partition begins at one position
    ConfirmGroup ─prepare──> GroupChanged    its partitions have confirmed further positions
    DropGroup ────prepare──> GroupChanged    the group is forgotten

A group divides the queries of a feed into `PARTITIONS` partitions. Each partition has its own position in the feed. The
service decides which worker has which partition (`psoup_service.following`); this module knows no workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from psoup.model import DEFAULT_TENANT
from psoup.values.columns import Array

PARTITIONS = 64
"""The number of partitions of each group. It is also the most workers that a group keeps busy."""

POSITION = np.dtype("<i8")
"""The type of the two numbers of a position: the next tuple ID, and the last query ID told of that tuple."""


@dataclass(frozen=True, slots=True)
class FollowerGroup:
    """A group of followers of one stream. Times are in microseconds since 1970 UTC.

    `form`: the selection of queries, as canonical text that only the service reads. `positions`: the confirmed position
    of each partition, int64[PARTITIONS, 2] as bytes. `confirmed`: the time of the last confirmation, 0 before it.
    `formed`: the sequence of the event that formed the group, 0 in logs of earlier versions. A group that is removed
    and formed again has another one.
    """

    tenant: str
    stream_id: int
    name: str
    form: str
    positions: bytes
    created: int
    confirmed: int = 0
    formed: int = 0


@dataclass(frozen=True, slots=True)
class FormGroup:
    """Form a group whose partitions all begin at the tuple `start`. An equal group counts as formed by this command."""

    stream: str
    name: str
    form: str
    start: int
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class ConfirmGroup:
    """Move the partitions of a group to `positions`. A partition that is further already stays there.

    `formed`: as in FollowerGroup. A group that was formed by another event is not changed.
    """

    stream_id: int
    name: str
    formed: int
    positions: bytes
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class DropGroup:
    """Forget a group and its positions."""

    stream: str
    name: str
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """A group has this state from this event on. `group`: None if the group is dropped."""

    sequence: int
    tenant: str
    stream_id: int
    name: str
    group: FollowerGroup | None
    time: int


GroupKey = tuple[int, str]
"""The key of a group: its stream ID and its name."""


def groups_after(groups: Mapping[GroupKey, FollowerGroup], event: GroupChanged) -> dict[GroupKey, FollowerGroup]:
    """The groups after an event. The result is a new dictionary. O(groups)."""
    after = {**groups}
    if event.group is None:
        after.pop((event.stream_id, event.name), None)
    else:
        after[event.stream_id, event.name] = event.group
    return after


def groups_without(groups: Mapping[GroupKey, FollowerGroup], stream_id: int) -> dict[GroupKey, FollowerGroup]:
    """The groups after the drop of a stream. O(groups)."""
    return {key: group for key, group in groups.items() if key[0] != stream_id}


def first_positions(start: int) -> bytes:
    """The positions of a group whose partitions all begin at the tuple `start`, with all of its queries."""
    return np.tile(np.array([start, -1], POSITION), (PARTITIONS, 1)).tobytes()


def positions_array(positions: bytes) -> Array:
    """The positions of a group as int64[PARTITIONS, 2]. The array must not be written to."""
    return np.frombuffer(positions, POSITION).reshape(PARTITIONS, 2)


def later_positions(left: bytes, right: bytes) -> bytes:
    """The later position of each partition. A position is later by its tuple ID, then by its query ID."""
    first, second = positions_array(left), positions_array(right)
    same = first[:, 0] == second[:, 0]
    behind = (first[:, 0] < second[:, 0]) | (same & (first[:, 1] < second[:, 1]))
    return np.where(behind[:, None], second, first).astype(POSITION).tobytes()
