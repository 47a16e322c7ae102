"""What is kept for each tenant beside its tuples, of all rooms together, and the most that may be.

    folds ─┐
    packs ─┼──> held("acme") ──over──> the room that has grown drops of acme's own, what was not used of late first
    pairs ─┘

All of it can be made again: no answer depends on it, and a tenant that is over its quota takes nobody else's place.
"""

from __future__ import annotations

from collections.abc import Callable

Bytes = Callable[[str], int]
"""The bytes of a tenant, or the most it may have: 0 is no limit."""


class KeptBytes:
    """The bytes of all tenants. Any thread. `limit`: the most that one may have."""

    def __init__(self, limit: Bytes = lambda _: 0) -> None:
        self.limit = limit
        self._parts: list[Bytes] = []

    def add(self, part: Bytes) -> None:
        """Count what `part` keeps for a tenant, too."""
        self._parts.append(part)

    def held(self, tenant: str) -> int:
        """What is kept for a tenant. O(what is kept)."""
        return sum(part(tenant) for part in self._parts)

    def over(self, tenant: str, more: int = 0) -> int:
        """The bytes that a tenant has beyond what it may, with so many more; 0 without a limit, which is soon told."""
        limit = self.limit(tenant)
        return max(self.held(tenant) + more - limit, 0) if limit else 0
