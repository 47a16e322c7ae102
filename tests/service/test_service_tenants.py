"""Tenants over the wire: they come, change and go; tokens are of one, and who is of one knows of no other."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from psoup.events.tenants import GENEROUS
from psoup_proto.v1 import admin_pb2 as admin
from psoup_testing.door import Door, behind
from psoup_testing.wire import refused

MISSING, DENIED = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED


async def told(door: Door, name: str, metadata: Any) -> Any:
    return (await door.admin.GetTenant(admin.GetTenantRequest(name=name), metadata=metadata)).tenant


def test_a_tenant_is_made_shown_changed_and_dropped() -> None:
    async def script(door: Door) -> None:
        asked = admin.CreateTenantRequest(name="acme", quotas=admin.Quotas(queries=5, streams=0))
        made = (await door.admin.CreateTenant(asked, metadata=door.operator)).tenant
        assert (made.quotas.queries, made.quotas.streams, made.quotas.stages) == (5, 0, GENEROUS.stages)
        assert made.quotas.HasField("kept_bytes"), "a reply says all of them"
        changes = admin.AlterTenantRequest(name="acme", quotas=admin.Quotas(queries=0, join_share=0.5))
        altered = (await door.admin.AlterTenant(changes, metadata=door.operator)).tenant
        assert (altered.quotas.queries, altered.quotas.join_share, altered.quotas.weight) == (0, 0.5, 1)
        assert altered == await told(door, "acme", door.operator)
        listed = await door.admin.ListTenants(admin.ListTenantsRequest(page_size=1), metadata=door.operator)
        rest = admin.ListTenantsRequest(page_size=1, page_token=listed.next_page_token)
        names = [
            t.name for t in (*listed.tenants, *(await door.admin.ListTenants(rest, metadata=door.operator)).tenants)
        ]
        assert names == ["acme", "default"]
        nothing = admin.AlterTenantRequest(name="acme")
        await refused(door.admin.AlterTenant(nothing, metadata=door.operator), grpc.StatusCode.INVALID_ARGUMENT)
        await door.admin.DropTenant(admin.DropTenantRequest(name="acme"), metadata=door.operator)
        await refused(told(door, "acme", door.operator), MISSING)

    behind(script)


def test_a_tenants_operator_has_his_own_tenant_and_knows_of_no_other() -> None:
    async def script(door: Door) -> None:
        for name in ("acme", "rival"):
            await door.admin.CreateTenant(admin.CreateTenantRequest(name=name), metadata=door.operator)
        await door.issue("reader")
        theirs, _ = await door.issue("reader", tenant="rival")
        own, operator = await door.issue("operator", tenant="acme")
        assert (await told(door, "", operator)).name == (await told(door, "acme", operator)).name == "acme"

        def asked(tenant: str) -> list[Any]:
            issue = admin.IssueTokenRequest(name="x", roles=["reader"], tenant=tenant)
            listing = admin.ListTokensRequest(tenant=tenant)
            return [
                told(door, tenant, operator),
                door.admin.IssueToken(issue, metadata=operator),
                door.admin.ListTokens(listing, metadata=operator),
            ]

        for foreign, missing in zip(asked("rival"), asked("nobody"), strict=True):
            said = [(await refused(call, MISSING)).message for call in (foreign, missing)]
            assert said[0] == said[1].replace("nobody", "rival")
        for token in (theirs, "nosuch"):
            revoking = door.admin.RevokeToken(admin.RevokeTokenRequest(token_id=token), metadata=operator)
            assert (await refused(revoking, MISSING)).reason == "UNKNOWN_TOKEN"
        listed = await door.admin.ListTokens(admin.ListTokensRequest(), metadata=operator)
        assert [(token.token_id, token.tenant) for token in listed.tokens] == [(own, "acme")]
        everything = await door.admin.ListTokens(admin.ListTokensRequest(), metadata=door.operator)
        assert {token.tenant for token in everything.tokens} == {"default", "acme", "rival"}
        only = await door.admin.ListTokens(admin.ListTokensRequest(tenant="rival"), metadata=door.operator)
        assert [token.token_id for token in only.tokens] == [theirs]
        issued = admin.IssueTokenRequest(name="new", roles=["reader"])
        made = (await door.admin.IssueToken(issued, metadata=operator)).token
        assert made.tenant == "acme"
        await door.admin.RevokeToken(admin.RevokeTokenRequest(token_id=made.token_id), metadata=operator)

    behind(script)


@pytest.mark.parametrize("method", ["CreateTenant", "AlterTenant", "DropTenant", "ListTenants"])
def test_tenants_are_a_matter_of_the_services_operator(method: str) -> None:
    async def script(door: Door) -> None:
        await door.admin.CreateTenant(admin.CreateTenantRequest(name="acme"), metadata=door.operator)
        _, operator = await door.issue("operator", tenant="acme")
        request = getattr(admin, f"{method}Request")()
        problem = await refused(getattr(door.admin, method)(request, metadata=operator), DENIED)
        assert "about all tenants" in problem.message

    behind(script)
