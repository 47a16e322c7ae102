"""The whole path over a socket: create, register, push, leave, come back, invoke."""

import datetime as dt
from decimal import Decimal

import grpc
import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from psoup.work.clock import VirtualClock
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2 as server
from psoup_proto.v1 import streams_pb2 as streams
from psoup_proto.v1 import types_pb2 as types
from psoup_testing.services.wire import Wire, refused, run

TICKS = "CREATE STREAM ticks (symbol TEXT, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at LATENESS 10 SECONDS"
START = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
NOON = VirtualClock(int(dt.datetime(2020, 1, 2, tzinfo=dt.UTC).timestamp() * 1_000_000))


def ticks(*rows: tuple[str, float, int]) -> pa.Table:
    """(symbol, price, seconds after the start)."""
    return pa.table(
        {
            "symbol": [row[0] for row in rows],
            "price": [row[1] for row in rows],
            "at": pa.array([START + dt.timedelta(seconds=row[2]) for row in rows], pa.timestamp("us", "UTC")),
        }
    )


def at(seconds: int) -> Timestamp:
    return Timestamp(seconds=int(START.timestamp()) + seconds)


def test_old_data_and_new_data_are_in_the_answer_once() -> None:
    async def script(wire: Wire) -> None:
        created = await wire.create(TICKS)
        assert created.stream.time_column == "at"
        assert [c.type.kind for c in created.stream.columns] == [
            types.KIND_TEXT,
            types.KIND_DOUBLE,
            types.KIND_TIMESTAMP,
        ]
        assert created.stream.lateness.seconds == 10
        assert not created.stream.HasField("watermark")
        await wire.push("ticks", ticks(("A", 1.0, 0), ("B", 9.0, 20)))
        query = await wire.register("SELECT symbol, price FROM ticks WHERE price > 5")
        rows = ticks(("C", 7.0, 30), ("D", 8.0, 31), ("E", 6.0, 1))
        done = await wire.push("ticks", rows, refused=ingest.REFUSED_COUNT)
        assert (done.accepted, done.late) == (2, 1)
        beat = await wire.ingest.Heartbeat(ingest.HeartbeatRequest(stream="ticks", time=at(100)))
        assert beat.watermark == at(100)
        answer = await wire.invoke(query, min_sequence=beat.sequence)
        assert answer.to_pydict() == {"symbol": ["B", "C", "D"], "price": [9.0, 7.0, 8.0]}

    run(script, clock=NOON)


def test_three_forms_of_an_answer_agree() -> None:
    async def script(wire: Wire) -> None:
        await wire.create(TICKS)
        query = await wire.register("SELECT symbol, price, at, _id FROM ticks WHERE price >= 0")
        rows = [(f"s{i % 7}", float(i), i) for i in range(1_000)]
        await wire.push("ticks", ticks(*rows))
        beat = await wire.ingest.Heartbeat(ingest.HeartbeatRequest(stream="ticks", time=at(2_000)))
        table = await wire.invoke(query, min_sequence=beat.sequence)
        assert table.num_rows == 1_000

        messages = [m async for m in wire.queries.InvokeStream(queries.InvokeStreamRequest(query_id=query))]
        assert messages[0].HasField("completeness")
        assert not any(m.HasField("completeness") for m in messages[1:])
        streamed = pa.ipc.open_stream(b"".join(m.arrow_ipc for m in messages)).read_all()
        assert streamed.equals(table)
        assert sum(m.rows for m in messages) == 1_000

        paged, token = [], ""
        while True:
            request = queries.InvokeRowsRequest(query_id=query, page_size=300, page_token=token)
            page = await wire.queries.InvokeRows(request)
            paged += [(r.values[0].text_value, r.values[1].double_value, r.values[3].bigint_value) for r in page.rows]
            token = page.next_page_token
            if not token:
                break
        assert paged == [(symbol, price, i) for i, (symbol, price, _) in enumerate(rows)]

    run(script, clock=NOON)


