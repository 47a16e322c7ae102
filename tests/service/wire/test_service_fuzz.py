"""Every call of the contract, found in its descriptors, with empty, random, torn and nearly right messages, or with
none before the caller leaves, and with four kinds of credentials.

A call ends well or with a documented code: never UNKNOWN, never INTERNAL, and the service answers afterwards.
"""

import base64
import json
import random
import string
import time
from collections.abc import Callable
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf import descriptor, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from psoup_proto.v1 import (
    admin_pb2,
    attach_pb2,
    backup_pb2,
    cover_pb2,
    follow_pb2,
    groups_pb2,
    ingest_pb2,
    matching_pb2,
    queries_pb2,
    server_pb2,
    staging_pb2,
    statements_pb2,
    streams_pb2,
    sync_pb2,
    webhooks_pb2,
)
from psoup_service.process.settings import Settings
from psoup_service.wire.status import CODES, OWN_CODES
from psoup_testing.services.gated_service import Door, methods
from psoup_testing.services.wire import Wire, ipc, run
from psoup_testing.suite.budget import Budget
from psoup_testing.suite.sweeps import swept

FILES = (
    streams_pb2,
    ingest_pb2,
    staging_pb2,
    queries_pb2,
    server_pb2,
    backup_pb2,
    attach_pb2,
    cover_pb2,
    follow_pb2,
    groups_pb2,
    statements_pb2,
    matching_pb2,
    sync_pb2,
    admin_pb2,
    webhooks_pb2,
)
METHODS = [
    method for module in FILES for service in module.DESCRIPTOR.services_by_name.values() for method in service.methods
]
ONE_CODE = ("GetServerInfo", "Backup", "Promote")
"""What cannot fail, and what a service in memory cannot do."""
CLIENTS_OWN = 'Failed "execute_batch"'
"""What the asyncio client reports, as INTERNAL, when the server ends a stream that it is writing to."""

DOCUMENTED = ({*CODES.values()} | OWN_CODES | {grpc.StatusCode.OK}) - {grpc.StatusCode.INTERNAL}
MORE = 500
"""The most calls of a method beyond these, while all its calls have ended in the same way."""

STATEMENTS = [
    "CREATE STREAM s (x BIGINT, t TEXT, at TIMESTAMP) TIMESTAMP BY at LATENESS 5 SECONDS RETENTION 1 HOUR",
    "CREATE STREAM r (x BIGINT) RETENTION 10 ROWS",
    "SELECT * FROM s WHERE x > 3 AND t LIKE 'a%' BEGIN (NOW - 10) END (NOW)",
    "SELECT DISTINCT x FROM r ORDER BY x LIMIT 3",
    "SELECT x / 0, sqrt(-x) FROM s WHERE x = 9223372036854775807 + 1",
    "SELECT x FROM s WHERE x IN (" + ", ".join(map(str, range(2_000))) + ")",
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + " FROM s",
    "SELECT x FROM s WHERE " + " OR ".join(f"x = {i}" for i in range(1_000)),
    "SELECT x FROM nope; SELECT x FROM s",
    "SELECT 'unclosed FROM s /* ",
    "DROP TABLE s",
    "SELECT x\0 FROM s",
    "SELECT \U0001f600 FROM s WHERE t = '\U0001f600'",
    r"SELECT E'\'' || $$'$$ FROM s WHERE at - at < INTERVAL '1' DAY AND strptime(t, '%Y') > at AT TIME ZONE '+02:00'",
    "DROP STREAM r CASCADE",
    "BEGIN (NOW - 5) END (NOW)",
]
WINDOWS = [
    *("BEGIN (NOW - 5) END (NOW)", "BEGIN (NOW) END (NOW - 5)", "BEGIN (NOW - 0 ROWS)", "END (NOW - 1 ROWS)", ""),
    *("BEGIN (NOW - 9223372036854775807 ROWS)", "BEGIN (NOW - 9223372036854 SECONDS)", "BEGIN (NOW - 1 MONTH)"),
    "BEGIN TIMESTAMP '0001-01-01 00:00:00' END TIMESTAMP '9999-12-31 23:59:59'",
    "BEGIN (START) END TIMESTAMP '2001-09-09 01:46:40.000001'",
    "BEGIN TIMESTAMP '2001-09-09 01:46:40' END (NOW - 0)",
    "BEGIN (1000000000) END (1000000000.000001)",
]
"""Windows near the tuples of `TABLE`, far from them, and none."""
NAMES = ["s", "S", "r", "nope", "", "\0", "a" * 10_000, "\U0001f600"]
INTEGERS = [0, 1, -1, 2, 100, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1_000_001]
TABLE = pa.table({"x": [1, 2], "t": ["a", None], "at": pa.array([10**15, 10**15 + 1], pa.timestamp("us", "UTC"))})
PAYLOADS = [b"", ipc(TABLE), ipc(TABLE, compression="zstd"), ipc(TABLE)[:200], b"\xff" * 99, ipc(TABLE.select([0]))]


