"""Queries that join two streams and may share kept pairs, by the pairs that they share.

4: r.k = s.k AND r.n > 3    7: over one stream    9: s.k = r.k      ──> (r, s, "l.k = r.k"): 4, 9
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.joins.pairs_store import PairKey, join_with_pairs, pair_text
from psoup.plan.amounts import auto_codes, parked_codes
from psoup.plan.nodes import Join
from psoup.published.paged_map import Editor, PagedMap
from psoup.published.record_block import picked
from psoup.published.records import QueryRecord
from psoup.values.columns import Array


class PairedQueries(NamedTuple):
    """Queries that share the pairs of a join. `left`, `right`: the IDs of its streams. `query_ids`: int64[k]."""

    node: Join
    left: int
    right: int
    query_ids: Array

    @property
    def key(self) -> PairKey:
        """The key of the pairs."""
        text = pair_text(self.node)
        assert text is not None
        return self.left, self.right, text


def auto_pairs(queries: PagedMap[QueryRecord] | Editor[QueryRecord], query_ids: Array) -> list[PairedQueries]:
    """The AUTO queries among some (int64[k], ascending) whose pairs can be kept, without parked ones. An item for each
    key, with ascending IDs.

    O(k log n), and a step of Python for each join outside blocks.
    """
    lookup, parts = queries.find(query_ids), dict[PairKey, tuple[Join, list[Array]]]()

    def add(record: QueryRecord, ids: Array) -> None:
        node = join_with_pairs(record.query.plan)
        sides = [queries.get(side) for side in record.side_ids] if node is not None else []
        if node is not None and len(sides) == 2:
            left, right = (side.stream_id for side in sides if side is not None)
            paired = PairedQueries(node, left, right, ids)
            parts.setdefault(paired.key, (node, []))[1].append(ids)

    for block, at in lookup.blocks:
        if block.queries.sides:
            codes = block.codes_at(at)
            at = at[auto_codes(codes) & ~parked_codes(codes)]
            if len(at):
                add(block.make(int(at[0])), picked(block.ids, at))
    for record in lookup.records.values():
        if record.keeping.auto and not record.keeping.parked and record.side_ids:
            add(record, np.array([record.query_id], np.int64))
    return [
        PairedQueries(node, left, right, np.sort(np.concatenate(ids)))
        for (left, right, _), (node, ids) in parts.items()
    ]
