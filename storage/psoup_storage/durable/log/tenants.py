"""Tenants in the log: rows of the kinds `tenant` and `vacate`, and the removal of outdated ones.

A row `tenant` has all facts of one tenant, so the tenant's previous row is deleted in its transaction. A dropped
tenant's rows are deleted, and so are earlier drops. So the log has the existing tenants and at most one drop. Only
quotas with a limit are written.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import apsw

from psoup.events.tenants import (
    NO_LIMITS,
    Quotas,
    Tenant,
    TenantAltered,
    TenantCreated,
    TenantDropped,
    TenantEvent,
)
from psoup_storage.durable.log.rows import LogRow, new_row

_EARLIER = "DELETE FROM log WHERE kind = 'tenant' AND body ->> 'name' = ? AND sequence < ?"
_EARLIER_DROPS = "DELETE FROM log WHERE kind = 'vacate' AND sequence < ?"


def encode_tenant(event: TenantEvent) -> LogRow:
    """The row of an event."""
    if isinstance(event, TenantDropped):
        return new_row(event.sequence, "vacate", 0, name=event.name, time=event.time)
    tenant, without = event.tenant, asdict(NO_LIMITS)
    quotas = {name: value for name, value in asdict(tenant.quotas).items() if value != without[name]}
    altered = {"time": event.time} if isinstance(event, TenantAltered) else {}
    return new_row(event.sequence, "tenant", 0, name=tenant.name, created=tenant.created, quotas=quotas, **altered)


def decode_tenant(row: LogRow, facts: dict[str, Any]) -> TenantEvent:
    """The event of a row with the body `facts`. Raises KeyError, TypeError and ValueError for a damaged one."""
    if row.kind == "vacate":
        return TenantDropped(row.sequence, facts["name"], facts["time"])
    tenant = Tenant(facts["name"], Quotas(**facts["quotas"]), facts["created"])
    if "time" in facts:
        return TenantAltered(row.sequence, tenant, facts["time"])
    return TenantCreated(row.sequence, tenant)


def forget_earlier(connection: apsw.Connection, event: TenantEvent) -> None:
    """Delete the rows that an event makes outdated. O(tenants)."""
    name = event.name if isinstance(event, TenantDropped) else event.tenant.name
    connection.execute(_EARLIER, (name, event.sequence))
    if isinstance(event, TenantDropped):
        connection.execute(_EARLIER_DROPS, (event.sequence,))
