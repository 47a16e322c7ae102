"""Subscriptions of assistants (MCP Events). A webhook serves each subscription until its end.

    caller, URL, arguments ─> ID ─> challenge ─> webhook

The service drops the webhook of a subscription that is not renewed in time. It also drops a webhook whose access token
is not valid any more. The receiver of that webhook gets a last message, `terminated`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

import orjson

from psoup.errors import FailedPrecondition, NotFound, PermissionDenied
from psoup.events.webhooks import DropWebhook, Webhook
from psoup_service.gate.principal import Principal
from psoup_service.webhooks.outcomes import Outcome
from psoup_service.webhooks.tools import Tools

GIVEN_UP = frozenset({410, 413})
"""Statuses by which the receiver of a subscription refuses a delivery for good."""

LEAST_TTL_MS, MOST_TTL_MS = 60_000, 86_400_000
"""The bounds of the life of a subscription that is not renewed, in milliseconds."""

_FORBIDDEN = -32024
_PATIENCE_S = 5.0


def subscription_id(principal: Principal, url: str, arguments: str) -> str:
    """The ID of a subscription, the same for the same caller, URL and arguments. `arguments`: as JSON."""
    parts = [principal.tenant, principal.token_id, principal.name, url, arguments]
    return f"sub_{hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]}"


def check_credential(principal: Principal) -> None:
    """Raise PermissionDenied for a caller without a credential, to which a subscription could belong."""
    if principal.credential is None:
        raise PermissionDenied(
            "a subscription by webhook belongs to a credential, and this caller has none; use an access token, or poll",
            reason="CREDENTIAL",
        )


async def verify(tools: Tools, webhook: Webhook) -> None:
    """Send a challenge to the receiver of a new subscription. Raises FailedPrecondition unless it replies with it."""
    challenge = secrets.token_urlsafe(24)
    body = orjson.dumps({"type": "verification", "challenge": challenge})
    outcome = await tools.attempt(webhook, f"msg_verification_{secrets.token_hex(16)}", body)
    category = outcome.category
    if outcome.taken and not hmac.compare_digest(_repeated(outcome), challenge.encode()):
        category = "challenge_failed"
    if category or not outcome.taken:
        raise FailedPrecondition(
            f"the receiver did not prove that it wants deliveries: {category}; it must reply with a status from 200 to"
            ' 299 and {"challenge": …}, the challenge that it got',
            reason="WEBHOOK_ENDPOINT",
            category=category,
        )


def _repeated(outcome: Outcome) -> bytes:
    """The challenge in a reply; b"" without one."""
    try:
        reply = orjson.loads(outcome.reply)
    except orjson.JSONDecodeError:
        return b""
    repeated = reply.get("challenge") if isinstance(reply, Mapping) else None
    return repeated.encode() if isinstance(repeated, str) else b""


def has_ended(tools: Tools, webhook: Webhook) -> bool:
    """Whether the subscription of a webhook was not renewed in time, or its credential is not valid any more."""
    present = tools.host.snapshot().webhooks.get(webhook.webhook_id, webhook).subscription
    return present is not None and (tools.clock() >= present.ends or _is_revoked(tools, present.token_id))


def _is_revoked(tools: Tools, token_id: str) -> bool:
    token = tools.host.snapshot().tokens.get(token_id)
    return bool(token_id) and (token is None or token.expired(tools.clock()))


async def ended(tools: Tools, webhook: Webhook) -> bool:
    """Drop the webhook of a subscription that has ended. Returns whether it has ended."""
    if not has_ended(tools, webhook):
        return False
    revoked = webhook.subscription is not None and _is_revoked(tools, webhook.subscription.token_id)
    try:
        command = DropWebhook(webhook.webhook_id, webhook.tenant)
        acknowledgement = await tools.host.submit(command, patience=_PATIENCE_S)
        await tools.host.wait_for(acknowledgement.sequence, _PATIENCE_S)
    except NotFound:  # a client has removed it
        return True
    if revoked:  # after the removal, so that the receiver gets the message at most once
        error = {"code": _FORBIDDEN, "message": "Forbidden", "data": {"reason": "the access token is not valid"}}
        body = orjson.dumps({"type": "terminated", "error": error})
        await tools.attempt(webhook, f"msg_terminated_{secrets.token_hex(16)}", body)
    return True
