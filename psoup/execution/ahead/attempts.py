"""Attempts to make a fold ahead: within a budget, noted beforehand, and a refused one is remembered.

    attempt ─ refused before? ──> nothing, unless the refusal is over (`psoup.aggregates.refusals`)
            ─ begin ────────────> the host notes it: a later start knows the fold that ended the process
            ─ budget ───────────> bytes and time, charged to the tenant of the stream
            ─ made, or refused, with bytes that were asked for

The engine has neither a clock nor a disk: `Spare` is the port through which a host lends both.
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
"""Budgets that more free memory raises."""
_TURN = 256
"""Folds of a tenant's turn."""
_TURN_S = 0.1
"""Seconds of processor time of a tenant's turn."""
_LEFT_OUT = "the process has ended twice while it was folded ahead"


class Work(NamedTuple):
    """A fold to be made ahead, over the chunk `number` of a stream. `key`: its name among refusals.

    `query_id`: a query that has use for it.
    """

    view: StreamView
    key: Hashable
    query_id: int
    number: int


class Spare(Protocol):
    """Means that a host can spare for work in the background. One thread at a time."""

    def free(self, tenant: str) -> int:
        """The bytes that work for a tenant may hold now."""
        ...

    def budget(self, tenant: str, most: int) -> AbstractContextManager[ReadBudget]:
        """A budget of at most `most` bytes, charged to a tenant, and closed at the end."""
        ...

    def begin(self, work: Work) -> bool:
        """Note what will be made next; False if processes have ended while they made it."""
        ...

    def end(self) -> None:
        """Take the note back: no fold is under way, and the process has not ended."""
        ...

    def refused(self, work: Work, why: str) -> None:
        """Report a refusal to the operator."""
        ...

    def spent(self) -> float:
        """The seconds of processor time of all work so far."""
        ...


class Lent:
    """The means of a program without a host: a fixed number of bytes, no limit of time, and no notes."""

    def __init__(self, most: int) -> None:
        self.most = most

    def free(self, tenant: str) -> int:
        """The bytes that work for a tenant may hold now."""
        return self.most

    def budget(self, tenant: str, most: int) -> AbstractContextManager[ReadBudget]:
        """A budget of at most `most` bytes."""
        return closing(ReadBudget(sort_bytes=min(most, self.most)))

    def begin(self, work: Work) -> bool:
        """Note nothing."""
        return True

    def end(self) -> None:
        """Note nothing."""

    def refused(self, work: Work, why: str) -> None:
        """Report nothing: EXPLAIN shows the refusal."""

    def spent(self) -> float:
        """Measure nothing."""
        return 0.0


class Attempts:
    """Attempts of one service, by one thread at a time. `spare`: what the host lends for them."""

    def __init__(self, spare: Spare) -> None:
        self._spare = spare
        self._begun = False
        self.tried = 0
        """Folds that were begun, refused ones among them."""

    def end(self) -> None:
        """Note that no fold is under way: after some attempts, as a note takes a few microseconds."""
        if self._begun:
            self._begun = False
            self._spare.end()

    def turn(self) -> Turn:
        """Begin the turn of a tenant."""
        return Turn(self)

    def spent(self) -> float:
        """The seconds of processor time of all work so far."""
        return self._spare.spent()

    def is_open(self, work: Work, refusals: FoldRefusals, most: int) -> bool:
        """Whether an attempt may be made: it was not refused, or the refusal is over."""
        refusal = refusals.of(work.key)
        return refusal is None or refusal.is_over(work.view.spec, self.room(work.view.tenant, most))

    def room(self, tenant: str, most: int) -> int:
        """The bytes that a fold for a tenant may hold now; `most`: what could be kept of it."""
        return min(most, self._spare.free(tenant))

    def make(self, work: Work, refusals: FoldRefusals, most: int, make: Callable[[ReadBudget], T]) -> T | None:
        """The result of `make`, within a budget; None if it was refused, now or before. `most`: bytes."""
        if not self.is_open(work, refusals, most):
            return None
        if not self._spare.begin(work):
            self._refuse(work, refusals, _LEFT_OUT, NO_LIMIT)
            return None
        self._begun = True
        self.tried += 1
        room = self.room(work.view.tenant, most)
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
    """The turn of a tenant: it ends after `_TURN` folds or `_TURN_S` seconds, with the fold under way."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._tried = attempts.tried
        self._spent = attempts.spent()

    @property
    def is_over(self) -> bool:
        """Whether the next fold has to wait for the tenant's next turn."""
        tried, spent = self._attempts.tried - self._tried, self._attempts.spent() - self._spent
        return tried >= _TURN or spent >= _TURN_S


def _needs_more(wanted: int, room: int) -> str:
    return f"it needs at least {wanted:,} bytes, and {room:,} were free for it; it is tried again with twice as many"
