"""The memory of all kept pairs of an engine: its limit, and the bytes that they take now.

The writer sets the limit and counts the bytes. The rounds of AUTO (`psoup.answer.automatic`) ask for the free bytes.
"""

from __future__ import annotations

from psoup.aggregates.kept import KeptBytes


class PairRoom:
    """The memory limit of all kept pairs of an engine, and the bytes that they take now."""

    def __init__(self, limit: int, tenant_bytes: KeptBytes | None = None) -> None:
        """`tenant_bytes`: counts the bytes of each tenant's caches, and has their limits."""
        self.limit = limit
        self.held = 0
        self._kept = tenant_bytes or KeptBytes()

    def allows(self, tenant: str, size: int) -> bool:
        """Whether `size` more bytes fit into the limit of all pairs and into the tenant's limit."""
        return self.held + size <= self.limit and not self._kept.over(tenant, size)

    def free(self, tenant: str) -> int:
        """The bytes that a tenant's pairs may still add. Any thread may call this. O(entries of the caches)."""
        return min(self.limit - self.held, self._kept.free(tenant))

    def bound(self, limit: int) -> None:
        """Set the limit of bytes. It applies to pairs that tasks make later."""
        self.limit = limit

    def take(self, size: int) -> None:
        """Add `size` bytes to those held. A negative size stands for freed bytes."""
        self.held += size
