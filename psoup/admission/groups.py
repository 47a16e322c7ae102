"""Decisions about groups of followers: which may be formed, which positions they may confirm.

    no such group        FormGroup makes it                 ConfirmGroup, DropGroup: NotFound
    an equal group       FormGroup changes nothing
    another form         FormGroup: AlreadyExists, because its workers would tell other queries

Only `KnownGroups.adopt` changes state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from psoup.admission.catalog import KnownTenant
from psoup.errors import AlreadyExists, InvalidInput, NotFound, ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement, Prepared
from psoup.events.events import StreamDropped
from psoup.events.groups import (
    ConfirmGroup,
    DropGroup,
    FollowerGroup,
    FormGroup,
    GroupChanged,
    GroupKey,
    first_positions,
    later_positions,
)
from psoup.model import DEFAULT_TENANT

MOST_GROUPS = 1_000
"""The most groups of all tenants."""

MOST_OF_TENANT = 200
"""The most groups of one tenant other than `default`, so that no tenant takes all places."""

MOST_OF_STREAM = 64
"""The most groups of one stream."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class KnownGroups(dict[GroupKey, FollowerGroup]):
    """The groups after the last prepared event."""

    def adopt(self, event: GroupChanged) -> None:
        """Change or forget a group. O(1)."""
        if event.group is None:
            self.pop((event.stream_id, event.name), None)
        else:
            self[event.stream_id, event.name] = event.group

    def forget(self, event: StreamDropped) -> None:
        """Forget the groups of a dropped stream. O(groups)."""
        for key in [key for key in self if key[0] == event.stream_id]:
            del self[key]


def decide_group(
    command: FormGroup | ConfirmGroup | DropGroup, tenant: KnownTenant, groups: KnownGroups, sequence: int, now: int
) -> Prepared:
    """Decide on forming, confirming or dropping a group. `sequence`: the sequence of the last event. O(groups).

    Raises InvalidInput for an invalid name, and AlreadyExists for a group of another form. Raises ResourceExhausted for
    one group too many, and NotFound.
    """
    stream_id = command.stream_id if isinstance(command, ConfirmGroup) else tenant.stream(command.stream).stream_id
    group = groups.get((stream_id, command.name))
    if isinstance(command, FormGroup):
        if group is not None:
            _check_form(command, group)
            return Prepared(Acknowledgement(sequence, duplicate=True))
        _check_new(command, stream_id, groups)
        group = FollowerGroup(
            command.tenant,
            stream_id,
            command.name,
            command.form,
            first_positions(command.start),
            now,
            formed=sequence + 1,
        )
        return _prepared(group, sequence + 1, now)
    another = group is not None and isinstance(command, ConfirmGroup) and command.formed != group.formed
    if group is None or another or group.tenant != command.tenant:
        raise NotFound(
            f"there is no group {command.name[:64]!r} of followers on this stream; it was never formed, or it was"
            " removed",
            reason="UNKNOWN_GROUP",
            group=command.name[:64],
        )
    if isinstance(command, DropGroup):
        event = GroupChanged(sequence + 1, group.tenant, stream_id, group.name, None, now)
        return Prepared(Acknowledgement(sequence + 1), event)
    positions = later_positions(group.positions, command.positions)
    if positions == group.positions:
        return Prepared(Acknowledgement(sequence, duplicate=True))
    return _prepared(replace(group, positions=positions, confirmed=now), sequence + 1, now)


def _prepared(group: FollowerGroup, sequence: int, now: int) -> Prepared:
    event = GroupChanged(sequence, group.tenant, group.stream_id, group.name, group, now)
    return Prepared(Acknowledgement(sequence), event)


def _check_form(command: FormGroup, group: FollowerGroup) -> None:
    if group.form != command.form:
        raise AlreadyExists(
            f"group {group.name!r} follows other queries: it was formed with {group.form}, and this worker asks for"
            f" {command.form}; give all workers of a group the same selection, or use another name",
            reason="OTHER_GROUP",
            group=group.name,
        )


def _check_new(command: FormGroup, stream_id: int, groups: Mapping[GroupKey, FollowerGroup]) -> None:
    if not _NAME.fullmatch(command.name):
        raise InvalidInput(
            f"{command.name[:64]!r} is not a valid name of a group: use 1 to 64 letters, digits, '_', '.' and '-', of"
            " which the first is a letter or a digit",
            reason="GROUP_NAME",
            field="group",
        )
    of_tenant = command.tenant != DEFAULT_TENANT and sum(group.tenant == command.tenant for group in groups.values())
    for place, count, limit in (
        ("this stream", sum(key[0] == stream_id for key in groups), MOST_OF_STREAM),
        (f"tenant {command.tenant!r}", of_tenant, MOST_OF_TENANT),
        ("the service", len(groups), MOST_GROUPS),
    ):
        if count >= limit:
            raise ResourceExhausted(
                f"{place} has {limit:,} groups of followers, the most; remove those that are not in use",
                reason="TOO_MANY_GROUPS",
                limit=limit,
            )
