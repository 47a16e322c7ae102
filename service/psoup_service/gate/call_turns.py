"""Turns at the event loop: calls of a busy tenant wait while a call of a less busy tenant is served.

    acme, 100 calls a second     ────████────────────████──────
    umbra, 500                   ▪▪▪▪    ▪▪▪▪▪▪▪▪▪▪▪▪    ▪▪▪▪▪▪      no longer than it had the loop before

A small call takes some tenths of a millisecond of the loop. A call that waits for the log comes back to the loop a
dozen times. Each time it is behind all newer callbacks. So a tenant with `MANY` calls a second or more waits at the
gate while a young call of a quieter tenant is under way. A tenant is quieter if it makes less than half as many calls,
both by weight.

The calls wait in their order, for at most half of the time, however many calls come. Time not spent waiting is saved,
up to `MOST_SAVED_S`. Then they enter one by one, so that the next call of the quieter tenant finds the loop free.

Tenants with similar numbers of calls ignore each other, and a single tenant never waits. A call that only waits for
something counts as young, too. So its tenant can make a busy tenant wait some milliseconds for each such call, but not
a quiet one. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice

from psoup_service.gate.meters import Rate
from psoup_service.host.turns.fair_turns import Weight, equal

YOUNG_S = 0.01
"""Seconds after a call's beginning in which busier tenants' calls wait for it."""

MOST_SAVED_S = 0.01
"""The longest time for which calls of a tenant wait at a stretch. A tenant begins with it."""

MANY = 150.0
"""Calls a second of a tenant, for its weight, below which they never wait."""

LEAST_S = 0.000_1
"""The shortest wait; below a timer's millisecond it is looked at again at each turn of the loop. With a millisecond,
calls slip in before another's has ended: its pushes beside small parts took 17 to 19 ms, and take 12 to 13."""

TIMES = 2.0
"""Least ratio of two tenants' calls at which the busier one waits."""

_LOOKED_AT = 8
"""Most other tenants that are compared, those with the newest calls first."""

_KNOWN = 1_024
"""Tenants that are remembered; the one that has been silent longest is forgotten."""


class _TenantCalls:
    """A tenant's calls, its held calls, and the time for which it may let other tenants go first."""

    __slots__ = ("began", "calls", "held", "open", "pump", "saved", "since", "weight")

    def __init__(self, now: float) -> None:
        self.calls = Rate(now)
        self.weight = 1.0
        self.open = 0
        self.began = -YOUNG_S
        """When its newest call came in, of those that are under way."""
        self.held: deque[asyncio.Future[None]] = deque()
        self.saved, self.since = MOST_SAVED_S, now
        """Seconds that it may let others go first, as of `since`."""
        self.pump: asyncio.TimerHandle | None = None

    def rate(self, now: float) -> float:
        """Its calls a second, about, for its weight."""
        return self.calls.per_second(now) / self.weight


class CallTurns:
    """The calls of all tenants. `now`: seconds of a clock that never goes back."""

    def __init__(self, weight: Weight = equal, now: Callable[[], float] = time.monotonic) -> None:
        self._weight = weight
        self._now = now
        self._known: OrderedDict[str, _TenantCalls] = OrderedDict()
        """The newest call's is the last."""
        self.held = 0
        """Calls that wait now."""

    async def come_in(self, name: str) -> ServedCall:
        """Return when a call of this tenant may go on: a context for it, if it is expected to end soon.

        O(1) if it need not wait.
        """
        now = self._now()
        tenant = self._known.get(name)
        if tenant is None:
            tenant = self._known[name] = _TenantCalls(now)
            self._forget()
        tenant.calls.add(now, 1.0, 0.0)
        self._known.move_to_end(name)
        if len(self._known) > 1:
            tenant.weight = self._weight(name)
            if tenant.held or self._kept_out(tenant, now):
                await self._hold(tenant, now)
        return ServedCall(self, tenant)

    def begun(self, tenant: _TenantCalls) -> None:
        """Note that a call is served."""
        tenant.open += 1
        tenant.began = self._now()

    def ended(self, tenant: _TenantCalls) -> None:
        """Note the end of a call; held calls may enter. O(1), and O(tenants) while calls are held."""
        tenant.open -= 1
        if self.held and not tenant.open:
            for other in [*self._known.values()]:
                if other.held and other is not tenant:
                    self._let_in(other)

    def _kept_out(self, tenant: _TenantCalls, now: float) -> float:
        """Seconds for which another tenant's call may delay this tenant's calls; 0 if they may enter."""
        saved = self._settle(tenant, now)
        if saved < LEAST_S:
            return 0.0
        rate = tenant.rate(now)
        if rate < MANY:
            return 0.0
        for other in islice(reversed(self._known.values()), _LOOKED_AT):
            left = other.began + YOUNG_S - now
            if other.open and left > 0.0 and other is not tenant and rate > TIMES * other.rate(now):
                return min(saved, left)
        return 0.0

    def _settle(self, tenant: _TenantCalls, now: float) -> float:
        """The time that a tenant may still wait: shrinks while it waits, else grows. Called before that changes."""
        passed, tenant.since = now - tenant.since, now
        saved = tenant.saved + (-passed if tenant.held else passed)
        tenant.saved = min(max(saved, -MOST_SAVED_S), MOST_SAVED_S)
        return tenant.saved

    async def _hold(self, tenant: _TenantCalls, now: float) -> None:
        """Wait until the call may come in."""
        turn = asyncio.get_running_loop().create_future()
        if not tenant.held:
            self._again(tenant, self._kept_out(tenant, now))
        tenant.held.append(turn)
        self.held += 1
        try:
            await turn
        finally:
            self.held -= 1
            if turn.cancelled():  # its client has left
                self._settle(tenant, self._now())
                tenant.held.remove(turn)

    def _let_in(self, tenant: _TenantCalls) -> None:
        """Let the first held call in, unless a quieter tenant goes first, and schedule the next."""
        now = self._now()
        kept_out = self._kept_out(tenant, now)
        if tenant.held and not kept_out and not tenant.held[0].cancelled():  # its own call takes it out then
            tenant.held.popleft().set_result(None)
        if tenant.held:
            self._again(tenant, kept_out)

    def _again(self, tenant: _TenantCalls, seconds: float) -> None:
        """Look at the tenant's calls again after so many seconds, with 0 at the loop's next turn."""
        if tenant.pump is not None:
            tenant.pump.cancel()
        tenant.pump = asyncio.get_running_loop().call_later(seconds, self._let_in, tenant)

    def _forget(self) -> None:
        """Forget the tenant that has been silent longest, if there are too many."""
        if len(self._known) > _KNOWN:
            for name, tenant in self._known.items():
                if not tenant.open and not tenant.held:
                    del self._known[name]
                    return


class ServedCall:
    """Context in which a call is served. It is a class, because that is faster than a generator, and each call enters
    one.
    """

    __slots__ = ("_tenant", "_turns")

    def __init__(self, turns: CallTurns, tenant: _TenantCalls) -> None:
        self._turns = turns
        self._tenant = tenant

    def __enter__(self) -> None:
        self._turns.begun(self._tenant)

    def __exit__(self, *_: object) -> None:
        self._turns.ended(self._tenant)
