"""The call of the FollowService: new matches of a stream, as they come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import overload

from psoup_client.arguments import checking_arguments
from psoup_client.follow import Following
from psoup_client.group import FollowerInfo, GroupFollowing, GroupInfo
from psoup_client.query import AnyQuery
from psoup_client.session import Session
from psoup_client.tags import check_key, check_labels
from psoup_proto.v1 import follow_pb2, groups_pb2

_MOST_NAMED = 1_000
"""The most keys, and the most queries, of one follower."""
_MOST_LEASE_S = 3_600
"""The longest lease of a worker, in seconds."""


@checking_arguments
class FollowCalls(Session):
    """Following streams."""

    @overload
    def follow(
        self,
        stream: str,
        after: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        keys: Iterable[str] = (),
        queries: Iterable[AnyQuery | str] = (),
        old: bool = False,
        name: str = "",
        max_rows: int | None = None,
        progress: bool = False,
        patience: float | None = None,
        group: None = None,
    ) -> Following: ...

    @overload
    def follow(
        self,
        stream: str,
        after: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        keys: Iterable[str] = (),
        queries: Iterable[AnyQuery | str] = (),
        old: bool = False,
        name: str = "",
        max_rows: int | None = None,
        patience: float | None = None,
        group: str,
        lease: float = 60.0,
    ) -> GroupFollowing: ...

    def follow(
        self,
        stream: str,
        after: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        keys: Iterable[str] = (),
        queries: Iterable[AnyQuery | str] = (),
        old: bool = False,
        name: str = "",
        max_rows: int | None = None,
        progress: bool = False,
        patience: float | None = None,
        group: str | None = None,
        lease: float = 60.0,
    ) -> Following | GroupFollowing:
        """Follow a stream: iterating gives batches of new tuples, each with the queries that it matched.

        Without `after` it begins now, with the call. `after="start"`: at the oldest tuple that is kept.
        `after=batch.position`: after that batch. Store the position together with your own work: so nothing is missed,
        and what was not stored comes again. Raises PositionLost for a position that cannot be continued, from this call
        or from the iteration: it says what was missed, and has the position of the oldest tuple that is kept.

        The default is all selections on the stream. With `labels`, `keys` or `queries`: the queries with all labels,
        with one of the keys, or in the list. Queries that are registered later are among them. A query is told for the
        tuples that are released after its registration; with `old`, for all. Moving windows, ORDER BY and LIMIT are not
        applied; a fixed BEGIN or END is. Attached history is not told. A query with the amount `none` is told only if
        it is in `keys` or `queries`. The follower is then told once a second. Following does not keep queries with
        `expires_after` alive.

        `name`: shown with the lag in metrics. `max_rows`: the most matches of a batch; the default is 10,000.
        `progress`: also give batches without matches, at least every 15 seconds. The iteration goes on by itself after
        a lost connection or a restart. It raises Unavailable if the service is away for `patience` seconds.

        `group`: share the matches with other workers of a group of that name. Queries are divided by their labels, so
        all matches of one user go to one worker. The service keeps the positions: asking for the next batch confirms
        the one before, and what a worker has not confirmed comes again. `after` counts only for the first worker: it is
        None or "start". `lease`: seconds that a worker may take for a batch; then another worker gets it. `groups`
        shows the groups of a stream.

        Raises NotFound, and InvalidRequest for a named join, aggregate or DISTINCT (watch it). A follower that stands
        still costs nothing; a batch costs O(new matches).
        """
        check_labels(labels)
        names = [keys] if isinstance(keys, str) else list(keys)
        for key in names:
            check_key(key)
        named = [queries] if isinstance(queries, str | AnyQuery) else list(queries)
        for given, number in (("keys", len(names)), ("queries", len(named))):
            if number > _MOST_NAMED:
                raise ValueError(f"{given} has {number:,} names: one follower has at most {_MOST_NAMED:,}; use labels")
        request = follow_pb2.FollowRequest(
            stream=stream,
            after=after or "",
            labels=labels,
            keys=names,
            query_ids=[query.id if isinstance(query, AnyQuery) else query for query in named],
            old=old,
            max_rows=max_rows or 0,
            name=name,
        )
        if group is None:
            return Following(self, request, progress=progress, patience=patience)
        return GroupFollowing(self, _taking(request, group, lease), patience=patience)

    def groups(self, stream: str, *, wait_for: int | None = None) -> list[GroupInfo]:
        """List the groups of followers of a stream, with their lag and their workers, in the order of their names."""
        reply = self._read(self.connection.groups.ListGroups, groups_pb2.ListGroupsRequest(stream=stream), wait_for)
        return [GroupInfo.of(message) for message in reply.groups]

    def followers(self, stream: str, *, wait_for: int | None = None) -> list[FollowerInfo]:
        """List the clients that follow a stream now, outside of groups: at most 100, the furthest behind first."""
        reply = self._read(self.connection.groups.ListGroups, groups_pb2.ListGroupsRequest(stream=stream), wait_for)
        return [FollowerInfo(message.name, message.next_id, message.lag) for message in reply.followers]

    def remove_group(self, stream: str, group: str) -> None:
        """Forget a group of followers and its positions. Its workers get an error with reason LEASE_LOST.

        Raises NotFound.
        """
        request = groups_pb2.RemoveGroupRequest(stream=stream, group=group)
        reply = self.connection.call(self.connection.groups.RemoveGroup, request, repeat=False)
        self.note_sequence(reply.sequence)


def _taking(request: follow_pb2.FollowRequest, group: str, lease: float) -> groups_pb2.TakeBatchRequest:
    """The request of a worker. Raises ValueError."""
    if not 1 <= lease <= _MOST_LEASE_S:
        raise ValueError(f"lease is {lease:g}: give from 1 to {_MOST_LEASE_S:,} seconds")
    return groups_pb2.TakeBatchRequest(
        stream=request.stream,
        group=group,
        after=request.after,
        labels=request.labels,
        keys=request.keys,
        query_ids=request.query_ids,
        old=request.old,
        max_rows=request.max_rows,
        lease_seconds=math.ceil(lease),
        worker=request.name,
    )
