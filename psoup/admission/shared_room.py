"""Room that all tenants take of together, of which a part is each tenant's own.

    limit   [ acme's own | umbra's own | …  |  for who comes first ]
            '--------- a half, by weight ---'

A tenant within its own part is never refused, whatever others have. What is beyond the parts may fill the other half.
Parts follow the tenants that there are: when one comes, those of the others become smaller, and what these have stays.
So the limit holds, but for what was taken before there were so many. A tenant that is alone may take all of it.

What is held follows from events, and so does each answer. One owner; `of` and `used` from any thread.
"""

from __future__ import annotations

from psoup.admission.tenants import KnownTenants


class SharedRoom:
    """The bytes that tenants hold of something. `known`: the tenants with their weights."""

    def __init__(self, limit: int, known: KnownTenants) -> None:
        self.limit = limit
        self.used = 0
        self.held: dict[str, int] = {}
        """The bytes of each tenant that has some."""
        self._known = known
        self._own = limit // 2
        self._beyond = 0
        """Bytes that tenants hold beyond their own parts, as of `_changes`."""
        self._changes = known.changes

    @property
    def alone(self) -> bool:
        """Whether there is one tenant only: all of it is that one's."""
        return len(self._known) <= 1

    def of(self, tenant: str) -> int:
        """The bytes that a tenant holds. O(1)."""
        return self.held.get(tenant, 0)

    def own(self, tenant: str) -> int:
        """The bytes that are a tenant's own. O(1)."""
        return int(self._own * self._known.share(tenant))

    def most(self, tenant: str) -> int:
        """The most that a tenant may hold: its own part, and all that is nobody's. O(1)."""
        return self.limit - self._own + self.own(tenant)

    def fits(self, tenant: str, needed: int) -> bool:
        """Whether a tenant may hold `needed` bytes more. O(1), and O(tenants) after one came, went or was altered."""
        held, own = self.of(tenant), self.own(tenant)
        if needed <= 0 or held + needed <= own:
            return True
        if self._changes != self._known.changes:
            self._beyond = self.beyond()
            self._changes = self._known.changes
        return self._beyond + held + needed - max(held, own) <= self.limit - self._own

    def add(self, tenant: str, size: int) -> None:
        """Note that a tenant holds `size` bytes more; of what is negative, less. O(1)."""
        held, own = self.of(tenant), self.own(tenant)
        self.used += size
        self._beyond += max(held + size - own, 0) - max(held - own, 0)  # of no use, if there are other tenants now
        if held + size:
            self.held[tenant] = held + size
        else:
            self.held.pop(tenant, None)

    def beyond(self) -> int:
        """Bytes that tenants hold beyond their own parts. O(tenants)."""
        return sum(max(held - self.own(tenant), 0) for tenant, held in self.held.items())

    def counted(self) -> bool:
        """Whether the sums are those of what the tenants hold: an invariant. O(tenants)."""
        current = self._changes != self._known.changes or self._beyond == self.beyond()
        return current and self.used == sum(self.held.values()) and min(self.held.values(), default=1) > 0
