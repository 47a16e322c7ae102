"""Attempts to make a fold before an invocation needs it. Each has a budget, and its refusal is remembered.

    attempt ─ refused before? ──> nothing, unless the refusal is over (`psoup.aggregates.refusals`)
            ─ begin ────────────> the host notes the attempt: if the process ends, the next start knows the fold
            ─ budget ───────────> bytes and time, charged to the tenant of the stream
            ─ result ───────────> the fold, or a refusal with the bytes that it needed

The engine has neither a clock nor a disk. A host lends both through the port `Spare`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, closing
from typing import NamedTuple, Protocol, TypeVar

from psoup import budgets
from psoup.aggregates.refusals import FoldRefusal, FoldRefusals
from psoup.errors import PSoupError
from psoup.published.snapshot import StreamView
from psoup.work.read_budget import NO_LIMIT, ReadBudget

T = TypeVar("T")

_BYTES = (budgets.GROUP_BYTES.name, budgets.SHARED_BYTES.name, budgets.SORT_BYTES.name)
"""Budgets of bytes. A refusal for one of them ends when enough more memory is free."""
_TURN = 256
"""The most folds in a tenant's turn."""
_TURN_S = 0.1
"""The most seconds of processor time in a tenant's turn. The fold that reaches them still finishes."""
_LEFT_OUT = "the process has ended twice while it was folded ahead"
"""The reason of the refusal if earlier processes ended during the fold, which may be the cause."""


class Work(NamedTuple):
    """A fold that background work will make, over the chunk `number` of a stream. `key`: its name among refusals.

    `query_id`: a query that uses the fold.
    """

    view: StreamView
    key: Hashable
    query_id: int
    number: int


class Spare(Protocol):
    """Resources of a host for background work: memory, time and notes. One thread at a time may use them."""

    def free(self, tenant: str) -> int:
        """The bytes that work for a tenant may hold now."""
        ...

    def budget(self, tenant: str, limit: int) -> AbstractContextManager[ReadBudget]:
        """Open a budget of at most `limit` bytes, charged to a tenant. The context closes it."""
        ...

    def begin(self, work: Work) -> bool:
        """Note the work that begins now. Returns False if earlier processes ended during it."""
        ...

    def end(self) -> None:
        """Remove the note, as the work has ended without ending the process."""
        ...

    def refused(self, work: Work, why: str) -> None:
        """Report a refusal to the operator."""
        ...

    def spent(self) -> float:
        """The seconds of processor time of all work so far."""
        ...


class Lent:
    """Resources of a program without a host: a fixed number of bytes, unlimited time, no notes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def free(self, tenant: str) -> int:
        """The bytes that work for a tenant may hold now."""
        return self.limit

    def budget(self, tenant: str, limit: int) -> AbstractContextManager[ReadBudget]:
        """Open a budget of at most `limit` bytes. The context closes it."""
        return closing(ReadBudget(sort_bytes=min(limit, self.limit)))

    def begin(self, work: Work) -> bool:
        """Allow the work. There is nowhere to note it."""
        return True

    def end(self) -> None:
        """Do nothing, as `begin` makes no note."""

    def refused(self, work: Work, why: str) -> None:
        """Do nothing. EXPLAIN shows the refusal."""

    def spent(self) -> float:
        """Return 0, so that no turn ends because of its time."""
        return 0.0


class Attempts:
    """The attempts of one service. One thread at a time may use it. `spare`: the resources of the host."""

    def __init__(self, spare: Spare) -> None:
        self._spare = spare
        self._begun = False
        self.tried = 0
        """The number of folds begun so far, including those refused after their begin."""

    def end(self) -> None:
        """Remove the note of the last fold. Callers do so once after several attempts, as it takes microseconds."""
        if self._begun:
            self._begun = False
            self._spare.end()

    def turn(self) -> Turn:
        """Begin the turn of a tenant, and its count of folds and seconds."""
        return Turn(self)

    def spent(self) -> float:
        """The seconds of processor time of all work so far."""
        return self._spare.spent()

    def is_open(self, work: Work, refusals: FoldRefusals, limit: int) -> bool:
        """Whether an attempt may be made: the work was not refused, or its refusal is over."""
        refusal = refusals.of(work.key)
        return refusal is None or refusal.is_over(work.view.spec, self.room(work.view.tenant, limit))

    def room(self, tenant: str, limit: int) -> int:
        """The bytes that a fold for a tenant may hold now. `limit`: the most bytes of a fold that could be stored."""
        return min(limit, self._spare.free(tenant))

    def make(self, work: Work, refusals: FoldRefusals, limit: int, make: Callable[[ReadBudget], T]) -> T | None:
        """Call `make` with a budget of at most `limit` bytes, and return its result. None if it is or was refused."""
        if not self.is_open(work, refusals, limit):
            return None
        if not self._spare.begin(work):
            self._refuse(work, refusals, _LEFT_OUT, NO_LIMIT)
            return None
        self._begun = True
        self.tried += 1
        room = self.room(work.view.tenant, limit)
        with self._spare.budget(work.view.tenant, room) as budget:
            try:
                made = make(budget)
            except PSoupError as problem:
                of_bytes = problem.facts.get("budget") in _BYTES
                why = _needs_more(budget.wanted, room) if of_bytes else problem.message
                self._refuse(work, refusals, why, budget.wanted if of_bytes else NO_LIMIT)
                return None
            except MemoryError:
                self._refuse(work, refusals, "there was no memory for it", NO_LIMIT)
                return None
        refusals.forget(work.key)
        return made

    def _refuse(self, work: Work, refusals: FoldRefusals, why: str, wanted: int) -> None:
        refusals.note(work.key, FoldRefusal(why, wanted, work.view.spec, work.number))
        self._spare.refused(work, why)


class Turn:
    """The turn of a tenant. The fold that reaches `_TURN` folds or `_TURN_S` seconds is its last one."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._tried = attempts.tried
        self._spent = attempts.spent()

    @property
    def is_over(self) -> bool:
        """Whether the next fold must wait for the tenant's next turn."""
        tried, spent = self._attempts.tried - self._tried, self._attempts.spent() - self._spent
        return tried >= _TURN or spent >= _TURN_S


def _needs_more(wanted: int, room: int) -> str:
    return f"it needs at least {wanted:,} bytes, and {room:,} were free for it; it is tried again with twice as many"
