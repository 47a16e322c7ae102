"""A SELECT that is asked once, and Execute, over the wire: as a registered query, and nothing is left of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2

from psoup.answer.ask import bind_question
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import statements_pb2 as statements
from psoup_service.process.settings import Settings
from psoup_service.servicers import statements as servicer
from psoup_testing.services.host_rig import Gate, happened
from psoup_testing.services.wire import Wire, ipc, refused, run

Code = grpc.StatusCode
CREATE = "CREATE STREAM s (x BIGINT, name TEXT)"
LONG = "SELECT x FROM s WHERE x IN (" + ", ".join(map(str, range(200))) + ")"
COUNT = 300_000


def table_of(parts: list[Any]) -> pa.Table:
    return pa.ipc.open_stream(b"".join(part.arrow_ipc for part in parts)).read_all()


async def filled(wire: Wire, rows: int = 1_000) -> None:
    await wire.create(CREATE)
    done = await wire.push("s", pa.table({"x": range(rows), "name": ["a", "b"] * (rows // 2)}))
    await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))


async def ask(wire: Wire, statement: str, **fields: Any) -> statements.AskResponse:
    return await wire.statements.Ask(statements.AskRequest(statement=statement, **fields))


async def execute(wire: Wire, statement: str, **fields: Any) -> statements.ExecuteResponse:
    return await wire.statements.Execute(statements.ExecuteRequest(statement=statement, **fields))


@pytest.mark.parametrize("sql", ["SELECT * FROM s WHERE x % 3 = 1 AND name = 'b' ORDER BY x DESC LIMIT 7", LONG])
def test_the_answer_is_that_of_the_query_registered_and_nothing_is_left(sql: str) -> None:
    async def script(wire: Wire) -> None:
        await filled(wire)
        host = wire.service.host
        before = {name: count for name, count in host.counters().items() if name != "groups"}
        asked = [await ask(wire, sql) for _ in range(3)]
        pieces = [part async for part in wire.statements.AskStream(statements.AskStreamRequest(statement=sql))]
        assert {name: count for name, count in host.counters().items() if name != "groups"} == before
        assert not (await wire.queries.ListQueries(queries.ListQueriesRequest())).queries
        done = await wire.queries.Invoke(queries.InvokeRequest(query_id=await wire.register(sql)))
        wanted = pa.ipc.open_stream(done.arrow_ipc).read_all()
        assert wanted.num_rows in (7, 200)
        for found in (*map(table_of, ([one] for one in asked)), table_of(pieces)):
            assert found.equals(wanted)
        said, told = asked[0].completeness, done.completeness
        assert pieces[0].completeness.window_kind == said.window_kind == told.window_kind
        assert (said.final, said.late, said.pending) == (told.final, told.late, told.pending)

    run(script)


def test_a_large_answer_comes_in_pieces() -> None:
    async def script(wire: Wire) -> None:
        await filled(wire, COUNT)
        small = await ask(wire, "SELECT * FROM s")
        assert (small.too_large, small.rows, small.arrow_ipc) == (True, 0, b"")
        request = statements.AskStreamRequest(statement="SELECT * FROM s", window="BEGIN (NOW - 250000 ROWS)")
        pieces = [part async for part in wire.statements.AskStream(request)]
        assert len(pieces) > 10
        assert table_of(pieces).column("x").to_pylist() == list(range(COUNT - 250_000, COUNT))
        assert wire.service.host.pins.streams == 0
        executed = await execute(wire, "SELECT * FROM s")
        assert executed.answer.too_large

    run(script)


def test_the_fields_of_an_invocation() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM t (at TIMESTAMP, x BIGINT) TIMESTAMP BY at RETENTION 60 SECONDS")
        times = pa.array([10_000_000, 40_000_000, 90_000_000], pa.timestamp("us", "UTC"))
        done = await wire.push("t", pa.table({"at": times, "x": [1, 2, 3]}))
        sql = "SELECT x FROM t"
        found = table_of([await ask(wire, sql, min_sequence=done.sequence)]).column("x").to_pylist()
        assert found == [2, 3], "a read of one's own write"
        earlier = await ask(wire, sql, as_of=timestamp_pb2.Timestamp(seconds=50))
        assert table_of([earlier]).column("x").to_pylist() == [2]
        problem = await refused(ask(wire, sql, as_of=timestamp_pb2.Timestamp(seconds=91)), Code.OUT_OF_RANGE)
        assert problem.reason == "AS_OF_IN_FUTURE"
        await refused(ask(wire, sql, window="BEGIN TIMESTAMP '1970-01-01'"), Code.OUT_OF_RANGE)
        more = await ask(wire, sql, window="BEGIN TIMESTAMP '1970-01-01'", accept_truncation=True)
        assert more.completeness.truncated
        await refused(ask(wire, sql, window="B" * 1_001), Code.INVALID_ARGUMENT)
        await refused(ask(wire, sql, max_bytes=-1), Code.INVALID_ARGUMENT)
        await refused(ask(wire, sql, min_sequence=-1), Code.INVALID_ARGUMENT)
        problem = await refused(ask(wire, sql, min_sequence=10_000), Code.OUT_OF_RANGE)
        assert problem.reason == "UNKNOWN_SEQUENCE"

    run(script)


def test_values_for_parameters() -> None:
    async def script(wire: Wire) -> None:
        await filled(wire)
        row = ipc(pa.table({"name": ["b"], "most": [6]}))
        found = await ask(wire, "SELECT x FROM s WHERE x < $most AND name = $name", parameters=row, by_name=True)
        assert table_of([found]).column("x").to_pylist() == [1, 3, 5]
        in_order = ipc(pa.table({"any": [2]}))
        for sql in ("SELECT x FROM s WHERE x < ?", f"SELECT x FROM s WHERE x < ? AND {'x >= 0 AND ' * 40} x <> 1"):
            found = await ask(wire, sql, parameters=in_order)
            assert 0 in table_of([found]).column("x").to_pylist()
            assert wire.service.host.counters()["queued_bytes"] == 0
        for rows, said in ((pa.table({"any": [1, 2]}), "2 rows"), (pa.table({"any": ["x"]}), "parameter 1 is")):
            problem = await refused(
                ask(wire, "SELECT x FROM s WHERE x < ?", parameters=ipc(rows)), Code.INVALID_ARGUMENT
            )
            assert said in problem.message

    run(script)


def test_execute_takes_each_statement_by_its_first_word() -> None:
    async def script(wire: Wire) -> None:
        created = await execute(wire, f"-- the first\n{CREATE}")
        assert (created.WhichOneof("result"), created.created.stream.name) == ("created", "s")
        await refused(execute(wire, CREATE), Code.ALREADY_EXISTS)
        assert (await execute(wire, CREATE, allow_existing=True)).created.duplicate
        altered = await execute(wire, "alter stream s ADD COLUMN y BIGINT")
        assert [column.name for column in altered.altered.stream.columns] == ["x", "name", "y"]
        answer = (await execute(wire, "/* how many */ SELECT y FROM s")).answer
        assert (answer.rows, table_of([answer]).column_names) == (0, ["y"])
        dropped = await execute(wire, "DROP STREAM s")
        assert dropped.dropped.sequence == altered.altered.sequence + 1
        await execute(wire, CREATE)
        await wire.register("SELECT x FROM s")
        held = await refused(execute(wire, "DROP STREAM s"), Code.FAILED_PRECONDITION)
        assert "drop the stream with CASCADE" in held.message
        assert (await execute(wire, "DROP STREAM s CASCADE")).dropped.queries == 1
        await refused(execute(wire, "DROP STREAM s"), Code.NOT_FOUND)
        for lenient in ("DROP STREAM IF EXISTS s", "DROP STREAM s"):
            again = await execute(wire, lenient, allow_missing=True)
            assert (again.WhichOneof("result"), again.dropped.sequence) == ("dropped", 0)

    run(script)


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("INSERT INTO s VALUES (1)", Code.UNIMPLEMENTED, "the statement INSERT is not supported"),
        ("", Code.INVALID_ARGUMENT, "the statement is empty"),
        ("-- nothing", Code.INVALID_ARGUMENT, "the statement is empty"),
        ("/* never closed", Code.INVALID_ARGUMENT, "never closed"),
        ("SELECT x FROM s; SELECT x FROM s", Code.INVALID_ARGUMENT, "one statement at a time"),
        ("SELECT x FROM t", Code.INVALID_ARGUMENT, "there is no stream or table 't'"),
        ("SELECT x FROM s WHERE x = ?", Code.UNIMPLEMENTED, "a parameter without a value"),
        ("DROP STREAM s, t", Code.INVALID_ARGUMENT, "',' is not expected here"),
        ("--\n" * 40_000, Code.INVALID_ARGUMENT, "longer than 65,536 bytes"),
        ("SELECT x FROM s WHERE name = '" + "a" * 100_000 + "'", Code.INVALID_ARGUMENT, "longer than 65,536 bytes"),
        ("SELECT x FROM s WHERE " + "x = 1 OR " * 5_000 + "x = 2", Code.INVALID_ARGUMENT, "words and signs"),
    ],
)
def test_what_execute_refuses(statement: str, code: grpc.StatusCode, said: str) -> None:
    async def script(wire: Wire) -> None:
        await wire.create(CREATE)
        assert said in (await refused(execute(wire, statement), code)).message
        if said != "',' is not expected here":
            assert said in (await refused(ask(wire, statement), code)).message
        assert (await ask(wire, "SELECT x FROM s")).rows == 0

    run(script)


def test_statements_in_the_wrong_call() -> None:
    async def script(wire: Wire) -> None:
        for statement in (CREATE, "ALTER STREAM s AHEAD 5", "DROP STREAM s"):
            problem = await refused(ask(wire, statement), Code.INVALID_ARGUMENT)
            assert f"a SELECT is needed here, not {statement.split()[0]}" in problem.message
        assert not wire.service.host.snapshot().streams

    run(script)


class Held:
    """Binding waits at a gate; `begun` is set when it does, and `threads` tells where."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.begun = Gate(), threading.Event()
        self.threads: set[str] = set()
        bind = bind_question

        def held(*values: Any, **named: Any) -> Any:
            self.threads.add(threading.current_thread().name)
            bound = bind(*values, **named)
            self.begun.set()
            self.gate.pass_through()
            return bound

        monkeypatch.setattr(servicer, "bind_question", held)


