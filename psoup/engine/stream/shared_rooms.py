"""The caches that all streams of an engine share."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.aggregates.folds import FoldRoom
from psoup.aggregates.packs import PackRoom
from psoup.data.key_room import KeyRoom
from psoup.engine.stream.allowance import Allowance
from psoup.published.followed_places import FollowedPlaces
from psoup.results.offers import OfferBox


@dataclass(frozen=True, slots=True)
class SharedRooms:
    """The caches of key indexes, of folds and of packs of folds, and the box of results that readers offer.

    `allowance`: the limit of the writer's work for new clauses. `followed`: the places of the followers of tables.
    """

    keys: KeyRoom
    folds: FoldRoom
    packs: PackRoom
    allowance: Allowance
    offers: OfferBox
    followed: FollowedPlaces
