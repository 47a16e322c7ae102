"""A limit on the bytes that all tenants hold together; a part is reserved for each tenant.

    limit   [ acme's own | umbra's own | … |  for who comes first ]

Without reserved parts, one tenant with a stalled reader could hold all bytes. Then reads of other tenants would be
refused. The part `OWN` of the limit is divided among the tenants by weight. A caller without room is refused at once,
while in `room` callers wait in line.
"""

from __future__ import annotations

import threading

from psoup.model import DEFAULT_TENANT
from psoup_service.host.turns.fair_turns import ONE_TENANT, Weights

OWN = 0.5
"""The fraction of the limit that is reserved, and divided among the tenants."""


class _TenantBytes:
    """The bytes of one tenant. `own`: its reserved bytes, computed when it last held nothing."""

    __slots__ = ("bytes", "own")

    def __init__(self, share: int) -> None:
        self.own = share
        self.bytes = 0


class SharedBytes:
    """Counts the bytes that each tenant holds, under one limit for all. Any thread."""

    def __init__(self, limit: int, weights: Weights = ONE_TENANT) -> None:
        self.limit = limit
        self.used = 0
        self._own = int(limit * OWN)
        self._beyond = 0
        """Bytes that tenants hold beyond their own parts."""
        self._weights = weights
        self._tenants: dict[str, _TenantBytes] = {}
        """The tenants that hold bytes."""
        self._lock = threading.Lock()

    def of(self, tenant: str) -> ReadBytes:
        """An account for a new read of a tenant, which holds no bytes yet."""
        return ReadBytes(self, tenant)

    def take(self, size: int, tenant: str = DEFAULT_TENANT) -> bool:
        """Take `size` bytes; returns False if the limit does not allow it. A negative size gives bytes back."""
        with self._lock:
            account = self._there(tenant)
            more = _beyond(account, size)
            # A tenant's part is computed when it begins to hold bytes. Later tenants may make the sum of all parts
            # greater than `_own`, so `limit` itself is checked, too.
            if size > 0 and (self.used + size > self.limit or (more and self._beyond + more > self.limit - self._own)):
                return False
            self._change(tenant, account, size, more)
            return True

    def give_back(self, size: int, tenant: str = DEFAULT_TENANT) -> None:
        """Give back bytes that were taken."""
        with self._lock:
            account = self._there(tenant)
            self._change(tenant, account, -size, _beyond(account, -size))

    def free(self, tenant: str) -> int:
        """The bytes that a tenant could take now."""
        with self._lock:
            account = self._there(tenant)
            beyond = max(self.limit - self._own - self._beyond, 0)
            return max(min(self.limit - self.used, max(account.own - account.bytes, 0) + beyond), 0)

    def most(self, tenant: str) -> int:
        """The most bytes that a tenant may hold: its own part, and the part of the limit that is not reserved."""
        return self.limit - self._own + self._part(tenant)

    def is_beyond(self, tenant: str) -> bool:
        """Whether a tenant holds more than its own part."""
        with self._lock:
            account = self._there(tenant)
            return account.bytes > account.own

    def _there(self, tenant: str) -> _TenantBytes:
        return self._tenants.get(tenant) or _TenantBytes(self._part(tenant))

    def _part(self, tenant: str) -> int:
        return int(self._own * self._weights.share(tenant))

    def _change(self, tenant: str, account: _TenantBytes, size: int, beyond: int) -> None:
        account.bytes += size
        self.used += size
        self._beyond += beyond
        if account.bytes:
            self._tenants[tenant] = account
        else:
            self._tenants.pop(tenant, None)


def _beyond(account: _TenantBytes, more: int) -> int:
    """The growth of the bytes that a tenant holds beyond its own part, if it takes `more` bytes."""
    return max(account.bytes + more - account.own, 0) - max(account.bytes - account.own, 0)


class ReadBytes:
    """The bytes that one read of a tenant holds. It never gives back more than it took, however often it is closed. If
    a caller leaves, the read is closed while its running step still gives back its bytes. For any thread.
    """

    __slots__ = ("_all", "_lock", "_tenant", "held")

    def __init__(self, all_bytes: SharedBytes, tenant: str) -> None:
        self._all = all_bytes
        self._tenant = tenant
        self._lock = threading.Lock()
        self.held = 0

    @property
    def limit(self) -> int:
        """The most bytes that all reads of the tenant may hold in sum."""
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
