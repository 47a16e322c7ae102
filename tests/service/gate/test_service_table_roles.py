"""Tables behind the gate: each role, the quotas of a tenant, tokens of some tables, and a table of another tenant."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup_proto.v1 import admin_pb2 as admin
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import staging_pb2 as staging
from psoup_proto.v1 import statements_pb2 as statements
from psoup_proto.v1 import streams_pb2 as streams
from psoup_testing.services.gated_service import Door, behind
from psoup_testing.services.wire import ipc, refused

DENIED, FULL = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.RESOURCE_EXHAUSTED
MISSING = grpc.StatusCode.NOT_FOUND
TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, price BIGINT, place TEXT)"
Call = Callable[[Any], Awaitable[Any]]


class Desk:
    """Calls about the table `t`, for a caller with some metadata."""

    def __init__(self, door: Door) -> None:
        self.door, self.wire = door, door.wire
        self.sequence = 0
        """The last event that a reply has named. Questions wait for it."""

    async def tenant(self, name: str, **quotas: float) -> Any:
        """Create a tenant with only these quotas. Returns the metadata of its owner, which has made the table."""
        await self.door.admin.CreateTenant(admin.CreateTenantRequest(name=name), metadata=self.door.operator)
        owner = (await self.door.issue("owner", tenant=name))[1]
        await self.create(owner)
        fields = [field.name for field in admin.Quotas.DESCRIPTOR.fields if field.name != "weight"]
        changes = admin.AlterTenantRequest(name=name, quotas=admin.Quotas(**{**dict.fromkeys(fields, 0), **quotas}))
        await self.door.admin.AlterTenant(changes, metadata=self.door.operator)
        return owner

    def create(self, caller: Any, statement: str = TABLE) -> Any:
        return self.wire.streams.CreateStream(streams.CreateStreamRequest(statement=statement), metadata=caller)

    def alter(self, caller: Any, statement: str = "ALTER TABLE t HISTORY 1 DAY") -> Any:
        return self.wire.streams.AlterStream(streams.AlterStreamRequest(statement=statement), metadata=caller)

    def drop(self, caller: Any, name: str = "t") -> Any:
        return self.wire.streams.DropStream(streams.DropStreamRequest(name=name), metadata=caller)

    def execute(self, caller: Any, statement: str) -> Any:
        return self.wire.statements.Execute(statements.ExecuteRequest(statement=statement), metadata=caller)

    async def noted(self, call: Any) -> Any:
        """The reply of a call."""
        reply = await call
        self.sequence = max(self.sequence, reply.sequence)
        return reply

    def push(self, caller: Any, *, stream: str = "t", producer: str = "", **columns: Any) -> Any:
        columns = columns or {"id": [1, 2], "price": [10, 20], "place": ["x", "y"]}
        request = ingest.PushRequest(stream=stream, arrow_ipc=ipc(pa.table(columns)), producer=producer)
        return self.noted(self.wire.ingest.Push(request, metadata=caller))

    def push_rows(self, caller: Any, *rows: dict[str, Any]) -> Any:
        request = ingest.PushRowsRequest(stream="t", rows=json.dumps(rows).encode())
        return self.noted(self.wire.ingest.PushRows(request, metadata=caller))

    def stage(self, caller: Any) -> Any:
        request = staging.BeginStageRequest(stream="t", producer="p", number=0)
        return self.wire.staging.BeginStage(request, metadata=caller)

    async def rows(self, caller: Any, sql: str = "SELECT id, price, place FROM t ORDER BY id") -> list[tuple[Any, ...]]:
        request = statements.AskRequest(statement=sql, min_sequence=self.sequence)
        reply = await self.wire.statements.Ask(request, metadata=caller)
        with pa.ipc.open_stream(reply.arrow_ipc) as read:
            table = read.read_all()
        return [tuple(row.values()) for row in table.to_pylist()]


def calls(desk: Desk) -> dict[str, Call]:
    """The calls that change a table, and the calls that read it."""
    return {
        "create": lambda caller: desk.create(caller, "CREATE TABLE u (id BIGINT PRIMARY KEY)"),
        "alter": desk.alter,
        "execute": lambda caller: desk.execute(caller, "ALTER TABLE t ADD n BIGINT"),
        "drop": lambda caller: desk.drop(caller, "u"),
        "upsert": desk.push,
        "patch": lambda caller: desk.push(caller, id=[1], price=[11], _patch=[True]),
        "delete": lambda caller: desk.push(caller, id=[2], _deleted=[True]),
        "json": lambda caller: desk.push_rows(caller, {"id": 1, "place": "z", "_patch": True}),
        "stage": desk.stage,
        "read": desk.rows,
    }


MAY = {
    "owner": {"create", "alter", "execute", "drop", "upsert", "patch", "delete", "json", "stage", "read"},
    "producer": {"upsert", "patch", "delete", "json", "stage"},
    "reader": {"read"},
    "registrar": {"read"},
    "operator": set[str](),
}


def test_each_role_changes_a_table_only_as_it_may() -> None:
    async def script(door: Door) -> None:
        desk = Desk(door)
        owner = (await door.issue("owner"))[1]
        await desk.create(owner)
        for role, allowed in MAY.items():
            caller = (await door.issue(role))[1]
            for name, call in calls(desk).items():
                if name in allowed:
                    await call(caller)
                else:
                    assert role in (await refused(call(caller), DENIED)).message, (role, name)
        assert await desk.rows(owner) == [(1, 11, "z")]

    behind(script)


def test_a_token_of_some_tables_reaches_no_other_table() -> None:
    async def script(door: Door) -> None:
        desk = Desk(door)
        owner = (await door.issue("owner"))[1]
        for name in "tu":
            await desk.create(owner, TABLE.replace("TABLE t", f"TABLE {name}"))
            await desk.push(owner, stream=name)
        caller = (await door.issue("producer", streams=["u"]))[1]
        await desk.push(caller, stream="u", id=[1], price=[11], _patch=[True])
        for call in (
            desk.push(caller),
            desk.push(caller, id=[1], price=[11], _patch=[True]),
            desk.push(caller, id=[1], _deleted=[True]),
            desk.push_rows(caller, {"id": 1, "_deleted": True}),
            desk.stage(caller),
        ):
            said = await refused(call, MISSING)
            assert "'t'" in said.message
        assert await desk.rows(owner) == [(1, 10, "x"), (2, 20, "y")]
        assert await desk.rows(owner, "SELECT price FROM u ORDER BY id") == [(11,), (20,)]

    behind(script)


@pytest.mark.seeded("a key found in another tenant's table")
def test_tables_of_one_name_belong_to_their_tenants() -> None:
    """Upserts, patches, deletions and DDL of one tenant change nothing of the other one's table."""

    async def script(door: Door) -> None:
        desk = Desk(door)
        acme, rival = [await desk.tenant(name) for name in ("acme", "rival")]
        await desk.push(acme, producer="p")
        assert not (await desk.push(rival, producer="p", id=[1], price=[7], place=["r"])).duplicate
        await desk.push(acme, id=[1, 3], price=[11, 33], _patch=[True, True])
        await desk.push(rival, id=[1, 2], place=["s", "t"], _patch=[True, True])
        assert await desk.rows(acme) == [(1, 11, "x"), (2, 20, "y"), (3, 33, None)]
        assert await desk.rows(rival) == [(1, 7, "s"), (2, None, "t")]
        await desk.push(acme, id=[1, 2, 3], _deleted=[True] * 3)
        await desk.alter(acme, "ALTER TABLE t ADD n BIGINT")
        assert await desk.rows(acme) == []
        assert await desk.rows(rival, "SELECT * FROM t ORDER BY id") == [(1, 7, "s"), (2, None, "t")]
        await desk.drop(acme)
        await refused(desk.push(acme), MISSING)
        await desk.create(acme)
        await desk.push(acme, id=[1], price=[1], _patch=[True])
        assert await desk.rows(acme) == [(1, 1, None)], "a table that is made anew has no earlier versions"
        assert await desk.rows(rival) == [(1, 7, "s"), (2, None, "t")]

    behind(script)


