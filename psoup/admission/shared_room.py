"""A limit that all tenants share, with a reserved part for each tenant.

    limit   [ reserved: acme | umbra | …  |  shared: first come ]
            '----- a half, by weight -----'

A tenant within its reserved part is never refused, whatever other tenants use. Bytes beyond the reserved parts come
from the other half. The existing tenants share the first half. So a new tenant makes the other reserved parts smaller,
but removes no bytes. Then the sum may exceed the limit, by bytes taken while there were fewer tenants. A single tenant
may take the whole limit.

Bytes and decisions depend only on events. Only the sequencer changes a room; any thread may call `of` and `used`.
"""

from __future__ import annotations

from psoup.admission.tenants import KnownTenants


class SharedRoom:
    """The bytes of each tenant under one limit. `tenants`: the known tenants with their weights."""

    def __init__(self, limit: int, tenants: KnownTenants) -> None:
        self.limit = limit
        self.used = 0
        self.held: dict[str, int] = {}
        """The bytes of each tenant that has any."""
        self._known = tenants
        self._own = limit // 2
        self._beyond = 0
        """The sum of the bytes of tenants beyond their reserved parts. Outdated if tenants have changed since."""
        self._changes = tenants.changes

    @property
    def alone(self) -> bool:
        """Whether the service has a single tenant, which may take the whole limit."""
        return len(self._known) <= 1

    def of(self, tenant: str) -> int:
        """The bytes of a tenant. O(1)."""
        return self.held.get(tenant, 0)

    def own(self, tenant: str) -> int:
        """The reserved bytes of a tenant. O(1)."""
        return int(self._own * self._known.share(tenant))

    def most(self, tenant: str) -> int:
        """The most bytes that a tenant may take: its reserved part and the shared half. O(1)."""
        return self.limit - self._own + self.own(tenant)

    def fits(self, tenant: str, needed: int) -> bool:
        """Whether a tenant may take `needed` more bytes. O(1), but O(tenants) after a change of tenants."""
        used, reserved = self.of(tenant), self.own(tenant)
        if needed <= 0 or used + needed <= reserved:
            return True
        if self._changes != self._known.changes:
            self._beyond = self.beyond()
            self._changes = self._known.changes
        return self._beyond + used + needed - max(used, reserved) <= self.limit - self._own

    def add(self, tenant: str, size: int) -> None:
        """Add `size` bytes to a tenant's bytes. A negative size removes bytes. O(1)."""
        used, reserved = self.of(tenant), self.own(tenant)
        self.used += size
        # if tenants have changed since, `fits` computes `_beyond` again, so a wrong value does no harm
        self._beyond += max(used + size - reserved, 0) - max(used - reserved, 0)
        if used + size:
            self.held[tenant] = used + size
        else:
            self.held.pop(tenant, None)

    def beyond(self) -> int:
        """The sum of the bytes of tenants beyond their reserved parts. O(tenants)."""
        return sum(max(used - self.own(tenant), 0) for tenant, used in self.held.items())

    def counted(self) -> bool:
        """Whether the kept sums agree with the bytes of the tenants. An invariant, for checks. O(tenants)."""
        current = self._changes != self._known.changes or self._beyond == self.beyond()
        return current and self.used == sum(self.held.values()) and min(self.held.values(), default=1) > 0
