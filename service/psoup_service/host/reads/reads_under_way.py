"""Limits of reads under way: waiting for a thread, on a thread, or set aside.

    up to `limit` reads of all tenants      each read is accepted
    above `limit`                           a tenant's read is accepted while the tenant has few reads under way

A tenant has few reads if it has none, or less than its part, by weight, of half of `limit`. So reads of one tenant are
not refused because other tenants have many. For one event loop.
"""

from __future__ import annotations

from psoup.errors import ResourceExhausted
from psoup.phrases import counted, verb
from psoup_service.host.room import RETRY_AFTER_MS
from psoup_service.host.turns.fair_turns import ONE_TENANT, Weights


class ReadsUnderWay:
    """The reads under way of all tenants. `count`: their number."""

    def __init__(self, limit: int, weights: Weights = ONE_TENANT) -> None:
        self.count = 0
        self._limit = limit
        self._weights = weights
        self._tenants: dict[str, TenantReads] = {}
        """The tenants that have reads under way."""

    def of(self, tenant: str) -> TenantReads:
        """A context for a read of a tenant. Entering it raises ResourceExhausted if too many are under way. O(1)."""
        reads = self._tenants.get(tenant)
        return TenantReads(self, tenant) if reads is None else reads

    def begin(self, reads: TenantReads) -> None:
        """Count the begin of a read. Raises ResourceExhausted if too many are under way."""
        if self.count >= self._limit and reads.count >= max(1, self._limit / 2 * self._weights.share(reads.tenant)):
            raise ResourceExhausted(
                f"{counted(self.count, 'read')} {verb(self.count, 'is', 'are')} under way, which is the limit; try"
                f" again in {RETRY_AFTER_MS} ms",
                reason="BUSY",
                retry_after_ms=RETRY_AFTER_MS,
            )
        self.count += 1
        reads.count += 1
        self._tenants[reads.tenant] = reads

    def end(self, reads: TenantReads) -> None:
        """Count the end of a read."""
        self.count -= 1
        reads.count -= 1
        if not reads.count:
            del self._tenants[reads.tenant]


class TenantReads:
    """The reads of one tenant. The object is the context of each of them."""

    __slots__ = ("_all", "count", "tenant")

    def __init__(self, all_reads: ReadsUnderWay, tenant: str) -> None:
        self._all = all_reads
        self.tenant = tenant
        self.count = 0

    def __enter__(self) -> None:
        self._all.begin(self)

    def __exit__(self, *_: object) -> None:
        self._all.end(self)
