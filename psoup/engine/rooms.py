"""The rooms of what can be made again: key indexes, folds, packs of folds, kept pairs; the budget of all that is kept.

    memory   ├── tuples, queries, others ──┼── folds, packs ──┼── results ──┼── keys, pairs ──┼ an eighth, free ┤
    too full                                                      4th             2nd, 3rd: give up the oldest

Search codes go first. Nothing that is given up changes an answer. Beside them is what else the streams share: the
allowance of time for new clauses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

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
from psoup.results.offers import OfferBox

_FOLDS_SHARE = 32
"""The share of the memory that folds may take: a 32nd. What they save is worth more than results of its size. Those of
100,000 groups in 2^24 tuples take 70 MB."""

_PACKS_SHARE = 16
"""The share of the memory that folds of many clauses at once may take; they leave it before results do."""

RESULTS_SHARE = 8
"""An eighth of the memory is left to results, whatever tuples and queries take."""

BEHIND_SHARE = 16
"""The share of the memory that may wait for maintenance before the writer waits for it."""


class Rooms:
    """The rooms of one engine. Owned by its writer; readers fill those of keys, folds and packs."""

    def __init__(self, config: EngineConfig, board: Board, limit: Bytes, others: Callable[[], int]) -> None:
        """`limit`: the most that may be kept for a tenant. `others`: bytes that are charged for other things."""
        self._config, self._others = config, others
        kept = KeptBytes(limit)
        room = max(min(config.results_bytes, config.memory_bytes) - config.memory_bytes // RESULTS_SHARE, 0)
        self.keys = KeyRoom(room, config.shape, kept.free)
        kept.add(self.keys.held_by, self.keys.give_up)
        self.folds = FoldRoom(config.memory_bytes // _FOLDS_SHARE, config.shape.fold_fan, kept)
        self.packs = PackRoom(config.memory_bytes // _PACKS_SHARE, config.shape.fold_fan, kept)
        self.kept = KeptJoins(board, room, kept)
        self.allowance = Allowance(config.shape.open_work)
        self.offers = OfferBox(config.list_limit, config.chunk_rows // 64)
        """Results that readers offer for chunks whose own were given up."""
        self.shared = SharedRooms(self.keys, self.folds, self.packs, self.allowance, self.offers)

    def taken(self, states: Iterable[StreamState]) -> int:
        """Bytes of the budget that are taken by tuples, queries and others, so that results cannot have them."""
        return self._others() + sum(state.tuple_bytes + state.clauses.index.nbytes for state in states)

    def look(self, states: Collection[StreamState]) -> int:
        """Look how much room there is: returns the bytes by which results, indexes and pairs are over it.

        Indexes and pairs may take what results do not, and never the last eighth; folds have a share of their own, and
        those of many clauses leave it for results.
        """
        budget, pairs = self._config.memory_bytes, self.kept.room
        left = budget - self.taken(states) - self.folds.held - self.packs.held
        left = min(self._config.results_bytes, max(left, budget // RESULTS_SHARE))
        free = left - sum(state.results_bytes for state in states)
        pairs.bound(max(free - budget // RESULTS_SHARE, 0))
        self.keys.bound(max(pairs.limit - pairs.held, 0))
        over = self.keys.held + pairs.held - free
        self.offers.bound(-over)
        return over

    def keep(self, states: Collection[StreamState]) -> None:
        """Give up search codes, then key indexes, kept pairs and the oldest sealed results, while over what is left."""
        over = self.look(states)
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
