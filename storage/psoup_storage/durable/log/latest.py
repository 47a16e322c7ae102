"""Rows that the log forgets in the transaction of a later event, because it revokes or replaces them.

watermarks by the clock   the last row has the watermarks of all streams that earlier rows have.
pushes without tuples     the next push has the watermark. A derived stream may have one in each second.
changes of queries        see `alterations`.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.events import Event, Pushed, QueriesAltered, WatermarksRaised
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
_EMPTY = "DELETE FROM log WHERE sequence = ? AND stream = ? AND kind = 'push' AND last_time IS NULL"
"""The condition keeps a push that took the sequence of one whose transaction failed."""


class LatestRows:
    """Forgets outdated rows; see the module. Only the thread that appends may use it."""

    def __init__(self) -> None:
        self._empty: dict[int, int] = {}
        """The last push of each stream, if it says only the watermark. After a start it is not known."""

    def keep(self, connection: apsw.Connection, events: Iterable[Event]) -> None:
        """Forget the rows that events make outdated, in their transaction.

        O(rows of the kind) for each event about lists or watermarks by the clock, O(1) for a push.
        """
        for event in events:
            if isinstance(event, Pushed):
                self._keep_push(connection, event)
            else:
                _keep_latest(connection, event)

    def _keep_push(self, connection: apsw.Connection, event: Pushed) -> None:
        if (before := self._empty.pop(event.stream_id, None)) is not None:
            connection.execute(_EMPTY, (before, event.stream_id))
        if not len(event.batch) and not event.producer and not event.refused.count:
            self._empty[event.stream_id] = event.sequence


def _keep_latest(connection: apsw.Connection, event: Event) -> None:
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
