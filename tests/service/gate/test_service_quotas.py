"""Quotas that the service judges, over the wire: a refusal says which, how much is used, and when to come again.

The one of `default`, as of every tenant without quotas, is never refused; what a tenant uses up is nobody else's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from prometheus_client import generate_latest

from psoup.admission.rows.producers import ACKNOWLEDGEMENT_BYTES, PRODUCER_BYTES
from psoup_proto.v1 import admin_pb2 as admin
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import queries_pb2_grpc, sync_pb2_grpc
from psoup_proto.v1 import staging_pb2 as staging
from psoup_proto.v1 import statements_pb2 as statements
from psoup_proto.v1 import streams_pb2 as streams
from psoup_proto.v1 import sync_pb2 as sync
from psoup_service.process.settings import Settings
from psoup_testing.services.gated_service import Door, behind
from psoup_testing.services.whole_replies import make_whole
from psoup_testing.services.wire import Wire, ipc, refused, run

FULL = grpc.StatusCode.RESOURCE_EXHAUSTED
MIB = 1024 * 1024
ROWS = ipc(pa.table({"x": list(range(1_000))}))


async def tenant(door: Door, name: str, **quotas: float) -> Any:
    """A tenant with these quotas and no other, and a stream; returns what its owner brings."""
    await door.admin.CreateTenant(admin.CreateTenantRequest(name=name), metadata=door.operator)
    _, owner = await door.issue("owner", tenant=name)
    create = streams.CreateStreamRequest(statement="CREATE STREAM s (x BIGINT)")
    await door.wire.streams.CreateStream(create, metadata=owner)
    none = dict.fromkeys((field.name for field in admin.Quotas.DESCRIPTOR.fields if field.name != "weight"), 0)
    changes = admin.AlterTenantRequest(name=name, quotas=admin.Quotas(**{**none, **quotas}))
    await door.admin.AlterTenant(changes, metadata=door.operator)
    return owner


def pushed(door: Door, owner: Any) -> Any:
    return door.wire.ingest.Push(ingest.PushRequest(stream="s", arrow_ipc=ROWS), metadata=owner)


def test_calls_beyond_the_quota_are_refused_and_a_neighbours_are_not() -> None:
    async def script(door: Door) -> None:
        loud, quiet = await tenant(door, "loud", calls_per_second=0.01), await tenant(door, "quiet")
        refusal = await refused(_until_refused(lambda: door.list(loud)), FULL)
        assert refusal.reason == "QUOTA"
        assert (refusal.facts["quota"], refusal.facts["tenant"], refusal.facts["limit"]) == (
            "calls_per_second",
            "loud",
            "0.01",
        )
        assert refusal.message.startswith(
            "tenant 'loud' has used up its quota calls_per_second of 0.01 a second: come "
        )
        assert re.search(r"come again in (1 min )?\d+ s, when its use is paid for, or ask", refusal.message)
        [violation] = refusal.details["QuotaFailure"].violations
        assert violation.subject == "calls_per_second"
        assert 1 < refusal.details["RetryInfo"].retry_delay.seconds <= 100
        for _ in range(5):
            await door.list(quiet)
            await door.list(door.operator)

    behind(script)


async def _until_refused(call: Any) -> None:
    for _ in range(3):
        await call()


def test_who_has_few_calls_open_finds_a_place_where_others_have_taken_all() -> None:
    async def body(wire: Wire) -> None:
        door = await Door(wire).begin()
        loud, quiet = await tenant(door, "loud"), await tenant(door, "quiet")
        copies = sync_pb2_grpc.SyncServiceStub(wire.channel)

        async def opened(who: Any) -> Any:
            call = wire.ingest.PushStream(_one_and_no_end(), metadata=who)
            await call.read()
            return call

        async def watched(who: Any) -> Any:
            register = queries.RegisterRequest(statement="SELECT x FROM s")
            made = await wire.queries.Register(register, metadata=who)
            call = copies.Watch(sync.WatchRequest(wants=[sync.Want(query_id=made.query.query_id)]), metadata=who)
            await call.read()
            return call

        watches = [await watched(loud) for _ in range(2)]
        assert (await refused(watched(loud), FULL)).reason == "TOO_MANY_WATCHERS"
        watches.append(await watched(quiet))
        calls = [await opened(loud) for _ in range(3)]
        assert (await refused(opened(loud), FULL)).reason == "TOO_MANY_CALLS"
        await door.list(quiet)
        await pushed(door, quiet)
        calls.append(await opened(quiet))
        assert (await refused(opened(quiet), FULL)).reason == "TOO_MANY_CALLS", "one has its own places, too"
        await door.list(door.operator)
        for call in (*watches, *calls):
            call.cancel()

    run(body, Settings(port=0, concurrent_calls=3, watchers=2))


def test_sorts_of_one_tenant_that_are_not_read_leave_room_for_those_of_another() -> None:
    async def body(wire: Wire) -> None:
        door = await Door(wire).begin()
        loud, quiet = await tenant(door, "loud"), await tenant(door, "quiet")
        create = streams.CreateStreamRequest(statement="CREATE STREAM big (x BIGINT, t TEXT)")
        await wire.streams.CreateStream(create, metadata=loud)
        rows = ipc(pa.table({"x": list(range(65_536)), "t": ["t" * 200] * 65_536}))
        many = ingest.PushRequest(stream="big", arrow_ipc=rows)
        reached = [(await wire.ingest.Push(many, metadata=loud)).sequence, (await pushed(door, quiet)).sequence]
        ids = []
        for who, sql in ((loud, "SELECT * FROM big ORDER BY x DESC"), (quiet, "SELECT x FROM s ORDER BY x DESC")):
            made = await wire.queries.Register(queries.RegisterRequest(statement=sql), metadata=who)
            ids.append(made.query.query_id)

        async def unread() -> None:
            asked = queries.InvokeStreamRequest(query_id=ids[0], min_sequence=reached[0])
            calls.append(stub.InvokeStream(asked, metadata=loud))
            for _ in range(2):  # the schema comes before there is a sort
                await calls[-1].read()

        calls: list[Any] = []

        async def unread_until_refused() -> None:
            for _ in range(12):
                await unread()

        small = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
        async with grpc.aio.insecure_channel(wire.service.address, small) as channel:
            stub = queries_pb2_grpc.QueryServiceStub(channel)
            refusal = await refused(unread_until_refused(), FULL)
            assert (refusal.reason, refusal.facts["limit"]) == ("SORTS_BUDGET", str(2 * MIB + 2 * MIB // 3))
            asked = queries.InvokeRequest(query_id=ids[1], min_sequence=reached[1])
            assert (await wire.queries.Invoke(asked, metadata=quiet)).rows == 1_000
        assert await wire.service._calls.under_way.finished(60)
        assert wire.service.host.counters()["sort_bytes"] == 0

    run(body, Settings(port=0, sorts_mib=4))


async def _one_and_no_end() -> AsyncIterator[ingest.PushStreamRequest]:
    yield ingest.PushStreamRequest(stream="s", arrow_ipc=ROWS)
    await asyncio.Event().wait()


def test_pushed_bytes_are_paid_before_the_next_push() -> None:
    async def script(door: Door) -> None:
        owner, other = await tenant(door, "acme", pushed_bytes_per_second=1), await tenant(door, "umbra")
        await pushed(door, owner)
        refusal = await refused(pushed(door, owner), FULL)
        assert (refusal.facts["quota"], refusal.facts["limit"]) == ("pushed_bytes_per_second", "1")
        assert refusal.details["RetryInfo"].retry_delay.seconds > 1_000
        await door.list(owner)
        await pushed(door, other)

    behind(script)


def test_matches_are_paid_before_the_next_push_and_shown_to_those_who_pay() -> None:
    async def script(door: Door) -> None:
        owner, other = await tenant(door, "acme", matches_per_second=2), await tenant(door, "umbra")
        for who in (owner, other):
            register = queries.RegisterRequest(statement="SELECT x FROM s WHERE x >= 400")
            await door.wire.queries.Register(register, metadata=who)
            done = await pushed(door, who)
            ask = queries.MatchesManyRequest(stream="s", tuple_ids=[0], min_sequence=done.sequence)
            await door.wire.queries.MatchesMany(ask, metadata=who)
        refusal = await refused(pushed(door, owner), FULL)
        assert (refusal.facts["quota"], refusal.facts["limit"]) == ("matches_per_second", "2")
        assert 250 < refusal.details["RetryInfo"].retry_delay.seconds <= 300
        await pushed(door, other)

        async def used(name: str) -> Any:
            request = admin.TenantUsageRequest(name=name)
            return (await door.admin.TenantUsage(request, metadata=door.operator)).used

        assert (await used("acme")).matches_per_second > 50
        assert not (await used("umbra")).HasField("matches_per_second")

    behind(script)


@pytest.mark.seeded(
    "questions of a new form are bound without looking at the quota of registrations, or the "
    "first words of a long statement are"
)
def test_questions_of_new_forms_are_paid_with_the_time_of_registrations() -> None:
    async def script(door: Door) -> None:
        owner, other = await tenant(door, "acme", prepare_share=1e-6), await tenant(door, "umbra")

        async def ask(sql: str, who: Any) -> Any:
            return await door.wire.statements.Ask(statements.AskRequest(statement=sql), metadata=who)

        async def execute(sql: str) -> Any:
            return await door.wire.statements.Execute(statements.ExecuteRequest(statement=sql), metadata=owner)

        known, terms = "SELECT x FROM s WHERE x > 7", " OR ".join(f"x = {number}" for number in range(800))
        await ask(known, owner)
        for call in (ask("SELECT x + 1 AS y FROM s", owner), ask(f"SELECT x FROM s WHERE {terms}", owner)):
            refusal = await refused(call, FULL)
            assert (refusal.facts["quota"], refusal.facts["limit"]) == ("prepare_share", "1e-06")
            assert "RetryInfo" in refusal.details
        await ask(known, owner)
        for sql in (f"SELECT x FROM s WHERE {terms}", f"DROP STREAM {'g' * 10_000}"):
            assert (await refused(execute(sql), FULL)).facts["quota"] == "prepare_share"
        await ask(f"SELECT x FROM s WHERE {terms}", other)
        await door.list(owner)

    behind(script)


@pytest.mark.seeded("pushes count as registrations in what a tenant has had of the processor")
def test_pushes_are_not_paid_with_the_time_of_registrations() -> None:
    async def script(door: Door) -> None:
        owner = await tenant(door, "acme", prepare_share=0.000_001)
        register = queries.RegisterRequest(statement="SELECT x FROM s WHERE x > 5")
        listed = queries.ListQueriesRequest()
        await door.wire.queries.ListQueries(listed, metadata=owner)
        usage = admin.TenantUsageRequest(name="acme")
        before = (await door.admin.TenantUsage(usage, metadata=door.operator)).used.prepare_share
        for _ in range(20):
            await pushed(door, owner)
        assert (await door.admin.TenantUsage(usage, metadata=door.operator)).used.prepare_share <= before
        await door.wire.queries.Register(register, metadata=owner)
        refusal = await refused(door.wire.queries.Register(register, metadata=owner), FULL)
        assert refusal.facts["quota"] == "prepare_share"

    behind(script)


def test_processor_time_of_answers_is_paid_by_those_who_ask() -> None:
    async def script(door: Door) -> None:
        owner, other = await tenant(door, "acme", read_share=1e-6), await tenant(door, "umbra")

        async def counted(who: Any, sequence: int = 0) -> Any:
            request = queries.MatchesManyRequest(stream="s", tuple_ids=[0], min_sequence=sequence)
            return await door.wire.queries.MatchesMany(request, metadata=who)

        for who in (owner, other):
            await counted(who, (await pushed(door, who)).sequence)
        refusal = await refused(counted(owner), FULL)
        assert refusal.facts["quota"] == "read_share"
        sql, wire = "SELECT x FROM s", door.wire
        for call in (
            wire.statements.Execute(statements.ExecuteRequest(statement=sql), metadata=owner),
            wire.queries.Check(queries.CheckRequest(statement=sql), metadata=owner),
        ):
            assert (await refused(call, FULL)).facts["quota"] == "read_share"
        await pushed(door, owner)
        await counted(other)

    behind(script)


def test_an_answer_tells_no_more_groups_apart_than_its_tenants_quota() -> None:
    async def script(door: Door) -> None:
        owner, other = await tenant(door, "acme", group_keys=999), await tenant(door, "umbra")

        async def asked(who: Any) -> int:
            sql = "SELECT x, count(*) AS n FROM s GROUP BY x"
            request = statements.AskRequest(statement=sql, min_sequence=reached[-1])
            return (await door.wire.statements.Ask(request, metadata=who)).rows

        reached = [(await pushed(door, who)).sequence for who in (owner, other)]
        refusal = await refused(asked(owner), FULL)
        assert (refusal.reason, refusal.facts["limit"]) == ("QUOTA", "999")
        assert "999 of the 999 that its quota group_keys allows" in refusal.message
        [violation] = refusal.details["QuotaFailure"].violations
        assert violation.subject == "group_keys"
        assert await asked(other) == 1_000

    behind(script)


def test_an_answer_of_many_beyond_the_quota_fails_alone_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    make_whole(monkeypatch)

    async def script(door: Door) -> None:
        owner, ids = await tenant(door, "acme", group_keys=0), list[str]()
        done = await pushed(door, owner)
        for text in ("SELECT x FROM s WHERE x < 3", "SELECT x, count(*) AS n FROM s GROUP BY x"):
            made = await door.wire.queries.Register(queries.RegisterRequest(statement=text), metadata=owner)
            ids.append(made.query.query_id)
        alone = queries.InvokeRequest(query_id=ids[1], min_sequence=done.sequence)
        for _ in range(2):
            await door.wire.queries.Invoke(alone, metadata=owner)
        less = admin.AlterTenantRequest(name="acme", quotas=admin.Quotas(group_keys=999))
        changed = await door.admin.AlterTenant(less, metadata=door.operator)
        alone.min_sequence = changed.sequence
        await refused(door.wire.queries.Invoke(alone, metadata=owner), FULL)
        many = await door.wire.queries.InvokeMany(queries.InvokeManyRequest(query_ids=ids), metadata=owner)
        wants = [sync.Want(query_id=name) for name in ids]
        copies = sync_pb2_grpc.SyncServiceStub(door.wire.channel)
        body = (await copies.Sync(sync.SyncRequest(wants=wants), metadata=owner)).body
        synced = sync.SyncBody.FromString(body).outcomes
        watch = copies.Watch(sync.WatchRequest(wants=wants), metadata=owner)
        watched = sync.SyncBody.FromString((await watch.read()).body).outcomes
        watch.cancel()
        table = door.wire.queries.InvokeTable(queries.InvokeTableRequest(query_ids=ids[1:]), metadata=owner)
        [failed] = [failure.failure for message in [each async for each in table] for failure in message.failures]
        for outcomes in (many.outcomes, synced, watched):
            assert [outcome.HasField("failure") for outcome in outcomes] == [False, True]
        for failure in (many.outcomes[1].failure, synced[1].failure, watched[1].failure, failed):
            assert (failure.reason, failure.facts["quota"], failure.facts["limit"]) == ("QUOTA", "group_keys", "999")
        scraped = generate_latest(door.wire.service._metrics.registry).decode()
        assert 'psoup_tenant_refused_total{quota="group_keys",tenant="acme"} 5.0' in scraped

    behind(script)


def test_stages_and_their_bytes_are_limited_each() -> None:
    async def script(door: Door) -> None:
        owner = await tenant(door, "acme", stages=1, staged_bytes=20_000)

        async def begun(producer: str) -> str:
            request = staging.BeginStageRequest(stream="s", producer=producer)
            return (await door.wire.staging.BeginStage(request, metadata=owner)).stage

        async def added(stage: str, part: str) -> Any:
            request = staging.AddPartRequest(stage=stage, part=part, arrow_ipc=ROWS)
            return await door.wire.staging.AddPart(request, metadata=owner)

        await begun("p")
        stage = await begun("p")
        refusal = await refused(begun("q"), FULL)
        assert (refusal.facts["quota"], refusal.facts["retry_after_ms"]) == ("stages", "1000"), "it may be committed"
        assert refusal.details["RetryInfo"].retry_delay.seconds == 1
        await added(stage, "1")
        refusal = await refused(added(stage, "2"), FULL)
        assert (refusal.facts["quota"], refusal.facts["limit"]) == ("staged_bytes", "20000")
        assert "RetryInfo" not in refusal.details, "this stage alone holds too much"
        usage = admin.TenantUsageRequest(name="acme")
        assert (await door.admin.TenantUsage(usage, metadata=door.operator)).used.staged_bytes > 4_096
        await door.wire.streams.DropStream(streams.DropStreamRequest(name="s"), metadata=owner)
        used = (await door.admin.TenantUsage(usage, metadata=door.operator)).used
        assert (used.stages, used.staged_bytes) == (0, 0), "they went with their stream"

    behind(script)


def test_requests_that_are_received_count_by_what_they_name() -> None:
    async def script(door: Door) -> None:
        owner = await tenant(door, "acme", receive_bytes=100_000)
        named = (*owner, ("psoup-size", "200000"))
        refusal = await refused(pushed(door, named), FULL)
        assert (refusal.facts["quota"], refusal.facts["needed"]) == ("receive_bytes", "200000")
        assert "RetryInfo" not in refusal.details, "it never fits"
        await pushed(door, (*owner, ("psoup-size", "60000")))

    behind(script)


def test_usage_tells_what_is_used_of_every_quota_to_those_who_may_know() -> None:
    async def script(door: Door) -> None:
        owner, other = await tenant(door, "acme", queries=10), await tenant(door, "umbra")
        await pushed(door, owner)
        register = queries.RegisterRequest(statement="SELECT x FROM s WHERE x > 5")
        await door.wire.queries.Register(register, metadata=owner)
        begin = staging.BeginStageRequest(stream="s", producer="p")
        stage = (await door.wire.staging.BeginStage(begin, metadata=owner)).stage
        await door.wire.staging.AddPart(staging.AddPartRequest(stage=stage, part="1", arrow_ipc=ROWS), metadata=owner)
        _, reader = await door.issue("reader", tenant="acme")

        async def usage(name: str, who: Any) -> Any:
            return await door.admin.TenantUsage(admin.TenantUsageRequest(name=name), metadata=who)

        told = await usage("", owner)
        assert (told.tenant.name, told.tenant.quotas.queries, told.used.queries) == ("acme", 10, 1)
        assert (told.used.streams, told.used.stages, told.used.open_calls, told.used.watchers) == (1, 1, 1, 0)
        assert min(told.used.tuple_bytes, told.used.staged_bytes) >= 8_000
        assert min(told.used.calls_per_second, told.used.pushed_bytes_per_second) > 0
        assert min(told.used.prepare_share, told.used.join_share) > 0
        quotas = {field.name for field in admin.Quotas.DESCRIPTOR.fields}
        unknown = {name for name in quotas if not told.used.HasField(name)}
        assert unknown == {"matches_per_second", "group_keys", "weight"}  # the first is not limited
        assert (await usage("umbra", door.operator)).used.queries == 0
        await refused(usage("umbra", owner), grpc.StatusCode.NOT_FOUND)
        await refused(usage("", reader), grpc.StatusCode.PERMISSION_DENIED)
        assert (await usage("", other)).used.tuple_bytes == 0
        before = (await usage("", owner)).used.tuple_bytes
        empty = ipc(pa.table({"x": pa.array([], pa.int64())}))
        await door.wire.ingest.Push(ingest.PushRequest(stream="s", arrow_ipc=empty, producer="q"), metadata=owner)
        assert (await usage("", owner)).used.tuple_bytes == before + PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES

    behind(script)
