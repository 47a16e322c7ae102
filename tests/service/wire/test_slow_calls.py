"""The log of slow calls: which calls it has, with which facts, and that it has no value of a statement."""

from __future__ import annotations

import logging
from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup.errors import NotFound
from psoup_proto.v1 import queries_pb2, statements_pb2
from psoup_service.figures.call_notes import NOTES, CallNotes
from psoup_service.gate.principal import STRANGER
from psoup_service.process.settings import Settings
from psoup_service.wire.call_watch import CallWatch
from psoup_service.wire.slow_calls import BURST, SlowCalls
from psoup_testing.services.wire import Wire, run

SECRET = "Ann5309"


class _Caller:
    protocol = "grpc"
    principal = STRANGER


def _entries(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    names = ("call", "protocol", "tenant", "seconds", "rows", "code", "stream", "statement", "unwritten")
    slow = [vars(record) for record in caplog.records if record.getMessage() == "slow call"]
    return [{name: entry[name] for name in names if name in entry} for entry in slow]


def test_a_slow_call_is_logged_by_the_form_of_its_statement(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "psoup_service.wire.slow_calls")

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (name TEXT NOT NULL)")
        query = f"SELECT name FROM s WHERE name = '{SECRET}'"
        registered = (await wire.queries.Register(queries_pb2.RegisterRequest(statement=query, key="k"))).query
        wire.service._observers._slow.least_s = 0.0  # type: ignore[union-attr]
        push = await wire.push("s", pa.table({"name": [SECRET, "b"]}))
        await wire.queries.WaitForSequence(queries_pb2.WaitForSequenceRequest(sequence=push.sequence))
        await wire.statements.Ask(statements_pb2.AskRequest(statement=query))
        await wire.queries.Invoke(queries_pb2.InvokeRequest(query_id=registered.query_id))
        await wire.queries.Invoke(queries_pb2.InvokeRequest(key="k"))
        streamed = wire.statements.AskStream(statements_pb2.AskStreamRequest(statement=query))
        assert [message async for message in streamed]
        with pytest.raises(grpc.aio.AioRpcError):
            await wire.statements.Ask(statements_pb2.AskRequest(statement=f"SELECT {SECRET} FROM s LIMIT 'x"))
        with pytest.raises(grpc.aio.AioRpcError):  # quotes of MySQL
            await wire.statements.Ask(
                statements_pb2.AskRequest(statement=f'SELECT name FROM s WHERE name = "{SECRET}"')
            )

    run(script)
    entries = _entries(caplog)
    form = "SELECT name FROM s WHERE name = ?"
    assert [(entry["call"].partition("/")[2], entry["rows"], entry.get("statement")) for entry in entries] == [
        ("Push", 2, None),
        ("Ask", 1, form),
        ("Invoke", 1, form),
        ("Invoke", 1, form),
        ("AskStream", 1, form),
        ("Ask", 0, "(cannot be read)"),
        ("Ask", 0, 'SELECT name FROM s WHERE name = "…"'),
    ]
    assert {(entry["protocol"], entry["tenant"]) for entry in entries} == {("grpc", "default")}
    assert [entry.get("stream") for entry in entries] == ["s"] + [None] * 6
    assert [entry["code"] for entry in entries] == ["OK"] * 5 + ["INVALID_ARGUMENT"] * 2
    assert SECRET not in str([vars(record) for record in caplog.records])


def test_the_log_of_slow_calls_has_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "psoup_service.wire.slow_calls")
    now = [5.0]
    watch = CallWatch(SlowCalls(1.0, lambda tenant, request: "", lambda: now[0]))
    caller: Any = _Caller()
    for seconds in [0.9] + [1.5] * (round(BURST) + 7):
        watch.ended(watch.begin("QueryService/Invoke", caller), "QueryService/Invoke", caller, "OK", seconds)
    now[0] += 1
    notes = watch.begin("QueryService/InvokeStream", caller)
    assert notes is not None
    notes.worked = 2.0
    watch.ended(notes, "QueryService/InvokeStream", caller, "OK", None)
    assert NOTES.get() is None
    watch.close()
    entries = _entries(caplog)
    assert len(entries) == BURST + 1
    assert [entry.get("unwritten") for entry in entries] == [None] * round(BURST) + [7]


def test_a_threshold_of_zero_watches_nothing() -> None:
    async def script(wire: Wire) -> None:
        assert wire.service._observers._slow is None

    run(script, Settings(port=0, slow_call_ms=0))


@pytest.mark.parametrize("problem", [NotFound("there is no query 7"), RecursionError("the statement is deep")])
def test_a_slow_call_is_logged_although_its_statement_cannot_be_read(
    problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def statement_of(tenant: str, request: Any) -> str:
        raise problem

    caplog.set_level(logging.WARNING, "psoup_service.wire.slow_calls")
    slow = SlowCalls(0.0, statement_of)
    slow.ended(CallNotes(None, None), "QueryService/Invoke", _Caller(), "OK", 2.0)  # type: ignore[arg-type]
    slow.close()
    (entry,) = _entries(caplog)
    assert (entry["call"], entry["statement"]) == ("QueryService/Invoke", "(cannot be read)")
