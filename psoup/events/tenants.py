"""Tenants: the record of a tenant, its quotas, the commands about tenants, and their events.

    CreateTenant ──prepare──> TenantCreated     its quotas hold from here on
    AlterTenant ───prepare──> TenantAltered     changes its quotas
    DropTenant ────prepare──> TenantDropped     nothing of it exists any more

Every stream, query and access token belongs to one tenant. The tenant `default` always exists, and owns everything of a
service without other tenants. Admission enforces quotas that events determine, such as the number of streams. The
service enforces rates and shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psoup.errors import NotFound, ResourceExhausted
from psoup.model import DEFAULT_TENANT

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of a tenant. 0 means no limit, which is the default of each."""

    streams: int = 0
    """The number of streams."""
    queries: int = 0
    """The number of queries."""
    query_bytes: int = 0
    """Bytes of memory charged for its queries, with their index."""
    tuple_bytes: int = 0
    """Bytes of memory for its tuples, and for the remembered batches of its producers."""
    archive_bytes: int = 0
    """Bytes of its tuples on disk."""
    producers: int = 0
    """The number of remembered producers, over all its streams."""
    calls_per_second: float = 0
    """Calls that begin in a second."""
    open_calls: int = 0
    """Calls that are open at a time."""
    pushed_bytes_per_second: float = 0
    """Bytes of tuples pushed in a second, by their size in memory."""
    receive_bytes: int = 0
    """Bytes of requests that the service receives at the same time."""
    staged_bytes: int = 0
    """Bytes of staged batches that are not committed yet."""
    stages: int = 0
    """Staged batches that are open at a time."""
    pinned_bytes: int = 0
    """Bytes that its open answers keep in memory."""
    watchers: int = 0
    """Watches that are open at a time."""
    prepare_share: float = 0
    """Processor time for preparing its registrations, in seconds per second."""
    join_share: float = 0
    """Processor time for joining its tuples and queries, in seconds per second."""
    read_share: float = 0
    """Processor time for its answers, in seconds per second."""
    matches_per_second: float = 0
    """Matches of new tuples with queries, per second."""
    group_keys: int = 0
    """The most groups of one of its answers."""
    kept_bytes: int = 0
    """Bytes of caches for its answers: folds of aggregates, pairs of joins, and key indexes."""
    weight: float = 1.0
    """The tenant's weight where tenants wait for one another. A tenant with weight 3 gets three times as much as one
    with 1."""


NO_LIMITS = Quotas()
"""The quotas of the tenant `default` until an operator changes them. Until then, only the service's settings limit
it."""

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
"""The default quotas of a new tenant."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. `created`: microseconds since 1970 UTC, or 0 for the tenant `default`."""

    name: str
    quotas: Quotas = NO_LIMITS
    created: int = 0


FIRST_TENANT = Tenant(DEFAULT_TENANT)
"""The tenant `default`, which always exists."""


@dataclass(frozen=True, slots=True)
class CreateTenant:
    """Create a tenant."""

    name: str
    quotas: Quotas = GENEROUS


@dataclass(frozen=True, slots=True)
class AlterTenant:
    """Change some quotas of a tenant, by the names of their fields in `Quotas`."""

    name: str
    changes: Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class DropTenant:
    """Drop a tenant. It must have no streams and no tokens."""

    name: str


@dataclass(frozen=True, slots=True)
class TenantCreated:
    """A tenant exists from this event on."""

    sequence: int
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class TenantAltered:
    """A tenant has other quotas from this event on. `tenant` is its whole record."""

    sequence: int
    tenant: Tenant
    time: int


@dataclass(frozen=True, slots=True)
class TenantDropped:
    """A tenant is dropped."""

    sequence: int
    name: str
    time: int


def no_tenant(name: str) -> NotFound:
    """The error for a tenant that does not exist, or that the caller may not see."""
    name = name[:64]
    return NotFound(
        f"there is no tenant {name!r}; the service's operator creates tenants (psoup tenant create)",
        reason="UNKNOWN_TENANT",
        tenant=name,
    )


def over_quota(
    tenant: Tenant,
    quota: str,
    used: int | float,
    needed: int | float,
    way: str,
    *,
    subject: str = "",
    cause: str = "this",
) -> ResourceExhausted:
    """The error for a use above a quota.

    `used`: the present use. `needed`: the least additional amount. `way`: advice to the tenant. `subject`: words for
    the part of the tenant that the quota concerns, "" for the whole tenant. `cause`: words for what needs the amount.
    """
    limit = getattr(tenant.quotas, quota)
    return ResourceExhausted(
        f"{subject}tenant {tenant.name!r} has {used:,} of the {limit:,} that its quota {quota} allows, and {cause}"
        f" needs {needed:,} more: {way}, or ask the service's operator for more (psoup tenant set {tenant.name}"
        f" --{quota.replace('_', '-')} N)",
        reason="QUOTA",
        quota=quota,
        tenant=tenant.name,
        limit=str(limit),
        used=str(used),
        needed=str(needed),
    )


class GroupQuota(int):
    """The quota `group_keys` of a tenant as a number, with the error for an answer that has more groups."""

    tenant: Tenant

    @classmethod
    def of(cls, tenant: Tenant) -> GroupQuota:
        """The limit for a tenant that has the quota `group_keys`."""
        quota = cls(tenant.quotas.group_keys)
        quota.tenant = tenant
        return quota

    def refusal(self) -> ResourceExhausted:
        """The error for an answer with more groups."""
        way = "narrow the window or the WHERE clause, group by fewer or coarser keys"
        return over_quota(self.tenant, "group_keys", int(self), 1, way, subject="one answer of ")


def kept_bytes_of(tenants: Mapping[str, Tenant], name: str) -> int:
    """The most bytes of caches for a tenant's answers. 0 means no limit. O(1)."""
    tenant = tenants.get(name)
    return 0 if tenant is None else tenant.quotas.kept_bytes


TenantEvent = TenantCreated | TenantAltered | TenantDropped


def tenants_after(tenants: Mapping[str, Tenant], event: TenantEvent) -> dict[str, Tenant]:
    """The tenants after an event, by their names. The result is a new dictionary. O(tenants)."""
    if isinstance(event, TenantDropped):
        return {name: tenant for name, tenant in tenants.items() if name != event.name}
    return {**tenants, event.tenant.name: event.tenant}
