"""Refusals of callers that ask again at once: the answer is delayed.

    refused, by a limit ── at most FEW a second? ──yes──> answered at once, with when to come again
                                └─ no ─> answered after some HELD_S, unless MOST of the tenant's are held

A refusal costs the event loop nearly as much as a small call. So a caller that ignores the requested wait would take
the loop from other callers by refusals alone. With delayed answers, a caller that waits for each answer comes at most
`1 / HELD_S` times a second. A caller that waits as requested is never delayed. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from psoup.errors import PSoupError, ResourceExhausted
from psoup_service.gate.meters import Rate

HELD_S = 0.1
"""The mean time for which a refusal is held, in seconds. Refusals of one moment are answered at different times."""

FEW = 20.0
"""The refusals a second of a tenant above which further refusals are delayed."""

MOST = 32
"""The most refusals of a tenant that are held at a time. Each takes a place among the open calls."""

_HELD = ("QUOTA", "WATCH_BUDGET")
"""Reasons of refusals that are delayed: a tenant's quota, and a credential's limit of watches."""


class HeldRefusals:
    """The refusals of each tenant. `now`: seconds of a clock that never goes back."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._rates: dict[str, Rate] = {}
        self._held: dict[str, int] = {}

    async def hold(self, tenant: str, error: PSoupError) -> None:
        """Wait until a call of `tenant` may be answered with `error`. Only refusals with a reason of `_HELD` wait."""
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
