"""Rows that the log forgets in the transaction of a later event, because it revokes or replaces them."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.events import Event
from psoup.events.tenants import TenantAltered, TenantCreated, TenantDropped
from psoup_storage.durable.log.access import forget_revoked, note_issued
from psoup_storage.durable.log.tenants import forget_earlier


def keep_latest(connection: apsw.Connection, events: Iterable[Event]) -> None:
    """Forget rows that events about tokens and tenants make outdated. O(tokens + tenants) for each such event."""
    for event in events:
        if isinstance(event, TokenIssued):
            note_issued(connection)
        elif isinstance(event, TokenRevoked):
            forget_revoked(connection, event)
        elif isinstance(event, TenantCreated | TenantAltered | TenantDropped):
            forget_earlier(connection, event)
