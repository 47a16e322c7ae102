"""The joins whose pairs a registration asks to keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.events.events import Registered, RegisteredMany
from psoup.joins.pairs_store import join_with_pairs
from psoup.plan.nodes import Join
from psoup.plan.standing_query import StandingQuery
from psoup.published.paired_queries import PairedQueries
from psoup.sql.templates.block import BoundBlock
from psoup.values.columns import Array


def asked_pairs(event: Registered | RegisteredMany) -> list[PairedQueries]:
    """The joins whose pairs an event asks to keep, each with its two streams and its queries."""
    if isinstance(event, Registered):
        return _by_join([event.query], [event.side_streams], np.array([event.query_id]))
    stand = np.setdiff1d(np.arange(len(event.queries)), np.array(event.gone, np.int64))
    ids, queries = event.first_id + stand, event.queries
    if isinstance(queries, BoundBlock):
        return _by_join([queries[0]], event.side_streams[:1], ids) if len(ids) else []
    rows = stand.tolist()
    return _by_join([queries[row] for row in rows], [event.side_streams[row] for row in rows], ids)


def _by_join(
    queries: Sequence[StandingQuery], side_streams: Sequence[tuple[int, ...]], ids: Array
) -> list[PairedQueries]:
    """The joins of some queries. If `queries` has one query, all `ids` share it."""
    parts: dict[tuple[int, tuple[int, ...]], tuple[Join, list[int]]] = {}
    for row, (query, streams) in enumerate(zip(queries, side_streams, strict=True)):
        node = join_with_pairs(query.plan)
        if node is not None:
            parts.setdefault((id(node), streams), (node, []))[1].append(row)
    return [
        PairedQueries(node, streams[0], streams[1], ids if len(queries) == 1 else ids[np.array(rows)])
        for (_, streams), (node, rows) in parts.items()
    ]
