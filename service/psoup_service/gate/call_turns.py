"""Turns at the event loop: calls of a busy tenant wait while a call of a less busy tenant is served.

    acme, 100 calls a second     ────████────────────████──────
    umbra, 500                   ▪▪▪▪    ▪▪▪▪▪▪▪▪▪▪▪▪    ▪▪▪▪▪▪      waits at most half of the time

A small call takes some tenths of a millisecond of the loop. A call that waits for the log comes back to the loop a
dozen times. Each time it runs after all newer callbacks. So a tenant with at least `MANY` calls a second waits
while a young call of a quieter tenant is served. A tenant is quieter if it makes less than half as many calls,
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
"""The most seconds of waiting that a tenant saves, and so its longest wait at a stretch. A new tenant has all of them.
"""

MANY = 150.0
"""Calls a second, divided by the tenant's weight, below which a tenant's calls never wait."""

LEAST_S = 0.000_1
"""The shortest wait, in seconds. For a wait below a timer's millisecond, the loop looks again at each of its turns. If
the shortest wait were a millisecond, calls would enter before a quieter tenant's call has ended. Then the quieter
tenant's pushes took 17 to 19 ms instead of 12 to 13."""

TIMES = 2.0
"""The ratio of two tenants' call rates above which the busier tenant's calls wait."""

_LOOKED_AT = 8
"""The most other tenants that are compared: those with the newest calls."""

_KNOWN = 1_024
"""The most tenants that are remembered. The tenant that was silent longest is forgotten."""


class _TenantCalls:
    """The call rate of a tenant, its held calls, and the time for which its calls may wait."""

    __slots__ = ("began", "calls", "held", "open", "pump", "saved", "since", "weight")

    def __init__(self, now: float) -> None:
        self.calls = Rate(now)
        self.weight = 1.0
        self.open = 0
        self.began = -YOUNG_S
        """The time at which the newest call of the tenant began to be served."""
        self.held: deque[asyncio.Future[None]] = deque()
        self.saved, self.since = MOST_SAVED_S, now
        """The seconds for which the tenant's calls may wait, as of `since`."""
        self.pump: asyncio.TimerHandle | None = None

    def rate(self, now: float) -> float:
        """The approximate calls a second of the tenant, divided by its weight."""
        return self.calls.per_second(now) / self.weight


class CallTurns:
    """The calls of all tenants. `now`: seconds of a clock that never goes back. `came`: called when a call comes."""

    def __init__(
        self,
        weight: Weight = equal,
        now: Callable[[], float] = time.monotonic,
        came: Callable[[], object] = lambda: None,
    ) -> None:
        self._came = came
        self._weight = weight
        self._now = now
        self._known: OrderedDict[str, _TenantCalls] = OrderedDict()
        """The tenants in the order of their newest calls, the newest last."""
        self.held = 0
        """The number of calls that wait now."""

    async def come_in(self, name: str) -> ServedCall:
        """Wait until a call of this tenant may go on. Returns the context in which the call is served.

        Only a call that is expected to end soon enters the context. O(1) if the call need not wait.
        """
        now = self._now()
        self._came()
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
        """Update and return the seconds for which a tenant's calls may still wait.

        They shrink while calls are held, else they grow. Must be called before the first call is held, and before the
        last held call leaves.
        """
        passed, tenant.since = now - tenant.since, now
        saved = tenant.saved + (-passed if tenant.held else passed)
        tenant.saved = min(max(saved, -MOST_SAVED_S), MOST_SAVED_S)
        return tenant.saved

    async def _hold(self, tenant: _TenantCalls, now: float) -> None:
        """Hold a call until it may come in."""
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
        if tenant.held and not kept_out and not tenant.held[0].cancelled():  # a cancelled call removes itself
            tenant.held.popleft().set_result(None)
        if tenant.held:
            self._again(tenant, kept_out)

    def _again(self, tenant: _TenantCalls, seconds: float) -> None:
        """Schedule `_let_in` for the tenant after `seconds`. After 0 seconds it runs at the loop's next turn."""
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
