"""The clauses of AUTO queries as columns: each query has one, and a join has one for each side.

    queries    7  9  12                      codes     their keeping now
    clauses    owners 0 1 1 2    sqc_ids …   streams …          query 9 is a join of two streams

The columns stay the same while no query comes, goes or changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.published.paged_map import PagedMap
from psoup.published.record_block import picked
from psoup.published.records import NO_CLAUSE, QueryBlock, QueryRecord
from psoup.values.columns import Array

_NONE: Array = np.zeros(0, np.int64)


class AutoClauses(NamedTuple):
    """The clauses of n queries. `codes`: uint8[n]; `registered`: bool[n].

    `owners`: the places of the queries, `sqc_ids` and `streams`: of their clauses, int64[m] each. `members`: the number
    of these queries that share the clause, float64[m].
    """

    codes: Array
    registered: Array
    owners: Array
    sqc_ids: Array
    streams: Array
    members: Array


def auto_clauses(queries: PagedMap[QueryRecord], ids: Array) -> AutoClauses:
    """The clauses of some queries, int64[n] ascending.

    O(n log n), and a step of Python for each query outside blocks.
    """
    codes, registered = np.zeros(len(ids), np.uint8), np.zeros(len(ids), np.bool_)
    sides, side_owners = [_NONE], [_NONE]
    parts = list[_Part]()
    lookup = queries.find(ids)
    for block, at in lookup.blocks:
        places = np.searchsorted(ids, picked(block.ids, at))
        codes[places], registered[places] = block.codes_at(at), True
        if block.queries.sides:
            of_places = block.sides_at(at)
            sides += of_places
            side_owners += [places] * len(of_places)
        else:
            parts.append(_of_block(block, at, places))
    records = [*lookup.records.values()]
    places = np.searchsorted(ids, np.array([record.query_id for record in records], np.int64))
    codes[places], registered[places] = [record.keeping.code for record in records], True
    parts.append(_of_records(records, places))
    for record, place in zip(records, places.tolist(), strict=True):
        if record.sqc_id == NO_CLAUSE:
            sides.append(np.array(record.side_ids, np.int64))
            side_owners.append(np.full(len(record.side_ids), place))
    parts += _of_sides(queries, np.concatenate(sides), np.concatenate(side_owners))
    owners, sqc_ids, streams = (np.concatenate([_NONE, *column]) for column in zip(*parts, strict=True))
    _, back, counts = np.unique(sqc_ids, return_inverse=True, return_counts=True)
    return AutoClauses(codes, registered, owners, sqc_ids, streams, counts[back].astype(np.float64))


_Part = tuple[Array, Array, Array]
"""The owners, the SQC IDs and the streams of some clauses."""


def _of_sides(queries: PagedMap[QueryRecord], sides: Array, owners: Array) -> list[_Part]:
    """The clauses of the sides of joins, int64[m]; `owners`: the place of the join of each."""
    order = np.argsort(sides)
    sides, owners = sides[order], owners[order]
    lookup = queries.find(sides)
    parts = [_of_block(b, at, owners[np.searchsorted(sides, picked(b.ids, at))]) for b, at in lookup.blocks]
    records = [*lookup.records.values()]
    places = np.searchsorted(sides, np.array([record.query_id for record in records], np.int64))
    return [*parts, _of_records(records, owners[places])]


def _of_block(block: QueryBlock, at: Array, owners: Array) -> _Part:
    return owners, picked(block.sqc_ids, at).astype(np.int64), np.full(len(at), block.stream_id)


def _of_records(records: Sequence[QueryRecord], owners: Array) -> _Part:
    """The clauses of single queries; a join has none."""
    rows = [i for i, record in enumerate(records) if record.sqc_id != NO_CLAUSE]
    facts = np.array([(records[i].sqc_id, records[i].stream_id) for i in rows], np.int64).reshape(-1, 2)
    return owners[np.array(rows, np.int64)], facts[:, 0], facts[:, 1]
