"""T28: what is another tenant's is, for every method and every role, what is not there: to the byte.

    every method of the descriptors x {nobody, reader, registrar, producer, owner, operator} x {foreign, missing, own}

Requests are filled by the names of their fields. One service, shared; each method is asked once by each role.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from psoup_proto.v1 import admin_pb2 as admin
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import staging_pb2 as staging
from psoup_proto.v1 import streams_pb2 as streams
from psoup_proto.v1 import sync_pb2 as sync
from psoup_proto.v1 import webhooks_pb2 as webhooks
from psoup_service.gate.roles import ALLOWED, OF_THE_SERVICE, ROLES
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.gated_service import Door, descriptors
from psoup_testing.services.wire import Wire, ipc, refusal_of, run

pytestmark = [
    pytest.mark.seeded("the role is not looked at"),
    pytest.mark.seeded("a method about all tenants is for every operator"),
    pytest.mark.seeded("a query, a key, a stream or a stage is found whoever asks"),
    pytest.mark.seeded("everybody is of the tenant `default`"),
    pytest.mark.seeded("an operator revokes tokens of other tenants"),
    pytest.mark.seeded("a tenant is found by its name whoever asks"),
]

ROW = ipc(pa.table({"x": [1]}))
URL = "http://127.0.0.1:1/changes"
"""A port that refuses connections."""
NOBODY = "nobody"
DENIED, UNKNOWN = "PERMISSION_DENIED", "UNAUTHENTICATED"
GONE_AFTER = ("Drop", "Remove", "Unregister", "Revoke", "Abort", "Commit", "AddPart", "Execute", "BeginStage")
"""How methods begin after which their object is gone, or another one."""
ABOUT_NOTHING = frozenset(
    {
        "StreamService/ListStreams",
        "QueryService/WaitForSequence",
        "ServerService/GetServerInfo",
        "Health/Check",
        "Health/Watch",
        "ServerReflection/ServerReflectionInfo",
    }
)
"""Methods that name nothing of a tenant."""
DONE_ANYHOW = "StagingService/AbortStage"
"""To end what is not there is no error."""
CHANGING = re.compile(r"(sequence|clock|seconds|nanos|request_id|start_time): .*")


@dataclass(frozen=True)
class Things:
    """One of each, by the names of the fields that ask for it."""

    tenant: str
    stream: str
    stream_id: str
    query_id: str
    key: str
    label: str
    stage: str
    token_id: str
    webhook_id: str
    sequence: int

    def ids(self) -> tuple[str, ...]:
        """The texts that the service made."""
        return self.stage, self.webhook_id, self.query_id, self.stream_id, self.token_id

    def hidden(self, text: str) -> str:
        """A text in which its names are replaced, as every answer says what it was asked for."""
        for value in (*self.ids(), self.stream, self.key, self.tenant):
            text = re.sub(f"{re.escape(value)}(?![0-9])", "…", text)
        return text

    def statement(self, method: str) -> str:
        """A statement about its stream, for a method."""
        begin = {"Create": "CREATE STREAM {} (x BIGINT)", "Alter": "ALTER STREAM {} ADD COLUMN IF NOT EXISTS y BIGINT"}
        form = begin.get(method.removesuffix("Stream"), "SELECT x FROM {}")
        return f"DROP STREAM {self.stream} CASCADE" if method == "Execute" else form.format(self.stream)

    def value(self, field: FieldDescriptor, method: MethodDescriptor) -> Any:
        """What a field of a request says; None to leave it out."""
        about_tenants = "Tenant" in method.name
        known = {
            "name": self.tenant if about_tenants else self.stream,
            "statement": self.statement(method.name),
            "statements": [self.statement(method.name)],
            "query_ids": [self.query_id],
            "wants": [sync.Want(query_id=self.query_id)],
            "quotas": admin.Quotas(queries=1_000),
            "directory": "history-1",
            "time": Timestamp(seconds=1),
            "roles": ["reader"],
            "producer": "p",
            "job": "j",
            "url": URL,
            "part": "a",
            "arrow_ipc": ROW,
            "rows": b'[{"x": 1}]' if method.name == "PushRows" else 1,
            "tuple_ids": [0],
            "end_id": 1,
            "last": 1,
            "cascade": True,
            "amount": queries.AMOUNT_NONE,
        }
        about_webhooks = method.containing_service.name == "WebhookService"
        return known.get(field.name, vars(self).get(field.name) if field.name != "key" or about_webhooks else None)

    def requests(self, method: MethodDescriptor) -> Iterator[tuple[str, Message]]:
        """The requests of a method, each with what it goes by: the ID of a query, its number, its key, or labels."""
        make = GetMessageClass(method.input_type)
        fields = method.input_type.fields_by_name
        plain = {name: value for name, field in fields.items() if (value := self.value(field, method)) is not None}
        without = {name: value for name, value in plain.items() if name not in ("query_id", "query_ids")}
        labelled = "labels" in fields and method.name not in ("Register",)
        yield "ID", make(**plain)
        if "query_id" in fields and "key" in fields:
            yield "key", make(**without, key=self.key)
        if "query_ids" in fields and "keys" in fields:
            yield "key", make(**without, keys=[self.key])
        if "key_prefix" in fields:
            yield "key", make(**without, key_prefix=self.key)
        if "numbers" in fields:
            prefix, dash, number = self.query_id.rpartition("-")
            yield "number", make(**without, numbers=[int(number)], query_id_prefix=prefix + dash)
            some = queries.QueryRange(query_id_prefix=prefix + dash, first=int(number), count=1)
            yield "range", make(**without, ranges=[some])
        if labelled:
            yield "label", make(**without, labels={"user": self.label})


class Tenants:
    """A service with two tenants that have the same, and all roles of the first."""

    def __init__(self, door: Door) -> None:
        self.door, self.wire = door, door.wire
        self.roles: dict[str, Any] = {NOBODY: ()}
        self.made = 0

    async def begin(self) -> Things:
        """Make both; returns what the other one has."""
        for name in ("acme", "rival"):
            await self.door.admin.CreateTenant(admin.CreateTenantRequest(name=name), metadata=self.door.operator)
        for role in ROLES:
            self.roles[role] = (await self.door.issue(role, tenant="acme"))[1]
        self.owner = {"acme": (await self.door.issue("owner", tenant="acme"))[1]}
        self.owner["rival"] = (await self.door.issue("owner", tenant="rival"))[1]
        return await self.things("rival")

    async def things(self, tenant: str) -> Things:
        """New things of a tenant."""
        self.made += 1
        stream, key, owner = f"{tenant}s{self.made}", f"{tenant}k{self.made}", self.owner[tenant]
        create = streams.CreateStreamRequest(statement=f"CREATE STREAM {stream} (x BIGINT)")
        made = await self.wire.streams.CreateStream(create, metadata=owner)
        register = queries.RegisterRequest(statement=f"SELECT x FROM {stream}", key=key, labels={"user": key})
        query = (await self.wire.queries.Register(register, metadata=owner)).query.query_id
        push = ingest.PushRequest(stream=stream, arrow_ipc=ROW, producer="p")
        pushed = await self.wire.ingest.Push(push, metadata=owner)
        begin = staging.BeginStageRequest(stream=stream, producer="p", number=1)
        stage = (await self.wire.staging.BeginStage(begin, metadata=owner)).stage
        token_id, _ = await self.door.issue("reader", tenant=tenant)
        add = webhooks.AddWebhookRequest(key=key, url=URL)
        webhook = (await self.wire.webhooks.AddWebhook(add, metadata=owner)).webhook.webhook_id
        ids = made.stream.stream_id, query, key, key, stage, token_id, webhook
        return Things(tenant, stream, *ids, pushed.sequence)

    async def ask(self, method: MethodDescriptor, role: str, request: Message, things: Things) -> str:
        """What a call says: its code, message and details, or its first reply."""
        service = method.containing_service
        metadata = list(self.roles[role])
        if service.name == "IngestService" and role != NOBODY:
            metadata.append(("psoup-stream-bin", things.stream.encode()))
        reply_of = GetMessageClass(method.output_type)
        path = f"/{service.full_name}/{method.name}"
        call = self.wire.channel.unary_stream(path)(request.SerializeToString(), metadata=metadata, timeout=60)
        try:
            raw = await call.read()
            if raw is grpc.aio.EOF:
                return f"{await call.code()}"
            return things.hidden(CHANGING.sub("", told(reply_of.FromString(raw))))
        except grpc.aio.AioRpcError as problem:
            said = refusal_of(problem)
            return things.hidden(f"{said.code.name} {said.message} {said.details}")
        finally:
            call.cancel()


def told(reply: Message) -> str:
    """A reply as text; that of Sync has its outcomes inside."""
    if isinstance(reply, sync.SyncResponse | sync.WatchResponse):
        return "\n".join(map(str, sync.SyncBody.FromString(reply.body).outcomes))
    return str(reply)


def missing(theirs: Things) -> Things:
    """What is nobody's, in names as long as theirs."""
    swap = {name: value.replace("rival", "empty") for name, value in vars(theirs).items() if isinstance(value, str)}
    number = re.compile(r"[0-9]+$")
    ids = {name: number.sub("987", getattr(theirs, name)) for name in ("query_id", "stream_id")}
    stage = b64encode(b64decode(theirs.stage, b"-_").replace(b"rival", b"empty"), b"-_").decode()
    return replace(theirs, **{**swap, **ids, "stage": stage, "token_id": "nosuchtokn"})


