"""AlterQueries over the wire: roles, tenants, requests that no client of ours sends, the page, and the metrics."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from psoup_client import Client
from psoup_proto.v1 import admin_pb2 as admin
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2 as server
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.process.settings import Settings
from psoup_testing.browser.page_requests import Page, WebRefusal
from psoup_testing.services.gated_service import Door, behind
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.wire import Wire, refused, run

INVALID, MISSING = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


def altered(wire: Wire, metadata: Any = (), **fields: Any) -> Any:
    return wire.queries.AlterQueries(queries.AlterQueriesRequest(**fields), metadata=metadata)


async def amounts(wire: Wire, metadata: Any = ()) -> dict[str, tuple[int, bool, bool]]:
    """The amount of each query, by its key."""
    listed = await wire.queries.ListQueries(queries.ListQueriesRequest(), metadata=metadata)
    return {query.key: (query.amount, query.eager, query.active) for query in listed.queries}


def test_requests_that_are_wrong_are_refused_by_name_and_change_nothing() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s")
        nothing = await refused(altered(wire, query_ids=[query]), INVALID)
        assert (nothing.reason, nothing.message) == ("NO_CHANGE", "say what to change: amount, eager, active or parked")
        eager = {"eager": True, "amount": queries.AMOUNT_PARTIAL}
        for call in (
            altered(wire, query_ids=[query], **eager),
            wire.queries.Register(queries.RegisterRequest(statement="SELECT x FROM s", **eager)),
            wire.queries.RegisterMany(queries.RegisterManyRequest(statements=["SELECT x FROM s"], eager=True)),
        ):
            refusal = await refused(call, INVALID)
            assert refusal.reason == "EAGER" and "take COMPLETE, or leave eager out" in refusal.message
        for fields in ({}, {"query_ids": [query], "key_prefix": "a"}, {"key_prefix": "a", "labels": {"u": "1"}}):
            selection = await refused(altered(wire, **fields, active=False), INVALID)
            assert selection.reason == "SELECTION"
            assert "by their IDs, by labels, or by a prefix of keys" in selection.message
        wrong = queries.AlterQueriesRequest(query_ids=[query])
        wrong.amount = 7  # type: ignore[assignment]
        unknown = await refused(wire.queries.AlterQueries(wrong), INVALID)
        assert (
            unknown.message == "amount is 7; it must be one of NONE (1), PARTIAL (2), COMPLETE (3), AUTO (4), or unset"
        )
        register = queries.RegisterRequest(statement="SELECT x FROM s")
        register.amount = -1  # type: ignore[assignment]
        assert (await refused(wire.queries.Register(register), INVALID)).message.startswith("amount is -1; it must be")
        many = queries.RegisterManyRequest(statements=["SELECT x FROM s"])
        many.amount = 5  # type: ignore[assignment]
        assert (await refused(wire.queries.RegisterMany(many), INVALID)).facts["field"] == "amount"
        assert await amounts(wire) == {"": (queries.AMOUNT_PARTIAL, False, True)}

    run(script)


@pytest.mark.long
def test_ids_of_sides_and_of_ten_million_queries_are_refused() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        await wire.register("SELECT r.x FROM s AS r JOIN s AS t ON r.x = t.x")
        listed = await wire.queries.ListQueries(queries.ListQueriesRequest(include_sides=True))
        [first, second] = [query.query_id for query in listed.queries]
        refusal = await refused(altered(wire, query_ids=[second, first], active=False), MISSING)
        assert "of 2 queries, 2 cannot be found" in refusal.message
        ten_million = queries.AlterQueriesRequest(amount=queries.AMOUNT_NONE)
        ten_million.query_ids.extend([""] * 10_000_000)
        await refused(wire.queries.AlterQueries(ten_million), grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert await amounts(wire) == {"": (queries.AMOUNT_PARTIAL, False, True)}

    run(script)


def test_ids_that_no_query_can_have_are_refused_as_they_were_written() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        prefix = (await wire.register("SELECT x FROM s")).rpartition("-")[0]
        for number in (2**63, 10**19 - 1, 10**18):
            refusal = await refused(altered(wire, query_ids=[f"{prefix}-{number}"], active=False), INVALID)
            assert refusal.reason == "MALFORMED_ID"
        greatest = await refused(altered(wire, query_ids=[f"{prefix}-{10**18 - 1}"], active=False), MISSING)
        assert greatest.facts["examples"] == f"{prefix}-{10**18 - 1}"
        gone = [f"{prefix}-{number}" for number in range(1_001, 1_031)]
        for call in (
            altered(wire, query_ids=gone, active=False),
            wire.queries.UnregisterMany(queries.UnregisterManyRequest(query_ids=gone, request_id="r")),
        ):
            assert f"30 cannot be found: {gone[0]}, {gone[1]}, " in (await refused(call, MISSING)).message

    run(script)


def test_a_repeated_call_makes_no_event() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s")
        first = await altered(wire, query_ids=[query, query], amount=queries.AMOUNT_COMPLETE, eager=True)
        assert (first.count, first.changed) == (1, 1)
        again = await altered(wire, query_ids=[query], amount=queries.AMOUNT_COMPLETE, eager=True)
        assert (again.count, again.changed, again.sequence) == (1, 0, first.sequence)
        dry = await altered(wire, query_ids=[query], active=False, dry_run=True)
        assert (dry.count, dry.changed, dry.sequence) == (1, 1, first.sequence)
        assert await amounts(wire) == {"": (queries.AMOUNT_COMPLETE, True, True)}

    run(script)


def test_a_registrar_alters_and_others_may_not() -> None:
    async def script(door: Door) -> None:
        wire = door.wire
        owner, registrar, reader = [(await door.issue(role))[1] for role in ("owner", "registrar", "reader")]
        create = streams.CreateStreamRequest(statement="CREATE STREAM s (x BIGINT)")
        await wire.streams.CreateStream(create, metadata=owner)
        register = queries.RegisterRequest(statement="SELECT x FROM s", key="k", amount=queries.AMOUNT_NONE)
        await wire.queries.Register(register, metadata=registrar)
        call = altered(wire, reader, key_prefix="k", amount=queries.AMOUNT_COMPLETE)
        await refused(call, grpc.StatusCode.PERMISSION_DENIED)
        assert (await altered(wire, registrar, key_prefix="k", amount=queries.AMOUNT_COMPLETE)).changed == 1
        assert await amounts(wire, reader) == {"k": (queries.AMOUNT_COMPLETE, False, True)}

    behind(script)


def test_a_tenant_alters_only_its_own_queries() -> None:
    async def script(door: Door) -> None:
        wire, owners, made = door.wire, [], []
        for name in ("one", "two"):
            await door.admin.CreateTenant(admin.CreateTenantRequest(name=name), metadata=door.operator)
            _, owner = await door.issue("owner", tenant=name)
            create = streams.CreateStreamRequest(statement="CREATE STREAM s (x BIGINT)")
            await wire.streams.CreateStream(create, metadata=owner)
            register = queries.RegisterRequest(statement="SELECT x FROM s", key="k", labels={"u": "1"})
            made.append((await wire.queries.Register(register, metadata=owner)).query.query_id)
            owners.append(owner)
        refusal = await refused(altered(wire, owners[1], query_ids=made, active=False), MISSING)
        assert refusal.message.startswith(f"of 2 queries, 1 cannot be found: {made[0]}; nothing was altered")
        assert (await altered(wire, owners[1], labels={"u": "1"}, amount=queries.AMOUNT_NONE)).count == 1
        assert (await altered(wire, owners[1], key_prefix="k", active=False)).count == 1
        assert await amounts(wire, owners[0]) == {"k": (queries.AMOUNT_PARTIAL, False, True)}
        assert await amounts(wire, owners[1]) == {"k": (queries.AMOUNT_NONE, False, False)}
        block = queries.RegisterManyRequest(statements=["SELECT x FROM s WHERE x > 1"] * 3)
        await wire.queries.RegisterMany(block, metadata=owners[0])
        request = server.GetServerInfoRequest(with_queries=True)
        counts = [(await wire.server.GetServerInfo(request, metadata=owner)).queries for owner in owners]
        assert counts == [server.QueryCounts(partial=4), server.QueryCounts(inactive=1)]
        none = await wire.server.GetServerInfo(server.GetServerInfoRequest(), metadata=owners[0])
        assert not none.HasField("queries"), "it is asked for"

    behind(script)


def test_a_page_registers_and_alters_and_the_metrics_count() -> None:
    with serving(Settings(port=0, web_port=0)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (n BIGINT)")
        page, statement = Page(service.service), "SELECT n FROM s WHERE n > 1"
        made = page.call("QueryService/Register", {"statement": statement, "key": "k", "amount": "AMOUNT_COMPLETE"})
        assert (made["query"]["amount"], made["query"]["active"]) == ("AMOUNT_COMPLETE", True)
        client.register_many("SELECT n FROM s WHERE n > ?", [(n,) for n in range(5)], amount="none")
        reply = page.call("QueryService/AlterQueries", {"keyPrefix": "k", "active": False})
        assert (reply["count"], reply["changed"]) == ("1", "1")
        assert "active" not in page.call("QueryService/GetQuery", {"key": "k"})["query"]
        with pytest.raises(WebRefusal) as wrong:
            page.call("QueryService/AlterQueries", {"keyPrefix": "k", "amount": "AMOUNT_SOME"})
        assert wrong.value.status == 400
        assert "amount is not one of AMOUNT_UNSPECIFIED, AMOUNT_NONE, AMOUNT_PARTIAL" in wrong.value.told["message"]
        client.register("SELECT n FROM s")

        def counted(amount: str, active: str) -> float | None:
            labels = {"amount": amount, "active": active}
            return service.service._metrics.registry.get_sample_value("psoup_queries_by_amount", labels)

        assert [counted(amount, "true") for amount in ("none", "partial", "complete")] == [5, 1, 0]
        assert [counted(amount, "false") for amount in ("none", "partial", "complete")] == [0, 0, 1]


@pytest.mark.long
def test_a_call_takes_at_most_131_072_ids() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s")
        all_ids = queries.UnregisterManyRequest(query_ids=[query] * 131_072)
        more = queries.UnregisterManyRequest(query_ids=[query] * 131_072, dry_run=True)
        assert (await refused(wire.queries.UnregisterMany(more), INVALID)).reason == "NOT_PROTOBUF"
        alter = queries.AlterQueriesRequest(query_ids=[query] * 131_071, active=False)
        assert (await wire.queries.AlterQueries(alter)).changed == 1
        alter.dry_run = True
        assert (await refused(wire.queries.AlterQueries(alter), INVALID)).reason == "NOT_PROTOBUF"
        assert (await wire.queries.UnregisterMany(all_ids)).count == 1

    run(script)
