"""The call of the FollowService: new matches of a stream, as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from psoup_client.arguments import checking_arguments
from psoup_client.follow import Following
from psoup_client.query import Query
from psoup_client.session import Session
from psoup_client.tags import check_key, check_labels
from psoup_proto.v1 import follow_pb2

_MOST_NAMED = 1_000
"""The most keys, and the most queries, of one follower."""


@checking_arguments
class FollowCalls(Session):
    """Following streams."""

    def follow(
        self,
        stream: str,
        after: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        keys: Iterable[str] = (),
        queries: Iterable[Query | str] = (),
        old: bool = False,
        name: str = "",
        max_rows: int | None = None,
        progress: bool = False,
        patience: float | None = None,
    ) -> Following:
        """Follow a stream: iterating gives batches of new tuples, each with the queries that it matched.

        Without `after` it begins now, with the call. `after="start"`: at the oldest tuple that is kept.
        `after=batch.position`: after that batch. Store the position together with your own work: so nothing is missed,
        and what was not stored comes again. Raises PositionLost for a position that cannot be continued, from this call
        or from the iteration: it says what was missed, and has the position of the oldest tuple that is kept.

        Told are all selections on the stream; or those with all `labels`, with one of the `keys`, or in `queries`, also
        if they are registered later. A query is told for the tuples that are released after its registration; with
        `old`, for all. Moving windows, ORDER BY and LIMIT are not applied; a fixed BEGIN or END is. Attached history is
        not told. Following does not keep queries with `expires_after` alive.

        `name`: shown with the lag in metrics. `max_rows`: the most matches of a batch, the default is 10,000.
        `progress`: also give batches without matches, at least every 15 seconds. It goes on by itself after a lost
        connection or a restart, and raises Unavailable if the service is away for `patience` seconds.

        Raises NotFound, and InvalidRequest for a named join, aggregate or DISTINCT (watch it). A follower that stands
        still costs nothing; a batch costs O(new matches).
        """
        check_labels(labels)
        names = [keys] if isinstance(keys, str) else list(keys)
        for key in names:
            check_key(key)
        one = [queries] if isinstance(queries, str | Query) else list(queries)
        for given, number in (("keys", len(names)), ("queries", len(one))):
            if number > _MOST_NAMED:
                raise ValueError(f"{given} has {number:,} names: one follower has at most {_MOST_NAMED:,}; use labels")
        request = follow_pb2.FollowRequest(
            stream=stream,
            after=after or "",
            labels=labels,
            keys=names,
            query_ids=[query.id if isinstance(query, Query) else query for query in one],
            old=old,
            max_rows=max_rows or 0,
            name=name,
        )
        return Following(self, request, progress=progress, patience=patience)
