"""Pauses in taking pushes, after which watermarks do not follow the clock for a while (WATERMARK BY CLOCK).

    start            all tenants       producers may have kept rows while the service was down
    a refused push   its tenant        no room, a full disk, too many calls, a deadline
    a push in line   its tenant        for at least `LONG` microseconds
    a stall, a step  all tenants       the process or the machine stood still, or the clock jumped

Belongs to the event loop. Times are microseconds of boot time, which no operator can set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from psoup.model import SECOND

T = TypeVar("T")

LONG = SECOND
"""Microseconds from which on a push counts as waiting."""

_PUSHING = frozenset({"Push", "PushRows", "PushStream", "AddPart", "CommitStage"})
"""The names of methods that bring rows."""
_INTERRUPTED = frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"})
"""The codes of calls that a producer makes again."""


class PushPauses:
    """The last pause of each tenant. `boot`: returns the boot time."""

    def __init__(self, boot: Callable[[], int]) -> None:
        self._boot = boot
        self._since = boot()
        """The end of the last pause of all tenants."""
        self._of_tenants: dict[str, int] = {}
        self._waiting: dict[object, tuple[str, int]] = {}
        """The tenants of the pushes in line, and the times at which they came."""

    def interrupt(self, tenant: str | None = None) -> None:
        """Note a pause that ends now: of one tenant, or of all."""
        if tenant is None:
            self._since = self._boot()
            self._of_tenants.clear()
        else:
            self._of_tenants[tenant] = self._boot()

    def ended(self, call: str, tenant: str, code: str) -> None:
        """Note the end of a call, "Service/Method", with its code."""
        if code in _INTERRUPTED and call.rpartition("/")[2] in _PUSHING:
            self.interrupt(tenant)

    def watching(self, reserve: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        """A function like `reserve`, which takes room for a tenant. While it waits, the push counts as in line."""

        async def reserve_watched(tenant: str, size: int, *, patience: float = 0.0) -> T:
            place = object()
            self._waiting[place] = tenant, self._boot()
            try:
                return await reserve(tenant, size, patience=patience)
            finally:
                _, came = self._waiting.pop(place)
                if self._boot() - came >= LONG:
                    self.interrupt(tenant)

        return reserve_watched

    def steady(self) -> tuple[int, dict[str, int]]:
        """For how long pushes have been taken without a pause: of all tenants, and of tenants with a later pause."""
        now = self._boot()
        for tenant, came in [*self._waiting.values()]:
            if now - came >= LONG:
                self.interrupt(tenant)
        return now - self._since, {tenant: now - since for tenant, since in self._of_tenants.items()}
