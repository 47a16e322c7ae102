"""The deliveries of one webhook, as a task: look at the answer, log a delivery, send it until it is taken.

    marked ─ look ─> content ─ log ─> attempt ─ failed, 1 s, 2 s, 4 s … 10 minutes ─> attempt ─ taken ─ log ─> marked
                                                    └─ for three days ─> paused

A delivery is in the log before its first attempt, with its ID and its body. So each attempt sends the same content,
also after a restart. Changes in the meantime are merged into the next delivery.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace

import pyarrow as pa

from psoup.errors import NotFound, PSoupError
from psoup.events.webhooks import BY_FAILURES, AdvanceWebhook, Delivery, PauseWebhook, Webhook
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import sync_pb2
from psoup_service.watching.watcher import Watcher, WatchForm
from psoup_service.webhooks.content import Look
from psoup_service.webhooks.subscriptions import GIVEN_UP, ended, has_ended
from psoup_service.webhooks.tools import Tools

FIRST_PAUSE_S = 1.0
"""Seconds between the first two attempts of a delivery. Each later pause is twice as long as the one before."""
MOST_PAUSE_S = 600.0
"""The longest pause between two attempts, in seconds."""
PATIENCE_US = 3 * 86_400 * 1_000_000
"""Microseconds of failures after which a webhook is paused."""
PROGRESS_S = 15.0
"""The longest time between two looks, in seconds: rows can leave a window although no tuple comes.

