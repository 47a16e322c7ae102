"""Updates of eager answers, in turns of the tenants. Each update has a budget, which is charged to its tenant.

    turn      at most 64 updates or 10 ms of processor time of one tenant; the next turn is of the next tenant
    quota     updates use at most half of a tenant's read_share: after a turn, the tenant is passed over for a while
    update    the query is invoked, and its rows are read to the end, so that they are kept
    notes     the host notes the first update of an answer: a start leaves it out if two processes ended during it
    left out  given up, until the rule of kept answers tries again; dropped, until the query is asked;
              refused by a budget, until the query is asked a minute later; not asked for a day, until it is asked

The engine has neither a clock nor threads. A host lends both: it calls `step` after publications.
"""

from __future__ import annotations

from psoup.answer.eager.eager_index import EagerIndex
from psoup.answer.invoke import updated_answer
from psoup.answer.kept_answers.kept_forms import kept_form
from psoup.answer.question import Question
from psoup.errors import PSoupError
from psoup.execution.ahead.attempts import Spare, Work
from psoup.model import SECOND
from psoup.published.answer_room import GivenUp
from psoup.published.eager_queries import EagerQueries
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot

_TURN = 64
"""The limit of updates in one turn of a tenant."""
_TURN_S = 0.01
"""The most seconds of processor time in a tenant's turn. The update that reaches them still finishes."""
_RETRY_AFTER = 60 * SECOND
"""Microseconds for which a query is left out after a budget or an error has ended an update."""
_SHARE = 2
"""The divisor of a tenant's quota `read_share` for updates."""
_LEFT_OUT = "the process has ended twice while its answer was made"
_NEVER = 2**62
"""A time that does not come, microseconds."""


class EagerUpdates:
    """The updates of one engine's eager answers, and their progress. One thread at a time may use it."""

    def __init__(self, spare: Spare) -> None:
        self._spare = spare
        self._index = EagerIndex()
        self._eager: EagerQueries | None = None
        """The eager queries of the engine that the index follows."""
        self._paid_until: dict[str, int] = {}
        """The time, microseconds, from which a tenant with the quota `read_share` has turns again."""

    def step(self, snapshot: Snapshot, now: int) -> bool:
        """Take a tenant's turn. `now`: the clock, microseconds. Returns whether further queries are due.

        Raises as the budget's `ask`, if the host ends the work.
        """
        if snapshot.eager is not self._eager:  # another engine, after a restart of an embedded one
            self._index, self._eager = EagerIndex(), snapshot.eager
        for query_id in self._index.follow(snapshot, now):
            snapshot.answers.drop(query_id)
        self._paid_until = {tenant: until for tenant, until in self._paid_until.items() if until > now}
        began, updates = self._spare.spent(), 0
        for row, query_id in self._index.turn(snapshot.eager, now, self._paid_until):
            updates += self._is_updated(snapshot, row, query_id, now)
            if updates >= _TURN or self._spare.spent() - began >= _TURN_S:
                break
        self._pay(snapshot, self._index.tenant, self._spare.spent() - began, now)
        return self._index.has_due

    def _pay(self, snapshot: Snapshot, tenant: str, seconds: float, now: int) -> None:
        """Pass a tenant over until its quota `read_share` has paid for a turn of some seconds of processor time."""
        owner = snapshot.tenants.get(tenant)
        if owner is not None and owner.quotas.read_share and seconds:
            self._paid_until[tenant] = now + int(_SHARE * seconds / owner.quotas.read_share * SECOND)

    def _is_updated(self, snapshot: Snapshot, row: int, query_id: int, now: int) -> bool:
        """Update an answer if it may be updated. Returns whether that was tried."""
        record = snapshot.queries.get(query_id)
        if record is None or not record.keeping.ahead:  # it was changed just now: the next step forgets it
            return False
        form, room = kept_form(record.query.plan), snapshot.answers
        if not form.keeps:
            self._index.sleep(row, snapshot.eager, "its answer is not kept", _NEVER)
            return False
        entry, made = room.look(query_id), self._index.is_made(row)
        if entry is None and (made or not room.is_roomy):
            return False
        if entry is not None and (isinstance(entry.value, GivenUp) or entry.sequence >= snapshot.sequence):
            return False
        if made:
            self._update(snapshot, row, record, now)
            return True
        self._index.note_made(row)
        if not self._spare.begin(Work(snapshot.by_id[record.stream_id], query_id, query_id, 0)):
            self._index.sleep(row, snapshot.eager, _LEFT_OUT, _NEVER)
            return False
        try:
            self._update(snapshot, row, record, now)
        finally:  # also if the host ends the work
            self._spare.end()
        return True

    def _update(self, snapshot: Snapshot, row: int, record: QueryRecord, now: int) -> None:
        tenant, eager = record.tenant, snapshot.eager
        with self._spare.budget(tenant, self._spare.free(tenant)) as budget:
            try:
                answer = updated_answer(snapshot, record, Question(now, budget=budget))
                for _ in answer.messages():
                    pass
            except (PSoupError, MemoryError) as problem:
                why = problem.message if isinstance(problem, PSoupError) else "there was no memory for it"
                eager.refused += 1
                self._index.sleep(row, eager, f"an update was refused: {why}", now + _RETRY_AFTER)
                return
        facts = eager.facts[record.query_id]
        facts.updated, facts.updates = now, facts.updates + 1
        eager.updates += 1
