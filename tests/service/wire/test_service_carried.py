"""Requests with payloads of megabytes: read where they came, equal to what a parser reads, wherever they lie."""

from __future__ import annotations

import random

import grpc
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import matching_pb2 as matching
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import staging_pb2 as staging
from psoup_service.wire import fields
from psoup_service.wire.large_requests import COPIED_BYTES, Carrying, payload_number, split
from psoup_service.wire.written import with_payload
from psoup_testing.services.wire import Wire, ipc, refused, run
from psoup_testing.suite.budget import Budget

NUMBER = payload_number(ingest.PushRequest.DESCRIPTOR)
BUDGET = Budget("requests in two parts", cases=4_000)


def test_the_calls_that_carry_tuples_have_a_payload() -> None:
    for kind in (ingest.PushRequest, ingest.PushStreamRequest, staging.AddPartRequest, matching.MatchRequest):
        assert payload_number(kind.DESCRIPTOR) > 0
    assert payload_number(queries.RegisterManyRequest.DESCRIPTOR) == 0


def drawn(draw: random.Random) -> ingest.PushRequest:
    request = ingest.PushRequest(arrow_ipc=draw.randbytes(draw.choice((0, 1, 127, 128, 300, 20_000))))
    if draw.random() < 0.7:
        request.stream = "s" * draw.randrange(200)
    if draw.random() < 0.5:
        request.producer, request.number, request.epoch = "p", draw.getrandbits(40), draw.getrandbits(20)
    return request


def test_a_request_in_two_parts_is_the_request() -> None:
    for number in BUDGET.rounds():
        draw = random.Random(number)
        for _ in range(50):
            request = drawn(draw)
            raw = request.SerializeToString()
            if draw.random() < 0.3:
                raw = _mutated(draw, raw)
            BUDGET.count()
            parts = split(raw, NUMBER)
            try:
                whole = ingest.PushRequest.FromString(raw)
            except DecodeError:
                if parts is not None:  # what is wrong is beside the payload, and its parser says so
                    with pytest.raises(DecodeError):
                        ingest.PushRequest.FromString(parts.rest)
                continue
            if parts is None:
                assert raw != request.SerializeToString() or not request.arrow_ipc
                continue
            carrying = Carrying(ingest.PushRequest.FromString(parts.rest), parts.payload)
            assert bytes(carrying.arrow_ipc) == whole.arrow_ipc
            for name in ("stream", "producer", "number", "epoch", "since"):
                assert getattr(carrying, name) == getattr(whole, name)


def _mutated(draw: random.Random, raw: bytes) -> bytes:
    more = bytearray(raw or b"\0")
    match draw.randrange(4):
        case 0:
            more[draw.randrange(len(more))] ^= 1 << draw.randrange(8)
        case 1:
            del more[draw.randrange(len(more)) :]
        case 2:  # the field twice: the last one counts
            more += ingest.PushRequest(arrow_ipc=b"another").SerializeToString()
        case 3:  # fields of a later version
            more += b"\xfa\x7f\x03abc" + b"\xfd\x7f1234" + b"\xf9\x7f12345678" + b"\xf8\x7f\x07"
    return bytes(more)


def test_what_is_not_quickly_seen_is_left_to_the_parser() -> None:
    payload = ingest.PushRequest(arrow_ipc=b"x" * 100).SerializeToString()
    assert split(payload, NUMBER) is not None
    for later in (b"\xfa\x7f\x03abc", b"\xfd\x7f1234", b"\xf9\x7f12345678", b"\xf8\x7f\x07"):  # of each wire type
        assert split(later + payload + later, NUMBER) == (later + later, b"x" * 100)
    assert split(payload * 2, NUMBER) is None
    assert split(payload + b"\xf8\x7f\x07" * fields.FEW, NUMBER) is None, "many fields"
    assert split(payload + ingest.PushRequest(stream="s" * 70_000).SerializeToString(), NUMBER) is None
    assert split(payload[:-1], NUMBER) is None
    assert split(payload + b"\xf3\x7f", NUMBER) is None, "a group"
    assert split(b"", NUMBER) is None


@pytest.mark.long
def test_large_pushes_are_taken_wherever_their_payload_lies() -> None:
    rows = pa.table({"x": np.arange(60_000), "t": [f"text {n}" for n in range(60_000)]})
    coded = pa.table({"x": rows["x"], "t": rows["t"].dictionary_encode()})
    payloads = [ipc(rows), ipc(rows, compression="zstd"), ipc(rows, compression="lz4"), ipc(coded)]
    assert len(payloads[0]) > COPIED_BYTES > len(payloads[1])

    async def script(wire: Wire) -> None:
        for width in range(1, 9):  # the payload begins a byte further each time
            name = "s" * width
            await wire.create(f"CREATE STREAM {name} (x BIGINT, t TEXT)")
            query = await wire.register(f"SELECT x, t FROM {name} BEGIN (START)")
            for payload in payloads:
                assert len(payload) > 64 * 1024
                done = await wire.push(name, payload)
                assert done.accepted == len(rows)
            await wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))
            pieces = wire.queries.InvokeStream(queries.InvokeStreamRequest(query_id=query))
            raw = b"".join([piece.arrow_ipc async for piece in pieces])
            with pa.ipc.open_stream(raw) as reader:
                assert reader.read_all().equals(pa.concat_tables([rows] * len(payloads)).combine_chunks())

    run(script)


def test_a_large_push_that_is_wrong_is_refused_as_a_small_one_is() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        junk = await refused(wire.push("s", b"\0" * 200_000), grpc.StatusCode.INVALID_ARGUMENT)
        assert junk.reason == "NOT_ARROW"
        other = await refused(wire.push("s", pa.table({"y": range(50_000)})), grpc.StatusCode.INVALID_ARGUMENT)
        assert "'y'" in other.message
        rows = ipc(pa.table({"x": range(50_000)}))
        raw = ingest.PushRequest(stream="s", arrow_ipc=rows).SerializeToString()
        push = wire.channel.unary_unary("/psoup.v1.IngestService/Push")
        await refused(push(raw[:-1]), grpc.StatusCode.INVALID_ARGUMENT)
        await refused(push(raw + b"\x0a\x02\xff\xfe"), grpc.StatusCode.INVALID_ARGUMENT)
        assert await push(raw)

    run(script)


def test_a_reply_written_beside_its_payload_is_the_reply() -> None:
    for size in (0, 1, 127, 128, 16_383, 16_384, 70_000, 3_000_000):
        payload = random.Random(size).randbytes(size)
        written = with_payload(queries.InvokeStreamResponse(rows=size), "arrow_ipc", memoryview(payload))
        expected = queries.InvokeStreamResponse(rows=size, arrow_ipc=payload)
        assert queries.InvokeStreamResponse.FromString(written.raw) == expected
