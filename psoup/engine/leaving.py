"""Queries that leave at once, as columns, and the clauses that go with them.

    queries   1 4 5 9  ──by clause──>  clause 7: 1 9    clause 8: 4    clause 12: 5
    joins     2        ──their sides──>  clause 8: side 0 of 2    clause 31: side 1 of 2
    clauses without a query ──by stream──>  SQC IDs, slots, how many of them read each attribute

Those of a block come as slices of its columns; each other query takes a step. Nothing here changes the registry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np

from psoup.columns import Array
from psoup.engine.stream.clauses import GoneClauses
from psoup.events.tags import NO_TAG
from psoup.plan.sides import query_of
from psoup.published.paged import Found
from psoup.published.records import ClauseRecord, QueryRecord, picked


def sides_in(found: Found) -> Array:
    """The IDs of the sides of queries: int64, ascending. O(queries that are no part of a block)."""
    sides = [side for record in found.records.values() if not record.sqc_id for side in record.side_ids]
    return np.sort(np.array(sides, np.int64))


def _users_of(sides: Iterable[QueryRecord]) -> set[tuple[int, int]]:
    """The streams of sides with their joins, each pair once: (stream ID, query ID)."""
    return {(record.stream_id, query_of(record.query_id)) for record in sides}


class LeavingQueries:
    """Queries and sides by their clauses. `sqc_ids`: int64[m], ascending, distinct.

    `streams`: how many queries leave each stream, a join each of its streams once.
    """

    def __init__(self, found: Found, sides: Mapping[int, QueryRecord]) -> None:
        records = [record for record in found.records.values() if record.sqc_id]
        tagged = [record.query_id for record in found.records.values() if record.tags is not NO_TAG]
        self.streams = Counter(record.stream_id for record in records)
        ids = [np.array([record.query_id for record in records], np.int64)]
        sqc_ids = [np.array([record.sqc_id for record in records], np.int64)]
        for block, places in found.blocks:
            ids.append(picked(block.ids, places))
            sqc_ids.append(picked(block.sqc_ids, places))
            self.streams[block.stream_id] += len(places)
            if block.tags is not None:
                tagged += ids[-1].tolist()
        if sides:
            ids.append(np.array([*sides], np.int64))
            sqc_ids.append(np.array([record.sqc_id for record in sides.values()], np.int64))
            self.streams.update(stream_id for stream_id, _ in _users_of(sides.values()))
        self.tagged = tagged
        """Those that have a key or labels."""
        every = np.concatenate(sqc_ids)
        order = np.argsort(every, kind="stable")
        self._ids: Array = np.concatenate(ids)[order]
        self.sqc_ids, self._starts = np.unique(every[order], return_index=True)

    def of(self, sqc_id: int) -> list[int]:
        """The queries of a clause, ascending."""
        at = int(np.searchsorted(self.sqc_ids, sqc_id))
        end = self._starts[at + 1] if at + 1 < len(self._starts) else len(self._ids)
        members: list[int] = sorted(self._ids[self._starts[at] : end].tolist())
        return members


def gone_clauses(found: Found) -> dict[int, GoneClauses]:
    """Clauses that have left the registry, by their streams."""
    parts: dict[int, tuple[list[Array], list[Array], Counter[int]]] = {}
    for block, places in found.blocks:
        sqc_ids, slots, attributes = parts.setdefault(block.stream_id, ([], [], Counter()))
        sqc_ids.append(picked(block.ids, places))
        slots.append(picked(block.slots, places).astype(np.int64))
        attributes.update(dict.fromkeys(block.attributes, len(places)))
    by_stream: dict[int, list[ClauseRecord]] = {}
    for record in found.records.values():
        by_stream.setdefault(record.stream_id, []).append(record)
    for stream_id, records in by_stream.items():
        sqc_ids, slots, attributes = parts.setdefault(stream_id, ([], [], Counter()))
        sqc_ids.append(np.array([record.sqc_id for record in records], np.int64))
        slots.append(np.array([record.slot for record in records], np.int64))
        attributes.update(chain.from_iterable(record.attributes for record in records))
    return {
        stream_id: GoneClauses(np.concatenate(ids), np.concatenate(slots), attributes)
        for stream_id, (ids, slots, attributes) in parts.items()
    }
