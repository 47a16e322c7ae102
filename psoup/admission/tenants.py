"""Decisions about tenants: their creation, their quotas, and their removal.

    always exists    `default`, which cannot be dropped
    dropped          only without streams (and so without queries), and without access tokens

Only `KnownTenants.adopt` changes state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace

from psoup.errors import AlreadyExists, FailedPrecondition, InvalidInput, ResourceExhausted
from psoup.events.access import AccessToken
from psoup.events.acknowledgements import Prepared, TenantAcknowledgement
from psoup.events.tenants import (
    FIRST_TENANT,
    AlterTenant,
    CreateTenant,
    DropTenant,
    Quotas,
    Tenant,
    TenantAltered,
    TenantCreated,
    TenantDropped,
    TenantEvent,
    no_tenant,
)
from psoup.model import DEFAULT_TENANT
from psoup.phrases import counted

MOST_TENANTS = 1_000
"""The most tenants that a service may have."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_MOST = 2**53
"""The greatest value of a quota."""
_WHOLE = {field.name for field in fields(Quotas) if field.type == "int"}
_NAMES = {field.name for field in fields(Quotas)}


class KnownTenants(dict[str, Tenant]):
    """The tenants by their names, after the last prepared event. `changes`: the number of adopted tenant events."""

    def __init__(self) -> None:
        super().__init__({DEFAULT_TENANT: FIRST_TENANT})
        self.changes = 0
        self._weights = FIRST_TENANT.quotas.weight

    def adopt(self, event: TenantEvent) -> None:
        """Apply an event. O(tenants)."""
        if isinstance(event, TenantDropped):
            self.pop(event.name, None)
        else:
            self[event.tenant.name] = event.tenant
        self.changes += 1
        # fsum is exact, so the order of the tenants makes no difference
        self._weights = math.fsum(tenant.quotas.weight for tenant in self.values())

    def share(self, name: str) -> float:
        """The tenant's share of the sum of all weights: above 0, at most 1. An unknown tenant has weight 1. O(1)."""
        tenant = self.get(name)
        return min(1.0, (1.0 if tenant is None else tenant.quotas.weight) / self._weights)

    def known(self, name: str) -> Tenant:
        """The tenant of this name. Raises NotFound."""
        tenant = self.get(name)
        if tenant is None:
            raise no_tenant(name)
        return tenant


def decide_tenant(
    command: CreateTenant | AlterTenant | DropTenant,
    tenants: KnownTenants,
    tokens: Iterable[AccessToken],
    streams: int,
    sequence: int,
    now: int,
) -> Prepared:
    """Decide on creating, altering or dropping a tenant. `streams`: the number of its streams. O(tokens).

    `sequence`: the sequence that the event gets. Raises InvalidInput for an invalid name or quota, AlreadyExists,
    NotFound, and ResourceExhausted for one tenant too many. Raises FailedPrecondition for the removal of a tenant that
    is not empty, or is `default`.
    """
    event: TenantEvent
    if isinstance(command, CreateTenant):
        _check_new(command, tenants)
        event = TenantCreated(sequence, Tenant(command.name, _checked(asdict(command.quotas)), now))
    elif isinstance(command, AlterTenant):
        tenant = tenants.known(command.name)
        quotas = _checked({**asdict(tenant.quotas), **command.changes})
        event = TenantAltered(sequence, replace(tenant, quotas=quotas), now)
    else:
        tenant = tenants.known(command.name)
        _check_empty(command.name, tokens, streams)
        event = TenantDropped(sequence, command.name, now)
    shown = event.tenant if isinstance(event, TenantCreated | TenantAltered) else tenant
    return Prepared(TenantAcknowledgement(sequence, tenant=shown), event)


def _check_new(command: CreateTenant, tenants: KnownTenants) -> None:
    if not _NAME.fullmatch(command.name):
        raise InvalidInput(
            f"{command.name[:64]!r} is not a valid name of a tenant: 1 to 63 lower-case letters, digits, - and _, of"
            " which the first is a letter or a digit",
            reason="TENANT_NAME",
            field="name",
        )
    if command.name in tenants:
        raise AlreadyExists(
            f"there is a tenant {command.name!r} already; psoup tenant set changes its quotas",
            reason="TENANT_EXISTS",
            tenant=command.name,
        )
    if len(tenants) >= MOST_TENANTS:
        raise ResourceExhausted(
            f"there are {MOST_TENANTS:,} tenants, the most there may be; drop those that are not in use",
            reason="TOO_MANY_TENANTS",
            limit=MOST_TENANTS,
        )


def _checked(values: Mapping[str, int | float]) -> Quotas:
    """Make quotas from values by name. Raises InvalidInput for an unknown name or an invalid value."""
    for name, value in values.items():
        if name not in _NAMES:
            raise InvalidInput(
                f"there is no quota {name[:64]!r}; there are {', '.join(sorted(_NAMES))}", reason="UNKNOWN_QUOTA"
            )
        if not math.isfinite(value) or not 0 <= value <= _MOST or (name in _WHOLE and value != int(value)):
            kind = "a whole number" if name in _WHOLE else "a number"
            raise InvalidInput(
                f"{name} is {value}; it must be {kind} from 0, which is no limit, to 2^53",
                reason="QUOTA_VALUE",
                field=name,
            )
    if not 0.01 <= values["weight"] <= 100:
        raise InvalidInput(
            f"weight is {values['weight']}; it must be from 0.01 to 100; the default is 1",
            reason="QUOTA_VALUE",
            field="weight",
        )
    exact = {name: int(value) if name in _WHOLE else float(value) for name, value in values.items()}
    return Quotas(**exact)  # type: ignore[arg-type]


def _check_empty(name: str, tokens: Iterable[AccessToken], streams: int) -> None:
    if name == DEFAULT_TENANT:
        raise FailedPrecondition(
            f"the tenant {name!r} is always there and cannot be dropped", reason="FIRST_TENANT", tenant=name
        )
    issued = sum(token.tenant == name for token in tokens)
    if streams or issued:
        raise FailedPrecondition(
            f"tenant {name!r} has {counted(streams, 'stream')} and {counted(issued, 'access token')}; drop its streams"
            " and revoke its tokens first",
            reason="TENANT_IN_USE",
            tenant=name,
            streams=streams,
            tokens=issued,
        )