class Compared:
    """What each call says of what is another's, of what is nobody's, and of what is the caller's own."""

    def __init__(self, tenants: Tenants, theirs: Things, own: Things) -> None:
        self._tenants, self._theirs, self._none, self._own = tenants, theirs, missing(theirs), own
        self.asked, self.wrong, self.met = 0, list[str](), set[str]()

    async def ask(self, name: str, method: MethodDescriptor, role: str) -> None:
        """Make all requests of a method as one role."""
        closed = role not in ALLOWED[name] or name in OF_THE_SERVICE
        for by, request in self._theirs.requests(method):
            if by != "ID" and closed:
                continue
            where = f"{name} as {role} by {by}"
            foreign = await self._tenants.ask(method, role, request, self._theirs)
            nothing = await self._tenants.ask(method, role, dict(self._none.requests(method))[by], self._none)
            self.asked += 2
            if closed and name != "Health/Check" and not foreign.startswith(UNKNOWN if role == NOBODY else DENIED):
                self.wrong.append(f"{where} is let in: {foreign}")
            if not closed and foreign.startswith((UNKNOWN, DENIED)):
                self.wrong.append(f"{where} is refused: {foreign}")
            if foreign != nothing and method.name != "CreateStream":
                self.wrong.append(f"{where}:\n  foreign {foreign}\n  missing {nothing}")
            if not closed and name not in ABOUT_NOTHING and name != DONE_ANYHOW:
                await self._ask_own(where, method, role, by, nothing)
                self.met.add(name)

    async def _ask_own(self, where: str, method: MethodDescriptor, role: str, by: str, nothing: str) -> None:
        mine = await self._tenants.ask(method, role, dict(self._own.requests(method))[by], self._own)
        self.asked += 1
        if mine == nothing:
            self.wrong.append(f"{where}: the caller's own is as little there: {mine}")
        if method.name.startswith(GONE_AFTER):
            self._own = await self._tenants.things("acme")


@pytest.mark.long
def test_what_is_anothers_is_what_is_not_there_for_every_method_and_role(tmp_path: Path) -> None:
    async def script(wire: Wire) -> None:
        tenants = Tenants(await Door(wire).begin())
        theirs = await tenants.begin()
        compared = Compared(tenants, theirs, await tenants.things("acme"))
        methods = sorted(descriptors().items(), key=lambda item: item[1].name == "CreateStream")
        for name, method in methods:
            for role in (NOBODY, *ROLES):
                await compared.ask(name, method, role)
        assert not compared.wrong, "\n".join(compared.wrong)
        assert compared.met == {*ALLOWED} - OF_THE_SERVICE - ABOUT_NOTHING - {DONE_ANYHOW}
        assert compared.asked > 16 * len(methods)
        rivals = await wire.queries.ListQueries(queries.ListQueriesRequest(), metadata=tenants.owner["rival"])
        assert [query.query_id for query in rivals.queries] == [theirs.query_id], "nothing of theirs has changed"

    run(script, Settings(port=0, webhook_hosts=("http://127.0.0.1:1",)), store=DurableStore(tmp_path / "data"))
