"""The installation of a choice for AUTO queries: the writer changes their amounts, as maintenance, between two runs.

    AmountChoice ──install──> records and clauses change as by `QueriesAltered`, but no event says so

A query stays as it is if it is gone, not AUTO any more, or has that amount. No answer depends on the amount, and a
replay begins with PARTIAL again. So the log does not need the choices.
"""

from __future__ import annotations

from psoup.clauses.quarantine import Precautions
from psoup.engine.clause_catalog import Streams
from psoup.engine.registry import Registry
from psoup.engine.rooms import Rooms
from psoup.engine.spent import Spent
from psoup.engine.verification import Verification
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
        """Change the amounts. The caller publishes. The cost is as for an event that alters the queries."""
        began, automatic = self._spent.now(), self._rooms.automatic
        self._rooms.begin_choice(choice.query_ids)
        changed, states = self._registry.choose(choice, streams)
        self._rooms.kept.alter(choice.query_ids, self._registry.idle_among)
        self._registry.put_out(choice.query_ids, precautions.by_hand, streams)
        self._verification.touch_clauses()
        self._spent.cover_new(states, run, precautions)
        if choice.dear:
            automatic.note_dear(choice)
        automatic.note_installed(choice.amount, changed, self._spent.now() - began)
