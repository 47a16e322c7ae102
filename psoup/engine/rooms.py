"""Memory limits of the caches: kept answers, key indexes, folds, packs of folds, kept pairs.

    memory   ├── tuples, queries, others ──┼── folds, packs ──┼── results ──┼── keys, pairs ──┼── answers ──┼ free ┤
    too full                                       5th (packs)         6th    3rd, 4th          1st: drop the oldest

An eighth of the memory is to be free. If memory is too full, the writer drops kept answers, then search codes. Then it
drops entries of the caches in the order shown. This never changes an answer. The module also has the streams' common
allowance for the work of new clauses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from psoup.aggregates.folds import FoldRoom
from psoup.aggregates.kept import Bytes, KeptBytes
from psoup.aggregates.packs import PackRoom
from psoup.config import EngineConfig
from psoup.data.key_room import KeyRoom
from psoup.engine.kept_pairs import KeptJoins
from psoup.engine.stream.allowance import Allowance
from psoup.engine.stream.attention import Board
from psoup.engine.stream.shared_rooms import SharedRooms
from psoup.engine.stream.state import StreamState
from psoup.events.events import QueriesAltered, QueryEvent, Registered, RegisteredMany
from psoup.published.answer_room import AnswerRoom
from psoup.published.automatic import AutomaticAmounts
from psoup.published.followed_places import FollowedPlaces
from psoup.published.room_waits import RoomWaits
from psoup.results.offers import OfferBox
from psoup.values.columns import Array

_FOLDS_SHARE = 32
"""The divisor of the memory for folds: they get a 32nd. Folds save more time than results of the same size.

Folds of 100,000 groups in 2^24 tuples take 70 MB.
"""

_PACKS_SHARE = 16
"""The divisor of the memory for packs, which hold the folds of many clauses. The writer drops packs before results."""

RESULTS_SHARE = 8
"""The divisor of the memory for results: an eighth is always left for them, whatever tuples and queries take."""

BEHIND_SHARE = 16
"""The divisor of the memory for chunks that wait to be sealed or stored. Above that 16th, pushes should wait."""
RELIEF_SHARE = 4
"""The divisor of the memory that tuples and queries leave free, while there are tuples to archive: a quarter."""


class Rooms:
    """The caches of one engine. The writer sets their limits. Readers fill the key indexes, the folds and the packs."""

    def __init__(self, config: EngineConfig, board: Board, limit: Bytes, others: Callable[[], int]) -> None:
        """`limit`: the most bytes of a tenant's caches. `others`: returns the bytes charged for all but tuples."""
        self._config = config
        self._others = others
        tenant_bytes = KeptBytes(limit)
        room = max(min(config.results_bytes, config.memory_bytes) - config.memory_bytes // RESULTS_SHARE, 0)
        self.answers = AnswerRoom(min(config.answer_bytes, room), tenant_bytes)  # the first to make way
        self.keys = KeyRoom(room, config.shape, tenant_bytes.free)
        tenant_bytes.add(self.keys.held_by, self.keys.give_up)
        self.folds = FoldRoom(config.memory_bytes // _FOLDS_SHARE, config.shape.fold_fan, tenant_bytes)
        self.packs = PackRoom(config.memory_bytes // _PACKS_SHARE, config.shape.fold_fan, tenant_bytes)
        self.kept = KeptJoins(board, room, tenant_bytes)
        self.allowance = Allowance(config.shape.open_work)
        self.offers = OfferBox(config.list_limit, config.chunk_rows // 64)
        """Results that readers offer for evicted chunks."""
        self.followed = FollowedPlaces(config.follow_keep)
        """The places of the followers of tables, which readers note."""
        self.automatic = AutomaticAmounts(self.kept.room)
        """The AUTO queries, and the notes of readers about them."""
        self._waits = RoomWaits()
        parts = self.keys, self.folds, self.packs, self.allowance, self.offers, self.followed
        self.shared = SharedRooms(*parts)
        """The caches that all streams share."""

    @property
    def published(self) -> tuple[FollowedPlaces, AnswerRoom, AutomaticAmounts, RoomWaits]:
        """The parts that a snapshot has, in the order of its fields."""
        return self.followed, self.answers, self.automatic, self._waits

    def begin(self, event: QueryEvent) -> None:
        """Prepare for a change of queries: for the work of new clauses, and by what the event says about amounts."""
        self.allowance.begin()
        if isinstance(event, QueriesAltered):
            self.answers.forget(event.query_ids)
            if event.change.amount is not None:
                (self.automatic.add if event.change.auto else self.automatic.remove)(event.query_ids)
                self.kept.unchoose(event.query_ids)
        elif isinstance(event, Registered) and event.keeping.auto:
            self.automatic.add(np.array([event.query_id], np.int64))
        elif isinstance(event, RegisteredMany) and event.keeping.auto:
            rows = np.setdiff1d(np.arange(len(event.queries)), np.array(event.gone, np.int64))
            self.automatic.add(event.first_id + rows)

    def taken(self, states: Iterable[StreamState]) -> int:
        """The bytes of the budget that results cannot use: of tuples, of the predicate index and of `others`."""
        return self._others() + sum(state.tuple_bytes + state.clauses.index.nbytes for state in states)

    def look(self, states: Collection[StreamState]) -> int:
        """Measure the free memory, and set the limits of the caches.

        Returns the bytes by which results, key indexes and kept pairs exceed their memory; negative if there is room.
        Key indexes and pairs may use the memory that results do not use, except the last eighth of the budget.
        """
        budget, pairs = self._config.memory_bytes, self.kept.room
        left = budget - self.taken(states) - self.folds.held - self.packs.held
        left = min(self._config.results_bytes, max(left, budget // RESULTS_SHARE))
        free = left - sum(state.results_bytes for state in states)
        pairs.bound(max(free - budget // RESULTS_SHARE, 0))
        self.keys.bound(max(pairs.limit - pairs.held, 0))
        self.answers.bound(pairs.limit - pairs.held - self.keys.held)
        over = self.keys.held + pairs.held + self.answers.held - free
        self.offers.bound(-over)
        return over

    def begin_choice(self, query_ids: Array) -> None:
        """Prepare for other amounts of some AUTO queries, int64[k]."""
        self.allowance.begin()
        self.answers.forget(query_ids)

    def forget(self, query_ids: Array | list[int]) -> None:
        """Drop the kept answers, the notes and the pairs of removed queries. Pairs of further queries stay."""
        self.kept.forget(query_ids)
        self.answers.forget(query_ids)
        self.automatic.remove(query_ids)

    def check(self, auto: Sequence[int]) -> None:
        """Check the kept pairs, and that the AUTO queries (ascending) are known. Raises Corrupt."""
        self.kept.check(auto)
        self.automatic.check(auto)

    def keep(self, states: Collection[StreamState]) -> None:
        """Drop cache entries until the memory suffices: kept answers, search codes, key indexes, pairs, packs, results.

        Search codes are dropped as soon as less than an eighth of the memory is free.
        """
        over = self.look(states)
        over -= self.answers.give_up(max(over, self.answers.held - self.answers.limit))
        if over > -self._config.memory_bytes // RESULTS_SHARE:
            for state in states:
                state.shelf.forget_search_codes()
        over -= self.keys.give_up(over)
        over -= self.kept.give_up(over)
        if over > 0:
            over -= self.packs.give_up(over)
        for state in states:
            if over <= 0:
                return
            over -= state.shelf.give_up(over)
