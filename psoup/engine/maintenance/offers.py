"""Offers: matches that a reader computed for an evicted chunk. The writer keeps them if the chunk still lacks them.

    offer ── does the clause exist? is the chunk evicted? is there room? ──> this clause is covered

This is not a rule of maintenance, as readers have done the work already. The chunk stays evicted, so maintenance does
not cover its other clauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.engine.stream.state import StreamState
from psoup.results.chunk_results import ChunkResults
from psoup.results.offers import MOST_LATE, Offer, OfferBox, by_chunk, needed
from psoup.work.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class StreamOffers:
    """Offers for chunks of one stream."""

    stream_id: int
    offers: Sequence[Offer]
    box: OfferBox
    name: str = "offer"

    def compute(self, run: Runner = serial) -> StreamOffers:
        """Return this object, as readers have computed the matches."""
        return self

    def install(self, state: StreamState) -> bool:
        """Keep the offers that the chunks lack, if there is room. Returns False if none is kept."""
        self.box.done()
        shelf = state.shelf
        installed = 0
        for number, offers_of_chunk in by_chunk(self.offers).items():
            at = number - shelf.first_number
            if shelf.archived <= at < len(shelf.entries):
                installed += self._install(state, number, shelf.entries[at].results, offers_of_chunk)
        return installed > 0

    def _install(self, state: StreamState, number: int, seen: ChunkResults, wanted: list[Offer]) -> int:
        """Keep offers for one chunk. Returns the number of kept offers."""
        if not seen.evicted or seen.open is not None:
            return 0
        wanted = [offer for offer in wanted if not seen.covers(offer.sqc_id) and _stands(state, offer.sqc_id)]
        wanted = wanted[: max(MOST_LATE - len(seen.late), 0)]
        room = needed(seen, sum(offer.nbytes for offer in wanted))
        if not wanted or room > self.box.free:
            return 0
        pack = self.box.pack(wanted)
        results = seen.offered(pack, frozenset(offer.sqc_id for offer in wanted), state.config.shape.most_packs)
        if not state.shelf.replace(number, seen, results):
            return 0
        self.box.took(len(wanted), room)
        counted_before = np.array([seen.met(sqc_id) for sqc_id in pack.ids.tolist()], np.bool_)
        if counted_before.any():  # their matches were counted when the results were dropped
            state.clauses.index.costs.gone([(pack.ids[counted_before], -pack.counts[counted_before])])
        return len(wanted)


def _stands(state: StreamState, sqc_id: int) -> bool:
    """Whether a clause exists. O(log clauses)."""
    ids, _ = state.clauses.table.since(sqc_id, 1)
    return bool(len(ids)) and int(ids[0]) == sqc_id
