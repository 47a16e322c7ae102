"""Rows of the lists that the engine only stores: access tokens, tenants, groups of followers and webhooks."""

from __future__ import annotations

from typing import Any, assert_never

from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.groups import GroupChanged
from psoup.events.lists import ListEvent
from psoup.events.tenants import TenantAltered, TenantCreated, TenantDropped
from psoup.events.webhooks import WebhookChanged
from psoup_storage.durable.log.access import decode_access, encode_access
from psoup_storage.durable.log.groups import decode_group, encode_group
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.log.tenants import decode_tenant, encode_tenant
from psoup_storage.durable.log.webhooks import decode_webhook, encode_webhook


def encode_list(event: ListEvent) -> LogRow:
    """The row of an event."""
    match event:
        case TokenIssued() | TokenRevoked():
            return encode_access(event)
        case TenantCreated() | TenantAltered() | TenantDropped():
            return encode_tenant(event)
        case GroupChanged():
            return encode_group(event)
        case WebhookChanged():
            return encode_webhook(event)
        case _:
            assert_never(event)


def decode_list(row: LogRow, facts: dict[str, Any]) -> ListEvent:
    """The event of a row with the body `facts`. Raises KeyError, TypeError and ValueError for a damaged one."""
    if row.kind in ("token", "revoke"):
        return decode_access(row, facts)
    if row.kind in ("tenant", "vacate"):
        return decode_tenant(row, facts)
    if row.kind in ("webhook", "unhook"):
        return decode_webhook(row, facts)
    return decode_group(row, facts)
