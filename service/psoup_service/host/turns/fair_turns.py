"""Turns of waiting tenants: the next is the one that had the least time for its weight.

    acme   weight 1   had 0.020 ──┐
    umbra  weight 3   had 0.012 ──┼──> umbra is next; it works for 6 ms, and has had 0.012 + 0.006 / 3
    zeta   weight 1   had 0.020 ──┘    who comes back begins at the present: nobody saves time, and debts stay

The cost of work is known afterwards, so it is charged afterwards (start-time fair queueing, Goyal, Vin and Cheng 1996).
This is like deficit round robin. But the deficit is a debt, and a round is as short as a piece of work. A tenant that
waits alone is served at once. The callers decide the order of work of one tenant.

`TenantTimes` has the tenants' use of one resource, `FairTurns` the tenants that wait for it in one line. Not
thread-safe: the owner of the lines has a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from psoup.events.tenants import FIRST_TENANT, Tenant

_SPARE = 16
"""The heap is rebuilt if it has this many entries more than twice the waiting tenants."""

Weight = Callable[[str], float]
"""The weight of a tenant, above 0."""


class Weights:
    """The weights of the existing tenants, for any thread. `tenants`: returns them, as published."""

    def __init__(self, tenants: Callable[[], Mapping[str, Tenant]]) -> None:
        self.tenants = tenants
        self._known: Mapping[str, Tenant] | None = None
        self._sum = 1.0

    def of(self, tenant: str) -> float:
        """The weight of a tenant; 1 for an unknown one, and for operators. O(1)."""
        facts = self.tenants().get(tenant)
        return 1.0 if facts is None else facts.quotas.weight

    def share(self, tenant: str) -> float:
        """A tenant's fraction of the sum of all weights: above 0, at most 1. O(1), and O(tenants) after a change."""
        tenants = self.tenants()
        if tenants is not self._known:
            self._sum = sum(entry.quotas.weight for entry in tenants.values())
            self._known = tenants
        return min(1.0, self.of(tenant) / self._sum)


_FIRST = {FIRST_TENANT.name: FIRST_TENANT}
ONE_TENANT = Weights(lambda: _FIRST)
equal = ONE_TENANT.of


class TenantTimes:
    """Each tenant's use of one resource, such as processor time.

    `used`: seconds, or matches, since the start. `had`: the tenant's virtual time. Each use raises it by its seconds,
    divided by the weight. A tenant that was idle begins at `now`. `now`: the virtual time of the tenant that was served
    last, or of tenants that are served without waiting. `most`: the greatest `had`.
    """

    def __init__(self, weight: Weight = equal) -> None:
        self.used: dict[str, float] = {}
        self.had: dict[str, float] = {}
        self.now = self.most = 0.0
        self._weight = weight

    def begins(self, tenant: str) -> float:
        """The virtual time of a tenant that begins to wait: at least `now`, so that an idle tenant saves no time."""
        return max(self.had.get(tenant, 0.0), self.now)

    def charge(self, tenant: str, seconds: float) -> None:
        """Add seconds of work to a tenant's use. O(1)."""
        self.used[tenant] = self.used.get(tenant, 0.0) + seconds
        had = self.had[tenant] = self.begins(tenant) + seconds / self._weight(tenant)
        self.most = max(self.most, had)

    def come(self, others: Iterable[str]) -> None:
        """Note that an absent tenant comes. It begins at the present: the `had` of the `others`, or the value when the
        last one left. So an absent tenant saves no time, even if no tenant waited meanwhile. O(others).
        """
        self.now = max(self.now, min((self.had.get(other, 0.0) for other in others), default=self.most))


class FairTurns:
    """The tenants that wait in one line."""

    def __init__(self, times: TenantTimes) -> None:
        self._times = times
        self._tickets: dict[str, int] = {}
        """The ticket of each waiting tenant. Tenants with equal `had` are served in the order of their tickets."""
        self._heap: list[tuple[float, int, str]] = []
        """(`had`, ticket, tenant) of each waiting tenant. Since then it may have used more time, or have left."""
        self._ticket = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, tenant: str) -> bool:
        return tenant in self._tickets

    @property
    def entries(self) -> int:
        """Number of entries of the heap: at most about twice the waiting tenants."""
        return len(self._heap)

    def wait(self, tenant: str) -> None:
        """Put a tenant in line; harmless if it waits already. O(log tenants)."""
        if tenant not in self._tickets:
            self._put(tenant)

    def leave(self, tenant: str) -> None:
        """Take a tenant out of the line; harmless if it does not wait. O(1)."""
        self._tickets.pop(tenant, None)

    @property
    def first(self) -> str | None:
        """The tenant whose turn it is; None if no tenant waits. O(log tenants), amortised over charges."""
        return self._heap[0][2] if self._look() else None

    @property
    def had(self) -> float:
        """The virtual time of the first tenant. The line must not be empty."""
        self._look()
        return self._heap[0][0]

    def behind(self, lead: float) -> list[str]:
        """The tenants after the first, in order, that are at most `lead` of virtual time ahead of it.

        The line must not be empty. O(tenants).
        """
        first, bound = self.first, self.had + lead
        waiting = [(had, ticket, tenant) for had, ticket, tenant in self._heap if self._tickets.get(tenant) == ticket]
        now = [(max(had, self._times.had.get(tenant, 0.0)), ticket, tenant) for had, ticket, tenant in waiting]
        return [tenant for had, _, tenant in sorted(now) if had <= bound and tenant != first]

    def serve_early(self, tenant: str) -> None:
        """Serve a tenant behind the first, which keeps its place. The served tenant stays in line until it leaves."""
        self._put(tenant)

    def serve(self) -> str:
        """Return the first tenant, and put it after tenants with equal `had`. It stays in line until `leave`.

        The line must not be empty.
        """
        self._look()
        had, _, tenant = self._heap[0]
        self._times.now = max(self._times.now, had)
        if len(self._tickets) > 1:
            heappop(self._heap)
            self._put(tenant, had)
        return tenant

    def _put(self, tenant: str, had: float = 0.0) -> None:
        self._ticket += 1
        self._tickets[tenant] = self._ticket
        heappush(self._heap, (max(had, self._times.begins(tenant)), self._ticket, tenant))
        if len(self._heap) > 2 * len(self._tickets) + _SPARE:
            self._heap = [entry for entry in self._heap if self._tickets.get(entry[2]) == entry[1]]
            heapify(self._heap)

    def _look(self) -> bool:
        """Bring the tenant whose turn it is to the top of the heap; returns whether there is one."""
        while self._heap:
            had, ticket, tenant = self._heap[0]
            if self._tickets.get(tenant) != ticket:
                heappop(self._heap)
                continue
            later = self._times.had.get(tenant, 0.0)
            if later <= had:
                return True
            heapreplace(self._heap, (later, ticket, tenant))
        return False
