"""InvokeTable over a socket: one table of many answers; how queries are named; what is refused, and what it holds."""

from __future__ import annotations

import grpc
import pyarrow as pa
import pytest

from psoup_proto.v1 import queries_pb2 as queries
from psoup_service.host.reads.readers import Readers
from psoup_service.servicers import table as servicer
from psoup_testing.services.wire import Wire, refused, run

ROWS, USERS = 3_000, 300


async def _filled(wire: Wire) -> queries.QueryRange:
    """Alerts of 300 users, of whom each has ten tuples."""
    await wire.create("CREATE STREAM s (a BIGINT, b TEXT)")
    sink = pa.BufferOutputStream()
    values = pa.table(
        {"a": range(USERS), "key": [f"alerts/{n}" for n in range(USERS)], "user": ["u1", "u2", "u3"] * 100}
    )
    with pa.ipc.new_stream(sink, values.schema) as writer:
        writer.write_table(values)
    request = queries.RegisterManyRequest(
        statements=["SELECT b FROM s WHERE a = $a"],
        parameters=sink.getvalue().to_pybytes(),
        by_name=True,
        as_ranges=True,
        key_column="key",
        label_columns=["user"],
    )
    (made,) = (await wire.queries.RegisterMany(request)).ranges
    done = await wire.push("s", pa.table({"a": [n % USERS for n in range(ROWS)], "b": [f"x{n}" for n in range(ROWS)]}))
    await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))
    return made


async def _read(wire: Wire, **fields: object) -> tuple[pa.Table, list[queries.InvokeTableResponse]]:
    messages = [message async for message in wire.queries.InvokeTable(queries.InvokeTableRequest(**fields))]  # type: ignore[arg-type]
    return pa.ipc.open_stream(b"".join(message.arrow_ipc for message in messages)).read_all(), messages


def _places(message: queries.Places) -> list[tuple[int, int]]:
    return list(zip(message.first, message.count, strict=True))


