"""WebhookService: URLs that get the changes of answers; see webhooks.proto."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Sequence

import orjson

from psoup.errors import InvalidInput, NotFound
from psoup.events import webhooks as commands
from psoup.events.webhooks import BY_CALL, Webhook
from psoup.model import time_text
from psoup_proto.v1 import webhooks_pb2, webhooks_pb2_grpc
from psoup_service.gate.targets import origins_of, target_of
from psoup_service.servicers.backend import Backend
from psoup_service.servicers.sync import SyncServicer
from psoup_service.webhooks.deliverer import Deliverer
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller

_PREFIX = "whsec_"
_SECRET_BYTES = 32
_LEAST_SECRET, _MOST_SECRET = 24, 64
"""The bytes of a secret, as Standard Webhooks asks for them."""
_MOST_KEY = 1_024
"""The most characters of a key in a request. Longer ones are not valid keys."""


class WebhookServicer(webhooks_pb2_grpc.WebhookServiceServicer):
    """See webhooks.proto. `deliverer`: delivers the changes of all webhooks."""

    def __init__(self, backend: Backend, sync: SyncServicer, webhook_hosts: Sequence[str]) -> None:
        """`webhook_hosts`: the setting."""
        self._backend = backend
        self._trusted = origins_of(webhook_hosts)
        parts = backend.host, sync.tokens, backend.ids, sync.watches
        self.deliverer = Deliverer(*parts, backend.now, self._trusted)

    async def AddWebhook(
        self, request: webhooks_pb2.AddWebhookRequest, caller: Caller
    ) -> webhooks_pb2.AddWebhookResponse:
        """Add a webhook."""
        if not request.key or len(request.key) > _MOST_KEY:
            raise InvalidInput(
                "key is empty; give the key of the query" if not request.key else "key is longer than a key may be",
                reason="KEY",
                field="key",
            )
        target_of(request.url, self._trusted)
        secret = _checked(request.secret) if request.secret else _new_secret()
        command = commands.AddWebhook(request.key, request.url, secret, self._backend.tenant(caller))
        acknowledgement, snapshot = await self._backend.change(command)
        self.deliverer.changed(acknowledgement.sequence)
        webhook = snapshot.webhooks.get(acknowledgement.sequence)
        if webhook is None:
            raise NotFound("the webhook was removed at once", reason="UNKNOWN_WEBHOOK")
        return webhooks_pb2.AddWebhookResponse(
            webhook=self._shown(webhook), secret=secret, sequence=acknowledgement.sequence
        )

    async def ListWebhooks(
        self, request: webhooks_pb2.ListWebhooksRequest, caller: Caller
    ) -> webhooks_pb2.ListWebhooksResponse:
        """The webhooks of the caller's tenant."""
        snapshot = await self._backend.reflecting(request.min_sequence)
        tenant = self._backend.tenant(caller)
        listed = [
            self._shown(webhook)
            for _, webhook in sorted(snapshot.webhooks.items())
            if webhook.tenant == tenant and request.key in ("", webhook.key)
        ]
        return webhooks_pb2.ListWebhooksResponse(webhooks=listed, sequence=snapshot.sequence)

    async def RemoveWebhook(
        self, request: webhooks_pb2.RemoveWebhookRequest, caller: Caller
    ) -> webhooks_pb2.RemoveWebhookResponse:
        """Remove a webhook."""
        webhook = self._known(request.webhook_id, caller)
        sequence = await self._change(commands.DropWebhook(webhook.webhook_id, webhook.tenant))
        return webhooks_pb2.RemoveWebhookResponse(sequence=sequence)

    async def PauseWebhook(
        self, request: webhooks_pb2.PauseWebhookRequest, caller: Caller
    ) -> webhooks_pb2.PauseWebhookResponse:
        """Stop the deliveries of a webhook."""
        webhook = self._known(request.webhook_id, caller)
        sequence = await self._change(commands.PauseWebhook(webhook.webhook_id, BY_CALL, webhook.tenant))
        return webhooks_pb2.PauseWebhookResponse(sequence=sequence)

    async def ResumeWebhook(
        self, request: webhooks_pb2.ResumeWebhookRequest, caller: Caller
    ) -> webhooks_pb2.ResumeWebhookResponse:
        """Let a webhook go on."""
        webhook = self._known(request.webhook_id, caller)
        sequence = await self._change(commands.ResumeWebhook(webhook.webhook_id, webhook.tenant))
        return webhooks_pb2.ResumeWebhookResponse(sequence=sequence)

    async def TestWebhook(
        self, request: webhooks_pb2.TestWebhookRequest, caller: Caller
    ) -> webhooks_pb2.TestWebhookResponse:
        """Send a test message."""
        webhook = self._known(request.webhook_id, caller)
        began = self._backend.now()
        time = time_text(began).replace(" ", "T", 1)
        body = orjson.dumps({"type": "webhook.test", "timestamp": time, "data": {"key": webhook.key}})
        outcome = await self.deliverer.tools.attempt(webhook, f"msg_{secrets.token_hex(16)}", body)
        milliseconds = max(self._backend.now() - began, 0) // 1_000
        return webhooks_pb2.TestWebhookResponse(
            status=outcome.status, error=outcome.error, milliseconds=min(milliseconds, 2**31 - 1)
        )

    def _known(self, text: str, caller: Caller) -> Webhook:
        """A webhook of the caller's tenant by its ID. Raises NotFound, and InvalidInput for another text."""
        number = self._backend.ids.read_webhook(text)
        webhook = self._backend.host.snapshot().webhooks.get(number)
        if webhook is None or webhook.tenant != self._backend.tenant(caller):
            raise NotFound(
                f"there is no webhook {text!r}: it was removed, or never added; list the webhooks to see what stands",
                reason="UNKNOWN_WEBHOOK",
                webhook_id=text,
            )
        return webhook

    async def _change(self, command: commands.DropWebhook | commands.PauseWebhook | commands.ResumeWebhook) -> int:
        """Submit a command, and tell the deliverer. Returns the event."""
        acknowledgement, _ = await self._backend.change(command)
        self.deliverer.changed(command.webhook_id)
        return acknowledgement.sequence

    def _shown(self, webhook: Webhook) -> webhooks_pb2.Webhook:
        progress, waits = self.deliverer.progress_of(webhook.webhook_id), webhook.delivery
        state = webhooks_pb2.WEBHOOK_STATE_UP_TO_DATE
        if webhook.paused:
            by_call = webhook.paused == BY_CALL
            state = webhooks_pb2.WEBHOOK_STATE_PAUSED if by_call else webhooks_pb2.WEBHOOK_STATE_FAILED
        elif waits is not None:
            state = webhooks_pb2.WEBHOOK_STATE_DELIVERING
        elif progress.no_query:
            state = webhooks_pb2.WEBHOOK_STATE_NO_QUERY
        return webhooks_pb2.Webhook(
            webhook_id=self._backend.ids.webhook(webhook.webhook_id),
            key=webhook.key,
            url=webhook.url,
            state=state,
            add_time=convert.timestamp(webhook.created),
            delivered=webhook.delivered,
            deliver_time=convert.timestamp(webhook.delivered_at or None),
            delivery_id="" if waits is None else waits.delivery_id,
            fix_time=None if waits is None else convert.timestamp(waits.created),
            attempts=progress.attempts,
            next_attempt_time=convert.timestamp(progress.next_attempt or None),
            last_status=progress.status,
            last_error=progress.error,
        )


def _new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _checked(secret: str) -> str:
    """A secret that the client gives. Raises InvalidInput, which does not show it."""
    encoded = secret.removeprefix(_PREFIX)
    try:
        size = len(base64.b64decode(encoded, validate=True)) if secret != encoded else 0
    except (binascii.Error, ValueError):
        size = 0
    if not _LEAST_SECRET <= size <= _MOST_SECRET:
        raise InvalidInput(
            f"the secret is not valid: write {_PREFIX!r}, and {_LEAST_SECRET} to {_MOST_SECRET} random bytes in base64;"
            " or leave it out, and the service makes one",
            reason="WEBHOOK_SECRET",
            field="secret",
        )
    return secret
