"""Long work gives way to calls of other tenants: it rests while one that has just begun is under way.

    a call of acme     ▁▁▁▁▁████▁▁▁▁▁▁▁▁▁▁████▁▁▁
    a join of umbra    ██████▁▁▁▁██████████▁▁▁▁██      rests at its next step, no longer than it has worked since

Threads share one interpreter: a call gives it up some twenty times, and waits for it each time while another thread
computes. Work of seconds can wait for a call of milliseconds. It rests for at most half of the time, however many calls
come. Unused rest is saved for the tenant, up to `MOST_SAVED_S`. So after some milliseconds of work, also by another
read, it can rest for the whole of a call. A long call counts only for `YOUNG_S`, and calls of the same tenant do not
count. For any thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

YOUNG_S = 0.02
"""A call is young for so many seconds: work of other tenants gives way to it."""

LEAST_S = 0.001
"""The least seconds of work between two rests. To fall asleep and wake up takes a tenth of that."""


MOST_SAVED_S = 0.02
"""The most seconds of rest that a tenant's work can save, and so the longest rest. A tenant begins with this much."""


_yield: Callable[[], object] = getattr(os, "sched_yield", lambda: None)
"""Let threads that wait for this processor go first. Without it, a computing thread runs on for some milliseconds,
which a call may lose at each of its steps. If no thread waits, it costs less than a microsecond.
"""


class GivingWay:
    """The calls to give way to. Each call runs in a context of `beside`; long work calls `rest` between its steps."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: dict[str, int] = {}
        self._latest: OrderedDict[str, float] = OrderedDict()
        """For each tenant with open calls, the time at which its newest call began. The newest call is last."""
        self._saved: dict[str, float] = {}
        """Seconds that the work of a tenant may rest. A tenant without an entry has `MOST_SAVED_S`."""
        self.resting = 0
        """The number of threads that rest now."""

    def beside(self, tenant: str) -> _Beside:
        """A context for a call of a tenant, from its beginning to its end."""
        return _Beside(self, tenant)

    def begun(self, tenant: str) -> None:
        """Note that a call has begun. O(1)."""
        with self._changed:
            self._open[tenant] = self._open.get(tenant, 0) + 1
            self._latest[tenant] = time.monotonic()
            self._latest.move_to_end(tenant)

    def ended(self, tenant: str) -> None:
        """Note that a call has ended. O(1)."""
        with self._changed:
            self._open[tenant] -= 1
            if not self._open[tenant]:
                del self._open[tenant], self._latest[tenant]
                if self.resting:
                    self._changed.notify_all()

    def wanted(self, tenant: str) -> bool:
        """Whether a call of another tenant has just begun, and is under way. O(1)."""
        with self._changed:
            return self._left(tenant) > 0

    def rest(self, tenant: str, worked: float) -> bool:
        """Wait while a call of another tenant is under way; returns whether there was one.

        It waits at most for the rest that the tenant's work has saved, on all threads together, up to `MOST_SAVED_S`.
        `worked`: seconds of work since the last call.
        """
        if worked < LEAST_S:
            return False
        with self._changed:
            saved = self._save(tenant, worked)
            if saved <= 0 or self._left(tenant) <= 0:
                return False
            self._save(tenant, -self._wait(tenant, saved))
            return True

    def _wait(self, tenant: str, limit: float) -> float:
        """Wait while a call of another tenant is under way; returns for how many seconds."""
        began = time.monotonic()
        self.resting += 1
        try:
            while (left := min(self._left(tenant), began + limit - time.monotonic())) > 0:
                self._changed.wait(left)
        finally:
            self.resting -= 1
        return time.monotonic() - began

    def _save(self, tenant: str, seconds: float) -> float:
        """Add to the seconds that the tenant's work may rest; returns the new amount."""
        saved = min(self._saved.pop(tenant, MOST_SAVED_S) + seconds, MOST_SAVED_S)
        if saved < MOST_SAVED_S:
            self._saved[tenant] = saved
        return saved

    def _left(self, tenant: str) -> float:
        """Seconds for which calls of tenants other than `tenant` are still young; 0 or less without such a call."""
        for other in reversed(self._latest):
            if other != tenant:
                return self._latest[other] + YOUNG_S - time.monotonic()
        return 0.0


class _Beside:
    """Context in which a call is open. It is a class, because each call enters one, and a generator takes twice the
    time.
    """

    __slots__ = ("_tenant", "_way")

    def __init__(self, way: GivingWay, tenant: str) -> None:
        self._way = way
        self._tenant = tenant

    def __enter__(self) -> None:
        self._way.begun(self._tenant)

    def __exit__(self, *_: object) -> None:
        self._way.ended(self._tenant)


class Rests:
    """The rests of a thread that works for one tenant after the other."""

    def __init__(self, way: GivingWay) -> None:
        self._way = way
        self._tenant = ""
        self._since = time.perf_counter()

    def begin(self, tenant: str) -> None:
        """Begin to work for a tenant. The time before this call does not count as work."""
        self._tenant, self._since = tenant, time.perf_counter()

    def rest(self) -> bool:
        """Rest if a call of another tenant is under way; returns whether it rested. Before `LEAST_S` it costs 0.1 us.

        Otherwise threads that wait for this processor go first, because the loop may not have seen a call yet.
        """
        now = time.perf_counter()
        worked = now - self._since
        if worked < LEAST_S:
            return False
        rested = self._way.rest(self._tenant, worked)
        if not rested:
            _yield()
        self._since = time.perf_counter()
        return rested