RARE = ("key_column", "label_columns", "replace", "expires_after", "expiring_within", "parameters", "numbers")
"""Fields with which next to no call is right."""


class Fuzz:
    """Draws messages; knows queries and stages of the service, so that some calls are right."""

    def __init__(self, draw: random.Random, ids: list[str], stages: list[str]) -> None:
        self.draw = draw
        self.ids = ids
        self.stages = stages

    def message(self, kind: descriptor.Descriptor) -> Message:
        message = message_factory.GetMessageClass(kind)()
        for field in kind.fields:
            if self.draw.random() < (0.9 if field.name in RARE else 0.3):
                continue
            if field.message_type is not None:
                if field.message_type.fields and not field.is_repeated:
                    near = field.name == "as_of" and self.draw.random() < 0.6
                    getattr(message, field.name).CopyFrom(self.near() if near else self.message(field.message_type))
                elif field.name == "wants":
                    getattr(message, field.name).append(self.message(field.message_type))
                continue
            if field.is_repeated:
                values = [self.value(field, message) for _ in range(self.draw.randrange(4))]
                getattr(message, field.name).extend(values)
                continue
            setattr(message, field.name, self.value(field, message))
        return message

    def near(self) -> Timestamp:
        """A time about that of the tuples of `TABLE`, or of now."""
        seconds = self.draw.choice([10**9, 10**9 - 1, 10**9 + 1, int(time.time()) - 1, 0])
        return Timestamp(seconds=seconds, nanos=self.draw.choice([0, 1_000, 999_999_999]))

    def value(self, field: FieldDescriptor, message: Message) -> Any:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
                return self.draw.choice(PAYLOADS)
            case FieldDescriptor.CPPTYPE_STRING:
                return self.text(field.name)
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.draw.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return self.draw.choice([*field.enum_type.values_by_number, 99])
            case FieldDescriptor.CPPTYPE_INT32:
                return self.draw.choice([i for i in INTEGERS if abs(i) < 2**31])
            case _:
                return self.draw.choice([*INTEGERS, self.draw.getrandbits(40)])

    def text(self, name: str) -> str:
        choices: dict[str, Callable[[], str]] = {
            "statement": lambda: self.draw.choice(STATEMENTS),
            "statements": lambda: self.draw.choice([*STATEMENTS, *STATEMENTS[2:4] * 8]),  # all of them must be right
            "window": lambda: self.draw.choice(WINDOWS),
            "query_ids": lambda: self.draw.choice([*self.ids, "q-00000000-1", ""]),
            "query_id": lambda: self.draw.choice([*self.ids, "q-00000000-1", ""]),
            "webhook_id": lambda: self.draw.choice(["w-00000000-1", "w-1", ""]),
            "url": lambda: self.draw.choice(["http://127.0.0.1:1/", "https://[::1]/", "https://u:p@127.0.0.1/"]),
            "stage": lambda: self.draw.choice([*self.stages, self.stages[0][:-4], "W10="]),
            "page_token": lambda: self.draw.choice(["", "", "W10", "a" * 5_000, "WyJyb3dzIix7fV0"]),
        }
        if name in choices and self.draw.random() < 0.8:
            return choices[name]()
        if self.draw.random() < 0.7:
            return self.draw.choice(NAMES)
        return "".join(self.draw.choices(string.printable, k=self.draw.randrange(30)))


async def call(
    wire: Wire, method: descriptor.MethodDescriptor, requests: list[bytes], credential: Any = ()
) -> tuple[grpc.StatusCode, str]:
    """One call with these messages, raw enough to know nothing of the stubs: its code and message."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    given = {"timeout": 0.3, "metadata": credential}
    try:
        if method.client_streaming:
            stream = wire.channel.stream_stream(path)(iter(requests), **given)
            async for _ in stream:
                pass
            return await stream.code(), ""
        if method.server_streaming:
            answer = wire.channel.unary_stream(path)(requests[0], **given)
            async for _ in answer:
                pass
            return await answer.code(), ""
        unary = wire.channel.unary_unary(path)(requests[0], **given)
        await unary
        return await unary.code(), ""
    except grpc.aio.AioRpcError as error:
        return error.code(), error.debug_error_string()


async def leave(wire: Wire, method: descriptor.MethodDescriptor, credential: Any) -> None:
    """A call whose message never comes, and whose caller leaves."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    call = wire.channel.stream_stream(path)(metadata=credential, timeout=60)
    await call.wait_for_connection()
    call.cancel()


