"""Decisions about tenants: which may be made, what their quotas may be, and which may go.

    always there     `default`, which cannot be dropped
    dropped          only if nothing of it stands: no stream, so no query, and no access token

Functions here change nothing, but for `KnownTenants.adopt`.
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
from psoup.wording import counted

MOST_TENANTS = 1_000
"""Tenants that there may be."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_MOST = 2**53
_WHOLE = {field.name for field in fields(Quotas) if field.type == "int"}
_NAMES = {field.name for field in fields(Quotas)}


class KnownTenants(dict[str, Tenant]):
    """The tenants by their names, as of the last prepared event. `changes`: how many events of tenants there were."""

    def __init__(self) -> None:
        super().__init__({DEFAULT_TENANT: FIRST_TENANT})
        self.changes = 0
        self._weights = FIRST_TENANT.quotas.weight

    def adopt(self, event: TenantEvent) -> None:
        """Take over an event. O(tenants)."""
        if isinstance(event, TenantDropped):
            self.pop(event.name, None)
        else:
            self[event.tenant.name] = event.tenant
        self.changes += 1
        self._weights = math.fsum(tenant.quotas.weight for tenant in self.values())  # exact, so in any order the same

    def share(self, name: str) -> float:
        """A tenant's part of what all divide by weight: above 0, at most 1; who is not there has weight 1. O(1)."""
        there = self.get(name)
        return min(1.0, (1.0 if there is None else there.quotas.weight) / self._weights)

    def known(self, name: str) -> Tenant:
        """The tenant of that name; raises NotFound."""
        tenant = self.get(name)
        if tenant is None:
            raise no_tenant(name)
        return tenant


def decide_tenant(
    command: CreateTenant | AlterTenant | DropTenant,
    known: KnownTenants,
    tokens: Iterable[AccessToken],
    streams: int,
    sequence: int,
    now: int,
) -> Prepared:
    """Decide on a tenant. `streams`: how many the tenant of the command has; `sequence`: of the event. O(tokens).

    Raises InvalidInput for a name or a quota that is not valid, AlreadyExists, NotFound, ResourceExhausted with too
    many tenants; FailedPrecondition for one that is not empty, or is `default`.
    """
    event: TenantEvent
    if isinstance(command, CreateTenant):
        _check_new(command, known)
        event = TenantCreated(sequence, Tenant(command.name, _checked(asdict(command.quotas)), now))
    elif isinstance(command, AlterTenant):
        tenant = known.known(command.name)
        quotas = _checked({**asdict(tenant.quotas), **command.changes})
        event = TenantAltered(sequence, replace(tenant, quotas=quotas), now)
    else:
        tenant = known.known(command.name)
        _check_empty(command.name, tokens, streams)
        event = TenantDropped(sequence, command.name, now)
    told = event.tenant if isinstance(event, TenantCreated | TenantAltered) else tenant
    return Prepared(TenantAcknowledgement(sequence, tenant=told), event)


def _check_new(command: CreateTenant, known: KnownTenants) -> None:
    if not _NAME.fullmatch(command.name):
        raise InvalidInput(
            f"{command.name[:64]!r} is not a valid name of a tenant: 1 to 63 lower-case letters, digits, - and _, of"
            " which the first is a letter or a digit",
            reason="TENANT_NAME",
            field="name",
        )
    if command.name in known:
        raise AlreadyExists(
            f"there is a tenant {command.name!r} already; psoup tenant set changes its quotas",
            reason="TENANT_EXISTS",
            tenant=command.name,
        )
    if len(known) >= MOST_TENANTS:
        raise ResourceExhausted(
            f"there are {MOST_TENANTS:,} tenants, the most there may be; drop those that are not in use",
            reason="TOO_MANY_TENANTS",
            limit=MOST_TENANTS,
        )


def _checked(values: Mapping[str, int | float]) -> Quotas:
    """The quotas of these values; raises InvalidInput for one that is not valid."""
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
            f"weight is {values['weight']}; it must be from 0.01 to 100, and 1 is that of others",
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
