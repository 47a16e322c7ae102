"""Webhooks: the record of a webhook, the commands about webhooks, and their event.

    AddWebhook ──────prepare──> WebhookChanged    the webhook exists, and nothing is delivered yet
    AdvanceWebhook ──prepare──> WebhookChanged    a delivery is logged, or was taken by the receiver
    PauseWebhook ────prepare──> WebhookChanged    deliveries stop; ResumeWebhook lets them go on
    RotateWebhook ───prepare──> WebhookChanged    the webhook has a new secret, and the old one for a day
    DropWebhook ─────prepare──> WebhookChanged    the webhook is removed

    AddWebhook of a subscription with a webhook   the webhook gets the new secret and the new end

A webhook sends the changes of the answer of the query with a key to a URL. Its position is a token of a copy, which
only the service reads. The content of a delivery is in the log before the first attempt. So an ID always has the same
content, also after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from psoup.model import DEFAULT_TENANT

Pause = Literal["", "call", "failures"]
"""The reason for which a webhook does not deliver: a client's call, or failures. "" if it delivers."""

BY_CALL: Final = "call"
"""A client paused the webhook."""

BY_FAILURES: Final = "failures"
"""The service paused the webhook: its receiver took no delivery for three days."""


WEBHOOK_IDS: Final = 2**40
"""The IDs in a range: the ID of a webhook is the sequence of its event, after a whole number of ranges."""

OLD_SECRET_US: Final = 86_400 * 1_000_000
"""Microseconds for which the old secret of a webhook signs deliveries, too."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery with fixed content, which the receiver has not taken yet. Times are in microseconds since 1970 UTC.

    `delivery_id`: stays the same for all attempts. `token`: the position of the webhook after the delivery. `body`: as
    sent, compressed with Zstandard if `size`, its bytes before compression, is not 0. `since`: the time from which
    failures count.
    """

    delivery_id: str
    token: bytes
    body: bytes
    size: int
    created: int
    since: int

    @property
    def nbytes(self) -> int:
        """The bytes of its body and its position."""
        return len(self.body) + len(self.token)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of an assistant to events, which a webhook serves.

    `subscription_id`: sent with each delivery. `ends`: the time at which the webhook is dropped, unless the assistant
    renews it. `token_id`: the assistant's access token, "" if its credential is of another kind.
    """

    subscription_id: str
    ends: int
    token_id: str = ""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook. Times are in microseconds since 1970 UTC.

    `webhook_id`: made of the sequence of the event that added it (`NextIds`). `secret`: signs deliveries. `token`: the
    position, b"" before the first delivery is taken. `delivered`: the number of deliveries taken, the last at the time
    `delivered_at`, or 0.
    `subscription`: None without an assistant. `old_secret`: signs deliveries, too, until the time `old_ends`.
    """

    tenant: str
    webhook_id: int
    key: str
    url: str
    secret: str = field(repr=False)
    created: int
    token: bytes = b""
    delivery: Delivery | None = None
    delivered: int = 0
    delivered_at: int = 0
    paused: Pause = ""
    subscription: Subscription | None = None
    old_secret: str = field(default="", repr=False)
    old_ends: int = 0

    def secrets(self, now: int) -> list[str]:
        """The secrets that sign a delivery at a time in microseconds, the present one first."""
        return [self.secret, self.old_secret] if now < self.old_ends else [self.secret]


@dataclass(frozen=True, slots=True)
class AddWebhook:
    """Add a webhook for the query with a key. `token`: its first position.

    `subscription`: a webhook that has the same `subscription_id` is renewed, and keeps its position.
    """

    key: str
    url: str
    secret: str = field(repr=False)
    tenant: str = DEFAULT_TENANT
    token: bytes = b""
    subscription: Subscription | None = None


@dataclass(frozen=True, slots=True)
class AdvanceWebhook:
    """Set the position of a webhook, and its delivery. `taken`: whether the receiver took the delivery before."""

    webhook_id: int
    token: bytes
    delivery: Delivery | None
    taken: bool
    tenant: str = DEFAULT_TENANT

    @property
    def nbytes(self) -> int:
        """The bytes of the position and of the delivery."""
        return len(self.token) + (0 if self.delivery is None else self.delivery.nbytes)


@dataclass(frozen=True, slots=True)
class PauseWebhook:
    """Stop the deliveries of a webhook. A paused webhook stays as it is."""

    webhook_id: int
    reason: Pause
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class ResumeWebhook:
    """Let a webhook go on where it stopped. Failures count from now on."""

    webhook_id: int
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class RotateWebhook:
    """Give a webhook a new secret. The old one signs deliveries, too, for `OLD_SECRET_US`."""

    webhook_id: int
    secret: str = field(repr=False)
    tenant: str = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class DropWebhook:
    """Remove a webhook."""

    webhook_id: int
    tenant: str = DEFAULT_TENANT


WebhookCommand = AddWebhook | AdvanceWebhook | PauseWebhook | ResumeWebhook | RotateWebhook | DropWebhook


@dataclass(frozen=True, slots=True)
class WebhookChanged:
    """A webhook has this state from this event on. `webhook`: None if it was removed."""

    sequence: int
    tenant: str
    webhook_id: int
    webhook: Webhook | None
    time: int

    @property
    def nbytes(self) -> int:
        """The bytes of its texts, position and delivery."""
        webhook = self.webhook
        if webhook is None:
            return 0
        delivery = 0 if webhook.delivery is None else webhook.delivery.nbytes
        secrets = len(webhook.secret) + len(webhook.old_secret)
        return len(webhook.key) + len(webhook.url) + secrets + len(webhook.token) + delivery


def change_webhooks(webhooks: dict[int, Webhook], event: WebhookChanged) -> None:
    """Change webhooks by ID as an event says, in place. O(1)."""
    if event.webhook is None:
        webhooks.pop(event.webhook_id, None)
    else:
        webhooks[event.webhook_id] = event.webhook


def webhooks_after(webhooks: Mapping[int, Webhook], event: WebhookChanged) -> dict[int, Webhook]:
    """The webhooks by ID after an event. The result is a new dictionary. O(webhooks)."""
    after = {**webhooks}
    change_webhooks(after, event)
    return after


def webhooks_without(webhooks: Mapping[int, Webhook], tenant: str) -> dict[int, Webhook]:
    """The webhooks after the drop of a tenant. O(webhooks)."""
    return {number: webhook for number, webhook in webhooks.items() if webhook.tenant != tenant}


def added_by(webhooks: Iterable[Webhook], sequence: int) -> Webhook | None:
    """The webhook that the event `sequence` added; None if it is gone. O(webhooks)."""
    return next((webhook for webhook in webhooks if webhook.webhook_id % WEBHOOK_IDS == sequence), None)


def webhook_of(webhooks: Iterable[Webhook], tenant: str, subscription_id: str) -> Webhook | None:
    """The webhook of a subscription; None without one. O(webhooks)."""
    for webhook in webhooks:
        subscription = webhook.subscription
        if subscription is not None and (webhook.tenant, subscription.subscription_id) == (tenant, subscription_id):
            return webhook
    return None
