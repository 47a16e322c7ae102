"""Helpers of the registry: they group new queries by their clauses, and sides of joins by their streams.

    query 12   trades t, quotes q, trades u      trades    side 0 of 12    side 0 of 13    side 2 of 12
    query 13   trades t, quotes q                quotes    side 1 of 12    side 1 of 13

Sides of one stream come in the order of their IDs. Nothing here changes the registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.events.events import RegisteredMany
from psoup.events.tags import NO_TAG, Tag
from psoup.plan.sides import query_of, side_id
from psoup.plan.standing_query import StandingQuery
from psoup.values.columns import Array


class Sides(NamedTuple):
    """Sides on one stream, their IDs ascending."""

    ids: list[int]
    queries: list[StandingQuery]

    @property
    def joins(self) -> int:
        """The number of joins with these sides. A join with two sides on the stream counts once."""
        return len({query_of(side) for side in self.ids})


def sides_by_stream(
    query_ids: Sequence[int], queries: Sequence[StandingQuery], side_streams: Sequence[tuple[int, ...]]
) -> dict[int, Sides]:
    """Group the sides of joins by their streams. The query IDs must ascend."""
    by_stream: dict[int, tuple[list[int], list[StandingQuery]]] = {}
    for place in range(max(map(len, side_streams))):  # side 0 of all joins, then side 1, so that the side IDs ascend
        for query_id, query, streams in zip(query_ids, queries, side_streams, strict=True):
            if place < len(streams):
                ids, sides = by_stream.setdefault(streams[place], ([], []))
                ids.append(side_id(query_id, place))
                sides.append(query.sides[place])
    return {stream_id: Sides(*parts) for stream_id, parts in by_stream.items()}


def tags_of(event: RegisteredMany, rows: Sequence[int]) -> list[Tag]:
    """The tags (key and labels) of the queries in some `rows` of a block."""
    return [NO_TAG] * len(rows) if event.tags is None else [event.tags.tag(row) for row in rows]


def grouped(sqc_ids: Array, ids: Array) -> dict[int, list[int]]:
    """The IDs of the queries of each clause, in the order of `ids`. The result has the SQC IDs as its keys."""
    groups: dict[int, list[int]] = {}
    for sqc_id, query_id in zip(sqc_ids.tolist(), ids.tolist(), strict=True):
        groups.setdefault(sqc_id, []).append(query_id)
    return groups
