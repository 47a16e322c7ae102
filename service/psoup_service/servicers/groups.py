"""GroupService: workers that share the matches of a stream; see groups.proto."""

from __future__ import annotations

import asyncio
import json
import re

from psoup.answer.follow.kept_entries import oldest_place
from psoup.answer.follow.told import FollowWanted
from psoup.errors import InvalidInput, NotFound
from psoup.events.groups import DropGroup, FollowerGroup, FormGroup
from psoup.published.snapshot import Snapshot, StreamView
from psoup_proto.v1 import groups_pb2, groups_pb2_grpc
from psoup_service.groups.groups import Groups, Taken, Taking
from psoup_service.groups.leases import Workers
from psoup_service.groups.pages import PageForm
from psoup_service.servicers.backend import Backend
from psoup_service.servicers.follow import FollowServicer
from psoup_service.servicers.invocation import most_bytes
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller

_ROWS = 1_000
_MOST_ROWS = 100_000
_MOST_WAIT_S = 30
_LEASE_S = 60
_MOST_LEASE_S = 3_600
_MOST_FORM = 8_192
"""The most characters of a group's selection, because each confirmation logs it."""
_MOST_FOLLOWERS = 100
_BATCH_BYTES = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_.-]{0,64}")


class GroupServicer(groups_pb2_grpc.GroupServiceServicer):
    """See groups.proto."""

    def __init__(self, backend: Backend, follow: FollowServicer) -> None:
        self._backend = backend
        self._follow = follow
        self._groups = Groups(backend.host, backend.now)
        backend.metrics.by_group(self._groups.lags)

    def drain(self) -> None:
        """End the calls of waiting workers."""
        self._groups.drain()

    async def TakeBatch(self, request: groups_pb2.TakeBatchRequest, caller: Caller) -> groups_pb2.TakeBatchResponse:
        """Confirm a batch, and give the next one."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        taking, wanted = self._taking(request, tenant), self._follow.wanted(request)
        async with asyncio.timeout(backend.limits.default_deadline_s):
            snapshot = await backend.reflecting(request.min_sequence)
        group = await self._formed(request, wanted, snapshot, tenant)
        taken = await self._groups.take(group, wanted, taking)
        return self._response(taken)

    async def ConfirmBatch(
        self, request: groups_pb2.ConfirmBatchRequest, caller: Caller
    ) -> groups_pb2.ConfirmBatchResponse:
        """Confirm a batch."""
        group = self._known(request.stream, request.group, self._backend.tenant(caller))
        sequence = await self._groups.confirm(group, request.lease, request.batch)
        return groups_pb2.ConfirmBatchResponse(sequence=sequence or self._backend.host.snapshot().sequence)

    async def LeaveGroup(self, request: groups_pb2.LeaveGroupRequest, caller: Caller) -> groups_pb2.LeaveGroupResponse:
        """End a lease."""
        group = self._known(request.stream, request.group, self._backend.tenant(caller))
        self._groups.leave(group, request.lease)
        return groups_pb2.LeaveGroupResponse()

    async def ListGroups(self, request: groups_pb2.ListGroupsRequest, caller: Caller) -> groups_pb2.ListGroupsResponse:
        """The groups of a stream."""
        snapshot = await self._backend.reflecting(request.min_sequence)
        view = snapshot.stream(request.stream, self._backend.tenant(caller))
        here = sorted((group for group in snapshot.groups.values() if group.stream_id == view.stream_id), key=_name)
        shown = [_shown(group, self._groups.leased(group), self._groups.next_id(group), view) for group in here]
        lags = [
            (lag, client.form.name)
            for client, lag in self._follow.followers.lags().items()
            if client.stream_id == view.stream_id
        ]
        furthest = [
            groups_pb2.OpenFollower(name=name, next_id=view.next_id - lag, lag=lag)
            for lag, name in sorted(lags, reverse=True)[:_MOST_FOLLOWERS]
        ]
        return groups_pb2.ListGroupsResponse(
            groups=shown, sequence=snapshot.sequence, followers=furthest, open_followers=len(lags)
        )

    async def RemoveGroup(
        self, request: groups_pb2.RemoveGroupRequest, caller: Caller
    ) -> groups_pb2.RemoveGroupResponse:
        """Forget a group."""
        command = DropGroup(request.stream, request.group, self._backend.tenant(caller))
        acknowledgement, _ = await self._backend.change(command)
        self._groups.wake(request.group)
        return groups_pb2.RemoveGroupResponse(sequence=acknowledgement.sequence)

    def _taking(self, request: groups_pb2.TakeBatchRequest, tenant: str) -> Taking:
        """The terms of a call. Raises InvalidInput."""
        for field, limit in (
            ("max_rows", _MOST_ROWS),
            ("wait_seconds", _MOST_WAIT_S),
            ("lease_seconds", _MOST_LEASE_S),
            ("confirm", 2**62),
        ):
            if not 0 <= getattr(request, field) <= limit:
                raise InvalidInput(f"{field} is {getattr(request, field)}; it must be from 0 to {limit:,}", field=field)
        if _NAME.fullmatch(request.worker) is None:
            raise InvalidInput(
                f"worker is {request.worker[:64]!r}; it may have at most 64 letters, digits, '_', '-' and '.'",
                field="worker",
            )
        size = most_bytes(request.max_bytes or _BATCH_BYTES, self._backend.limits)
        return Taking(
            tenant,
            request.lease,
            request.confirm,
            request.wait_seconds,
            request.lease_seconds or _LEASE_S,
            request.worker,
            PageForm(request.max_rows or _ROWS, size),
        )

    async def _formed(
        self, request: groups_pb2.TakeBatchRequest, wanted: FollowWanted, snapshot: Snapshot, tenant: str
    ) -> FollowerGroup:
        """The group of a worker. The first worker forms it."""
        view, form = snapshot.stream(request.stream, tenant), _form(wanted)
        group = snapshot.groups.get((view.stream_id, request.group))
        if group is None or group.form != form:
            self._follow.check(snapshot, view, wanted, begins=True)
            start = self._start(request.after, view)
            command = FormGroup(request.stream, request.group, form, start, tenant)
            _, snapshot = await self._backend.change(command)
            group = snapshot.groups.get((view.stream_id, request.group))
        if group is None:
            raise _unknown(request.group)
        return group

    def _start(self, after: str, view: StreamView) -> int:
        """The tuple at which a new group begins."""
        if after not in ("", "start"):
            raise InvalidInput(
                f"after is {after[:64]!r}; a group begins now ('') or at the oldest tuple that is kept ('start'), and"
                " goes on at what its workers have confirmed",
                field="after",
            )
        return oldest_place(view, self._backend.now()).next_id if after else view.next_id

    def _known(self, stream: str, name: str, tenant: str) -> FollowerGroup:
        """A group by its name. Raises NotFound."""
        snapshot = self._backend.host.snapshot()
        group = snapshot.groups.get((snapshot.stream(stream, tenant).stream_id, name))
        if group is None:
            raise _unknown(name)
        return group

    def _response(self, taken: Taken) -> groups_pb2.TakeBatchResponse:
        page = taken.page if taken.number else None
        return groups_pb2.TakeBatchResponse(
            lease=taken.worker.lease,
            batch=taken.number,
            tuples_ipc=b"" if page is None else page.tuples,
            matches_ipc=b"" if page is None else page.matches,
            queries_ipc=b"" if page is None else page.queries,
            query_id_prefix=self._backend.ids.query_prefix,
            lag=taken.lag,
            missed=0 if page is None else page.missed,
            first_id=page.place.next_id if page is not None and page.missed else 0,
            partitions=taken.worker.count,
            workers=taken.workers,
            left_out=0 if page is None else page.left_out,
            sequence=taken.sequence,
        )


def _name(group: FollowerGroup) -> str:
    return group.name


def _unknown(name: str) -> NotFound:
    return NotFound(
        f"there is no group {name[:64]!r} of followers on this stream; it was never formed, or it was removed",
        reason="UNKNOWN_GROUP",
        group=name[:64],
    )


def _form(wanted: FollowWanted) -> str:
    """The selection of a group as canonical text. Raises InvalidInput for a selection that is too long."""
    parts: dict[str, object] = {"labels": dict(sorted(wanted.labels)), "keys": sorted(wanted.keys)}
    parts |= {"queries": sorted(wanted.query_ids), "old": wanted.old}
    text = json.dumps({name: part for name, part in parts.items() if part}, ensure_ascii=False, separators=(",", ":"))
    if len(text) > _MOST_FORM:
        raise InvalidInput(
            f"the keys and query IDs of the group take {len(text):,} characters, and {_MOST_FORM:,} is the most; give"
            " the queries a label, and follow the label",
            reason="GROUP_SELECTION",
            field="keys",
        )
    return text


def _shown(group: FollowerGroup, workers: Workers | None, next_id: int, view: StreamView) -> groups_pb2.FollowGroup:
    shown = groups_pb2.FollowGroup(
        group=group.name,
        selection=group.form,
        next_id=next_id,
        lag=max(view.next_id - next_id, 0),
        form_time=convert.timestamp(group.created),
        confirm_time=convert.timestamp(group.confirmed or None),
    )
    for worker in [] if workers is None else workers.all():
        shown.workers.add(worker=worker.name, partitions=worker.count, busy=worker.delivery is not None)
    return shown