def test_an_answer_too_large_for_one_message_says_so() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT, b TEXT)")
        query = await wire.register("SELECT a, b FROM s")
        done = await wire.push("s", pa.table({"a": range(50_000), "b": ["x" * 60] * 50_000}))
        request = queries.InvokeRequest(query_id=query, min_sequence=done.sequence)
        answer = await wire.queries.Invoke(request)
        assert answer.too_large
        assert not answer.arrow_ipc
        assert answer.completeness.sequence == done.sequence
        messages = [m async for m in wire.queries.InvokeStream(queries.InvokeStreamRequest(query_id=query))]
        assert max(len(m.arrow_ipc) for m in messages) < 2_200_000
        assert len(messages) > 3
        assert pa.ipc.open_stream(b"".join(m.arrow_ipc for m in messages)).read_all().num_rows == 50_000
        small = await wire.queries.Invoke(queries.InvokeRequest(query_id=query, window="BEGIN (NOW - 10 ROWS)"))
        assert small.rows == 10
        tiny = await wire.queries.Invoke(
            queries.InvokeRequest(query_id=query, window="BEGIN (NOW - 10 ROWS)", max_bytes=100)
        )
        assert tiny.too_large

    run(script)


def test_as_of_and_another_window() -> None:
    """
    ticks    A(0)   B(60)   C(120)  D(180)          watermark 180
    own window        [120 .. 180]    C D
    as of 120    [60 .. 120]          B C
    other    [0 .. 60]                A B
    as of 120 [0 .. 180]              A B C
    """

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM t (x TEXT, at TIMESTAMP) TIMESTAMP BY at")
        query = await wire.register("SELECT x FROM t BEGIN (NOW - 60) END (NOW)")
        table = ticks(("A", 0, 0), ("B", 0, 60), ("C", 0, 120), ("D", 0, 180)).select([0, 2])
        done = await wire.push("t", table.rename_columns(["x", "at"]))
        values = (await wire.invoke(query, min_sequence=done.sequence)).to_pydict()["x"]
        assert values == ["C", "D"]
        assert (await wire.invoke(query, as_of=at(120))).to_pydict()["x"] == ["B", "C"]
        window = f"BEGIN (START) END TIMESTAMP '{START + dt.timedelta(seconds=60):%Y-%m-%d %H:%M:%S}'"
        assert (await wire.invoke(query, window=window)).to_pydict()["x"] == ["A", "B"]
        answer = await wire.queries.Invoke(queries.InvokeRequest(query_id=query, window=window))
        assert answer.completeness.final
        assert answer.completeness.end == at(60)
        assert answer.completeness.window_kind == types.WINDOW_KIND_SNAPSHOT
        later = f"BEGIN (START) END TIMESTAMP '{START + dt.timedelta(seconds=180):%Y-%m-%d %H:%M:%S}'"
        early = await wire.queries.Invoke(queries.InvokeRequest(query_id=query, window=later, as_of=at(120)))
        assert pa.ipc.open_stream(early.arrow_ipc).read_all().to_pydict()["x"] == ["A", "B", "C"]
        assert (early.completeness.end, early.completeness.final) == (at(120), True)
        assert early.completeness.window_kind == types.WINDOW_KIND_SNAPSHOT
        future = wire.queries.Invoke(queries.InvokeRequest(query_id=query, as_of=at(181)))
        await refused(future, grpc.StatusCode.OUT_OF_RANGE)

    run(script, clock=NOON)


EVERY_TYPE = "CREATE STREAM v (f BOOLEAN, i BIGINT, d DOUBLE, m DECIMAL(9,2), x TEXT, t TIMESTAMP, e DATE)"
VALUES = pa.table(
    {
        "f": [True, None],
        "i": [2**63 - 1, None],
        "d": [float("nan"), None],
        "m": pa.array([Decimal("-12.50"), None], pa.decimal128(9, 2)),
        "x": ["grün\0", None],
        "t": pa.array([-62_135_596_800_000_001, None], pa.timestamp("us", "UTC")),
        "e": pa.array([-719_163, None], pa.date32()),
    }
)


def test_every_type_as_arrow_and_as_values() -> None:
    async def script(wire: Wire) -> None:
        await wire.create(EVERY_TYPE)
        query = await wire.register("SELECT * FROM v")
        done = await wire.push("v", VALUES)
        answer = await wire.invoke(query, min_sequence=done.sequence)
        assert answer.schema.types == VALUES.schema.types
        page = await wire.queries.InvokeRows(queries.InvokeRowsRequest(query_id=query))
        assert [c.name for c in page.columns] == ["f", "i", "d", "m", "x", "t", "e"]
        first, second = page.rows
        kinds = ["boolean", "bigint", "double", "decimal", "text", "timestamp", "date"]
        assert [value.WhichOneof("kind") for value in first.values] == [f"{kind}_value" for kind in kinds]
        assert first.values[1].bigint_value == 2**63 - 1
        assert first.values[3].decimal_value == "-12.50"
        assert first.values[4].text_value == "grün\0"
        assert first.values[5].timestamp_value == Timestamp(seconds=-62_135_596_801, nanos=999_999_000)
        assert first.values[6].date_value == -719_163
        assert [value.WhichOneof("kind") for value in second.values] == [None] * 7

    run(script)


