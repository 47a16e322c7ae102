"""Columns of queries that one event removes, and of the clauses that lose their last query.

    queries   1 4 5 9  ──by clause──>  clause 7: 1 9    clause 8: 4    clause 12: 5
    joins     2        ──their sides──>  clause 8: side 0 of 2    clause 31: side 1 of 2
    clauses without a query ──by stream──>  SQC IDs, slots, the number of readers of each attribute

Queries of a block are slices of its columns; each other query takes a Python step. This module does not change the
registry.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np

from psoup.engine.stream.clauses import GoneClauses
from psoup.events.tags import NO_TAG
from psoup.plan.sides import FIRST_SIDE
from psoup.published.idle_clauses import is_idle
from psoup.published.paged_map import PagedRecords
from psoup.published.record_block import picked
from psoup.published.records import ClauseRecord
from psoup.values.columns import Array

_NONE: Array = np.zeros(0, np.int64)


def sides_in(records_found: PagedRecords) -> Array:
    """The IDs of the sides of the queries that are joins: int64, ascending. O(queries outside blocks + sides)."""
    sides = [np.array(record.side_ids, np.int64) for record in records_found.records.values() if not record.sqc_id]
    for block, places in records_found.blocks:
        sides += block.sides_at(places)
    return np.sort(np.concatenate([_NONE, *sides]))


class LeavingQueries:
    """The queries and sides that leave, grouped by clauses. `sqc_ids`: the clauses, int64[m], ascending, distinct.

    `streams`: the number of queries that leave each stream; a join counts once on each of its streams. `sides`: the
    number of sides that leave.
    """

    def __init__(self, queries_found: PagedRecords, of_joins: PagedRecords) -> None:
        self.tagged = [record.query_id for record in queries_found.records.values() if record.tags is not NO_TAG]
        """Queries with a key or labels."""
        for block, places in queries_found.blocks:
            self.tagged += [] if block.tags is None else picked(block.ids, places).tolist()
        parts = [*_parts(queries_found), *_parts(of_joins)]
        by_stream: dict[int, list[Array]] = {}
        for stream_id, ids, _ in parts:
            by_stream.setdefault(stream_id, []).append(ids)
        self.streams = {stream_id: _queries(np.concatenate(ids)) for stream_id, ids in by_stream.items()}
        every = np.concatenate([_NONE, *(sqc_ids for _, _, sqc_ids in parts)])
        order = np.argsort(every, kind="stable")
        self._ids: Array = np.concatenate([_NONE, *(ids for _, ids, _ in parts)])[order]
        self.sides = int((self._ids >= FIRST_SIDE).sum())
        self.sqc_ids, self._starts = np.unique(every[order], return_index=True)

    def of(self, sqc_id: int) -> list[int]:
        """The IDs of the queries and sides that leave a clause, ascending."""
        at = int(np.searchsorted(self.sqc_ids, sqc_id))
        end = self._starts[at + 1] if at + 1 < len(self._starts) else len(self._ids)
        members: list[int] = sorted(self._ids[self._starts[at] : end].tolist())
        return members


def _parts(records_found: PagedRecords) -> list[tuple[int, Array, Array]]:
    """Triples of a stream ID, query IDs and their SQC IDs (int64[k] each), of the queries with a clause.

    Each stream with records has a triple, and then each block.
    """
    by_stream: dict[int, list[tuple[int, int]]] = {}
    for record in records_found.records.values():
        if record.sqc_id:
            by_stream.setdefault(record.stream_id, []).append((record.query_id, record.sqc_id))
    parts = [(stream_id, *np.array(pairs, np.int64).T) for stream_id, pairs in by_stream.items()]
    blocks = [(block, places) for block, places in records_found.blocks if not block.queries.sides]
    parts += [(block.stream_id, picked(block.ids, places), picked(block.sqc_ids, places)) for block, places in blocks]
    return parts


def _queries(ids: Array) -> int:
    """The number of queries of a stream, from the IDs of queries and sides. Sides of one join count once."""
    return len(ids) if not (ids >= FIRST_SIDE).any() else len(np.unique(ids % FIRST_SIDE))


def gone_clauses(clauses_found: PagedRecords) -> dict[int, GoneClauses]:
    """Group the clauses that left the registry by their streams. Leaves out idle ones, which streams do not have."""
    parts: dict[int, tuple[list[Array], list[Array], Counter[int]]] = {}
    for block, places in clauses_found.blocks:
        if is_idle(block.first):
            continue
        sqc_ids, slots, attributes = parts.setdefault(block.stream_id, ([], [], Counter()))
        sqc_ids.append(picked(block.ids, places))
        slots.append(picked(block.slots, places).astype(np.int64))
        attributes.update(dict.fromkeys(block.attributes, len(places)))
    by_stream: dict[int, list[ClauseRecord]] = {}
    for record in clauses_found.records.values():
        if is_idle(record.sqc_id):
            continue
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
