"""The rooms that all streams of an engine share."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.aggregates.folds import FoldRoom
from psoup.aggregates.packs import PackRoom
from psoup.data.key_room import KeyRoom
from psoup.engine.stream.allowance import Allowance
from psoup.results.offers import OfferBox


@dataclass(frozen=True, slots=True)
class SharedRooms:
    """Room for key indexes, for folds, for packs of folds, and for results that readers offer.

    `allowance`: time of the writer for new clauses.
    """

    keys: KeyRoom
    folds: FoldRoom
    packs: PackRoom
    allowance: Allowance
    offers: OfferBox