def test_others_go_on_while_a_long_text_is_bound_and_its_stream_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def script(wire: Wire) -> None:
        await filled(wire)
        for change, rows in (("ALTER STREAM s ADD COLUMN y BIGINT", 200), ("DROP STREAM s", None)):
            held.gate.clear()
            held.begun.clear()
            answer = asyncio.ensure_future(ask(wire, LONG))
            await happened(held.begun)
            await wire.push("s", pa.table({"x": [-1], "name": ["c"]}))
            await execute(wire, change)
            held.gate.set()
            if rows is None:
                problem = await refused(answer, Code.INVALID_ARGUMENT)
                assert problem.reason == "UNKNOWN_STREAM"
            else:
                assert (await answer).rows == rows
        assert "psoup-binder" in held.threads

    run(script)


async def begun(wire: Wire, blocked: Held, request: statements.AskRequest) -> Any:
    """A call with a deadline that has not passed when its work begins: a short one, unless the machine is busy."""
    for seconds in (1, 5, 25):
        call = wire.statements.Ask(request, timeout=seconds)
        while not (blocked.begun.is_set() or call.done()):
            await asyncio.sleep(0)
        if not call.done():
            break
    return call


@pytest.mark.long
def test_a_caller_who_leaves_or_whose_deadline_passes_costs_nobody_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def script(wire: Wire) -> None:
        await filled(wire)
        for sql in (LONG, "SELECT x FROM s WHERE x = 1"):
            held.gate.clear()
            held.begun.clear()
            late = await begun(wire, held, statements.AskRequest(statement=sql))
            waiting = wire.statements.Ask(statements.AskRequest(statement=LONG))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await late
            assert caught.value.code() is Code.DEADLINE_EXCEEDED
            waiting.cancel()
            held.gate.set()
            assert (await ask(wire, "SELECT x FROM s WHERE x < 3")).rows == 3
        while wire.service.host.counters()["pending_reads"]:
            await asyncio.sleep(0)

    run(script)


