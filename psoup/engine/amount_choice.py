"""The installation of a choice for AUTO queries: the writer changes their amounts, as maintenance, between two runs.

    AmountChoice ──install──> records and clauses change as by `QueriesAltered`, but no event says so
                              pairs of joins are kept from now on, or no longer

A query stays as it is if it is gone, not AUTO any more, or already kept so. No answer depends on a choice, and a replay
begins with PARTIAL and no pairs again. So the log does not need the choices.
"""

from __future__ import annotations

from psoup.clauses.quarantine import Precautions
from psoup.engine.clause_catalog import Streams
from psoup.engine.registry import Registry
from psoup.engine.rooms import Rooms
from psoup.engine.spent import Spent
from psoup.engine.verification import Verification
from psoup.plan.amounts import Amount
from psoup.published.automatic import AmountChoice
from psoup.work.runner import Runner


class ChoiceInstaller:
    """Installs choices in the parts of one engine. Only the writer calls it."""

    def __init__(self, registry: Registry, rooms: Rooms, spent: Spent, verification: Verification) -> None:
        self._registry = registry
        self._rooms = rooms
        self._spent = spent
        self._verification = verification

    def install(self, choice: AmountChoice, streams: Streams, run: Runner, precautions: Precautions) -> None:
        """Change the amounts, and whether pairs are kept. The caller publishes. The cost is as for an event that alters
        the queries."""
        began, automatic = self._spent.now(), self._rooms.automatic
        self._rooms.begin_choice(choice.query_ids)
        changed, states = self._registry.choose(choice, streams)
        changed = self._pair(choice, changed, streams)
        self._rooms.kept.alter(choice.query_ids, self._registry.idle_among)
        self._registry.put_out(choice.query_ids, precautions.by_hand, streams)
        self._verification.touch_clauses()
        self._spent.cover_new(states, run, precautions)
        if choice.dear:
            automatic.note_dear(choice)
        automatic.note_installed(choice.amount, changed, self._spent.now() - began)

    def _pair(self, choice: AmountChoice, altered: int, streams: Streams) -> int:
        """Keep the pairs of joins as the choice says. `altered`: the number of queries that got another amount.

        Returns the number of queries that are kept otherwise than before.
        """
        joins = self._rooms.kept
        if choice.pairs:
            return max(altered, joins.choose(self._registry.auto_pairs(choice.query_ids), streams))
        ended = joins.unchoose(choice.query_ids)  # their amount was PARTIAL
        return altered + ended if choice.amount is Amount.PARTIAL else altered
