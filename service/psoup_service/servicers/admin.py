"""AdminService: issues, lists and revokes access tokens, administers tenants, accepts the clock, promotes a standby.

Any caller on this machine may request the first token, because there is no credential before it. Callers on other
machines cannot. The owner of the data directory always can (`psoup admin init --data-dir`).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from operator import itemgetter
from typing import Any

from psoup.errors import InvalidInput, PermissionDenied
from psoup.events.access import AccessToken, IssueToken, RevokeToken
from psoup.events.acknowledgements import TenantAcknowledgement, TokenAcknowledgement
from psoup.events.commands import Command
from psoup.events.tenants import GENEROUS, AlterTenant, CreateTenant, DropTenant, Tenant, no_tenant
from psoup.model import SECOND
from psoup_proto.v1 import admin_pb2, admin_pb2_grpc
from psoup_service.gate.credentials import Gate
from psoup_service.gate.meters import RATES
from psoup_service.gate.new_token import issued
from psoup_service.gate.principal import EVERYBODY
from psoup_service.host.ids import page_size, page_token, read_page_token
from psoup_service.host.standby_host import Promote
from psoup_service.servicers.backend import Backend
from psoup_service.wire.calls import Caller
from psoup_service.wire.convert import clock_state, timestamp

_PAGE = 1_000
_ID = re.compile(r"[0-9A-Za-z]{1,40}", re.ASCII)


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """See admin.proto."""

    def __init__(self, backend: Backend, gate: Gate, promote: Promote) -> None:
        self._backend = backend
        self._gate = gate
        self._promote = promote

    async def IssueToken(self, request: admin_pb2.IssueTokenRequest, caller: Caller) -> admin_pb2.IssueTokenResponse:
        """Issue a token. Only this reply contains its secret."""
        first = request.first or caller.principal is EVERYBODY
        if first and not caller.local():
            raise PermissionDenied(
                "the first token is issued on the service's machine alone: psoup admin init there, at a loopback"
                " address, a Unix socket, or on the stopped service's --data-dir",
                reason="NOT_LOCAL",
            )
        backend = self._backend
        tenant = self._tenant(request.tenant, caller)
        expires = 0 if request.seconds == 0 else backend.now() + request.seconds * SECOND
        secret, token = issued(request.name, request.roles, request.streams, expires, tenant=tenant)
        acknowledgement, _ = await backend.change(IssueToken(token, first))
        assert isinstance(acknowledgement, TokenAcknowledgement)
        assert acknowledgement.token is not None
        facts = _told(acknowledgement.token, backend.now())
        return admin_pb2.IssueTokenResponse(secret=secret, token=facts, sequence=acknowledgement.sequence)

    async def ListTokens(self, request: admin_pb2.ListTokensRequest, caller: Caller) -> admin_pb2.ListTokensResponse:
        """A page of the tokens, in the order in which they were issued."""
        tenant = self._tenant(request.tenant, caller) if request.tenant or not caller.principal.operates else ""
        size = page_size(request.page_size, _PAGE, _PAGE)
        state = read_page_token("tokens", request.page_token, time=int, last=str)
        after = (state["time"], state["last"]) if state else (-1, "")
        snapshot = await self._backend.reflecting(request.min_sequence)
        tokens = snapshot.tokens.values()
        if tenant:
            snapshot.tenant(tenant)
        shown = [token for token in tokens if tenant in ("", token.tenant)]
        keyed = sorted((((token.issued, token.token_id), token) for token in shown), key=itemgetter(0))
        page = [(key, token) for key, token in keyed if key > after][: size + 1]
        more = ""
        if len(page) > size:
            time, last = page[size - 1][0]
            more = page_token("tokens", time=time, last=last)
        now = self._backend.now()
        told = [_told(token, now) for _, token in page[:size]]
        return admin_pb2.ListTokensResponse(tokens=told, next_page_token=more)

    async def RevokeToken(self, request: admin_pb2.RevokeTokenRequest, caller: Caller) -> admin_pb2.RevokeTokenResponse:
        """Revoke a token, and end the open calls that use it."""
        if not _ID.fullmatch(request.token_id):
            raise InvalidInput("token_id is not the ID of a token; psoup token list shows the IDs", field="token_id")
        tenant = "" if caller.principal.operates else caller.principal.tenant
        acknowledgement, _ = await self._backend.change(RevokeToken(request.token_id, tenant))
        self._gate.look()
        assert isinstance(acknowledgement, TokenAcknowledgement)
        assert acknowledgement.token is not None
        token = _told(acknowledgement.token, self._backend.now())
        return admin_pb2.RevokeTokenResponse(token=token, sequence=acknowledgement.sequence)

    # Tenants ---------------------------------------------------------------------------------------------------

    async def CreateTenant(
        self, request: admin_pb2.CreateTenantRequest, caller: Caller
    ) -> admin_pb2.CreateTenantResponse:
        """Make a tenant."""
        quotas = replace(GENEROUS, **_limits(request.quotas))
        tenant, sequence = await self._changed(CreateTenant(request.name, quotas))
        return admin_pb2.CreateTenantResponse(tenant=tenant, sequence=sequence)

    async def AlterTenant(self, request: admin_pb2.AlterTenantRequest, caller: Caller) -> admin_pb2.AlterTenantResponse:
        """Change quotas of a tenant."""
        changes = _limits(request.quotas)
        if not changes:
            raise InvalidInput("quotas is empty; say which quotas change", field="quotas")
        tenant, sequence = await self._changed(AlterTenant(request.name, changes))
        return admin_pb2.AlterTenantResponse(tenant=tenant, sequence=sequence)

    async def DropTenant(self, request: admin_pb2.DropTenantRequest, caller: Caller) -> admin_pb2.DropTenantResponse:
        """Drop a tenant that has no data."""
        tenant, sequence = await self._changed(DropTenant(request.name))
        return admin_pb2.DropTenantResponse(tenant=tenant, sequence=sequence)

    async def GetTenant(self, request: admin_pb2.GetTenantRequest, caller: Caller) -> admin_pb2.GetTenantResponse:
        """Get a tenant: its name, quotas and creation time."""
        name = self._tenant(request.name, caller)
        snapshot = await self._backend.reflecting(request.min_sequence)
        return admin_pb2.GetTenantResponse(tenant=_shown(snapshot.tenant(name)))

    async def TenantUsage(self, request: admin_pb2.TenantUsageRequest, caller: Caller) -> admin_pb2.TenantUsageResponse:
        """The use of a tenant's quotas now."""
        name = self._tenant(request.name, caller)
        tenant = self._backend.host.snapshot().tenant(name)
        used = self._backend.meters.used(name)
        exact: dict[str, Any] = {quota: value if quota in RATES else int(value) for quota, value in used.items()}
        return admin_pb2.TenantUsageResponse(tenant=_shown(tenant), used=admin_pb2.Quotas(**exact))

    async def ListTenants(self, request: admin_pb2.ListTenantsRequest, caller: Caller) -> admin_pb2.ListTenantsResponse:
        """A page of the tenants, by their names."""
        size = page_size(request.page_size, _PAGE, _PAGE)
        state = read_page_token("tenants", request.page_token, last=str)
        after = state["last"] if state else ""
        tenants = (await self._backend.reflecting(request.min_sequence)).tenants
        names = sorted(name for name in tenants if name > after)
        more = page_token("tenants", last=names[size - 1]) if len(names) > size else ""
        shown = [_shown(tenants[name]) for name in names[:size]]
        return admin_pb2.ListTenantsResponse(tenants=shown, next_page_token=more)

    # The service -----------------------------------------------------------------------------------------------

    async def AcceptClock(self, request: admin_pb2.AcceptClockRequest, caller: Caller) -> admin_pb2.AcceptClockResponse:
        """Follow the wall clock of the machine at once."""
        clock = self._backend.clock
        accepted = clock.accept()
        return admin_pb2.AcceptClockResponse(accepted=accepted, clock=clock_state(clock.state()))

    async def Promote(
        self, request: admin_pb2.PromoteRequest, caller: Caller
    ) -> AsyncIterator[admin_pb2.PromoteResponse]:
        """Let a standby write, and report how far that is."""
        async for step in self._promote():
            response = admin_pb2.PromoteResponse(applied=step.applied, sequence=step.sequence)
            if (done := step.promoted) is not None:
                time = timestamp(done.time)
                promotion = admin_pb2.Promotion(
                    sequence=done.sequence, event_time=time, number=done.number, lost=done.lost
                )
                response.promotion.CopyFrom(promotion)
            yield response

    def _tenant(self, name: str, caller: Caller) -> str:
        """The tenant that a request names, or the caller's own.

        Raises NotFound if the caller may not see the named tenant.
        """
        tenant = self._backend.tenant(caller)
        if not name or name == tenant:
            return tenant
        if not caller.principal.operates:
            raise no_tenant(name)
        return name

    async def _changed(self, command: Command) -> tuple[admin_pb2.Tenant, int]:
        acknowledgement, _ = await self._backend.change(command)
        assert isinstance(acknowledgement, TenantAcknowledgement)
        assert acknowledgement.tenant is not None
        return _shown(acknowledgement.tenant), acknowledgement.sequence


def _limits(quotas: admin_pb2.Quotas) -> dict[str, Any]:
    """The quotas that a request names."""
    return {field.name: value for field, value in quotas.ListFields()}


def _shown(tenant: Tenant) -> admin_pb2.Tenant:
    """A tenant as clients see it."""
    created = timestamp(tenant.created) if tenant.created else None
    return admin_pb2.Tenant(name=tenant.name, quotas=admin_pb2.Quotas(**asdict(tenant.quotas)), create_time=created)


def _told(token: AccessToken, now: int) -> admin_pb2.Token:
    """A token as clients see it."""
    return admin_pb2.Token(
        token_id=token.token_id,
        name=token.name,
        roles=token.roles,
        streams=token.streams,
        issue_time=timestamp(token.issued),
        expire_time=timestamp(token.expires) if token.expires else None,
        expired=token.expired(now),
        tenant=token.tenant,
    )
