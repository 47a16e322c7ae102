"""Webhooks in histories: they are added, they advance, they are paused and removed."""

from __future__ import annotations

from typing import Any

from psoup.events.webhooks import (
    BY_CALL,
    BY_FAILURES,
    AddWebhook,
    AdvanceWebhook,
    Delivery,
    DropWebhook,
    PauseWebhook,
    ResumeWebhook,
)
from psoup.local import LocalPSoup

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def delivery(number: int) -> Delivery:
    """A delivery with the content of a number."""
    return Delivery(f"msg_{number}", bytes([number]) * 40, b'{"number":%d}' % number, 0, number, number)


def tell_receivers(psoup: LocalPSoup) -> None:
    """Four webhooks: one that waits for its receiver, one that is behind, one that is paused, and one that is gone."""
    ids = [
        psoup.submit(AddWebhook(key, f"https://example.com/{number}?ü", SECRET)).sequence
        for number, key in enumerate(("search 0", "search 0", "search 1", "moved"))
    ]
    psoup.submit(AdvanceWebhook(ids[0], b"", delivery(1), taken=False))
    psoup.submit(AdvanceWebhook(ids[1], b"", delivery(2), taken=False))
    psoup.submit(AdvanceWebhook(ids[1], delivery(2).token, delivery(3), taken=True))
    psoup.submit(AdvanceWebhook(ids[1], delivery(3).token, None, taken=True))
    psoup.submit(AdvanceWebhook(ids[2], b"", delivery(4), taken=False))
    psoup.submit(PauseWebhook(ids[2], BY_CALL))
    psoup.submit(ResumeWebhook(ids[2]))
    psoup.submit(PauseWebhook(ids[2], BY_FAILURES))
    psoup.submit(DropWebhook(ids[3]))


def shown_webhooks(psoup: LocalPSoup) -> list[Any]:
    """The webhooks as JSON, in the order of their IDs; nothing without one."""
    return [
        [
            *(webhook.tenant, webhook.key, webhook.url, webhook.secret, webhook.token.hex(), webhook.paused),
            *(webhook.created, webhook.delivered, webhook.delivered_at),
            None if (fixed := webhook.delivery) is None else [fixed.delivery_id, fixed.body.decode(), fixed.since],
        ]
        for _, webhook in sorted(psoup.engine.snapshot().webhooks.items())
    ]
