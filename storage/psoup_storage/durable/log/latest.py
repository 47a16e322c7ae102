"""Rows that the log forgets in the transaction of a later event, because it revokes or replaces them.

watermarks by the clock   the last row has the watermarks of all streams that earlier rows have.
changes of queries        see `alterations`.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.events import Event, QueriesAltered, WatermarksRaised
from psoup.events.groups import GroupChanged
from psoup.events.tenants import TenantAltered, TenantCreated, TenantDropped
from psoup.events.webhooks import WebhookChanged
from psoup_storage.durable.log.access import forget_revoked, note_issued
from psoup_storage.durable.log.alterations import forget_alterations
from psoup_storage.durable.log.groups import forget_group
from psoup_storage.durable.log.rows import OF_ALL_STREAMS
from psoup_storage.durable.log.tenants import forget_earlier
from psoup_storage.durable.log.webhooks import forget_webhook, forget_webhooks

_EARLIER = "DELETE FROM log WHERE stream = ? AND last_time IS NULL AND kind = 'watermarks' AND sequence < ?"


def keep_latest(connection: apsw.Connection, events: Iterable[Event]) -> None:
    """Forget rows that events about lists and watermarks by the clock make outdated.

    O(rows of the kind) for each such event.
    """
    for event in events:
        if isinstance(event, WatermarksRaised):
            connection.execute(_EARLIER, (OF_ALL_STREAMS, event.sequence))
        elif isinstance(event, TokenIssued):
            note_issued(connection)
        elif isinstance(event, TokenRevoked):
            forget_revoked(connection, event)
        elif isinstance(event, TenantCreated | TenantAltered | TenantDropped):
            forget_earlier(connection, event)
            if isinstance(event, TenantDropped):
                forget_webhooks(connection, event.name, event.sequence)
        elif isinstance(event, QueriesAltered):
            forget_alterations(connection)
        elif isinstance(event, GroupChanged):
            forget_group(connection, event)
        elif isinstance(event, WebhookChanged):
            forget_webhook(connection, event)
