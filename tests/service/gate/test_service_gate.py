"""The gate: accepted callers, the calls of each role, and revocation at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup.errors import PermissionDenied, Unavailable
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_proto.v1 import admin_pb2 as admin
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import staging_pb2 as staging
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.gate import credentials
from psoup_service.gate.new_token import issued
from psoup_service.gate.principal import EVERYBODY, STRANGER
from psoup_service.gate.roles import ALLOWED, ANYBODY, OF_THE_SERVICE, OPERATOR, ROLES, may
from psoup_service.gate.tokens import id_of, new_token
from psoup_service.process.settings import Settings
from psoup_service.service import Service
from psoup_service.servicers.admin import AdminServicer
from psoup_storage import DurableStore
from psoup_storage.durable.first_token import issue_offline
from psoup_testing.services.gated_service import Door, behind, methods
from psoup_testing.services.wire import Wire, ipc, refused, run

DENIED, UNKNOWN = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.seeded("a method that is not in the table is for everybody")
@pytest.mark.seeded("F19: health and reflection are beside the gate")
def test_the_table_has_a_row_for_every_method_that_is_served_and_no_other() -> None:
    assert ALLOWED.keys() == methods().keys()
    assert {role for roles in ALLOWED.values() for role in roles} == {*ROLES, ANYBODY}
    assert [name for name, roles in ALLOWED.items() if ANYBODY in roles] == ["Health/Check"]
    assert not may([*ROLES, ANYBODY], "StreamService/NotInTheTable")
    for_all = {name for name, roles in ALLOWED.items() if name.startswith("Admin") and roles != {OPERATOR}}
    assert for_all == {"AdminService/GetTenant", "AdminService/TenantUsage"}
    assert all(ALLOWED[name] == {OPERATOR} for name in OF_THE_SERVICE)


@pytest.mark.seeded("the role is not looked at")
@pytest.mark.seeded("F3: nobody is asked who he is")
def test_every_method_is_asked_once_by_every_role_and_by_nobody() -> None:
    async def code(channel: grpc.aio.Channel, path: str, metadata: Any) -> grpc.StatusCode | None:
        """How a call with an empty request ends; None if it gives a message."""
        call = channel.unary_stream(path)(b"", metadata=metadata, timeout=60)
        try:
            return None if await call.read() is not grpc.aio.EOF else await call.code()
        except grpc.aio.AioRpcError as problem:
            return problem.code()
        finally:
            call.cancel()

    async def script(door: Door) -> None:
        tokens = {role: (await door.issue(role))[1] for role in ROLES}
        for name, path in methods().items():
            for role, metadata in (*tokens.items(), (ANYBODY, ())):
                said = await code(door.wire.channel, path, metadata)
                refusal = UNKNOWN if role == ANYBODY else DENIED
                if role in ALLOWED[name]:
                    assert said not in (UNKNOWN, DENIED), f"{name} refuses {role}"
                else:
                    assert said == refusal, f"{name} lets {role} in: {said}"

    behind(script)


@pytest.mark.seeded("a first token is issued though one stands")
def test_a_service_without_a_token_asks_nobody_and_one_with_a_token_everybody() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        door = await Door(wire).begin()
        problem = await refused(door.list(()), UNKNOWN)
        assert (problem.reason, "psoup token issue" in problem.message) == ("NO_CREDENTIAL", True)
        _, reader = await door.issue("reader")
        assert [s.name for s in (await door.list(reader)).streams] == ["s"]
        again = door.admin.IssueToken(
            admin.IssueTokenRequest(name="x", roles=[OPERATOR], first=True), metadata=door.operator
        )
        assert (await refused(again, grpc.StatusCode.ALREADY_EXISTS)).reason == "TOKENS_EXIST"

    run(script)


def test_refusals_say_the_same_of_what_is_there_and_what_is_not() -> None:
    async def script(door: Door) -> None:
        _, owner = await door.issue("owner")
        _, producer = await door.issue("producer", streams=["m*"])
        create = streams.CreateStreamRequest(statement="CREATE STREAM secret (x BIGINT)")
        await door.wire.streams.CreateStream(create, metadata=owner)

        async def told(name: str, metadata: Any, code: grpc.StatusCode) -> str:
            asked = door.wire.streams.GetStream(streams.GetStreamRequest(name=name), metadata=metadata)
            pushed = door.wire.ingest.Push(
                ingest.PushRequest(stream=name), metadata=(*metadata, ("psoup-stream-bin", name.encode()))
            )
            return "".join([(await refused(call, code)).message.replace(name, "?") for call in (asked, pushed)])

        assert await told("secret", (), UNKNOWN) == await told("nowhere", (), UNKNOWN)
        missing = grpc.StatusCode.NOT_FOUND
        assert await told("secret", producer, missing) == await told("nowhere", producer, missing)

    behind(script)


@pytest.mark.seeded("a producer's patterns are not looked at, or not in a stream's messages")
def test_a_producer_pushes_to_the_streams_of_its_patterns_alone() -> None:
    async def script(door: Door) -> None:
        _, owner = await door.issue("owner")
        _, producer = await door.issue("producer", streams=["Meters_*"])
        for name in ("meters_1", "other"):
            create = streams.CreateStreamRequest(statement=f"CREATE STREAM {name} (x BIGINT)")
            await door.wire.streams.CreateStream(create, metadata=owner)
        get = door.wire.streams.GetStream
        found = await get(streams.GetStreamRequest(name="METERS_1"), metadata=producer)
        assert found.stream.name == "meters_1"
        await refused(get(streams.GetStreamRequest(name="other"), metadata=producer), grpc.StatusCode.NOT_FOUND)
        beat = ingest.HeartbeatRequest(stream="other")
        await refused(door.wire.ingest.Heartbeat(beat, metadata=producer), grpc.StatusCode.NOT_FOUND)
        call = door.wire.ingest.PushStream(iter([ingest.PushStreamRequest(stream="other")]), metadata=producer)
        await refused(call.read(), grpc.StatusCode.NOT_FOUND)

    behind(script)


@pytest.mark.seeded(
    "a producer's patterns are not looked at, or not in a stream's messages or not of the stream of a stage"
)
def test_a_producer_has_no_part_in_stages_of_streams_that_are_none_of_his() -> None:
    """Who knew its name could add to a batch of another stream, commit it, and ask what became of one."""

    async def script(door: Door) -> None:
        _, owner = await door.issue("owner", "producer")
        _, producer = await door.issue("producer", streams=["meters_*"])
        calls, missing = door.wire.staging, grpc.StatusCode.NOT_FOUND
        create = streams.CreateStreamRequest(statement="CREATE STREAM other (x BIGINT)")
        await door.wire.streams.CreateStream(create, metadata=owner)
        begin = staging.BeginStageRequest(stream="other", producer="p")
        stage = (await calls.BeginStage(begin, metadata=owner)).stage
        part = staging.AddPartRequest(stage=stage, part="1", arrow_ipc=ipc(pa.table({"x": [1]})))
        commit, abort = staging.CommitStageRequest(stage=stage), staging.AbortStageRequest(stage=stage)
        await refused(calls.AddPart(part, metadata=producer), missing)
        await calls.AddPart(part, metadata=owner)
        await refused(calls.CommitStage(commit, metadata=producer), missing)
        await refused(calls.AbortStage(abort, metadata=producer), missing)
        assert (await calls.CommitStage(commit, metadata=owner)).outcome.accepted == 1
        await refused(calls.CommitStage(commit, metadata=producer), missing)

    behind(script)


@pytest.mark.seeded("a revoked token stands")
@pytest.mark.seeded("calls under way go on after it is revoked")
def test_revocation_holds_at_once_also_for_calls_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "EVERY_S", 3_600.0)

    async def script(door: Door) -> None:
        token_id, reader = await door.issue("reader")
        watching = door.wire.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", metadata=reader)
        assert await watching.read() == b"\x08\x01"
        await door.admin.RevokeToken(admin.RevokeTokenRequest(token_id=token_id), metadata=door.operator)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await asyncio.wait_for(watching.read(), 60)
        assert ended.value.code() == UNKNOWN
        assert (await refused(door.list(reader), UNKNOWN)).reason == "TOKEN_INVALID"
        again = door.admin.RevokeToken(admin.RevokeTokenRequest(token_id=token_id), metadata=door.operator)
        await refused(again, grpc.StatusCode.NOT_FOUND)

    behind(script)


@pytest.mark.seeded("an expired token lets in")
@pytest.mark.seeded("calls under way go on after its end")
def test_a_token_ends_at_its_time_also_for_calls_under_way() -> None:
    clock = VirtualClock(1_000 * SECOND)

    async def script(door: Door) -> None:
        _, reader = await door.issue("reader", seconds=60)
        watching = door.wire.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", metadata=reader)
        assert await watching.read() == b"\x08\x01"
        clock.advance(seconds=59.9)
        door.wire.service.gate.look()
        await door.list(reader)
        clock.advance(seconds=0.1)
        assert (await refused(door.list(reader), UNKNOWN)).reason == "TOKEN_EXPIRED"
        door.wire.service.gate.look()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await asyncio.wait_for(watching.read(), 60)
        assert ended.value.code() == UNKNOWN

    behind(script, clock)


class Asking:
    """A caller with these metadata, from another machine."""

    def __init__(self, authorization: str = "") -> None:
        self._authorization, self.principal = authorization, EVERYBODY

    def authorization(self) -> str:
        return self._authorization

    def certificate_names(self) -> tuple[str, ...]:
        return ()

    def certificate_ends(self) -> int:
        return 0

    def local(self) -> bool:
        return False

    def peer(self) -> str:
        return "ipv4:10.0.0.1:5"

    def about(self) -> str:
        return ""


@pytest.mark.seeded("a first token is issued to another machine")
def test_other_machines_cannot_make_the_first_token() -> None:
    async def script(wire: Wire) -> None:
        service = wire.service
        servicer = AdminServicer(service._backend, service.gate, service.regular.promotion.steps)
        for first in (True, False):
            request = admin.IssueTokenRequest(name="x", roles=[OPERATOR], first=first)
            with pytest.raises(PermissionDenied, match="on the service's machine alone"):
                await servicer.IssueToken(request, Asking())

    run(script)


@pytest.mark.seeded("a service that starts lets everybody in until it knows its tokens")
def test_nobody_comes_in_before_it_is_known_which_tokens_stand(tmp_path: Path) -> None:
    secret, token = issued("op", [OPERATOR])
    issue_offline(tmp_path, token)
    service = Service(Settings(port=0), store=DurableStore(tmp_path))  # and it has not started
    for authorization in ("", f"Bearer {secret}"):
        with pytest.raises(Unavailable, match="starting"):
            service.gate.admit("ServerService/GetServerInfo", Asking(authorization))
    assert service.gate.admit("Health/Check", Asking()) is STRANGER
    asyncio.run(service._release())


def forged(secret: str) -> Iterator[str]:
    """Every piece of a token, and the token with each sign changed."""
    yield from (secret[:length] for length in range(len(secret)))
    for place, sign in enumerate(secret):
        yield secret[:place] + ("A" if sign != "A" else "B") + secret[place + 1 :]
    yield from (secret + "A", f" {secret}", secret.lower(), secret.upper(), new_token()[0], "é", "Bearer")


@pytest.mark.seeded("digests are compared by ==")
@pytest.mark.seeded("the ID of a token is enough")
def test_no_forged_token_is_let_in_and_digests_are_compared_once_and_in_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[int, int]] = []
    compare = credentials.hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    async def script(door: Door) -> None:
        _, reader = await door.issue("reader")
        gate, secret = door.wire.service.gate, reader[0][1].removeprefix("Bearer ")

        monkeypatch.setattr(credentials.hmac, "compare_digest", counting)
        forms = [*forged(secret)]
        for text in forms:
            with pytest.raises(credentials.Unauthenticated):
                gate.admit("StreamService/ListStreams", Asking(f"Bearer {text}"))
        for text in (secret, f"bearer {secret}", f"Basic {secret}", ""):
            with pytest.raises(credentials.Unauthenticated):
                gate.admit("StreamService/ListStreams", Asking(text))
        assert gate.admit("StreamService/ListStreams", Asking(f"Bearer {secret}")).name == "reader"
        assert compared == [(32, 32)] * (len(forms) + 4)

    behind(script)


@pytest.mark.seeded("the tenant is what the metadata say")
def test_whoever_says_he_is_another_is_who_his_token_says() -> None:
    async def script(door: Door) -> None:
        _, owner = await door.issue("owner")
        create = streams.CreateStreamRequest(statement="CREATE STREAM s (x BIGINT)")
        await door.wire.streams.CreateStream(create, metadata=owner)
        _, reader = await door.issue("reader")
        claims = tuple(
            (f"{before}{name}", "other") for name in ("tenant", "principal") for before in ("", "psoup-", "x-")
        )
        assert [s.name for s in (await door.list((*reader, *claims))).streams] == ["s"]
        roles = (("role", "owner"), ("psoup-role", "owner"), ("psoup-roles", "owner"))
        await refused(door.wire.streams.CreateStream(create, metadata=(*reader, *roles)), DENIED)
        await refused(door.list((*reader, *reader)), UNKNOWN)

    behind(script)


def test_tokens_are_told_in_pages_without_their_secrets() -> None:
    async def script(door: Door) -> None:
        for role in ROLES[:4]:
            await door.issue(role)
        names, token = list[str](), ""
        while True:
            request = admin.ListTokensRequest(page_size=2, page_token=token)
            page = await door.admin.ListTokens(request, metadata=door.operator)
            names += [each.name for each in page.tokens]
            token = page.next_page_token
            if not token:
                break
        assert sorted(names) == sorted(["op", *ROLES[:4]])
        secret = door.operator[0][1].removeprefix("Bearer ")
        assert secret[16:] not in str(page)
        assert id_of(secret) is not None

    behind(script)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"roles": []}, "roles"),
        ({"roles": ["reader", "king"]}, "roles"),
        ({"roles": ["reader"], "streams": ["a*"]}, "streams"),
        ({"roles": ["producer"], "streams": ["a b"]}, "streams"),
        ({"roles": ["producer"], "streams": ["a"] * 17}, "streams"),
        ({"seconds": -5}, "expires"),
        ({"seconds": 2**62}, "seconds"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_issued(given: dict[str, Any], field: str) -> None:
    async def script(door: Door) -> None:
        request = admin.IssueTokenRequest(**{"name": "n", "roles": ["reader"], **given})
        problem = await refused(
            door.admin.IssueToken(request, metadata=door.operator), grpc.StatusCode.INVALID_ARGUMENT
        )
        assert problem.facts["field"] == field

    behind(script)
