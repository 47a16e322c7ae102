"""Refusals of callers who ask again at once: they are answered later.

    refused, by a limit ── FEW a second of late? ──yes──> answered at once, with when to come again
                                └─ no ─> answered after some HELD_S, as long as MOST of the tenant are held

A refusal costs the event loop nearly as much as a small call, and the loop is everybody's: a caller who does not wait
as he was told would take it from others by refusals alone. Who waits for his answers before he asks again comes
`1 / HELD_S` times a second at most. Who waits as he was told is never held. One event loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from psoup.errors import PSoupError, ResourceExhausted
from psoup_service.gate.meters import Rate

HELD_S = 0.1
"""Seconds that a refusal is held, about: refusals that came together are not answered together."""

FEW = 20.0
"""Refusals of a tenant a second, of late, from which on they are held."""

MOST = 32
"""Refusals of a tenant that are held at a time: they take places among the calls under way."""

_HELD = ("QUOTA", "WATCH_BUDGET")
"""The reasons of refusals that are held: what a tenant, and what a credential, has too much of."""


class HeldRefusals:
    """The refusals of each tenant. `now`: seconds of a clock that never goes back."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._rates: dict[str, Rate] = {}
        self._held: dict[str, int] = {}

    async def hold(self, tenant: str, error: PSoupError) -> None:
        """Return when a call of `tenant` may be answered with `error`: at once if that is no refusal by a quota, or
        of one watch too many of a credential.
        """
        if not (isinstance(error, ResourceExhausted) and error.reason in _HELD):
            return
        now, count = self._now(), self._held.get(tenant, 0)
        rate = self._rates.setdefault(tenant, Rate(now))
        rate.add(now, 1, 0.0)
        if rate.per_second(now) <= FEW or count >= MOST:
            return
        self._held[tenant] = count + 1
        try:
            await asyncio.sleep(HELD_S * random.uniform(0.5, 1.5))
        finally:
            self._held[tenant] -= 1
