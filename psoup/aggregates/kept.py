"""The sum of the bytes of each tenant's caches, over all kinds of caches (rooms), and the tenant's limit.

    folds ─┐
    packs ─┤
    pairs ─┼──> held("acme") ──over──> key indexes of acme are dropped first, oldest first; then the room that has
    keys  ─┘                           grown drops entries of acme, least recently used first

Any entry can be made again, and no answer depends on it. A tenant above its limit displaces no entry of other tenants.
"""

from __future__ import annotations

from collections.abc import Callable

from psoup.work.read_budget import NO_LIMIT

Bytes = Callable[[str], int]
"""Returns the bytes of a tenant in a cache, or the tenant's limit. A limit of 0 means that there is none."""
GiveUp = Callable[[int, str], int]
"""Drops entries of a tenant until a number of bytes is free. Returns the bytes freed."""


class KeptBytes:
    """The bytes of all tenants, for any thread. `limit`: returns the most bytes that a tenant may have."""

    def __init__(self, limit: Bytes = lambda _: 0) -> None:
        self.limit = limit
        self._parts: list[Bytes] = []
        self._first: list[GiveUp] = []

    def add(self, part: Bytes, give_up: GiveUp | None = None) -> None:
        """Add a cache. `part`: returns its bytes of a tenant. `give_up`: drops its entries, before other caches do."""
        self._parts.append(part)
        if give_up is not None:
            self._first.append(give_up)

    def held(self, tenant: str) -> int:
        """The bytes of a tenant in all caches. O(entries)."""
        return sum(part(tenant) for part in self._parts)

    def free(self, tenant: str) -> int:
        """The bytes that a tenant may still add, negative above its limit. Without a limit: NO_LIMIT."""
        limit = self.limit(tenant)
        return limit - self.held(tenant) if limit else NO_LIMIT

    def over(self, tenant: str, more: int = 0) -> int:
        """The bytes by which a tenant would exceed its limit with `more` bytes. Returns 0 without a limit.

        Before that, the caches with a `give_up` drop entries of the tenant. Without a limit the call is cheap.
        """
        over = more - self.free(tenant)
        for give_up in self._first if over > 0 else ():
            over -= give_up(over, tenant)
        return max(over, 0)
