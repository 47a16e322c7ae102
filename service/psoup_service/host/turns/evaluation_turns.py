"""Turns of tenants among the evaluations of maintenance, and their charges.

    writer      `first`: which tenant is served next ────────> psoup.engine.maintenance.agenda
    maintainer  `measured`: processor time of a task, of all its threads ──> the tenant's turns, and its `join_share`

Evaluating new clauses over old tuples is part of the join, like evaluating new tuples. One quota limits both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from psoup.work.runner import Runner, Task, handover_of, threads_of
from psoup_service.host.turns.fair_turns import FairTurns, TenantTimes, Weight, equal

Charge = Callable[[str, float], None]
"""Charges processor time, in seconds, to a tenant."""

Timer = Callable[[], float]
"""The processor time of the calling thread, in seconds."""


class EvaluationTurns:
    """The turns of one service, for any thread.

    `charge`: also called with the processor time of each task. `weight`: returns a tenant's weight.
    """

    def __init__(self, charge: Charge, weight: Weight = equal, timer: Timer = time.thread_time) -> None:
        self._charge = charge
        self._timer = timer
        self._times = TenantTimes(weight)
        self._turns = FairTurns(self._times)
        self._waiting: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def first(self, tenants: Collection[str]) -> str:
        """The tenant to serve next. `tenants`: all that wait, at least one. O(tenants)."""
        with self._lock:
            for gone in self._waiting.difference(tenants):
                self._turns.leave(gone)
            for tenant in tenants:
                self._turns.wait(tenant)
            self._waiting = frozenset(tenants)
            return self._turns.serve()

    @contextmanager
    def measured(self, tenant: str, run: Runner) -> Iterator[Runner]:
        """A context that charges a tenant for its processor time: on this thread, and in tasks of the given runner."""
        began, shared = self._timer(), _Shared(run, self._timer)
        try:
            yield shared
        finally:
            seconds = self._timer() - began + shared.seconds
            with self._lock:
                self._times.charge(tenant, seconds)
            self._charge(tenant, seconds)


class _Shared:
    """A runner that adds up the processor time of its tasks, except on the caller's thread."""

    def __init__(self, run: Runner, timer: Timer) -> None:
        self._run = run
        self._timer = timer
        self.threads = threads_of(run)
        self.handover = handover_of(run)
        self._caller = threading.get_ident()
        self._lock = threading.Lock()
        self.seconds = 0.0

    def __call__(self, tasks: Sequence[Task]) -> None:
        self._run([partial(self._timed, task) for task in tasks])

    def _timed(self, task: Task) -> None:
        if threading.get_ident() == self._caller:
            task()
            return
        began = self._timer()
        try:
            task()
        finally:
            with self._lock:
                self.seconds += self._timer() - began
