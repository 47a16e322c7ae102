"""Decisions about webhooks: which may be added, and how their positions advance.

    no query with the key      AddWebhook: NotFound
    the same key and URL       AddWebhook: AlreadyExists
    the same subscription      AddWebhook: the webhook has a new secret and a new end, and goes on
    a paused webhook           PauseWebhook changes nothing, ResumeWebhook lets it go on

Only `KnownWebhooks.adopt` and `forget` change state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from psoup.admission.next_ids import NextIds
from psoup.admission.queries.query_streams import Owners
from psoup.admission.queries.tags import KnownTags
from psoup.errors import AlreadyExists, FailedPrecondition, NotFound, ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement, Prepared
from psoup.events.webhooks import (
    OLD_SECRET_US,
    AddWebhook,
    AdvanceWebhook,
    DropWebhook,
    PauseWebhook,
    ResumeWebhook,
    RotateWebhook,
    Subscription,
    Webhook,
    WebhookChanged,
    WebhookCommand,
    change_webhooks,
    webhook_of,
)
from psoup.model import DEFAULT_TENANT

MOST_WEBHOOKS = 1_000
"""Webhooks of all tenants at most."""

MOST_OF_TENANT = 200
"""Webhooks of one tenant other than `default` at most, so that no tenant takes all places."""

MOST_OF_KEY = 16
"""Webhooks of one key at most."""


class KnownWebhooks(dict[int, Webhook]):
    """The webhooks by their IDs, after the last prepared event."""

    def adopt(self, event: WebhookChanged) -> None:
        """Change or forget a webhook. O(1)."""
        change_webhooks(self, event)

    def of(self, tenant: str, subscription: Subscription | None) -> Webhook | None:
        """The webhook of a subscription; None without one. O(webhooks)."""
        return None if subscription is None else webhook_of(self.values(), tenant, subscription.subscription_id)

    def forget(self, tenant: str) -> None:
        """Forget the webhooks of a dropped tenant. O(webhooks)."""
        for webhook_id in [number for number, webhook in self.items() if webhook.tenant == tenant]:
            del self[webhook_id]


def decide_webhook(
    command: WebhookCommand,
    webhooks: KnownWebhooks,
    tags: KnownTags,
    owners: Owners,
    ids: NextIds,
    sequence: int,
    now: int,
) -> Prepared:
    """Decide on a command about a webhook. `ids`: of new ones. `sequence`: the sequence of the last event. O(webhooks).

    Raises NotFound for an unknown webhook or key, AlreadyExists for a webhook that exists, and ResourceExhausted beyond
    a limit.
    """
    if isinstance(command, AddWebhook):
        if tags.query_of(command.tenant, command.key, owners) < 0:
            raise _unknown_key(command.key)
        standing = webhooks.of(command.tenant, command.subscription)
        if standing is not None:
            renewed = replace(standing, secret=command.secret, subscription=command.subscription)
            return _prepared(_resumed(renewed, now), sequence + 1, now)
        _check_new(command, webhooks)
        facts = command.tenant, ids.webhook(sequence + 1), command.key, command.url, command.secret, now, command.token
        return _prepared(Webhook(*facts, subscription=command.subscription), sequence + 1, now)
    webhook = webhooks.get(command.webhook_id)
    if webhook is None or webhook.tenant != command.tenant:
        raise NotFound(
            f"there is no webhook {command.webhook_id}; it was never added, or it was removed", reason="UNKNOWN_WEBHOOK"
        )
    match command:
        case AdvanceWebhook():
            taken = int(command.taken)
            at = now if command.taken else webhook.delivered_at
            delivered = replace(webhook, delivered=webhook.delivered + taken, delivered_at=at)
            changed = replace(delivered, token=command.token, delivery=command.delivery)
        case PauseWebhook():
            changed = webhook if webhook.paused else replace(webhook, paused=command.reason)
        case ResumeWebhook():
            changed = _resumed(webhook, now) if webhook.paused else webhook
        case RotateWebhook():
            changed = _rotated(webhook, command.secret, now)
        case DropWebhook():
            event = WebhookChanged(sequence + 1, webhook.tenant, webhook.webhook_id, None, now)
            return Prepared(Acknowledgement(sequence + 1), event)
        case _:
            assert_never(command)
    if changed is webhook:
        return Prepared(Acknowledgement(sequence, duplicate=True))
    return _prepared(changed, sequence + 1, now)


def _resumed(webhook: Webhook, now: int) -> Webhook:
    delivery = None if webhook.delivery is None else replace(webhook.delivery, since=now)
    return replace(webhook, paused="", delivery=delivery)


def _rotated(webhook: Webhook, secret: str, now: int) -> Webhook:
    """A webhook with a new secret. Raises FailedPrecondition for the webhook of a subscription."""
    if webhook.subscription is not None:
        raise FailedPrecondition(
            "the webhook belongs to the subscription of an assistant, which changes the secret by events/subscribe",
            reason="WEBHOOK_SUBSCRIPTION",
        )
    if secret == webhook.secret:
        return webhook
    return replace(webhook, secret=secret, old_secret=webhook.secret, old_ends=now + OLD_SECRET_US)


def _prepared(webhook: Webhook, sequence: int, now: int) -> Prepared:
    event = WebhookChanged(sequence, webhook.tenant, webhook.webhook_id, webhook, now)
    return Prepared(Acknowledgement(sequence), event)


def _unknown_key(key: str) -> NotFound:
    return NotFound(
        f"there is no query with key {key[:64]!r}; register the query with this key first",
        reason="UNKNOWN_KEY",
        key=key[:64],
    )


def _check_new(command: AddWebhook, webhooks: KnownWebhooks) -> None:
    of_key = [hook for hook in webhooks.values() if (hook.tenant, hook.key) == (command.tenant, command.key)]
    if command.subscription is None and any(
        webhook.url == command.url and webhook.subscription is None for webhook in of_key
    ):
        raise AlreadyExists(
            f"a webhook sends the changes of {command.key[:64]!r} to this URL already; list the webhooks to see it",
            reason="WEBHOOK_EXISTS",
            key=command.key[:64],
        )
    of_tenant = command.tenant != DEFAULT_TENANT and sum(hook.tenant == command.tenant for hook in webhooks.values())
    for place, count, limit in (
        (f"the key {command.key[:64]!r}", len(of_key), MOST_OF_KEY),
        (f"tenant {command.tenant!r}", of_tenant, MOST_OF_TENANT),
        ("the service", len(webhooks), MOST_WEBHOOKS),
    ):
        if count >= limit:
            raise ResourceExhausted(
                f"{place} has {limit:,} webhooks, which is the limit; remove those that are not in use",
                reason="TOO_MANY_WEBHOOKS",
                limit=limit,
            )
