"""Check says of a statement what Register would make of it, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup_proto.v1 import queries_pb2 as queries
from psoup_testing.services.wire import Wire, refused, run

CREATE = (
    "CREATE STREAM s (at TIMESTAMP NOT NULL, x BIGINT, name TEXT) TIMESTAMP BY at",
    "CREATE STREAM o (at TIMESTAMP NOT NULL, y BIGINT) TIMESTAMP BY at",
)
GOOD = (
    "SELECT * FROM s",
    "SELECT x + 1 AS z, name FROM s WHERE x IN (1, 2) OR name LIKE 'a%' ORDER BY z LIMIT 3 BEGIN (NOW - 1 HOUR)",
    "SELECT name, count(*) AS n, avg(x) FROM s WHERE x > 0 GROUP BY name HAVING count(*) > 2 BEGIN (NOW - 100 ROWS)",
    "SELECT DISTINCT name FROM s BEGIN (TIMESTAMP '1970-01-01') END (TIMESTAMP '1970-01-02')",
    "SELECT s.x, o.y FROM s [RANGE 1 HOUR] JOIN o ON s.x = o.y WHERE o.y > 3",
)
WRONG = (
    "",
    "SELECT",
    "SELECT m FROM s",
    "SELECT x\nFROM s\nWHERE nam = 'a'",
    "SELECT x FROM t",
    "SELECT x FROM s WHERE x = 'one'",
    "SELECT x FROM s WHERE x = ?",
    "SELECT random() FROM s",
    "SELECT x FROM s POSITIONAL JOIN s o",
    "SELECT x FROM s BEGIN (NOW - 1 FORTNIGHT)",
    "CREATE STREAM t (a BIGINT)",
    "SELECT x FROM s; SELECT x FROM s",
    "SELECT " + "(" * 5_000,
    "SELECT x FROM s WHERE name = '" + "a" * 70_000 + "'",
)


async def filled(wire: Wire) -> None:
    for statement in CREATE:
        await wire.create(statement)
    times = pa.array(range(0, 100_000_000, 1_000_000), pa.timestamp("us"))
    done = await wire.push("s", pa.table({"at": times, "x": range(100), "name": ["a", "b"] * 50}))
    await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))


def check(wire: Wire, statement: str) -> Any:
    return wire.queries.Check(queries.CheckRequest(statement=statement))


def test_what_is_said_is_what_register_makes_and_nothing_is_left() -> None:
    async def script(wire: Wire) -> None:
        await filled(wire)
        before = wire.service.host.applied
        said = [await check(wire, sql) for sql in GOOD]
        assert wire.service.host.applied == before, "no event"
        assert not (await wire.queries.ListQueries(queries.ListQueriesRequest())).queries
        for sql, response in zip(GOOD, said, strict=True):
            made = (await wire.queries.Register(queries.RegisterRequest(statement=sql))).query
            plan = (await wire.queries.Explain(queries.ExplainRequest(query_id=made.query_id))).nodes
            assert [(n.id, n.operator, n.text, n.update_pattern) for n in response.nodes] == [
                (n.id, n.operator, n.text, n.update_pattern) for n in plan
            ]
            assert response.update_pattern == plan[0].update_pattern
            for node, kept in zip(response.nodes, plan, strict=True):
                assert node.figures.get("tuples_in_window") == kept.figures.get("tuples_in_window")
                assert all(kept.facts[name] == text for name, text in node.facts.items())
            for field in ("query_id", "register_time", "sequence", "amount", "amount_in_force", "active"):
                made.ClearField(field)
            assert response.query == made

    run(script)


def test_a_statement_is_refused_in_the_words_of_register() -> None:
    async def script(wire: Wire) -> None:
        await filled(wire)
        for sql in WRONG:
            codes = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
            with pytest.raises(grpc.aio.AioRpcError) as said:
                await check(wire, sql)
            with pytest.raises(grpc.aio.AioRpcError) as told:
                await wire.queries.Register(queries.RegisterRequest(statement=sql))
            assert said.value.code() in codes, sql[:80]
            assert said.value.details() == told.value.details(), sql[:80]
            assert details_of(said.value) == details_of(told.value), sql[:80]

    run(script)


def details_of(problem: grpc.aio.AioRpcError) -> list[Any]:
    return [value for key, value in problem.trailing_metadata() or () if key == "grpc-status-details-bin"]


def test_a_stream_that_is_dropped_or_not_there_yet() -> None:
    async def script(wire: Wire) -> None:
        await refused(check(wire, GOOD[0]), grpc.StatusCode.INVALID_ARGUMENT)
        await filled(wire)
        assert (await check(wire, GOOD[0])).nodes[-1].figures["tuples_in_window"] > 0

    run(script)


def test_a_statement_without_parameters_may_be_checked_as_one_with_some() -> None:
    async def script(wire: Wire) -> None:
        await filled(wire)
        for sql in GOOD:
            said = await wire.queries.Check(queries.CheckRequest(statement=sql, parameters=True))
            assert (said.query, list(said.parameter_types)) == ((await check(wire, sql)).query, []), sql

    run(script)
