"""The observations of AUTO about the pairs of joins: their number, and whether they may be kept.

    an answer of a join    pairs that it found / the shares of tuples that match    an estimate
    kept pairs             pairs in a block of two chunks                           counted, and used from then on

Both become a density, which gives the pairs of any windows. A block with too many pairs to be kept counts with the most
pairs that a kept block may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.joins.pairs_store import PairKey, PairTable
from psoup.published.automatic import AutoRows
from psoup.published.paged_map import PagedMap
from psoup.published.paired_queries import auto_pairs
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array

_LEAST_CHUNKS = 4
"""The chunks that the windows of a join must have, both together. With fewer, most matches may be in open chunks, and
an invocation uses no kept pairs (`psoup.execution.join.kept_pairs`)."""
_MOST_OF_MEMORY = 2
"""The most tuples of the windows, divided by those in memory. With more, most matches may be in chunks on disk, which
have no kept pairs."""
_PAIR_BYTES = 4


class PairedRows(NamedTuple):
    """The AUTO queries whose pairs can be kept: the keys of the pairs, and the places of their queries, int64[k]
    each."""

    keys: Sequence[PairKey]
    places: Sequence[Array]


class SeenPairs(NamedTuple):
    """Facts about n queries, bool[n] or float64[n]: see `Observed`.

    `chosen`: whether the pairs are kept by a choice. `part`: the part of a query in the work for its pairs, 0 to 1.
    AUTO queries with the same pairs share this work by their invocations. `begun`: whether some of the pairs are made.
    """

    pairs: Array
    may_pair: Array
    has_pairs: Array
    chosen: Array
    part: Array
    begun: Array


def paired_rows(queries: PagedMap[QueryRecord], ids: Array) -> PairedRows:
    """The queries among some (int64[n], ascending) whose pairs can be kept. The cost is as for `auto_pairs`."""
    paired = auto_pairs(queries, ids)
    return PairedRows([part.key for part in paired], [np.searchsorted(ids, part.query_ids) for part in paired])


def seen_pairs(snapshot: Snapshot, rows: AutoRows, paired: PairedRows, in_memory: Array) -> SeenPairs:
    """Observe the pairs of all AUTO queries, and note in their columns those that are counted.

    Pairs fit if their room suffices for the pairs of all tuples in memory. `in_memory`: tuples of their streams in
    memory, float64[n]. O(n + pairs of streams + chunks of their kept pairs).
    """
    count, joins, chunk = len(rows.ids), snapshot.pairs, snapshot.config.chunk_rows
    has_pairs, chosen, begun = np.zeros((3, count), np.bool_)
    room, part, free = np.full(count, -1.0), np.ones(count), dict[str, int]()
    for key, places in zip(paired.keys, paired.places, strict=True):
        tenant, table = snapshot.by_id[key[0]].tenant, joins.tables.get(key, PairTable())
        if tenant not in free:
            free[tenant] = snapshot.automatic.pair_room.free(tenant)
        room[places], part[places] = free[tenant] + table.nbytes, _parts(rows["rate"][places])
        ids = rows.ids[places]
        chosen[places] = np.isin(ids, joins.chosen.get(key, ()))
        has_pairs[places] = key in joins.asked_for or (np.isin(ids, joins.queries.get(key, ())) & ~chosen[places])
        density = _density(table, chunk)
        if density is not None:
            rows["density"][places] = density
            rows["counted"][places] = begun[places] = True
    window, pairs = rows["window"].astype(np.float64), rows.pairs
    share = np.minimum(window / np.maximum(in_memory, 1), 1)
    fits = _PAIR_BYTES * pairs <= room * share * share  # NaN does not fit
    reaches = (window >= _LEAST_CHUNKS * chunk) & (window <= _MOST_OF_MEMORY * in_memory)
    return SeenPairs(pairs, fits & ~has_pairs & reaches, has_pairs, chosen, part, begun)


def _parts(rates: Array) -> Array:
    """The part of each of some queries in the work for the same pairs, by their invocations in a second."""
    total = float(rates.sum())
    return rates / total if total else np.ones(len(rates))


def _density(table: PairTable, chunk: int) -> float | None:
    """The pairs in a block of two chunks of `chunk` tuples / the tuples of both, squared. None if no block is
    computed."""
    computed, with_pairs = table.blocks
    pairs = table.pairs + 2 * chunk * (computed - with_pairs)
    return pairs / computed / (2.0 * chunk) ** 2 if computed else None
