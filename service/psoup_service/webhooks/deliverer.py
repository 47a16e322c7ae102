"""The webhooks of a service, with one task for each.

A task that ends by a defect starts again after `_AGAIN_S`. Without a webhook no task runs, and the HTTP client is not
imported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from psoup.events.webhooks import BY_FAILURES, Webhook
from psoup.published.snapshot import Snapshot
from psoup_service.gate.targets import Origin
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids
from psoup_service.sync.tokens import Tokens
from psoup_service.watching.rounds import Rounds
from psoup_service.webhooks.addresses import Addresses
from psoup_service.webhooks.content import EventBody, Looking
from psoup_service.webhooks.deliveries import Deliveries, Progress
from psoup_service.webhooks.tools import Tools

if TYPE_CHECKING:
    from psoup_service.webhooks.attempts import Sender

_AGAIN_S = 10.0
"""Seconds after which a task that ended by a defect starts again."""
_log = logging.getLogger(__name__)


class Deliverer:
    """Delivers the changes of all webhooks. For the event loop, except for `figures`."""

    def __init__(
        self,
        host: Host[Snapshot],
        tokens: Tokens,
        ids: Ids,
        rounds: Rounds,
        clock: Callable[[], int],
        trusted: frozenset[Origin],
    ) -> None:
        """`clock`: returns the time in microseconds. `trusted`: the hosts of the setting `webhook_hosts`."""
        self._host = host
        self._clock = clock
        self._addresses = Addresses()
        self._sender: Sender | None = None
        self.tools = Tools(host, ids, rounds, Looking(tokens, ids), clock, trusted, self._made_sender)
        self._open: dict[int, Deliveries] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ended = False

    def start(self) -> None:
        """Begin to deliver, once the log is replayed."""
        for webhook in self._host.snapshot().webhooks.values():
            self._begin(webhook)

    def changed(self, webhook_id: int) -> None:
        """Note that a client has added, paused, resumed or removed a webhook."""
        deliveries = self._open.get(webhook_id)
        if deliveries is not None:
            deliveries.poke()
        elif (webhook := self._host.snapshot().webhooks.get(webhook_id)) is not None:
            self._begin(webhook)

    def serve_events(self, event_body: type[EventBody]) -> None:
        """Begin to deliver to subscriptions of assistants, too. `event_body`: makes the bodies."""
        self.tools.event_body = event_body
        for deliveries in self._open.values():
            deliveries.poke()

    def progress_of(self, webhook_id: int) -> Progress:
        """The attempts of a webhook since the start."""
        deliveries = self._open.get(webhook_id)
        return Progress() if deliveries is None else deliveries.progress

    async def end(self) -> None:
        """End all tasks. An attempt that is under way is repeated after the next start."""
        self._ended = True
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._addresses.close()

    def figures(self) -> dict[str, int]:
        """The figures for the metrics, by name. Any thread may call it."""
        webhooks = [*self._host.snapshot().webhooks.values()] if self._host.state != "starting" else []
        waiting = [webhook for webhook in webhooks if webhook.delivery is not None]
        late = [webhook.delivery.created for webhook in waiting if webhook.delivery is not None and not webhook.paused]
        failed = sum(webhook.paused == BY_FAILURES for webhook in webhooks)
        return {
            "webhooks": len(webhooks),
            "webhooks_waiting": len(waiting),
            "webhooks_failed": failed,
            "webhook_age_seconds": max(self._clock() - min(late), 0) // 1_000_000 if late else 0,
            "webhook_deliveries": self.tools.figures.taken,
            "webhook_failures": self.tools.figures.failed,
        }

    def _begin(self, webhook: Webhook) -> None:
        if self._ended:
            return
        number = webhook.webhook_id
        deliveries = self._open[number] = Deliveries(self.tools, webhook)
        # In a context of its own: in the caller's, the task would keep the request, and extend the trace of the call.
        task = self._tasks[number] = asyncio.create_task(deliveries.run(), context=Context())
        task.add_done_callback(lambda done: self._finished(number, done))

    def _finished(self, number: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(number) is task:
            del self._tasks[number], self._open[number]
        if self._ended or task.cancelled() or (problem := task.exception()) is None:
            return
        _log.error("the deliveries of a webhook have failed", exc_info=problem)
        asyncio.get_running_loop().call_later(_AGAIN_S, self.changed, number, context=Context())

    async def _made_sender(self) -> Sender:
        if self._sender is None:
            made = await asyncio.to_thread(_sender, self._addresses)  # 0.1 s, not on the loop
            self._sender = self._sender or made
        return self._sender


def _sender(addresses: Addresses) -> Sender:
    from psoup_service.webhooks.attempts import Sender

    return Sender(addresses, f"PSoup/{_version()}")


def _version() -> str:
    try:
        return version("psoup")
    except PackageNotFoundError:
        return "unknown"