def torn(draw: random.Random, raw: bytes) -> bytes:
    """Mostly as it is; sometimes cut, or with a byte changed."""
    if not raw or draw.random() < 0.9:
        return raw
    place = draw.randrange(len(raw))
    return raw[:place] if draw.random() < 0.5 else raw[:place] + bytes([draw.randrange(256)]) + raw[place + 1 :]


async def begin(wire: Wire, stream: str, number: int, credential: Any) -> str:
    """The name of a new stage, or of none if random calls have opened as many as there may be; the stream is made
    again if a call before has dropped it."""
    create = streams_pb2.CreateStreamRequest(statement=STATEMENTS["sr".index(stream)], allow_existing=True)
    await wire.streams.CreateStream(create, metadata=credential)
    request = staging_pb2.BeginStageRequest(stream=stream, producer=f"fuzz {number}")
    try:
        return (await wire.staging.BeginStage(request, metadata=credential)).stage
    except grpc.aio.AioRpcError as refusal:
        assert refusal.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, refusal
        return base64.urlsafe_b64encode(json.dumps(["gone", stream, "fuzz", 0, number]).encode()).decode()


class Credentials:
    """Four kinds: none, one that lets nobody in, one that may only read, and one that may do everything."""

    def __init__(self, all_roles: Any, reader: Any) -> None:
        self.all_roles = all_roles
        torn = (("authorization", all_roles[0][1][:-1]),)
        self._kinds = [all_roles, (), torn, reader]

    def drawn(self, draw: random.Random) -> Any:
        """Mostly the one that may do everything."""
        return draw.choices(self._kinds, (16, 1, 1, 2))[0]


@pytest.mark.seeded("bytes that are no message are a defect of the service")
@pytest.mark.parametrize("cases", swept([300, 2_500], fast=1))
def test_every_call_ends_with_a_documented_code(cases: int) -> None:
    budget = Budget("calls from the descriptors", cases=cases)
    seen: dict[str, set[grpc.StatusCode]] = {}

    async def asked(wire: Wire, fuzz: Fuzz, method: descriptor.MethodDescriptor, credential: Any) -> None:
        messages = [fuzz.message(method.input_type) for _ in range(fuzz.draw.choice((1, 1, 3)))]
        requests = [torn(fuzz.draw, message.SerializeToString()) for message in messages]
        code, said = await call(wire, method, requests, credential)
        assert code in DOCUMENTED or CLIENTS_OWN in said, (method.full_name, code, said)
        seen[method.full_name].add(code)

    async def script(wire: Wire) -> None:
        for statement in STATEMENTS[:2]:
            await wire.create(statement)
        ids = [await wire.register(STATEMENTS[2]), await wire.register(STATEMENTS[3])]
        await wire.push("s", TABLE)
        door = await Door(wire).begin()
        credentials = Credentials((await door.issue("owner", "operator"))[1], (await door.issue("reader"))[1])
        owner = credentials.all_roles
        for method in METHODS:
            code, _ = await call(wire, method, [b""], owner)
            seen.setdefault(method.full_name, set()).add(code)
        for number in budget.rounds():
            stages = [await begin(wire, stream, number, owner) for stream in "sr"]
            fuzz = Fuzz(random.Random(number), ids, stages)
            for _ in range(25):
                await asked(wire, fuzz, fuzz.draw.choice(METHODS), credentials.drawn(fuzz.draw))
                budget.count()
            await leave(wire, fuzz.draw.choice(METHODS), owner)
            for stage in stages:
                await wire.staging.AbortStage(staging_pb2.AbortStageRequest(stage=stage), metadata=owner)
        stages = [await begin(wire, stream, -1, owner) for stream in "sr"]
        fuzz = Fuzz(random.Random(-1), ids, stages)
        for method in METHODS:
            for _ in range(0 if method.name in ONE_CODE else MORE):
                if len(seen[method.full_name]) < 2:
                    await asked(wire, fuzz, method, credentials.drawn(fuzz.draw))
        assert wire.service.host.state == "serving"
        assert await wire.service._calls.under_way.finished(60)

    run(script, Settings(port=0, memory_mib=64))
    assert {method.full_name for method in METHODS} >= {path[1:].replace("/", ".") for path in own_methods()}
    assert not [(n, c) for n, c in seen.items() if len(c) < 2 and not n.endswith(ONE_CODE)], seen


def own_methods() -> list[str]:
    """The paths of all methods of the contract."""
    return [path for path in methods().values() if path.startswith("/psoup.")]
