"""The parts that the tasks of all webhooks share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psoup.errors import PSoupError
from psoup.events.webhooks import Webhook
from psoup.model import DEFAULT_TENANT
from psoup.published.snapshot import Snapshot
from psoup_service.gate.targets import Origin, target_of
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids
from psoup_service.watching.rounds import Rounds
from psoup_service.webhooks.content import EventBody, Looking
from psoup_service.webhooks.outcomes import Outcome

if TYPE_CHECKING:
    from psoup_service.webhooks.attempts import Sender

AT_ONCE = 128
"""Attempts that may run at once."""
OF_TENANT = 32
"""Attempts that may run at once for a tenant other than `default`, so that slow receivers delay only it."""
LOGGED_AT_ONCE = 8
"""Steps of webhooks that may be logged at once."""


@dataclass(slots=True)
class Figures:
    """Counts since the start: deliveries taken, and attempts that failed."""

    taken: int = 0
    failed: int = 0


@dataclass(slots=True)
class Tools:
    """The parts of one service. `sender`: returns the sender, and imports the HTTP client before the first attempt."""

    host: Host[Snapshot]
    ids: Ids
    rounds: Rounds
    looking: Looking
    clock: Callable[[], int]
    trusted: frozenset[Origin]
    sender: Callable[[], Awaitable[Sender]]
    event_body: type[EventBody] | None = None
    """Makes bodies for subscriptions of assistants. None while the service serves no assistants."""
    figures: Figures = field(default_factory=Figures)
    logging: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOGGED_AT_ONCE))
    _all: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _of_tenants: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    async def attempt(self, webhook: Webhook, message_id: str, body: bytes) -> Outcome:
        """Send a message of a webhook once. Waits while `AT_ONCE` attempts run, or `OF_TENANT` of the tenant."""
        try:
            target = target_of(webhook.url, self.trusted)
        except PSoupError as problem:  # webhook_hosts allowed the URL when the webhook was added
            return Outcome(0, problem.message, "connection_refused")
        async with AsyncExitStack() as stack:
            if webhook.tenant != DEFAULT_TENANT:
                places = self._of_tenants.setdefault(webhook.tenant, asyncio.Semaphore(OF_TENANT))
                await stack.enter_async_context(places)
            await stack.enter_async_context(self._all)
            sender = await self.sender()
            named = "" if webhook.subscription is None else webhook.subscription.subscription_id
            sending = sender.send(
                target,
                message_id,
                body,
                webhook.secrets(now := self.clock()),
                now,
                tenant=webhook.tenant,
                subscription_id=named,
            )
            return await sending
