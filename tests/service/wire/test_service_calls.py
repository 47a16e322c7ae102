"""The surroundings of a call: sizes, deadlines, ages, numbers, disconnects; none of them gives UNKNOWN or INTERNAL."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2 as server
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.process.settings import Settings
from psoup_service.wire.grpc_calls import Unreadable, parser
from psoup_testing.services.wire import Wire, ipc, refusal_of, refused, run
from psoup_testing.suite.sweeps import swept

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
DEADLINE = grpc.StatusCode.DEADLINE_EXCEEDED
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
INVALID = grpc.StatusCode.INVALID_ARGUMENT
MIB = 1024 * 1024


def test_a_request_that_is_no_message_is_refused() -> None:
    async def script(wire: Wire) -> None:
        for method in ("QueryService/Invoke", "StreamService/CreateStream", "IngestService/Push"):
            call = wire.channel.unary_unary(f"/psoup.v1.{method}")
            for raw in (b"\xff", b"\x0a\x7f", b"\x08" + b"\xff" * 11):
                refusal = await refused(call(raw), INVALID)
                assert refusal.reason == "NOT_PROTOBUF"
        info = wire.channel.unary_unary("/psoup.v1.ServerService/GetServerInfo")
        assert await info(b"\xfa\x7f\x03abc")  # an unknown field of a later version is no error
        await refused(wire.channel.unary_unary("/psoup.v1.QueryService/Nope")(b""), grpc.StatusCode.UNIMPLEMENTED)

    run(script)


def test_no_bytes_make_a_parser_fail() -> None:
    """gRPC would report an exception of a deserializer as INTERNAL."""
    draw = random.Random(7)
    valid = queries.InvokeRequest(query_id="q-00000000-1", window="BEGIN (NOW)", min_sequence=9).SerializeToString()
    nested = b""
    for _ in range(400):
        nested = b"\x0a" + bytes([len(nested) % 128]) + nested[:127]
    for kind in (queries.InvokeRequest, ingest.PushRequest, streams.Stream, queries.InvokeRowsResponse):
        parse = parser(kind.FromString, 10_000)
        for raw in (nested, b"\x0a\x02\xff\xfe", b"\x0a\x03\xed\xa0\x80"):
            assert isinstance(parse(raw), kind | Unreadable)
        for _ in range(5_000):
            raw = bytearray(valid if draw.random() < 0.5 else draw.randbytes(draw.randrange(40)))
            for at in draw.sample(range(len(raw)), min(len(raw), draw.randrange(4))):
                raw[at] = draw.randrange(256)
            assert isinstance(parse(bytes(raw)), kind | Unreadable)
    assert isinstance(parser(queries.InvokeRequest.FromString, 10)(valid), Unreadable)


@pytest.mark.long
def test_large_messages_are_refused_by_their_call() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        request = streams.CreateStreamRequest(statement="x" * (4 * MIB))
        refusal = await refused(wire.streams.CreateStream(request), EXHAUSTED)
        assert refusal.reason == "MESSAGE_TOO_LARGE"
        refusal = await refused(wire.create("x" * MIB), EXHAUSTED)
        assert (refusal.reason, refusal.facts["field"]) == ("MESSAGE_TOO_LARGE", "statement")
        refusal = await refused(wire.create("x" * (100 * 1024)), INVALID)
        assert "longer than 65,536 bytes" in refusal.message
        refusal = await refused(wire.push("s", b"\0" * (17 * MIB)), EXHAUSTED)
        assert (await wire.push("s", pa.table({"x": range(1_000_000)}))).accepted == 1_000_000

    run(script)


@pytest.mark.long
def test_a_compressed_message_cannot_grow_past_its_limit() -> None:
    """A gzip bomb at the level of gRPC: 200 MiB of zeros in some 200 KiB."""

    async def script(wire: Wire) -> None:
        options = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(
            wire.service.address, compression=grpc.Compression.Gzip, options=options
        ) as channel:
            call = channel.unary_unary("/psoup.v1.IngestService/Push")
            await refused(call(b"\0" * (200 * MIB)), EXHAUSTED)
        assert await wire.create("CREATE STREAM s (x BIGINT)")

    run(script)


def test_too_much_metadata_is_refused() -> None:
    async def script(wire: Wire) -> None:
        request = server.GetServerInfoRequest()
        await refused(wire.server.GetServerInfo(request, metadata=(("x-big", "a" * 20_000),)), EXHAUSTED)
        assert await wire.server.GetServerInfo(request, metadata=(("x-small", "a" * 2_000),))

    run(script)


def test_a_call_without_a_deadline_gets_one() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        gate = Gate(wire)
        done = await wire.push("s", pa.table({"x": [1]}))
        request = queries.WaitForSequenceRequest(sequence=done.sequence)
        with gate:
            await refused(wire.queries.WaitForSequence(request), DEADLINE)
            await refused(wire.queries.WaitForSequence(request, timeout=0.001), DEADLINE)
        assert (await wire.queries.WaitForSequence(request, timeout=30)).sequence >= done.sequence
        request.sequence = 10**9
        refusal = await refused(wire.queries.WaitForSequence(request, timeout=30), grpc.StatusCode.OUT_OF_RANGE)
        assert refusal.reason == "UNKNOWN_SEQUENCE"
        request.sequence = -1
        await refused(wire.queries.WaitForSequence(request, timeout=30), INVALID)

    run(script, Settings(port=0, default_deadline_s=0.1))


class Gate:
    """Holds the writer inside apply: the engine's own method is replaced by one that waits."""

    def __init__(self, wire: Wire) -> None:
        self._open = threading.Event()
        self._engine = wire.service.host._engine
        self._apply = self._engine.apply

        def held(events: object) -> object:
            assert self._open.wait(60)
            return self._apply(events)

        self._engine.apply = held

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._open.set()


