"""WebhookService: URLs that get the changes of answers; see webhooks.proto."""

from __future__ import annotations

import base64
import binascii
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence

import orjson

from psoup.errors import FailedPrecondition, InvalidInput, NotFound
from psoup.events import webhooks as commands
from psoup.events.webhooks import BY_CALL, Subscription, Webhook, added_by, webhook_of
from psoup_proto.v1 import webhooks_pb2, webhooks_pb2_grpc
from psoup_service.gate.targets import origins_of, target_of
from psoup_service.servicers.backend import Backend
from psoup_service.servicers.sync import SyncServicer
from psoup_service.sync.tokens import MOST_BYTES
from psoup_service.webhooks.deliverer import Deliverer
from psoup_service.webhooks.subscriptions import LEAST_TTL_MS, MOST_TTL_MS, check_credential, subscription_id, verify
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller
from psoup_service.wire.json_answers import instant_text

WebhookChange = commands.DropWebhook | commands.PauseWebhook | commands.ResumeWebhook | commands.RotateWebhook
"""The commands about one webhook that a client may send."""

_PREFIX = "whsec_"
_SECRET_BYTES = 32
_LEAST_SECRET, _MOST_SECRET = 24, 64
"""Bytes of a secret, by Standard Webhooks."""
_MOST_KEY = 1_024
"""Characters of a key at most."""
_MOST_ARGUMENTS = 128 * 1024
"""The most bytes of the arguments of a subscription. JSON may take twice the bytes of a statement, at most 64 KiB."""
_VERIFIED_S = 3_600.0
"""Seconds in which a receiver need not prove again to the same caller that it wants deliveries."""
_MOST_VERIFIED = 10_000


