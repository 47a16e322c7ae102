"""Columns that readers offered, for chunks whose results were given up: kept if the chunk still lacks them.

    offer ── the clause stands? the chunk is there, and evicted? is there room? ──> covered, that clause alone

That is no rule of maintenance: readers find the work, and have done it. The chunk stays evicted: maintenance does not
cover its other clauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.engine.stream.state import StreamState
from psoup.results.chunk_results import ChunkResults
from psoup.results.offers import MOST_LATE, Offer, OfferBox, by_chunk, needed
from psoup.runner import Runner, serial


@dataclass(frozen=True, slots=True)
class Offered:
    """Offers for chunks of one stream."""

    stream_id: int
    offers: Sequence[Offer]
    box: OfferBox
    name: str = "offer"

    def compute(self, run: Runner = serial) -> Offered:
        """The columns are there."""
        return self

    def install(self, state: StreamState) -> bool:
        """Keep the columns that are lacking, as far as there is room; False if there is none."""
        self.box.done()
        shelf = state.shelf
        installed = 0
        for number, own in by_chunk(self.offers).items():
            at = number - shelf.first_number
            if shelf.archived <= at < len(shelf.entries):
                installed += self._install(state, number, shelf.entries[at].results, own)
        return installed > 0

    def _install(self, state: StreamState, number: int, seen: ChunkResults, own: list[Offer]) -> int:
        """Keep columns of one chunk; returns how many."""
        if not seen.evicted or seen.open is not None:
            return 0
        own = [offer for offer in own if not seen.covers(offer.sqc_id) and _stands(state, offer.sqc_id)]
        own = own[: max(MOST_LATE - len(seen.late), 0)]
        room = needed(seen, sum(offer.nbytes for offer in own))
        if not own or room > self.box.free:
            return 0
        pack = self.box.pack(own)
        results = seen.offered(pack, frozenset(offer.sqc_id for offer in own), state.config.shape.most_packs)
        if not state.shelf.replace(number, seen, results):
            return 0
        self.box.took(len(own), room)
        known = np.array([seen.met(sqc_id) for sqc_id in pack.ids.tolist()], np.bool_)
        if known.any():  # their matches were counted when they were given up
            state.clauses.index.costs.gone([(pack.ids[known], -pack.counts[known])])
        return len(own)


def _stands(state: StreamState, sqc_id: int) -> bool:
    """Whether a clause is there. O(log clauses)."""
    ids, _ = state.clauses.table.since(sqc_id, 1)
    return bool(len(ids)) and int(ids[0]) == sqc_id
