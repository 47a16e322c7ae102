"""Tenants: what is known of one, what it may take, the commands about them, and their events.

    CreateTenant ──prepare──> TenantCreated     its quotas hold from here on
    AlterTenant ───prepare──> TenantAltered     the same, of another's or the first tenant's
    DropTenant ────prepare──> TenantDropped     there is nothing of it any more

Everything belongs to one tenant: streams, queries, access tokens. The tenant `default` is always there and owns what
was there before there were others. Quotas that follow from events (streams, queries, bytes that stand) are judged by
admission; rates and shares by the service. Here they are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psoup.errors import NotFound, ResourceExhausted
from psoup.model import DEFAULT_TENANT

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Quotas:
    """The most that a tenant may have or take; 0: no limit. What is not named in a constructor has none."""

    streams: int = 0
    """Streams that stand."""
    queries: int = 0
    """Queries that stand."""
    query_bytes: int = 0
    """Bytes of memory that its queries are charged, with their index."""
    tuple_bytes: int = 0
    """Bytes of memory that its tuples take, and what its producers sent last."""
    archive_bytes: int = 0
    """Bytes of its tuples on disk."""
    producers: int = 0
    """Producers that are remembered, of all its streams."""
    calls_per_second: float = 0
    """Calls that begin in a second."""
    open_calls: int = 0
    """Calls that are open at a time."""
    pushed_bytes_per_second: float = 0
    """Bytes of tuples that it pushes in a second, as they are in memory."""
    receive_bytes: int = 0
    """Bytes of requests that are being received at a time."""
    staged_bytes: int = 0
    """Bytes of batches in parts that are not committed yet."""
    stages: int = 0
    """Batches in parts that are open at a time."""
    pinned_bytes: int = 0
    """Bytes that its open answers keep in memory."""
    watchers: int = 0
    """Watches that are open at a time."""
    prepare_share: float = 0
    """Processor seconds a second that its registrations take to be prepared."""
    join_share: float = 0
    """Processor seconds a second that its tuples and queries take to be joined."""
    read_share: float = 0
    """Processor seconds a second that its answers take."""
    matches_per_second: float = 0
    """Matches of new tuples of its streams in a second."""
    group_keys: int = 0
    """Groups that one of its answers may tell apart."""
    kept_bytes: int = 0
    """Bytes of what is kept of its answers: folds of aggregates, pairs of joins, and key indexes."""
    weight: float = 1.0
    """Its share beside others where they wait for one another: one of weight 3 gets three times what one of 1 gets."""


NO_LIMITS = Quotas()
"""The quotas of the tenant `default` until they are set: a service of one tenant has the limits of its settings."""

GENEROUS = Quotas(
    streams=1_000,
    queries=1_000_000,
    query_bytes=1024 * _MIB,
    tuple_bytes=1024 * _MIB,
    archive_bytes=1024 * 1024 * _MIB,
    producers=65_536,
    calls_per_second=10_000,
    open_calls=512,
    pushed_bytes_per_second=256 * _MIB,
    receive_bytes=128 * _MIB,
    staged_bytes=256 * _MIB,
    stages=64,
    pinned_bytes=256 * _MIB,
    watchers=1_000,
)
"""The quotas of a new tenant by default."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. `created`: microseconds since 1970 UTC; 0 for the one that was always there."""

    name: str
    quotas: Quotas = NO_LIMITS
    created: int = 0


FIRST_TENANT = Tenant(DEFAULT_TENANT)
"""The tenant that is always there."""


@dataclass(frozen=True, slots=True)
class CreateTenant:
    """Make a tenant."""

    name: str
    quotas: Quotas = GENEROUS


@dataclass(frozen=True, slots=True)
class AlterTenant:
    """Change some quotas of a tenant, by the names of their fields in `Quotas`."""

    name: str
    changes: Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class DropTenant:
    """Forget a tenant that has no stream and no token."""

    name: str


@dataclass(frozen=True, slots=True)
class TenantCreated:
    """A tenant is there from here on."""

    sequence: int
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class TenantAltered:
    """A tenant has these quotas from here on; `tenant` is all that is known of it."""

    sequence: int
    tenant: Tenant
    time: int


@dataclass(frozen=True, slots=True)
class TenantDropped:
    """A tenant is gone."""

    sequence: int
    name: str
    time: int


def no_tenant(name: str) -> NotFound:
    """The error for a tenant that is not there, or of which the caller may know nothing."""
    name = name[:64]
    return NotFound(
        f"there is no tenant {name!r}; the service's operator creates tenants (psoup tenant create)",
        reason="UNKNOWN_TENANT",
        tenant=name,
    )


def over_quota(
    tenant: Tenant, quota: str, used: int | float, needed: int | float, way: str, of: str = ""
) -> ResourceExhausted:
    """The error for what would be more than a quota allows. `way`: what the tenant can do; `needed`: how much more, at
    least; `of`: what of the tenant it is about, if not all that it has.
    """
    limit = getattr(tenant.quotas, quota)
    return ResourceExhausted(
        f"{of}tenant {tenant.name!r} has {used:,} of the {limit:,} that its quota {quota} allows, and this needs"
        f" {needed:,} more: {way}, or ask the service's operator for more (psoup tenant set {tenant.name}"
        f" --{quota.replace('_', '-')} N)",
        reason="QUOTA",
        quota=quota,
        tenant=tenant.name,
        limit=str(limit),
        used=str(used),
        needed=str(needed),
    )


class GroupQuota(int):
    """The groups that one answer of a tenant may tell apart, where its quota is what limits them."""

    tenant: Tenant

    @classmethod
    def of(cls, tenant: Tenant) -> GroupQuota:
        """The refusal for a tenant that has the quota `group_keys`."""
        own = cls(tenant.quotas.group_keys)
        own.tenant = tenant
        return own

    def refusal(self) -> ResourceExhausted:
        """The error for an answer that has more groups."""
        way = "narrow the window or the WHERE clause, group by fewer or coarser keys"
        return over_quota(self.tenant, "group_keys", int(self), 1, way, of="one answer of ")


def kept_bytes_of(tenants: Mapping[str, Tenant], name: str) -> int:
    """The bytes that may be kept of a tenant's answers; 0: no limit. O(1)."""
    tenant = tenants.get(name)
    return 0 if tenant is None else tenant.quotas.kept_bytes


TenantEvent = TenantCreated | TenantAltered | TenantDropped


def tenants_after(tenants: Mapping[str, Tenant], event: TenantEvent) -> dict[str, Tenant]:
    """The tenants after an event, by their names: a new dictionary. O(tenants)."""
    if isinstance(event, TenantDropped):
        return {name: tenant for name, tenant in tenants.items() if name != event.name}
    return {**tenants, event.tenant.name: event.tenant}