def test_a_table_has_the_rows_of_all_queries() -> None:
    async def script(wire: Wire) -> None:
        made = await _filled(wire)
        whole, messages = await _read(wire, ranges=[made])
        assert whole.schema == pa.schema({"_query": pa.int64(), "b": pa.string()})
        assert whole.column("_query").to_pylist() == [n // 10 for n in range(ROWS)]
        assert whole.column("b").to_pylist()[:11] == [f"x{USERS * k}" for k in range(10)] + ["x1"]
        (group,) = messages[-1].groups
        assert (messages[0].queries, _places(group.places), len(messages[-1].failures)) == (USERS, [(0, USERS)], 0)
        assert sum(message.rows for message in messages) == ROWS
        assert not group.completeness.final

    run(script)


def test_queries_are_named_in_four_ways() -> None:
    async def script(wire: Wire) -> None:
        made = await _filled(wire)
        of, prefix = made.first, made.query_id_prefix
        odd = [of + n for n in (299, 7, 7, 0)]
        for fields in ({"numbers": odd, "query_id_prefix": prefix}, {"query_ids": [f"{prefix}{n}" for n in odd]}):
            whole, messages = await _read(wire, **fields)
            assert whole.column("_query").to_pylist() == [n // 10 for n in range(40)]
            assert whole.column("b").to_pylist()[::10] == ["x299", "x7", "x7", "x0"]
            assert not messages[0].query_id_prefix
        whole, messages = await _read(wire, labels={"user": "u2"})
        assert (messages[0].queries, messages[0].query_id_prefix) == (100, prefix)
        assert _places(messages[0].numbers) == [(of + 3 * n + 1, 1) for n in range(100)]
        assert whole.column("b").to_pylist()[10] == "x4"
        whole, messages = await _read(wire, key_prefix="alerts/29")
        assert _places(messages[0].numbers) == [(of + 29, 1), (of + 290, 10)]
        none, messages = await _read(wire, labels={"user": "nobody"})
        assert (none.schema.names, none.num_rows, messages[0].queries) == (["_query"], 0, 0)

    run(script)


def test_queries_without_an_answer_are_failures_by_place() -> None:
    async def script(wire: Wire) -> None:
        made = await _filled(wire)
        more = queries.QueryRange(query_id_prefix=made.query_id_prefix, first=made.first, count=2 * USERS)
        elsewhere = queries.QueryRange(query_id_prefix="q-00000000-", first=1, count=5)
        await wire.queries.Unregister(queries.UnregisterRequest(query_id=f"{made.query_id_prefix}{made.first + 3}"))
        whole, messages = await _read(wire, ranges=[more, elsewhere])
        assert whole.num_rows == ROWS - 10
        failed = {(of.failure.code, of.failure.reason): _places(of.places) for of in messages[-1].failures}
        assert failed == {(5, "FOREIGN_INCARNATION"): [(600, 5)], (5, "UNKNOWN_QUERY"): [(3, 1), (300, 300)]}
        texts = [f"q-00000000-{n}" for n in range(2)] + [f"{made.query_id_prefix}{made.first}", "q-00000001-1"]
        whole, messages = await _read(wire, query_ids=texts)
        assert whole.column("_query").to_pylist() == [2] * 10
        assert sorted(_places(of.places)[0] for of in messages[-1].failures) == [(0, 2), (3, 1)]

    run(script)


def test_large_tables_wait_in_line_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that turns out to be long holds a thread while it waits, and with many of these calls are refused."""
    aside = list[object]()
    monkeypatch.setattr(Readers, "step_aside", lambda readers, reading: aside.append(reading))

    async def script(wire: Wire) -> None:
        made = await _filled(wire)
        made.count = 20_000
        whole, messages = await _read(wire, ranges=[made])
        assert (whole.num_rows, messages[0].queries, aside) == (ROWS, 20_000, [])

    run(script)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "SELECTION"),
        ({"key_prefix": "a", "query_ids": ["q-1"]}, "SELECTION"),
        ({"query_ids": ["q-1"]}, "MALFORMED_ID"),
        ({"numbers": [1], "query_id_prefix": "x"}, "MALFORMED_ID"),
        ({"ranges": [queries.QueryRange(query_id_prefix="q-00000000-", first=0, count=2**62)]}, "TOO_MANY_QUERIES"),
        ({"ranges": [queries.QueryRange(query_id_prefix="q-00000000-", first=0)]}, "INVALID_INPUT"),
        ({"ranges": [queries.QueryRange(query_id_prefix="q-00000000-", first=-2, count=1)]}, "INVALID_INPUT"),
        ({"ranges": [queries.QueryRange(query_id_prefix="q-00000000-", first=2**63 - 2, count=5)]}, "INVALID_INPUT"),
        ({"ranges": [queries.QueryRange()] * (servicer._RANGES + 1)}, "INVALID_INPUT"),
    ],
)
def test_what_is_asked_wrongly_is_refused(fields: dict[str, object], reason: str) -> None:
    async def script(wire: Wire) -> None:
        call = wire.queries.InvokeTable(queries.InvokeTableRequest(**fields))  # type: ignore[arg-type]
        refusal = await refused(call.read(), grpc.StatusCode.INVALID_ARGUMENT)
        assert refusal.reason == reason

    run(script)


def test_columns_that_differ_name_the_queries() -> None:
    async def script(wire: Wire) -> None:
        made = await _filled(wire)
        first, other = f"{made.query_id_prefix}{made.first}", await wire.register("SELECT a FROM s")
        call = wire.queries.InvokeTable(queries.InvokeTableRequest(query_ids=[first, other]))
        refusal = await refused(call.read(), grpc.StatusCode.INVALID_ARGUMENT)
        assert (refusal.reason, refusal.facts["first"], refusal.facts["second"]) == ("MIXED_COLUMNS", first, other)
        assert first in refusal.message and "(b TEXT) and (a BIGINT)" in refusal.message

    run(script)
