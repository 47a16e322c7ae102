"""Requests on their way in: what is refused before it is read, what is charged, and what ends that never comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import grpc
import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from psoup.errors import InvalidInput, ResourceExhausted
from psoup_client import Client, NotFound
from psoup_client.channel.connection import MAX_SEND_BYTES, naming
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import matching_pb2 as matching
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2 as server
from psoup_proto.v1 import streams_pb2 as streams
from psoup_service.process.settings import Settings
from psoup_service.wire import fields
from psoup_testing.http2.half_messages import half_sent
from psoup_testing.services.gated_service import descriptors
from psoup_testing.services.loop_turns import no_stalls
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.services.wire import Wire, ipc, refusal_of, refused, run
from psoup_testing.suite.sweeps import swept

MIB = 1024 * 1024
CODE = grpc.StatusCode
PATIENCE = 60.0
TABLE = pa.table({"x": [1]})


@pytest.fixture(scope="module")
def there() -> Iterator[Serving]:
    """Room for two of the largest requests, which have a second to come."""
    with serving(Settings(port=0, receive_mib=32, receive_s=1.0)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        yield service


@pytest.mark.seeded("F5: messages that never end take memory without a bound")
@pytest.mark.parametrize(
    ("method", "size"),
    swept(
        [("IngestService/Push", 4 * MIB), ("IngestService/PushStream", 4 * MIB), ("QueryService/Register", 2 * MIB)],
        fast=1,
    ),
)
def test_requests_that_never_end_are_bounded_and_end(there: Serving, method: str, size: int) -> None:
    """A stream of batches that was begun is charged as one; that it says nothing more is no reason to end it."""
    held = 2 if method.endswith("PushStream") else 8 if "Query" in method else 0
    with Client(there.address) as client, no_stalls(there.service):
        with half_sent(there.address, method, calls=20, size=size) as half:
            assert half.wait_ended(20 - held, PATIENCE)
            assert there.service._calls.receiving <= 32 * MIB
            assert client.push("s", TABLE).accepted == 1  # others' requests come in meanwhile
        assert client.push("s", TABLE).accepted == 1
    gone(there)


@pytest.mark.long
def test_a_name_that_is_a_lie_is_believed_for_a_moment_only(there: Serving) -> None:
    names = (("psoup-size", "1000"),)
    with half_sent(there.address, "IngestService/Push", calls=8, size=2 * MIB, names=names) as half:
        assert half.wait_ended(8, PATIENCE)
    gone(there)


def test_what_names_an_unknown_stream_or_too_much_is_not_read(there: Serving) -> None:
    for names in ((("psoup-stream-bin", "bm9wZQ"),), (("psoup-size", str(17 * MIB)),), (("psoup-size", "many"),)):
        with half_sent(there.address, "IngestService/Push", calls=4, size=8 * MIB, names=names) as half:
            assert half.wait_ended(4, PATIENCE)
            assert half.sent <= 4 * 2 * 65_536 + 65_536
    gone(there)


def gone(there: Serving) -> None:
    """Nothing is charged, and no call is under way."""
    future = asyncio.run_coroutine_threadsafe(there.service._calls.under_way.finished(PATIENCE), there._loop)
    assert future.result(PATIENCE)
    assert there.service._calls.receiving == 0


def test_what_is_named_is_held_against_what_came() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        push = ingest.PushRequest(stream="s", arrow_ipc=ipc(TABLE))
        size = push.ByteSize()
        assert (await wire.ingest.Push(push, metadata=(("psoup-size", str(size)),))).accepted == 1
        for said in (str(size - 1), "-1", "", "1e3"):
            call = wire.ingest.Push(push, metadata=(("psoup-size", said),))
            assert (await refused(call, CODE.INVALID_ARGUMENT)).reason == "SIZE_NAMED_WRONGLY"
        call = wire.ingest.Push(push, metadata=(("psoup-size", str(17 * MIB)),))
        assert (await refused(call, CODE.RESOURCE_EXHAUSTED)).reason == "MESSAGE_TOO_LARGE"
        named = wire.ingest.Push(push, metadata=(("psoup-stream-bin", b"nope"),))
        assert (await refused(named, CODE.NOT_FOUND)).reason == "UNKNOWN_STREAM"

        async def endless() -> AsyncIterator[ingest.PushStreamRequest]:
            await asyncio.Event().wait()
            yield ingest.PushStreamRequest()

        stream = wire.ingest.PushStream(endless(), metadata=(("psoup-stream-bin", b"nope"),))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert refusal_of(caught.value).reason == "UNKNOWN_STREAM"

    run(script)


def test_a_call_without_a_request_is_refused() -> None:
    async def script(wire: Wire) -> None:
        async def nothing() -> AsyncIterator[bytes]:
            for message in ():
                yield message

        for method in ("ServerService/GetServerInfo", "IngestService/Push", "QueryService/InvokeStream"):
            call = wire.channel.stream_stream(f"/psoup.v1.{method}")(nothing())
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert refusal_of(caught.value).reason == "NO_MESSAGE"

    run(script)


@pytest.mark.long
def test_streams_that_wait_make_way_and_producers_go_on() -> None:
    """Room for one: of three idle producers two lose their stream, and lose nothing by it."""
    with serving(Settings(port=0, receive_mib=16)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        producers = [client.producer("s", name=f"p{number}") for number in range(3)]
        for _ in range(3):
            for producer in producers:
                producer.push(TABLE)
                producer.flush(PATIENCE)
            wait_for(lambda: service.service._calls.under_way.open <= 1)
        for producer in producers:
            assert producer.result.accepted == 3
            assert producer.result.duplicates == 0
            producer.close()


def wait_for(condition: object) -> None:
    """Wait for what the service does by itself, a tick at a time."""
    tick, ends = threading.Event(), PATIENCE
    while not condition():  # type: ignore[operator]
        assert ends > 0
        ends -= 0.05
        tick.wait(0.05)


def test_long_requests_come_in_and_are_given_back() -> None:
    rows = pa.table({"x": pa.array(range(1_000_000), pa.int64())})
    with serving(Settings(port=0, receive_mib=32)) as there, Client(there.address) as client:
        client.create_stream("CREATE STREAM s (x BIGINT)")
        for _ in range(3):
            assert client.push("s", rows).accepted == len(rows)
        with pytest.raises(NotFound):
            client.connection.call(
                client.connection.ingest.Push, ingest.PushRequest(stream="s"), names=naming(0, "nope")
            )
        gone(there)
    assert dict(naming(MAX_SEND_BYTES - 4_096))["psoup-size"] == str(MAX_SEND_BYTES)


def test_messages_of_very_many_fields_are_refused_before_they_are_parsed(there: Serving) -> None:
    many = {
        "IngestService/Push": b"\x78\x01" * (7 * MIB),
        "QueryService/InvokeMany": b"\x0a\x00" * (MIB + MIB // 2),
        "QueryService/RegisterMany": b"\x0a\x00" * (7 * MIB),
    }
    with grpc.insecure_channel(there.address) as channel, no_stalls(there.service):
        for method, raw in many.items():
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(f"/psoup.v1.{method}")(raw)
            assert refusal_of(caught.value).reason == "NOT_PROTOBUF"


def test_values_that_no_call_takes_are_refused_before_they_are_parsed(there: Serving) -> None:
    labels = {f"{number:x}": "" for number in range(40_000)}
    many: dict[str, Message] = {
        "QueryService/Register": queries.RegisterRequest(statement="SELECT x FROM s", labels=labels),
        "MatchingService/Match": matching.MatchRequest(stream="s", labels=labels),
        "QueryService/MatchesMany": queries.MatchesManyRequest(stream="s", tuple_ids=range(1_000_000)),
        "QueryService/InvokeTable": queries.InvokeTableRequest(numbers=range((1 << 20) + 1)),
    }
    with grpc.insecure_channel(there.address) as channel, no_stalls(there.service):
        for method, message in many.items():
            with pytest.raises(grpc.RpcError) as caught:
                list(channel.unary_stream(f"/psoup.v1.{method}")(message.SerializeToString()))
            refusal = refusal_of(caught.value)
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_MANY_VALUES")
            assert f"{refusal.facts['field']} has more than {int(refusal.facts['limit']):,} " in refusal.message


def test_entries_and_packed_numbers_are_counted_as_protobuf_has_them() -> None:
    bounds = fields.bounds_of(queries.InvokeTableRequest.DESCRIPTOR)
    assert {bound.name: bound.most for bound in bounds.values()} == {
        "ranges": 16_384,
        "numbers": 1 << 20,
        "labels": 1_024,
        "windows": 1_024,
        "query_ids": 131_072,
        "key_prefix": 131_072,
        "query_id_prefix": 131_072,
        "window": 131_072,
    }
    few = {number: bound if bound.is_text else bound._replace(most=100) for number, bound in bounds.items()}

    def over(most: bytes, more: bytes) -> str:
        fields.check(most, few)
        with pytest.raises(InvalidInput) as refusal:
            fields.check(most + more, few)
        return refusal.value.facts["field"]

    def numbers(*values: int) -> bytes:
        return queries.InvokeTableRequest(numbers=values).SerializeToString()

    def labels(start: int, stop: int) -> bytes:
        return queries.InvokeTableRequest(labels={f"k{n}": "v" for n in range(start, stop)}).SerializeToString()

    ranges = [queries.QueryRange(first=n, count=1) for n in range(100)]
    assert over(numbers(*range(0, 1 << 60, 1 << 54)[:64], *([-1] * 36)), numbers(5)) == "numbers"
    assert over(b"\x18\x05" * 100, b"\x18\x05") == "numbers", "not packed"
    assert over(labels(0, 100), labels(100, 101)) == "labels"
    assert over(queries.InvokeTableRequest(ranges=ranges).SerializeToString(), b"\x0a\x00") == "ranges"
    fields.check(numbers(*range(90)) + labels(0, 90) + b"\x1a\xff\xff\xff\xff\x0f", few)
    fields.check(b"\x12\x01a" * 1_000, few)  # of texts the length is bounded
    texts = queries.InvokeTableRequest(query_ids=["a" * 131_072, "b" * 131_072]).SerializeToString()
    fields.check(texts, bounds)
    with pytest.raises(ResourceExhausted, match="query_ids has more than 131,072 bytes") as refusal:
        fields.check(texts + b"\x12\x81\x80\x08" + b"c" * 131_073, bounds)
    assert refusal.value.reason == "MESSAGE_TOO_LARGE"


def test_requests_have_maps_and_lists_of_numbers_at_their_top_only() -> None:
    def bounds(message: Descriptor) -> list[fields.FieldLimit]:
        return [bound for bound in fields.bounds_of(message).values() if not bound.is_text]

    def below(message: Descriptor, seen: frozenset[str]) -> Iterator[str]:
        for field in message.fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in seen:
                yield from (f"{inner.full_name}.{of.name}" for of in bounds(inner))
                yield from below(inner, seen | {inner.full_name})

    requests = {method.input_type.full_name: method.input_type for method in descriptors().values()}
    assert not [name for request in requests.values() for name in below(request, frozenset())]


def test_fields_are_counted_as_protobuf_has_them() -> None:
    message = queries.InvokeManyRequest(query_ids=["a", "b" * 300], max_bytes=1 << 30, accept_truncation=True)
    assert fields.count(message.SerializeToString(), 10) == 4
    assert fields.count(message.SerializeToString(), 3) == 4
    assert fields.count(message.SerializeToString(), 2) == 3
    assert fields.count(streams.GetStreamRequest(name="s").SerializeToString(), 5) == 1
    assert fields.count(b"", 5) == 0
    for garbage in (b"\x0b", b"\x80" * 12, b"\x08"):
        assert fields.count(garbage, 5) > 5
    assert server.GetServerInfoRequest().SerializeToString() == b""