def test_registering_again_gives_the_same_query() -> None:
    async def script(wire: Wire) -> None:
        await wire.create(TICKS)
        request = queries.RegisterRequest(statement="SELECT * FROM ticks WHERE price > 5", request_id="r1")
        first, second = [await wire.queries.Register(request) for _ in range(2)]
        assert not first.duplicate
        assert second.duplicate
        assert second.query == first.query
        assert first.query.window == "BEGIN (START) END (NOW)"
        assert first.query.window_kind == types.WINDOW_KIND_LANDMARK
        assert [c.name for c in first.query.columns] == ["symbol", "price", "at"]
        request.statement = "SELECT * FROM ticks"
        refusal = await refused(wire.queries.Register(request), grpc.StatusCode.ABORTED)
        assert "r1" in refusal.message
        assert f"register another query: {first.query.query_id}; use a new" in refusal.message
        assert refusal.facts["query_id"] == first.query.query_id
        await wire.queries.Unregister(queries.UnregisterRequest(query_id=first.query.query_id))
        third = await wire.queries.Register(request)
        assert not third.duplicate
        assert third.query.query_id != first.query.query_id

    run(script)


def test_lists_come_by_page() -> None:
    async def script(wire: Wire) -> None:
        for name in ("c", "A", "b"):
            await wire.create(f"CREATE STREAM {name} (x BIGINT)")
        ids = [await wire.register(f"SELECT x FROM a WHERE x > {i}") for i in range(5)]
        other = await wire.register("SELECT x FROM b")
        names, token = [], ""
        while True:
            page = await wire.streams.ListStreams(streams.ListStreamsRequest(page_size=2, page_token=token))
            names += [s.name for s in page.streams]
            token = page.next_page_token
            if not token:
                break
        assert [name.lower() for name in names] == ["a", "b", "c"]
        found, token = [], ""
        while True:
            request = queries.ListQueriesRequest(page_size=2, page_token=token, stream="a")
            page = await wire.queries.ListQueries(request)
            found += [q.query_id for q in page.queries]
            token = page.next_page_token
            if not token:
                break
        assert found == ids
        everything = await wire.queries.ListQueries(queries.ListQueriesRequest())
        assert [q.query_id for q in everything.queries] == [*ids, other]
        token = (await wire.queries.ListQueries(queries.ListQueriesRequest(page_size=1, stream="a"))).next_page_token
        for bad in (
            queries.ListQueriesRequest(page_token=token),
            queries.ListQueriesRequest(page_token="x"),
            queries.ListQueriesRequest(page_size=-1),
        ):
            await refused(wire.queries.ListQueries(bad), grpc.StatusCode.INVALID_ARGUMENT)

    run(script)


def test_matches_explain_unregister_drop() -> None:
    async def script(wire: Wire) -> None:
        stream = (await wire.create("CREATE STREAM s (x BIGINT)")).stream
        ids = [await wire.register(f"SELECT x FROM s WHERE x > {i}") for i in range(5)]
        done = await wire.push("s", pa.table({"x": [0, 3]}))
        await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))
        first = await wire.queries.Matches(queries.MatchesRequest(stream="s", tuple_id=1, page_size=2))
        rest = await wire.queries.Matches(
            queries.MatchesRequest(stream="s", tuple_id=1, page_token=first.next_page_token)
        )
        assert [*first.query_ids, *rest.query_ids] == ids[:3]
        plan = await wire.queries.Explain(queries.ExplainRequest(query_id=ids[0]))
        assert plan.lines[0].startswith(f"query {ids[0]} on stream s")
        assert plan.details["query_id"] == ids[0]

        drop = streams.DropStreamRequest(name="s", stream_id=stream.stream_id)
        refusal = await refused(wire.streams.DropStream(drop), grpc.StatusCode.FAILED_PRECONDITION)
        assert "5 queries" in refusal.message
        assert ids[0] in refusal.message
        for query in ids:
            await wire.queries.Unregister(queries.UnregisterRequest(query_id=query))
        gone = await refused(wire.queries.GetQuery(queries.GetQueryRequest(query_id=ids[0])), grpc.StatusCode.NOT_FOUND)
        assert ids[0] in gone.message
        again = queries.UnregisterRequest(query_id=ids[0])
        await refused(wire.queries.Unregister(again), grpc.StatusCode.NOT_FOUND)
        again.allow_missing = True
        assert (await wire.queries.Unregister(again)).sequence == 0
        await wire.streams.DropStream(drop)
        await refused(wire.streams.DropStream(drop), grpc.StatusCode.NOT_FOUND)
        await wire.create("CREATE STREAM s (x BIGINT)")
        refusal = await refused(wire.streams.DropStream(drop), grpc.StatusCode.NOT_FOUND)
        assert refusal.reason == "OTHER_STREAM"
        drop.allow_missing = True
        await wire.streams.DropStream(drop)
        assert (await wire.streams.GetStream(streams.GetStreamRequest(name="S"))).stream.name == "s"

    run(script)


