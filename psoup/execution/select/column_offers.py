"""Offers: a reader that has evaluated a chunk with evicted results offers the matches to the writer, to store them.

    window   ··· | 7 evicted, evaluated | 8 evicted, evaluated | 9 kept |     columns of 7 and 8 are offered

A column has the matches of one clause in one chunk. Maintenance takes the offers while results have room in memory
(`psoup.results.offers`). The next reader finds them stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.results.chunk_results import ALL
from psoup.results.failures import NO_FAILURES
from psoup.results.offers import MOST_LATE
from psoup.results.sets import Pairs
from psoup.values.columns import Array


def is_wanted(view: StreamView, entry: ChunkEntry) -> bool:
    """Whether a reader may offer columns of a chunk: its results were evicted, and results have room. O(1)."""
    results = entry.results
    return entry.data.in_memory and view.offers.wants(results) and len(results.late) < MOST_LATE


def _failed(entry: ChunkEntry, attributes: Iterable[int]) -> bool:
    """Whether a chunk has errors in any of the attributes, or stored failures of any clause."""
    results = entry.results
    return results.failures is not NO_FAILURES or any(results.errors.get(attribute, 0) for attribute in attributes)


def offer(view: StreamView, clause: ClauseRecord, evaluated: Sequence[tuple[ChunkEntry, int, int, Any]]) -> None:
    """Offer the matches of a clause in those parts that are whole chunks. O(matches) if the writer wants them.

    `evaluated`: for each part the chunk, its rows [start, stop), and the `ChunkMatches`.
    """
    if not view.offers.free or clause.sqc_id >= ALL or view.outside.reasons(clause.sqc_id, clause.attributes):
        return
    columns = [
        view.offers.offer(entry.data.number, clause.sqc_id, match.offsets)
        for entry, start, stop, match in evaluated
        if not start and stop == len(entry.data) and not match.errors and is_wanted(view, entry)
        if not _failed(entry, clause.attributes)
    ]
    view.offers.put(view.stream_id, columns)


def offer_pairs(view: StreamView, entry: ChunkEntry, sqc_ids: Array, places: Array, pairs: Pairs) -> None:
    """Offer the matches of many clauses in a whole chunk. `places`: the clauses to offer, among `sqc_ids`, ascending.

    None of these clauses may have an error. `pairs`: the matches, as places among `sqc_ids` and offsets.
    O(pairs log pairs) if the writer wants them.
    """
    if not is_wanted(view, entry) or _failed(entry, entry.results.errors):
        return
    places = places[(sqc_ids[places] < ALL) & ~np.isin(sqc_ids[places], view.outside.ids)][:MOST_LATE]
    order = np.lexsort((pairs.offsets, pairs.which))
    which, offsets = pairs.which[order], pairs.offsets[order]
    starts, stops = np.searchsorted(which, places), np.searchsorted(which, places, "right")
    spans = zip(sqc_ids[places].tolist(), starts.tolist(), stops.tolist(), strict=True)
    columns = [view.offers.offer(entry.data.number, sqc_id, offsets[start:stop]) for sqc_id, start, stop in spans]
    view.offers.put(view.stream_id, columns)
