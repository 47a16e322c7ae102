"""Webhooks in the log: rows of the kinds `webhook` and `unhook`, and the removal of outdated ones.

A row `webhook` has all facts of one webhook. Its column `refused` has the position. The column `tuples` has the content
of a delivery that the receiver has not taken. So the webhook's previous row is deleted in its transaction. A removed
webhook's rows are deleted, and so are earlier removals. The facts `old_secret` and `old_ends` are there only after a
rotation of the secret.
"""

from __future__ import annotations

import zlib
from typing import Any

import apsw

from psoup.events.webhooks import Delivery, Subscription, Webhook, WebhookChanged
from psoup_storage.durable.log.rows import LogRow, checked_tuples, new_row

_EARLIER = "DELETE FROM log WHERE kind IN ('webhook', 'unhook') AND body ->> 'webhook' = ? AND sequence < ?"
_EARLIER_DROPS = "DELETE FROM log WHERE kind = 'unhook' AND sequence < ?"
_OF_TENANT = "DELETE FROM log WHERE kind IN ('webhook', 'unhook') AND body ->> 'tenant' = ? AND sequence < ?"
_LENGTH = 4
"""The bytes of the length of the position, which stands before both tokens."""


def encode_webhook(event: WebhookChanged) -> LogRow:
    """The row of an event. O(bytes)."""
    facts: dict[str, Any] = {"webhook": event.webhook_id, "tenant": event.tenant, "time": event.time}
    webhook = event.webhook
    if webhook is None:
        return new_row(event.sequence, "unhook", 0, **facts)
    facts |= {"key": webhook.key, "url": webhook.url, "secret": webhook.secret, "created": webhook.created}
    facts |= {"delivered": webhook.delivered, "delivered_at": webhook.delivered_at, "paused": webhook.paused}
    if (subscription := webhook.subscription) is not None:
        facts |= {"subscription": subscription.subscription_id, "ends": subscription.ends, "by": subscription.token_id}
    if webhook.old_secret:
        facts |= {"old_secret": webhook.old_secret, "old_ends": webhook.old_ends}
    tokens, body, delivery = webhook.token, None, webhook.delivery
    if delivery is not None:
        body, tokens = delivery.body, tokens + delivery.token
        facts |= {"id": delivery.delivery_id, "size": delivery.size, "fixed": delivery.created}
        facts |= {"since": delivery.since, "crc": zlib.crc32(body)}
    tokens = len(webhook.token).to_bytes(_LENGTH, "little") + tokens
    return new_row(event.sequence, "webhook", 0, tokens, body, **facts)


def decode_webhook(row: LogRow, facts: dict[str, Any]) -> WebhookChanged:
    """The event of a row with the body `facts`. Raises KeyError and ValueError for a damaged one."""
    tenant, webhook_id, webhook = facts["tenant"], facts["webhook"], None
    if row.kind == "webhook":
        tokens = row.refused or b""
        end = _LENGTH + int.from_bytes(tokens[:_LENGTH], "little")
        if not _LENGTH <= end <= len(tokens):
            raise ValueError(f"the tokens of webhook {webhook_id} have {len(tokens)} bytes")
        delivery = None
        if "id" in facts:
            content = facts["id"], tokens[end:], bytes(checked_tuples(row, facts)), facts["size"]
            delivery = Delivery(*content, facts["fixed"], facts["since"])
        subscription = None
        if "subscription" in facts:
            subscription = Subscription(facts["subscription"], facts["ends"], facts["by"])
        webhook = Webhook(
            tenant,
            webhook_id,
            facts["key"],
            facts["url"],
            facts["secret"],
            facts["created"],
            tokens[_LENGTH:end],
            delivery,
            facts["delivered"],
            facts["delivered_at"],
            facts["paused"],
            subscription,
            facts.get("old_secret", ""),
            facts.get("old_ends", 0),
        )
    return WebhookChanged(row.sequence, tenant, webhook_id, webhook, facts["time"])


def forget_webhook(connection: apsw.Connection, event: WebhookChanged) -> None:
    """Delete the rows that an event makes outdated. O(log n)."""
    connection.execute(_EARLIER, (event.webhook_id, event.sequence))
    if event.webhook is None:
        connection.execute(_EARLIER_DROPS, (event.sequence,))


def forget_webhooks(connection: apsw.Connection, tenant: str, sequence: int) -> None:
    """Delete the rows of a dropped tenant's webhooks. O(webhooks)."""
    connection.execute(_OF_TENANT, (tenant, sequence))
