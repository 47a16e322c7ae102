"""What is kept for each tenant beside its tuples, of all rooms together, and the most that may be.

    folds ─┐
    packs ─┤
    pairs ─┼──> held("acme") ──over──> acme's own key indexes go, those that are oldest first; then the room that has
    keys  ─┘                           grown drops of acme's own, what was not used of late first

All of it can be made again: no answer depends on it, and a tenant that is over its quota takes nobody else's place.
"""

from __future__ import annotations

from collections.abc import Callable

from psoup.reading import NO_LIMIT

Bytes = Callable[[str], int]
"""The bytes of a tenant, or the most it may have: 0 is no limit."""
GiveUp = Callable[[int, str], int]
"""Drops of a tenant's own until so many bytes are free; returns the bytes freed."""


class KeptBytes:
    """The bytes of all tenants. Any thread. `limit`: the most that one may have."""

    def __init__(self, limit: Bytes = lambda _: 0) -> None:
        self.limit = limit
        self._parts: list[Bytes] = []
        self._first: list[GiveUp] = []

    def add(self, part: Bytes, give_up: GiveUp | None = None) -> None:
        """Count what `part` keeps for a tenant, too. `give_up`: it makes way for all others."""
        self._parts.append(part)
        if give_up is not None:
            self._first.append(give_up)

    def held(self, tenant: str) -> int:
        """What is kept for a tenant. O(what is kept)."""
        return sum(part(tenant) for part in self._parts)

    def free(self, tenant: str) -> int:
        """The bytes that a tenant may have beside what is kept, below 0 if that is too much; NO_LIMIT without one."""
        limit = self.limit(tenant)
        return limit - self.held(tenant) if limit else NO_LIMIT

    def over(self, tenant: str, more: int = 0) -> int:
        """The bytes that a tenant has beyond what it may, with so many more, once what makes way for them is gone; 0
        without a limit, which is soon told."""
        over = more - self.free(tenant)
        for give_up in self._first if over > 0 else ():
            over -= give_up(over, tenant)
        return max(over, 0)
