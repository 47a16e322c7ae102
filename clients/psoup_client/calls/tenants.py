"""Calls of the AdminService about tenants and their quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from psoup_client.arguments import checking_arguments
from psoup_client.errors import InvalidRequest
from psoup_client.html import Facts
from psoup_client.session import PAGE, Session
from psoup_client.times import from_proto
from psoup_proto.v1 import admin_pb2


@dataclass(frozen=True, slots=True)
class Quotas(Facts):
    """The limits of a tenant; 0 means no limit.

    Shares are processor seconds a second. `weight` is the tenant's weight when tenants wait for each other.
    """

    streams: int
    queries: int
    query_bytes: int
    tuple_bytes: int
    archive_bytes: int
    producers: int
    calls_per_second: float
    open_calls: int
    pushed_bytes_per_second: float
    receive_bytes: int
    staged_bytes: int
    stages: int
    pinned_bytes: int
    watchers: int
    prepare_share: float
    join_share: float
    read_share: float
    matches_per_second: float
    group_keys: int
    kept_bytes: int
    weight: float


@dataclass(frozen=True, slots=True)
class Tenant(Facts):
    """A tenant. `created`: None for `default`, which was always there."""

    name: str
    quotas: Quotas
    created: datetime | None

    @classmethod
    def of(cls, tenant: admin_pb2.Tenant) -> Tenant:
        """Convert the service's message."""
        quotas = Quotas(**{field.name: getattr(tenant.quotas, field.name) for field in fields(Quotas)})
        return cls(tenant.name, quotas, from_proto(tenant.create_time) if tenant.HasField("create_time") else None)


@dataclass(frozen=True, slots=True)
class TenantUsage(Facts):
    """The use of a tenant's quotas now. `used`: by the names of `Quotas`; for a rate, about the amount a second over
    the last seconds. Limits of single answers are left out.
    """

    name: str
    used: dict[str, float]
    quotas: Quotas


@checking_arguments
class TenantCalls(Session):
    """Calls about tenants; all need the role operator in the tenant `default`, but for `tenant` and `tenant_usage`."""

    def create_tenant(self, name: str, **quotas: float) -> Tenant:
        """Create a tenant with some quotas, by the names of `Quotas`, and the service's defaults for the others.

        Its tokens are made by `issue_token(…, tenant=name)`. Raises AlreadyExists; InvalidRequest for a name or a quota
        that is not valid. It is tried once: after Unavailable look at `tenants()`.
        """
        request = admin_pb2.CreateTenantRequest(name=name, quotas=_quotas(quotas))
        reply = self.connection.call(self.connection.admin.CreateTenant, request, repeat=False)
        self.note_sequence(reply.sequence)
        return Tenant.of(reply.tenant)

    def alter_tenant(self, name: str, **quotas: float) -> Tenant:
        """Change some quotas of a tenant; the remaining quotas stay. 0 removes a limit.

        A tenant above a new limit keeps its data, and gets no more. Raises NotFound.
        """
        request = admin_pb2.AlterTenantRequest(name=name, quotas=_quotas(quotas))
        reply = self.connection.call(self.connection.admin.AlterTenant, request)
        self.note_sequence(reply.sequence)
        return Tenant.of(reply.tenant)

    def drop_tenant(self, name: str) -> Tenant:
        """Forget a tenant that has no stream and no token; raises FailedPrecondition for another, and NotFound."""
        request = admin_pb2.DropTenantRequest(name=name)
        reply = self.connection.call(self.connection.admin.DropTenant, request, repeat=False)
        self.note_sequence(reply.sequence)
        return Tenant.of(reply.tenant)

    def tenant(self, name: str = "") -> Tenant:
        """Describe a tenant: this client's own, or another, for the service's operator; raises NotFound."""
        request = admin_pb2.GetTenantRequest(name=name)
        return Tenant.of(self.connection.call(self.connection.admin.GetTenant, request).tenant)

    def tenant_usage(self, name: str = "") -> TenantUsage:
        """Tell what a tenant uses of each quota: this client's own, for its owner, or any, for the service's operator.

        Raises NotFound, PermissionDenied.
        """
        reply = self.connection.call(self.connection.admin.TenantUsage, admin_pb2.TenantUsageRequest(name=name))
        used = {field.name: value for field, value in reply.used.ListFields()}
        return TenantUsage(reply.tenant.name, used, Tenant.of(reply.tenant).quotas)

    def tenants(self) -> list[Tenant]:
        """List all tenants by their names."""
        request = admin_pb2.ListTenantsRequest(page_size=PAGE)
        return [Tenant.of(tenant) for tenant in self._pages(self.connection.admin.ListTenants, request, "tenants")]


def _quotas(values: Mapping[str, float]) -> admin_pb2.Quotas:
    """Build the message of some quotas. Raises InvalidRequest for an unknown name or an invalid number."""
    fields_by_name = admin_pb2.Quotas.DESCRIPTOR.fields_by_name
    unknown = next((name for name in values if name not in fields_by_name), None)
    if unknown is not None:
        raise InvalidRequest(f"{unknown!r} is not a valid quota; the quotas are {', '.join(fields_by_name)}")
    message = admin_pb2.Quotas()
    for name, value in values.items():
        try:
            setattr(message, name, value)
        except (TypeError, ValueError):
            raise InvalidRequest(f"quota {name} is {value!r}: give a number, of things and bytes a whole one") from None
    return message
