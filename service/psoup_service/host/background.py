"""The resources of background work: bytes and time of its tenant, and its turns behind calls.

    free     half of the bytes that the tenant's reads could have now: readers find room beside it
    budget   these bytes, and some seconds of the processor, both charged to the tenant; it rests while a call is young
    notes    of folds: what is made next, on disk: a start leaves out what has ended two processes (`fold_notes`)

`Background` implements the port `psoup.execution.ahead.attempts.Spare`. When the service is closed, work ends at its
next check.
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
"""Most processor seconds of one piece of work, unless a read's limit is lower. Most pieces take milliseconds."""

_NO_TENANT = ""
"""Work in the background gives way to the calls of all tenants, its own among them."""
_log = logging.getLogger(__name__)

Charge = Callable[[str, float], None]
"""Charges processor time, in seconds, to a tenant."""


class BackgroundBudgets:
    """Budgets of work in the background. One thread at a time; `close` from any. `timer`: its time in seconds."""

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
        """The bytes that work for a tenant may hold now."""
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
        """Begin the work of a thread. The result, called between its steps, rests while a call is young."""
        rests = Rests(self._way)
        rests.begin(_NO_TENANT)
        return rests.rest

    def spent(self) -> float:
        """The seconds of processor time of all work so far."""
        return self._spent

    def close(self) -> None:
        """End the work under way at its next question."""
        self._closed = True


class Background(BackgroundBudgets):
    """The means of folding ahead in one service."""

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
        """Pieces of work that were refused since the start."""

    def begin(self, work: Work) -> bool:
        """Note the next fold; False if it has ended two processes."""
        return self._notes.begin(work)

    def end(self) -> None:
        """Take the note back."""
        self._notes.end()

    def refused(self, work: Work, why: str) -> None:
        """Log a refusal, which names the query."""
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
