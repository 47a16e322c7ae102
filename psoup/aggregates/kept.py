"""The bytes of each tenant's caches in all rooms together, and the limit of them.

    folds ─┐
    packs ─┤
    pairs ─┼──> held("acme") ──over──> key indexes of acme are dropped first, oldest first; then the room that has
    keys  ─┘                           grown drops entries of acme, least recently used first

All of it can be made again, and no answer depends on it. A tenant over its quota displaces no other tenant.
"""

from __future__ import annotations

from collections.abc import Callable

from psoup.work.read_budget import NO_LIMIT

Bytes = Callable[[str], int]
"""The bytes of a tenant, or the most it may have: 0 means no limit."""
GiveUp = Callable[[int, str], int]
"""Drops entries of a tenant until so many bytes are free; returns the bytes freed."""


class KeptBytes:
    """The bytes of all tenants. Any thread. `limit`: the most bytes that one tenant may have."""

    def __init__(self, limit: Bytes = lambda _: 0) -> None:
        self.limit = limit
        self._parts: list[Bytes] = []
        self._first: list[GiveUp] = []

    def add(self, part: Bytes, give_up: GiveUp | None = None) -> None:
        """Count also the bytes that `part` gives for a tenant. `give_up`: drops entries before those of other rooms."""
        self._parts.append(part)
        if give_up is not None:
            self._first.append(give_up)

    def held(self, tenant: str) -> int:
        """Bytes of all rooms for a tenant. O(entries)."""
        return sum(part(tenant) for part in self._parts)

    def free(self, tenant: str) -> int:
        """The bytes that a tenant may still add, negative above its limit; NO_LIMIT without a limit."""
        limit = self.limit(tenant)
        return limit - self.held(tenant) if limit else NO_LIMIT

    def over(self, tenant: str, more: int = 0) -> int:
        """The bytes by which a tenant exceeds its limit after `more` bytes; 0 without a limit.

        Entries that give way first are dropped before. Without a limit the call is cheap.
        """
        over = more - self.free(tenant)
        for give_up in self._first if over > 0 else ():
            over -= give_up(over, tenant)
        return max(over, 0)