class WebhookServicer(webhooks_pb2_grpc.WebhookServiceServicer):
    """See webhooks.proto. `deliverer`: delivers the changes of all webhooks."""

    def __init__(self, backend: Backend, sync: SyncServicer, webhook_hosts: Sequence[str]) -> None:
        """`webhook_hosts`: the setting."""
        self._backend = backend
        self._trusted = origins_of(webhook_hosts)
        self._verified = OrderedDict[tuple[object, str], float]()
        parts = backend.host, sync.tokens, backend.ids, sync.watches
        self.deliverer = Deliverer(*parts, backend.now, self._trusted)

    async def AddWebhook(
        self, request: webhooks_pb2.AddWebhookRequest, caller: Caller
    ) -> webhooks_pb2.AddWebhookResponse:
        """Add a webhook."""
        if not request.key:
            raise InvalidInput("key is empty; give the key of the query", reason="KEY", field="key")
        _check_length("key", len(request.key), _MOST_KEY, "characters", "KEY")
        target_of(request.url, self._trusted)
        secret = _checked(request.secret) if request.secret else _new_secret()
        command = commands.AddWebhook(request.key, request.url, secret, self._backend.tenant(caller))
        if request.HasField("subscription"):
            command = await self._subscribing(command, request.subscription, caller)
        acknowledgement, snapshot = await self._backend.change(command)
        webhook = added_by(snapshot.webhooks.values(), acknowledgement.sequence)
        if command.subscription is not None:
            named = command.subscription.subscription_id
            webhook = webhook_of(snapshot.webhooks.values(), command.tenant, named)
        if webhook is None:
            raise NotFound(
                "the webhook was removed before its addition was answered; add it again", reason="UNKNOWN_WEBHOOK"
            )
        self.deliverer.changed(webhook.webhook_id)
        token = webhook.token if command.subscription is not None else b""
        return webhooks_pb2.AddWebhookResponse(
            webhook=self._shown(webhook), secret=secret, sequence=acknowledgement.sequence, token=token
        )

    async def _subscribing(
        self, command: commands.AddWebhook, given: webhooks_pb2.EventSubscription, caller: Caller
    ) -> commands.AddWebhook:
        """The command for a subscription, once its receiver has proved that it wants deliveries."""
        _check_length("subscription.arguments", len(given.arguments.encode()), _MOST_ARGUMENTS, "bytes", "ARGUMENTS")
        _check_length("subscription.token", len(given.token), MOST_BYTES, "bytes", "TOKEN_INVALID")
        principal = caller.principal
        check_credential(principal)
        if self.deliverer.tools.event_body is None:
            raise FailedPrecondition("this service serves no assistants; set mcp = true", reason="MCP_OFF")
        snapshot = self._backend.host.snapshot()
        snapshot.query_with(command.key, command.tenant)
        named = subscription_id(principal, command.url, given.arguments)
        ends = self._backend.now() + min(max(given.ttl_ms, LEAST_TTL_MS), MOST_TTL_MS) * 1_000
        ends = min(ends, principal.ends) if principal.ends else ends
        subscription = Subscription(named, ends, principal.token_id)
        parts = command.key, command.url, command.secret, command.tenant, given.token, subscription
        if webhook_of(snapshot.webhooks.values(), command.tenant, named) is None:
            await self._verify(commands.AddWebhook(*parts), caller)
        return commands.AddWebhook(*parts)

    async def _verify(self, command: commands.AddWebhook, caller: Caller) -> None:
        """Let the receiver of a subscription prove that it wants deliveries. Raises FailedPrecondition."""
        place, now = (caller.principal.credential, command.url), time.monotonic()
        if self._verified.get(place, 0.0) > now:
            return
        facts = command.tenant, 0, command.key, command.url, command.secret, self._backend.now()
        await verify(self.deliverer.tools, Webhook(*facts, subscription=command.subscription))
        self._verified[place] = now + _VERIFIED_S
        self._verified.move_to_end(place)
        if len(self._verified) > _MOST_VERIFIED:
            self._verified.popitem(last=False)

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

    async def RotateWebhook(
        self, request: webhooks_pb2.RotateWebhookRequest, caller: Caller
    ) -> webhooks_pb2.RotateWebhookResponse:
        """Give a webhook a new secret."""
        webhook = self._known(request.webhook_id, caller)
        secret = _checked(request.secret) if request.secret else _new_secret()
        sequence = await self._change(commands.RotateWebhook(webhook.webhook_id, secret, webhook.tenant))
        shown = self._shown(self._known(request.webhook_id, caller))
        return webhooks_pb2.RotateWebhookResponse(webhook=shown, secret=secret, sequence=sequence)

    async def TestWebhook(
        self, request: webhooks_pb2.TestWebhookRequest, caller: Caller
    ) -> webhooks_pb2.TestWebhookResponse:
        """Send a test message."""
        webhook = self._known(request.webhook_id, caller)
        began = self._backend.now()
        body = orjson.dumps({"type": "webhook.test", "timestamp": instant_text(began), "data": {"key": webhook.key}})
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
                f"there is no webhook {text!r}: it was removed or never added; list the existing webhooks",
                reason="UNKNOWN_WEBHOOK",
                webhook_id=text,
            )
        return webhook

    async def _change(self, command: WebhookChange) -> int:
        """Submit a command, and wake the deliverer. Returns the sequence of the event."""
        acknowledgement, _ = await self._backend.change(command)
        self.deliverer.changed(command.webhook_id)
        return acknowledgement.sequence

    def _shown(self, webhook: Webhook) -> webhooks_pb2.Webhook:
        progress, waits = self.deliverer.progress_of(webhook.webhook_id), webhook.delivery
        subscription = webhook.subscription
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
            subscription_id="" if subscription is None else subscription.subscription_id,
            old_secret_end_time=convert.timestamp(webhook.old_ends or None),
            expire_time=None if subscription is None else convert.timestamp(subscription.ends),
        )


def _check_length(name: str, length: int, limit: int, unit: str, reason: str) -> None:
    """Raise InvalidInput for a field that is too long. `unit`: of `length` and `limit`."""
    if length > limit:
        raise InvalidInput(
            f"{name} has {length:,} {unit}; the limit is {limit:,}", reason=reason, field=name.rpartition(".")[2]
        )


def _new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _checked(secret: str) -> str:
    """Check the secret of a client. Raises InvalidInput, whose message does not show it."""
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