def test_quotas_count_tables_and_their_rows() -> None:
    async def script(door: Door) -> None:
        desk = Desk(door)
        few = await desk.tenant("few", streams=1, producers=1)
        said = await refused(desk.create(few, "CREATE TABLE u (id BIGINT PRIMARY KEY)"), FULL)
        assert (said.reason, said.facts["quota"]) == ("QUOTA", "streams")
        await desk.push(few, producer="p")
        said = await refused(desk.push(few, producer="q", id=[1], _deleted=[True]), FULL)
        assert said.facts["quota"] == "producers"
        await desk.drop(few)
        await desk.create(few)

        small = await desk.tenant("small", tuple_bytes=20_000)
        long = "x" * 8_000
        await desk.push(small, id=[1], price=[1], place=[long])
        said = await refused(desk.push(small, id=[1, 1], price=[2, 3], _patch=[True, True]), FULL)
        assert said.facts["quota"] == "tuple_bytes", "the text that each patch keeps counts"
        await desk.push(small, id=[1], price=[2], _patch=[True])
        said = await refused(desk.push(small, id=[2], price=[2], place=[long]), FULL)
        assert said.facts["quota"] == "tuple_bytes"
        await desk.push(small, id=[1], _deleted=[True])
        assert await desk.rows(small) == []

        slow = await desk.tenant("slow", pushed_bytes_per_second=10)
        await desk.push(slow, id=[1], price=[1], place=[long])
        for call in (desk.push(slow, id=[1], _deleted=[True]), desk.push(slow, id=[1], price=[2], _patch=[True])):
            assert (await refused(call, FULL)).facts["quota"] == "pushed_bytes_per_second"
        assert await desk.rows(slow, "SELECT price FROM t") == [(1,)]

    behind(script)
