"""Tenants over the wire: they come, change and go; a client of one tenant sees no other tenant."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import apsw
import grpc
import pyarrow as pa
import pytest

from psoup.events.access import TokenIssued
from psoup.events.tenants import GENEROUS
from psoup_proto.v1 import admin_pb2 as admin
from psoup_proto.v1 import attach_pb2 as attach
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import server_pb2 as server
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.gate.new_token import issued
from psoup_service.gate.tokens import _checksum
from psoup_storage import DurableStore
from psoup_storage.durable.first_token import issue_offline
from psoup_storage.durable.sqlite.seals import register
from psoup_testing.services.gated_service import Door, behind, with_token
from psoup_testing.services.wire import Wire, ipc, refused, run

MISSING, DENIED = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED
UNKNOWN = grpc.StatusCode.UNAUTHENTICATED


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
        _, reader = await door.issue("reader")
        assert (await told(door, "", reader)).name == "default"
        assert (await refused(told(door, "acme", reader), MISSING)).reason == "UNKNOWN_TENANT", "he is no operator"
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


@pytest.mark.seeded("F27: tenants learn of each other")
@pytest.mark.seeded("an operator is told the tokens of all tenants")
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


@pytest.mark.seeded("a service that has lost its tokens asks nobody")
def test_a_directory_that_lost_its_tokens_lets_nobody_in(killed_directory: Path, tmp_path: Path) -> None:
    """The mark outlives the rows of the tokens."""

    async def script(wire: Wire) -> None:
        await refused(wire.streams.ListStreams(streams.ListStreamsRequest()), grpc.StatusCode.UNAUTHENTICATED)

    issue_offline(tmp_path / "new", issued("op", ["operator"])[1])
    shutil.copytree(killed_directory / "data", tmp_path / "killed")
    DurableStore(tmp_path / "killed").close()
    for path in (tmp_path / "new", tmp_path / "killed"):
        connection = apsw.Connection(str(path / "psoup.db"))
        register(connection)
        connection.execute("DELETE FROM log WHERE kind = 'token'")
        connection.close()
        store = DurableStore(path)
        assert (store.guarded, any(isinstance(event, TokenIssued) for event in store.read())) == (True, False)
        run(script, store=store)


@pytest.mark.seeded("jobs of all tenants have one folder")
def test_jobs_of_a_tenant_have_a_folder_of_their_own(tmp_path: Path) -> None:
    async def script(wire: Wire) -> None:
        door = await Door(wire).begin()
        await door.admin.CreateTenant(admin.CreateTenantRequest(name="acme"), metadata=door.operator)
        for tenant, place in (("default", "incoming"), ("acme", "incoming/acme")):
            _, metadata = await door.issue("operator", "owner", tenant=tenant)
            create = streams.CreateStreamRequest(statement="CREATE STREAM s (x BIGINT)")
            await wire.streams.CreateStream(create, metadata=metadata)
            began = await wire.attach.BeginAttach(attach.BeginAttachRequest(stream="s", job="j"), metadata=metadata)
            assert Path(began.folder) == (tmp_path / "data" / place).resolve()

    run(script, store=DurableStore(tmp_path / "data"))


@pytest.mark.seeded("a tenant is told the figures of all")
def test_a_tenant_is_told_what_it_has_and_the_bill_is_the_operators() -> None:
    async def script(door: Door) -> None:
        await door.admin.CreateTenant(admin.CreateTenantRequest(name="acme"), metadata=door.operator)
        sizes = dict[str, dict[str, int]]()
        for tenant, count in (("default", 100), ("acme", 1)):
            _, metadata = await door.issue("owner", tenant=tenant)
            create = streams.CreateStreamRequest(statement="CREATE STREAM s (x BIGINT)")
            await door.wire.streams.CreateStream(create, metadata=metadata)
            push = ingest.PushRequest(stream="s", arrow_ipc=ipc(pa.table({"x": range(count)})))
            pushed = await door.wire.ingest.Push(push, metadata=metadata)
            asked = server.GetServerInfoRequest(min_sequence=pushed.sequence)
            sizes[tenant] = dict((await door.wire.server.GetServerInfo(asked, metadata=metadata)).memory)
            bill = server.GetServerInfoRequest(with_bill=True)
            assert not (await door.wire.server.GetServerInfo(bill, metadata=metadata)).bill
        assert sizes["acme"] == {"archive_bytes": 0, "results_bytes": 0, "tuples_bytes": 17}
        assert sizes["default"]["tuples_bytes"] == 1_700
        assert (await door.wire.server.GetServerInfo(bill, metadata=door.operator)).bill

    behind(script)


@pytest.mark.seeded("the ID of a token and a right checksum are enough")
def test_tokens_of_two_tenants_are_not_put_together() -> None:
    """Also where the checksum is right: each sign changed, and the ID of one with the secret of the other."""

    def text(metadata: Any) -> str:
        return str(metadata[0][1]).removeprefix("Bearer ")

    def summed(body: str) -> str:
        return body + _checksum(body)

    async def script(door: Door) -> None:
        both = list[str]()
        for name in ("acme", "rival"):
            await door.admin.CreateTenant(admin.CreateTenantRequest(name=name), metadata=door.operator)
            both.append(text((await door.issue("reader", tenant=name))[1]))
        one, other = both
        signs = "psoup_", one[6:16], one[16:-4], other[6:16], other[16:-4]
        start, own, secret, theirs, their_secret = signs
        assert summed(start + own + secret) == one, "this is how a token is made"
        forged = {summed(start + own + their_secret), summed(start + theirs + secret)}
        for place in range(6, len(one) - 4):
            forged.add(summed(one[:place] + ("A" if one[place] != "A" else "B") + one[place + 1 : -4]))
        for token in forged:
            assert (await refused(door.list(with_token(token)), UNKNOWN)).reason == "TOKEN_INVALID"
        assert len(forged) == 2 + 53
        for token in both:
            assert (await door.list(with_token(token))).streams == []

    behind(script)