def test_an_answer_does_not_wait_for_the_writer() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s")
        first = await wire.push("s", pa.table({"x": [1]}))
        assert (await wire.invoke(query, min_sequence=first.sequence)).num_rows == 1
        with Gate(wire):
            second = await wire.push("s", pa.table({"x": [2]}))
            answer = await wire.queries.Invoke(queries.InvokeRequest(query_id=query), timeout=30)
            assert answer.rows == 1
            assert answer.completeness.sequence == first.sequence
            pieces = wire.queries.InvokeStream(queries.InvokeStreamRequest(query_id=query), timeout=30)
            assert sum([m.rows async for m in pieces]) == 1
        assert (await wire.invoke(query, min_sequence=second.sequence)).num_rows == 2

    run(script)


async def silent(*first: ingest.PushStreamRequest) -> AsyncIterator[ingest.PushStreamRequest]:
    for message in first:
        yield message
    await asyncio.Event().wait()


def push_message(value: int) -> ingest.PushStreamRequest:
    return ingest.PushStreamRequest(stream="s", arrow_ipc=ipc(pa.table({"x": [value]})))


async def collect(call: Any, replies: list[ingest.PushStreamResponse]) -> None:
    """Read the replies of a call until it ends."""
    while (reply := await call.read()) is not grpc.aio.EOF:
        replies.append(reply)


@pytest.mark.parametrize(
    ("settings", "reason"),
    swept(
        [(Settings(port=0, stream_idle_s=0.1), "STREAM_IDLE"), (Settings(port=0, stream_age_s=0.1), "STREAM_AGE")],
        fast=1,
    ),
)
def test_idle_and_old_streams_are_ended(settings: Settings, reason: str) -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        replies = list[ingest.PushStreamResponse]()
        while not replies:  # on a busy machine a stream may end before its first batch is taken
            refusal = await refused(collect(wire.ingest.PushStream(silent(push_message(1))), replies), UNAVAILABLE)
            assert refusal.reason == reason and "RetryInfo" in refusal.details
        assert [reply.accepted for reply in replies] == [1]
        assert await wire.service._calls.under_way.finished(60)

    run(script, settings)


@pytest.mark.long
def test_a_reader_that_stalls_is_cut() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT, t TEXT)")
        query = await wire.register("SELECT x, t FROM s")
        for _ in range(8):
            done = await wire.push("s", pa.table({"x": range(20_000), "t": ["t" * 100] * 20_000}))
        await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))
        call = wire.queries.InvokeStream(queries.InvokeStreamRequest(query_id=query))
        await call.read()
        assert await wire.service._calls.under_way.finished(60)  # the server gives up, though nobody reads
        refusal = await refused(read_all(call), UNAVAILABLE)
        assert refusal.reason == "STREAM_IDLE"

    run(script, Settings(port=0, stream_idle_s=0.3))


async def read_all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


@pytest.mark.long
def test_open_read_one_cancel_leaves_nothing() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        query = await wire.register("SELECT x FROM s")
        done = await wire.push("s", pa.table({"x": range(400_000)}))
        await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))
        tasks = len(asyncio.all_tasks())
        for _ in range(100):
            call = wire.queries.InvokeStream(queries.InvokeStreamRequest(query_id=query))
            await call.read()
            call.cancel()
        assert await wire.service._calls.under_way.finished(60)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= tasks + 2

    run(script)


def test_more_calls_than_allowed_are_refused() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        held = [wire.ingest.PushStream(silent(push_message(i))) for i in range(4)]
        for call in held:
            await call.read()
        refusal = await refused(wire.server.GetServerInfo(server.GetServerInfoRequest()), EXHAUSTED)
        assert refusal.reason == "TOO_MANY_CALLS"
        assert "RetryInfo" in refusal.details
        for call in held:
            call.cancel()
        assert await wire.service._calls.under_way.finished(60)
        assert await wire.server.GetServerInfo(server.GetServerInfoRequest())

    run(script, Settings(port=0, concurrent_calls=4))


def test_draining_finishes_what_came_and_refuses_the_rest() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        health = health_pb2_grpc.HealthStub(wire.channel)
        check = health_pb2.HealthCheckRequest(service="psoup.v1.IngestService")
        assert (await health.Check(check)).status == health_pb2.HealthCheckResponse.SERVING
        call = wire.ingest.PushStream(silent(push_message(1)))
        assert (await call.read()).accepted == 1
        gate = Gate(wire)
        await wire.push("s", pa.table({"x": [2]}))
        stopping = asyncio.create_task(wire.service.stop())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        refusal = refusal_of(caught.value)
        assert (refusal.code, refusal.reason) == (UNAVAILABLE, "DRAINING")
        assert (await health.Check(check)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        refusal = await refused(wire.push("s", pa.table({"x": [3]})), UNAVAILABLE)
        assert refusal.reason == "DRAINING"
        with gate:
            pass
        assert await stopping
        assert wire.service.host.state == "stopped"
        assert wire.service.host.snapshot().stream("s", "default").next_id == 2

    run(script)


def test_limits_are_told_as_they_are() -> None:
    settings = Settings(port=0, default_deadline_s=1.5, concurrent_calls=7)
    limits = settings.limits().to_proto()
    assert limits.default_deadline.ToTimedelta().total_seconds() == 1.5
    assert limits.concurrent_calls == 7
    assert replace(settings.limits(), batch_rows=5).to_proto().batch_rows == 5
