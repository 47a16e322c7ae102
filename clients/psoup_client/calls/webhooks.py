"""Calls of the WebhookService: URLs that get the changes of answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from psoup_client import html
from psoup_client.arguments import checking_arguments
from psoup_client.session import Session
from psoup_client.tags import check_key
from psoup_client.times import from_proto
from psoup_proto.v1 import webhooks_pb2

WebhookState = Literal["up to date", "delivering", "paused", "failed", "no query", "unknown"]
"""The state of a webhook. `failed`: the receiver took nothing for three days. `no query`: no query has the key."""

_STATES: dict[int, WebhookState] = {
    webhooks_pb2.WEBHOOK_STATE_UP_TO_DATE: "up to date",
    webhooks_pb2.WEBHOOK_STATE_DELIVERING: "delivering",
    webhooks_pb2.WEBHOOK_STATE_PAUSED: "paused",
    webhooks_pb2.WEBHOOK_STATE_FAILED: "failed",
    webhooks_pb2.WEBHOOK_STATE_NO_QUERY: "no query",
}
_LONGEST_S = 60.0
"""The deadline of a test in seconds. An attempt may take half of it."""


@dataclass(frozen=True, slots=True)
class Webhook(html.Facts):
    """A webhook. `delivered`: deliveries that the receiver has taken, the last at `delivered_at`.

    `waiting`: the ID of the delivery that waits, made at `waiting_since`; "" if none waits. `attempts`: its
    attempts since the service started. `status`: the HTTP status of the last attempt, 0 without a reply. `error`: the
    reason why the last attempt, or the last read of the answer, failed. `subscription`: the ID of an assistant's
    subscription, "" without one. `expires`: its end, unless the assistant renews it. `old_secret_until`: the end of
    the old secret, after `rotate_webhook`.
    """

    id: str
    key: str
    url: str
    state: WebhookState
    added: datetime
    delivered: int = 0
    delivered_at: datetime | None = None
    waiting: str = ""
    waiting_since: datetime | None = None
    attempts: int = 0
    next_attempt: datetime | None = None
    status: int = 0
    error: str = ""
    subscription: str = ""
    expires: datetime | None = None
    old_secret_until: datetime | None = None

    @classmethod
    def of(cls, message: webhooks_pb2.Webhook) -> Webhook:
        """Convert the service's message."""
        times = [
            from_proto(getattr(message, name)) if message.HasField(name) else None
            for name in ("deliver_time", "fix_time", "next_attempt_time", "expire_time", "old_secret_end_time")
        ]
        return cls(
            message.webhook_id,
            message.key,
            message.url,
            _STATES.get(message.state, "unknown"),
            from_proto(message.add_time),
            message.delivered,
            times[0],
            message.delivery_id,
            times[1],
            message.attempts,
            times[2],
            message.last_status,
            message.last_error,
            message.subscription_id,
            times[3],
            times[4],
        )


@dataclass(frozen=True, slots=True)
class AddedWebhook(html.Facts):
    """A webhook and its new secret, which verifies deliveries. No later call returns the secret, nor does `repr`."""

    webhook: Webhook
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookTest(html.Facts):
    """The result of a test message. `status`: 0 without a reply. `error`: "" if the receiver has taken the message."""

    status: int
    error: str
    milliseconds: int


@checking_arguments
class WebhookCalls(Session):
    """Webhooks. All calls need the role registrar."""

    def add_webhook(self, key: str, url: str, *, secret: str | None = None) -> AddedWebhook:
        """Send each change of the answer of a query to a URL, by POST. `key`: the key of the query.

        `secret`: "whsec_" and 24 to 64 bytes in base64; None lets the service make one. Raises NotFound if no query has
        the key. Raises AlreadyExists if a webhook sends to this URL already. Raises InvalidRequest for a URL that
        the service does not send to. The call is not repeated: after Unavailable, look at `webhooks()`.
        """
        check_key(key)
        request = webhooks_pb2.AddWebhookRequest(key=key, url=url, secret=secret or "")
        reply = self.connection.call(self.connection.webhooks.AddWebhook, request, repeat=False)
        self.note_sequence(reply.sequence)
        return AddedWebhook(Webhook.of(reply.webhook), reply.secret)

    def webhooks(self, key: str | None = None, *, wait_for: int | None = None) -> list[Webhook]:
        """List the webhooks of this client's tenant, or of one key, in the order in which they were added."""
        request = webhooks_pb2.ListWebhooksRequest(key=key or "")
        reply = self._read(self.connection.webhooks.ListWebhooks, request, wait_for)
        return [Webhook.of(message) for message in reply.webhooks]

    def remove_webhook(self, webhook: Webhook | str) -> None:
        """Remove a webhook. An attempt that is under way may still arrive. Raises NotFound."""
        request = webhooks_pb2.RemoveWebhookRequest(webhook_id=_id(webhook))
        reply = self.connection.call(self.connection.webhooks.RemoveWebhook, request, repeat=False)
        self.note_sequence(reply.sequence)

    def pause_webhook(self, webhook: Webhook | str) -> None:
        """Stop the deliveries of a webhook. Changes wait, and come merged. Raises NotFound."""
        request = webhooks_pb2.PauseWebhookRequest(webhook_id=_id(webhook))
        self.note_sequence(self.connection.call(self.connection.webhooks.PauseWebhook, request).sequence)

    def resume_webhook(self, webhook: Webhook | str) -> None:
        """Resume the deliveries of a paused webhook at once. Raises NotFound."""
        request = webhooks_pb2.ResumeWebhookRequest(webhook_id=_id(webhook))
        self.note_sequence(self.connection.call(self.connection.webhooks.ResumeWebhook, request).sequence)

    def rotate_webhook(self, webhook: Webhook | str, *, secret: str | None = None) -> AddedWebhook:
        """Give a webhook a new secret, and return it. For 24 hours deliveries have a signature of the old one, too.

        `secret`: as for `add_webhook`. Raises NotFound. Raises FailedPrecondition if an assistant sets the secret. The
        call is tried once: after Unavailable call it again.
        """
        request = webhooks_pb2.RotateWebhookRequest(webhook_id=_id(webhook), secret=secret or "")
        reply = self.connection.call(self.connection.webhooks.RotateWebhook, request, repeat=False)
        self.note_sequence(reply.sequence)
        return AddedWebhook(Webhook.of(reply.webhook), reply.secret)

    def test_webhook(self, webhook: Webhook | str) -> WebhookTest:
        """Send a signed test message to the URL of a webhook, once. Takes up to half a minute. Raises NotFound."""
        request = webhooks_pb2.TestWebhookRequest(webhook_id=_id(webhook))
        reply = self.connection.call(self.connection.webhooks.TestWebhook, request, _LONGEST_S, repeat=False)
        return WebhookTest(reply.status, reply.error, reply.milliseconds)


def _id(webhook: Webhook | str) -> str:
    return webhook if isinstance(webhook, str) else webhook.id
