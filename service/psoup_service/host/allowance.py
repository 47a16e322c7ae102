"""What one read may use, and what all reads may together.

Allowance.budget(tenant) ──> ReadBudget     one for each read; settings are read once, where the service is composed

sorts_mib    [ acme's own | umbra's own | … |  for all ]
"""

from __future__ import annotations

import threading

from psoup.model import DEFAULT_TENANT
from psoup.reading import NO_LIMIT, ReadBudget
from psoup_service.host.archive_speed import ArchiveSpeed
from psoup_service.host.fair_turns import ONE_TENANT, Weights

OWN = 0.5
"""The part of the bytes that all reads share, which is the tenants' own."""


class _Held:
    """The bytes of one tenant. `own`: what nobody else may hold, as of when it held nothing."""

    __slots__ = ("bytes", "own")

    def __init__(self, own: int) -> None:
        self.own, self.bytes = own, 0


class SharedBytes:
    """The bytes that the reads of all tenants together hold. Any thread.

    OWN of them is divided among the tenants by their weights, and nobody else's; the rest is for who comes first. A
    stalled reader keeps what he holds: without parts, one tenant's would have the sorts of all others refused.
    """

    def __init__(self, limit: int, weights: Weights = ONE_TENANT) -> None:
        self.limit = limit
        self.used = 0
        self._own = int(limit * OWN)
        self._beyond = 0
        """Bytes that tenants hold beyond their own parts."""
        self._weights = weights
        self._tenants: dict[str, _Held] = {}
        """Those that hold something."""
        self._lock = threading.Lock()

    def of(self, tenant: str) -> ReadBytes:
        """Those of a new read of a tenant: nothing so far."""
        return ReadBytes(self, tenant)

    def take(self, size: int, tenant: str = DEFAULT_TENANT) -> bool:
        """Take `size` bytes; returns False if the limit does not allow it."""
        with self._lock:
            there = self._tenants.get(tenant) or _Held(self._part(tenant))
            more = _beyond(there, size)
            if more and self._beyond + more > self.limit - self._own:
                return False
            self._change(tenant, there, size, more)
            return True

    def give_back(self, size: int, tenant: str = DEFAULT_TENANT) -> None:
        """Give back bytes that were taken."""
        with self._lock:
            there = self._tenants[tenant]
            self._change(tenant, there, -size, _beyond(there, -size))

    def most(self, tenant: str) -> int:
        """The most that a tenant may hold: its own part, and all that is nobody's."""
        return self.limit - self._own + self._part(tenant)

    def _part(self, tenant: str) -> int:
        return int(self._own * self._weights.share(tenant))

    def _change(self, tenant: str, there: _Held, size: int, beyond: int) -> None:
        there.bytes += size
        self.used += size
        self._beyond += beyond
        if there.bytes:
            self._tenants[tenant] = there
        else:
            self._tenants.pop(tenant, None)


def _beyond(there: _Held, more: int) -> int:
    """How much more of what is nobody's a tenant would hold with so many bytes more."""
    return max(there.bytes + more - there.own, 0) - max(there.bytes - there.own, 0)


class ReadBytes:
    """The bytes that one read of a tenant holds. It gives back no more than it has taken, whoever asks and how often:
    where a caller leaves, his read is closed while what it was in the midst of still gives back its own. Any thread.
    """

    __slots__ = ("_all", "_lock", "_tenant", "held")

    def __init__(self, all_bytes: SharedBytes, tenant: str) -> None:
        self._all, self._tenant = all_bytes, tenant
        self._lock = threading.Lock()
        self.held = 0

    @property
    def limit(self) -> int:
        """The most that all reads of the tenant may hold together."""
        return self._all.most(self._tenant)

    def take(self, size: int) -> bool:
        """Take `size` bytes; returns False if that is not possible."""
        with self._lock:
            taken = self._all.take(size, self._tenant)
            self.held += size if taken else 0
            return taken

    def give_back(self, size: int) -> None:
        """Give back bytes that were taken; harmless if they were given back before."""
        with self._lock:
            size = min(size, self.held)
            if size > 0:
                self._all.give_back(size, self._tenant)
                self.held -= size


class Allowance:
    """The limits of reads. `cpu_s`: processor time of one; `sort_bytes`, `all_sort_bytes`: of one sort, and of all.

    `weights`: of tenants; half of `all_sort_bytes` is their own.
    `archive_s`: seconds that one read may take for tuples on disk that were not evaluated for its query yet.
    """

    def __init__(
        self,
        *,
        cpu_s: float = 60.0,
        sort_bytes: int = NO_LIMIT,
        all_sort_bytes: int = NO_LIMIT,
        archive_s: float = 10.0,
        weights: Weights = ONE_TENANT,
    ) -> None:
        self.cpu_s = cpu_s
        self.sort_bytes = sort_bytes
        self.sorts = SharedBytes(all_sort_bytes, weights)
        self.archive = ArchiveSpeed(archive_s)

    def budget(self, tenant: str = DEFAULT_TENANT) -> ReadBudget:
        """The budget of a new read."""
        held = self.sorts.of(tenant)
        return ReadBudget(sort_bytes=self.sort_bytes, shared=held, archive=self.archive, cpu_s=self.cpu_s)