A task notices the drop of its tenant within the same time.
"""
_NO_QUERY_S = 1.0
"""Seconds between two looks for a query with the key."""
_PATIENCE_S = 5.0
"""Seconds for which a command waits for room."""
_WORTH = 512
"""Bodies with more bytes than this are compressed in the log."""
_ZSTD = pa.Codec("zstd")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """The attempts to send the present delivery. `next_attempt`: its time in microseconds since 1970; 0 without one.

    `status`, `error`: the outcome of the last attempt, or the error of the last look. `no_query`: whether no query has
    the key.
    """

    attempts: int = 0
    next_attempt: int = 0
    status: int = 0
    error: str = ""
    no_query: bool = False


class Deliveries:
    """The deliveries of a webhook. For the event loop."""

    def __init__(self, tools: Tools, webhook: Webhook) -> None:
        self._tools = tools
        self._id = webhook.webhook_id
        self._tenant = webhook.tenant
        self._key = webhook.key
        self._subscribed = webhook.subscription is not None
        self._token = webhook.token
        self.delivery = webhook.delivery
        self.progress = Progress()
        self._poked = asyncio.Event()
        form = WatchForm(self._tenant, sync_pb2.ENCODING_ARROW, sync_pb2.COMPRESSION_UNSPECIFIED, 0, PROGRESS_S)
        self._watcher = Watcher([sync_pb2.Want(key=self._key)], form, lambda problem: None)

    def poke(self) -> None:
        """Wake the task after a client has paused, resumed, renewed or removed the webhook."""
        self._poked.set()
        self._watcher.marked.set()

    async def run(self) -> None:
        """Deliver, until the webhook is removed."""
        newest = self._tools.host.snapshot().sequence
        if self.delivery is not None and self._tools.looking.is_outdated(self.delivery.token, self._tenant, newest):
            # The data was restored, so the receiver gets the whole answer with a new ID. An assistant gets a `gap`.
            self.delivery = None
            if not self._subscribed:
                self._token = b""
        with self._tools.rounds.listening(self._watcher):
            while (webhook := self._present()) is not None:
                self._poked.clear()
                try:
                    await self._turn(webhook)
                except NotFound:  # it was removed, which the snapshot may not show yet
                    return
                except PSoupError as problem:  # the service has no room for a step at the moment
                    self.progress.error = problem.message
                    await self._poked_within(PROGRESS_S)

    async def _turn(self, webhook: Webhook) -> None:
        """End the subscription of the webhook if its time has come, or wait while it is paused, or deliver."""
        if await ended(self._tools, webhook):
            return
        if webhook.paused or (self._subscribed and self._tools.event_body is None):
            self.progress.next_attempt = 0
            await self._poked_within(PROGRESS_S)
            return
        await self._step(webhook)

    async def _poked_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._poked.wait()
        except TimeoutError:
            pass

    def _present(self) -> Webhook | None:
        return self._tools.host.snapshot().webhooks.get(self._id)

    async def _step(self, webhook: Webhook) -> None:
        """Send the delivery that waits, or make the next one."""
        if self.delivery is not None:
            await self._send(webhook, self.delivery)
            return
        end = asyncio.get_running_loop().time() + (_NO_QUERY_S if self.progress.no_query else PROGRESS_S)
        await self._tools.rounds.marked(self._watcher, end)
        if self._poked.is_set():
            self._watcher.mark_all()
            return
        self._watcher.take()
        look = await self._look()
        if look is not None and (look.body is not None or look.moved):
            await self._fix(look)

    # Looking --------------------------------------------------------------------------------------------------

    async def _look(self) -> Look | None:
        """Look at the answer. None after an error; the next look may succeed."""
        tools, began = self._tools, 0.0
        event_body = tools.event_body if self._subscribed else None

        def read(snapshot: Snapshot, budget: ReadBudget) -> Look:
            nonlocal began
            began = time.perf_counter()
            return tools.looking.look(snapshot, self._key, self._tenant, self._token, tools.clock(), budget, event_body)

        try:
            tools.host.snapshot().query_with(self._key, self._tenant)  # a missing query takes no reader's thread
            look = await tools.host.evaluate(read, tenant=self._tenant)
        except NotFound as problem:
            self.progress = Progress(error=problem.message, no_query=True)
            return None
        except PSoupError as problem:
            self.progress = replace(self.progress, error=problem.message, no_query=False)
            return None
        tools.rounds.hears(self._watcher, look.target, look.sequence, time.perf_counter() - began)
        if look.body is None:
            self.progress = replace(self.progress, error="", no_query=False)
        return look

    async def _fix(self, look: Look) -> None:
        """Log the next delivery, or only the position if no row came or left."""
        delivery = None
        if look.body is not None:
            size, body, now = 0, look.body, self._tools.clock()
            if len(body) > _WORTH:
                size, body = len(body), _ZSTD.compress(body, asbytes=True)
            delivery = Delivery(look.message_id, look.token, body, size, now, now)
        token = self._token if delivery is not None else look.token
        await self._log(AdvanceWebhook(self._id, token, delivery, False, self._tenant))
        self._token, self.delivery = token, delivery
        self.progress = Progress()

    async def _log(self, command: AdvanceWebhook) -> None:
        """Log a step. Waits while the service has no room. Raises a PSoupError if the webhook was removed."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                async with self._tools.logging:
                    await self._tools.host.submit(command, patience=_PATIENCE_S)
                return
            except PSoupError as problem:
                if isinstance(problem, NotFound) or self._present() is None:
                    raise
                self.progress.error = problem.message
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE_S)

    # Sending --------------------------------------------------------------------------------------------------

    async def _send(self, webhook: Webhook, delivery: Delivery) -> None:
        """Send a delivery until it is taken, or a client pauses or removes the webhook."""
        body = _ZSTD.decompress(delivery.body, delivery.size, asbytes=True) if delivery.size else delivery.body
        since = delivery.since if webhook.delivery is None else max(delivery.since, webhook.delivery.since)
        pause = FIRST_PAUSE_S
        while not self._poked.is_set() and self._present() is not None:
            self.progress.attempts += 1
            self.progress.next_attempt = 0
            outcome = await self._tools.attempt(webhook, delivery.delivery_id, body)
            self.progress.status, self.progress.error = outcome.status, outcome.error
            if outcome.taken or (self._subscribed and outcome.status in GIVEN_UP):
                await self._taken(delivery, outcome.taken)
                return
            self._tools.figures.failed += 1
            if self._tools.clock() + pause * 1_000_000 - since > PATIENCE_US:
                await self._give_up(webhook)
                return
            self.progress.next_attempt = self._tools.clock() + round(pause * 1_000_000)
            await self._poked_within(pause)
            if self._subscribed and has_ended(self._tools, webhook):
                return
            pause = min(2 * pause, MOST_PAUSE_S)

    async def _taken(self, delivery: Delivery, taken: bool) -> None:
        self._tools.figures.taken += int(taken)
        self._tools.figures.failed += int(not taken)
        await self._log(AdvanceWebhook(self._id, delivery.token, None, taken, self._tenant))
        self._token, self.delivery = delivery.token, None
        self.progress = Progress(status=self.progress.status)

    async def _give_up(self, webhook: Webhook) -> None:
        _log.warning(
            "a webhook is paused, because its receiver has taken no delivery for three days",
            extra={"webhook": self._tools.ids.webhook(self._id), "key": webhook.key, "error": self.progress.error},
        )
        acknowledgement = await self._tools.host.submit(
            PauseWebhook(self._id, BY_FAILURES, self._tenant), patience=_PATIENCE_S
        )
        await self._tools.host.wait_for(acknowledgement.sequence, _PATIENCE_S)