def test_a_text_or_a_form_that_is_known_needs_no_binder(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def script(wire: Wire) -> None:
        await filled(wire)
        row = ipc(pa.table({"any": [2]}))
        for number in range(2):
            await ask(wire, f"SELECT x FROM s WHERE x = {number}")
            await ask(wire, "SELECT name FROM s WHERE x < ?", parameters=row)
        held.gate.clear()
        held.begun.clear()
        blocked = asyncio.ensure_future(ask(wire, "SELECT x FROM s WHERE x % 2 = 0"))
        await happened(held.begun)
        for sql in ("SELECT x FROM s WHERE x = 1", "SELECT x FROM s WHERE x = 7"):
            assert (await ask(wire, sql)).rows == 1
        assert (await ask(wire, "SELECT name FROM s WHERE x < ?", parameters=row)).rows == 2
        held.gate.set()
        assert (await blocked).rows == 500
        await execute(wire, "ALTER STREAM s ADD COLUMN y BIGINT")
        for _ in range(3):
            assert table_of([await ask(wire, "SELECT * FROM s WHERE x = 1")]).column_names == ["x", "name", "y"]
        assert held.threads == {"psoup-binder"}

    run(script)


def test_reads_under_way_are_counted_with_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def script(wire: Wire) -> None:
        await filled(wire)
        held.gate.clear()
        first, second = (asyncio.ensure_future(ask(wire, LONG)) for _ in range(2))
        await happened(held.begun)
        while wire.service.host.counters()["pending_reads"] < 2:
            await asyncio.sleep(0)
        assert (await refused(ask(wire, LONG), Code.RESOURCE_EXHAUSTED)).reason == "BUSY"
        held.gate.set()
        assert [(await one).rows for one in (first, second)] == [200, 200]

    run(script, Settings(port=0, pending=2))


def test_a_service_that_ends_refuses_what_waits_to_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def script(wire: Wire) -> None:
        await filled(wire)
        held.gate.clear()
        first, second = (asyncio.ensure_future(ask(wire, LONG)) for _ in range(2))
        await happened(held.begun)
        while wire.service.host.counters()["pending_reads"] < 2:
            await asyncio.sleep(0)
        draining = asyncio.ensure_future(wire.service.host.drain(60))
        while not wire.service.host._sequencer.binder._stopping:
            await asyncio.sleep(0)
        held.gate.set()
        assert await draining
        assert (await first).rows == 200, "what is under way is finished"
        assert (await refused(second, Code.UNAVAILABLE)).reason == "DRAINING"
        assert (await ask(wire, LONG)).rows == 200, "its text is known by now"
        new = ask(wire, "SELECT x FROM s WHERE x = 1")
        assert (await refused(new, Code.UNAVAILABLE)).reason == "DRAINING"

    run(script)
