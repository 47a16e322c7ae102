"""Budgets of background work, such as folds ahead of invocations: bytes and processor time, charged to its tenant.

    free     half of the bytes that the tenant's reads could take now, so that reads still find room
    budget   at most these bytes, and `MOST_CPU_S` of processor time; the thread rests while a call is young
    notes    the next fold, on disk: a start leaves out a fold during which two processes ended (`fold_notes`)

`Background` implements the port `psoup.execution.ahead.attempts.Spare`. After `close`, running work ends at its next
check of the budget.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psoup.budgets import READ_CPU
from psoup.errors import ResourceExhausted
from psoup.execution.ahead.attempts import Work
from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup_service.host.fold_notes import FoldNotes
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.turns.giving_way import GivingWay, Rests
from psoup_service.host.turns.interpreter import ShortTurns

MOST_CPU_S = 2.0
"""The most processor seconds of one piece of work, unless the limit of a read is lower. Typical pieces take
milliseconds.
"""

_NO_TENANT = ""
"""The name under which background work rests. No tenant has it, so the work gives way to the calls of all tenants."""
_log = logging.getLogger(__name__)

Charge = Callable[[str, float], None]
"""Charges processor time, in seconds, to a tenant."""


class BackgroundBudgets:
    """Budgets of background work, for one thread at a time. Any thread may call `close`.

    `charge`: called with the processor time of each piece of work. `timer`: the calling thread's processor time, in
    seconds.
    """

    def __init__(
        self, allowance: ReadLimits, way: GivingWay, charge: Charge, timer: Callable[[], float] = time.thread_time
    ) -> None:
        self._allowance = allowance
        self._way = way
        self._charge = charge
        self._timer = timer
        self._cpu_s = min(allowance.cpu_s, MOST_CPU_S)
        self._closed = False
        self._spent = 0.0

    def free(self, tenant: str) -> int:
        """The most bytes that background work of a tenant may hold now."""
        return min(self._allowance.sort_bytes, self._allowance.sorts.free(tenant) // 2)

    @contextmanager
    def budget(self, tenant: str, limit: int) -> Iterator[ReadBudget]:
        """A budget of at most `limit` bytes. The processor time is charged to the tenant at the end."""
        began, rests = self._timer(), Rests(self._way)

        def ask() -> None:
            if self._closed:
                raise ReadEnded
            rests.rest()
            if (used := self._timer() - began) > self._cpu_s:
                raise _used_up(used, self._cpu_s)

        budget = self._allowance.budget(tenant)
        budget.ask, budget.sort_bytes = ask, min(budget.sort_bytes, limit)
        rests.begin(_NO_TENANT)
        try:
            with ShortTurns():
                yield budget
        finally:
            budget.close()
            used = self._timer() - began
            self._spent += used
            self._charge(tenant, used)

    def resting(self) -> Callable[[], object]:
        """Begin work on the calling thread. Returns a function to call between its steps: it rests for young calls."""
        rests = Rests(self._way)
        rests.begin(_NO_TENANT)
        return rests.rest

    def spent(self) -> float:
        """The seconds of processor time of all work so far."""
        return self._spent

    def begin(self, work: Work) -> bool:
        """Allow the work. There is nowhere to note it."""
        return True

    def end(self) -> None:
        """Do nothing, as `begin` makes no note."""

    def refused(self, work: Work, why: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End the work under way at its next check of the budget."""
        self._closed = True


class Background(BackgroundBudgets):
    """Budgets and notes for the folds that one service makes ahead of invocations."""

    def __init__(
        self,
        allowance: ReadLimits,
        way: GivingWay,
        charge: Charge,
        notes: FoldNotes,
        timer: Callable[[], float] = time.thread_time,
    ) -> None:
        super().__init__(allowance, way, charge, timer)
        self._notes = notes
        self.refusals = 0
        """The number of folds that were refused since the start."""

    def begin(self, work: Work) -> bool:
        """Note the next fold. Returns False if two processes have ended during it."""
        return self._notes.begin(work)

    def end(self) -> None:
        """Remove the note of the fold that has ended."""
        self._notes.end()

    def refused(self, work: Work, why: str) -> None:
        """Count a refused fold. Log its query and the reason."""
        self.refusals += 1
        _log.warning(
            "an aggregate is not folded ahead: readers fold it when they ask",
            extra={"stream": work.view.spec.name, "query": self._notes.name_of(work), "why": why},
        )


def _used_up(used: float, limit: float) -> ResourceExhausted:
    return ResourceExhausted(
        f"it has used {used:.1f} s of processor time, and work in the background may use {limit:g} s",
        reason="READ_CPU",
        **READ_CPU.over(f"{used:.1f}", f"{limit:g}"),
    )
