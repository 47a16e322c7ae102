"""The sides of joins as the registry adds them: by their streams, those of one stream in the order of their IDs.

    query 12   trades t, quotes q, trades u      trades    side 0 of 12    side 0 of 13    side 2 of 12
    query 13   trades t, quotes q                quotes    side 1 of 12    side 1 of 13

Nothing here changes the registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.plan.sides import query_of, side_id
from psoup.plan.standing import StandingQuery


class Sides(NamedTuple):
    """Sides on one stream, their IDs ascending."""

    ids: list[int]
    queries: list[StandingQuery]

    @property
    def joins(self) -> int:
        """How many joins have them: each counts once on the stream."""
        return len({query_of(side) for side in self.ids})


def sides_by_stream(
    query_ids: Sequence[int], queries: Sequence[StandingQuery], side_streams: Sequence[tuple[int, ...]]
) -> dict[int, Sides]:
    """The sides of joins (ascending) by their streams."""
    found: dict[int, Sides] = {}
    for place in range(max(map(len, side_streams))):  # place after place: so their IDs ascend
        for query_id, query, streams in zip(query_ids, queries, side_streams, strict=True):
            if place < len(streams):
                sides = found.setdefault(streams[place], Sides([], []))
                sides.ids.append(side_id(query_id, place))
                sides.queries.append(query.sides[place])
    return found
