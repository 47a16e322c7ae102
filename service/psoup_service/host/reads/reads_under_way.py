"""Limits of reads under way: waiting for a thread, on a thread, or set aside.

    limit      of all tenants together
    half more  for a tenant that has few: fewer than its part of that, by weight, and one at least

So a read is not refused because reads of other tenants wait. For one event loop.
"""

from __future__ import annotations

from psoup.errors import ResourceExhausted
from psoup.phrases import counted, verb
from psoup_service.host.room import RETRY_AFTER_MS
from psoup_service.host.turns.fair_turns import ONE_TENANT, Weights


class ReadsUnderWay:
    """The reads of all tenants. `count`: how many there are."""

    def __init__(self, limit: int, weights: Weights = ONE_TENANT) -> None:
        self.count = 0
        self._limit = limit
        self._weights = weights
        self._tenants: dict[str, TenantReads] = {}
        """Tenants that have some."""

    def of(self, tenant: str) -> TenantReads:
        """Context for a read of a tenant. Raises ResourceExhausted if there are too many. O(1)."""
        reads = self._tenants.get(tenant)
        return TenantReads(self, tenant) if reads is None else reads

    def begin(self, reads: TenantReads) -> None:
        """Count a read. Raises ResourceExhausted."""
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
        """Count its end."""
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