def test_creating_again_is_safe_if_the_definition_is_the_same() -> None:
    async def script(wire: Wire) -> None:
        first = await wire.create(TICKS)
        refusal = await refused(wire.create(TICKS), grpc.StatusCode.ALREADY_EXISTS)
        assert "ticks" in refusal.message
        again = await wire.streams.CreateStream(
            streams.CreateStreamRequest(statement=TICKS.lower(), allow_existing=True)
        )
        assert again.duplicate
        assert again.stream.stream_id == first.stream.stream_id
        other = streams.CreateStreamRequest(statement="CREATE STREAM ticks (x BIGINT)", allow_existing=True)
        await refused(wire.streams.CreateStream(other), grpc.StatusCode.ALREADY_EXISTS)

    run(script)


def test_pages_notice_that_the_answer_changed() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM t (x TEXT, at TIMESTAMP) TIMESTAMP BY at")
        query = await wire.register("SELECT x FROM t")
        four = ticks(*[(c, 0, i) for i, c in enumerate("ABCD")]).select([0, 2]).rename_columns(["x", "at"])
        done = await wire.push("t", four)
        request = queries.InvokeRowsRequest(query_id=query, page_size=2, min_sequence=done.sequence)
        first = await wire.queries.InvokeRows(request)
        request.page_token = first.next_page_token
        same = await wire.queries.InvokeRows(request)
        assert [r.values[0].text_value for r in same.rows] == ["C", "D"]
        later = await wire.push("t", four.slice(3, 1))  # at the watermark: joins the window of the first page
        request.min_sequence = later.sequence
        refusal = await refused(wire.queries.InvokeRows(request), grpc.StatusCode.FAILED_PRECONDITION)
        assert refusal.reason == "PAGE_EXPIRED"
        request.window = "BEGIN (NOW - 1)"
        refusal = await refused(wire.queries.InvokeRows(request), grpc.StatusCode.INVALID_ARGUMENT)
        assert refusal.reason == "PAGE_TOKEN"

    run(script, clock=NOON)


@pytest.mark.parametrize("foreign", ["q-00000000-1", "q-ffffffff-999999999999999999"])
def test_ids_of_another_incarnation_say_so(foreign: str) -> None:
    async def script(wire: Wire) -> None:
        refusal = await refused(wire.invoke(foreign), grpc.StatusCode.NOT_FOUND)
        assert refusal.reason == "FOREIGN_INCARNATION"
        assert "register again" in refusal.message
        info = await wire.server.GetServerInfo(server.GetServerInfoRequest())
        assert refusal.facts["incarnation"] == info.incarnation
        for bad in ("", "1", "q-1", f"q-{info.incarnation}-x", f"s-{info.incarnation}-1", "q" * 5_000):
            await refused(wire.invoke(bad), grpc.StatusCode.INVALID_ARGUMENT)
        await refused(wire.invoke(f"q-{info.incarnation}-999999999999999999"), grpc.StatusCode.NOT_FOUND)

    run(script)


def test_server_info() -> None:
    async def script(wire: Wire) -> None:
        info = await wire.server.GetServerInfo(server.GetServerInfoRequest())
        assert (info.store, info.durable, info.state) == ("memory", False, "serving")
        assert info.limits.ingest_message_bytes == 16 * 1024 * 1024
        assert info.memory["tuples_bytes"] == 0
        await wire.create("CREATE STREAM s (x BIGINT)")
        await wire.push("s", pa.table({"x": [1]}))
        info = await wire.server.GetServerInfo(server.GetServerInfoRequest())
        assert info.memory["reserved_bytes"] > 0

    run(script)
