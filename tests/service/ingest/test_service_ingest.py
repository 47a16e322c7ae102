"""Batches on their way in: pipelining, exactly once, and what is refused."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from psoup.work.clock import VirtualClock
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import ingest_pb2_grpc
from psoup_service.process.settings import Settings
from psoup_testing.services.wire import Refusal, Wire, ipc, refusal_of, refused, run

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def message(number: int, value: int, **fields: object) -> ingest.PushStreamRequest:
    return ingest.PushStreamRequest(number=number, arrow_ipc=ipc(pa.table({"x": [value]})), **fields)


async def push_all(
    wire: Wire, messages: list[ingest.PushStreamRequest]
) -> tuple[list[ingest.PushStreamResponse], Refusal | None]:
    """The replies to a PushStream, and how it was refused if it was."""
    replies: list[ingest.PushStreamResponse] = []

    def push() -> Refusal | None:  # the asyncio client may report a stream that the server ends as INTERNAL, its own
        with grpc.insecure_channel(wire.service.address) as channel:
            try:
                for reply in ingest_pb2_grpc.IngestServiceStub(channel).PushStream(iter(messages)):
                    replies.append(reply)
            except grpc.RpcError as error:
                return refusal_of(error)
        return None

    refusal = await asyncio.to_thread(push)
    return replies, refusal


async def values(wire: Wire) -> list[int]:
    query = await wire.register("SELECT x FROM s")
    sequence = wire.service.host.counters()["sequence"]
    return (await wire.invoke(query, min_sequence=sequence)).to_pydict()["x"]


def test_replies_come_in_order_and_a_repeat_is_taken_once() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        batches = [message(n, n * 10) for n in range(200)]
        batches[0].stream, batches[0].producer, batches[0].epoch = "s", "p", 7
        replies, refusal = await push_all(wire, batches)
        assert refusal is None
        assert [r.number for r in replies] == list(range(200))
        assert [r.sequence for r in replies] == sorted({r.sequence for r in replies})
        assert not any(r.duplicate for r in replies)
        again, _ = await push_all(wire, batches[:1] + batches[1:50])
        assert all(r.duplicate for r in again)
        assert [r.sequence for r in again] == [r.sequence for r in replies[:50]]
        assert await values(wire) == [n * 10 for n in range(200)]

    run(script)


def test_a_refused_batch_ends_the_stream_and_names_its_number() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        batches = [message(n, n, stream="s", producer="p", epoch=1) for n in (0, 1, 2, 4, 5, 6)]
        replies, refusal = await push_all(wire, batches)
        assert [r.number for r in replies] == [0, 1, 2]
        assert refusal is not None
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert (refusal.reason, refusal.facts["number"], refusal.facts["index"]) == ("NUMBER_GAP", "4", "3")
        assert refusal.facts["expected"] == "3"
        assert await values(wire) == [0, 1, 2]

    run(script)


def test_without_a_producer_nothing_after_a_refused_batch_is_taken() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        good = [message(0, n, stream="s") for n in range(3)]
        bad = ingest.PushStreamRequest(stream="s", arrow_ipc=ipc(pa.table({"y": [1]})))
        replies, refusal = await push_all(wire, [*good, bad, *good])
        assert len(replies) == 3
        assert refusal is not None
        assert (refusal.code, refusal.facts["index"]) == (INVALID, "3")
        assert await values(wire) == [0, 1, 2]

    run(script)


def test_the_same_number_with_other_rows_is_a_conflict() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        table = pa.table({"x": [1]})
        first = await wire.push("s", table, producer="p", epoch=1, number=0)
        repeat = await wire.push("s", table, producer="p", epoch=1, number=0)
        assert repeat.duplicate
        assert repeat.sequence == first.sequence
        other = wire.push("s", pa.table({"x": [2]}), producer="p", epoch=1, number=0)
        await refused(other, grpc.StatusCode.ABORTED)
        await wire.push("s", table, producer="p", epoch=2, number=0)
        old = await refused(wire.push("s", table, producer="p", epoch=1, number=1), grpc.StatusCode.FAILED_PRECONDITION)
        assert old.reason == "EPOCH_FENCED"
        assert await values(wire) == [1, 1]

    run(script)


def test_one_call_has_one_sender() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        await wire.create("CREATE STREAM t (x BIGINT)")
        replies, refusal = await push_all(wire, [message(0, 1, stream="s"), message(0, 2), message(0, 3, stream="t")])
        assert len(replies) == 2
        assert refusal is not None
        assert refusal.reason == "SENDER_CHANGED"
        _, refusal = await push_all(wire, [message(0, 1)])
        assert refusal is not None
        assert refusal.code is grpc.StatusCode.NOT_FOUND

    run(script)


def test_an_empty_stream_of_batches_is_fine() -> None:
    async def script(wire: Wire) -> None:
        assert await push_all(wire, []) == ([], None)

    run(script)


def test_late_and_ahead_rows_are_refused_alone_and_counted() -> None:
    clock = VirtualClock(1_000_000_000)

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT, at TIMESTAMP) TIMESTAMP BY at")
        day = 86_400 * 1_000_000

        def rows(*times: int) -> pa.Table:
            return pa.table({"x": range(len(times)), "at": pa.array(times, pa.timestamp("us", "UTC"))})

        await wire.push("s", rows(500))
        mixed = rows(499, 500, 501, 1_000_000_000 + day + 1)
        refusal = await refused(wire.push("s", mixed), grpc.StatusCode.OUT_OF_RANGE)
        assert refusal.reason == "ROWS_REFUSED"
        facts = {"late": "1", "ahead": "1", "rows": "4", "late_rows": "0", "ahead_rows": "3", "watermark": "500"}
        assert facts.items() <= refusal.facts.items()
        assert (await refused(wire.push("s", mixed, refused=7), INVALID)).details["BadRequest"]
        done = await wire.push("s", mixed, refused=ingest.REFUSED_COUNT)
        assert (done.accepted, done.late, done.ahead) == (2, 1, 1)
        assert done.watermark == Timestamp(nanos=501_000)
        null = pa.table({"x": [1, 2], "at": pa.array([600, None], pa.timestamp("us", "UTC"))})
        refusal = await refused(wire.push("s", null), INVALID)
        assert "row 1" in refusal.message
        beat = ingest.HeartbeatRequest(stream="s", time=Timestamp(seconds=10**12))
        await refused(wire.ingest.Heartbeat(beat), grpc.StatusCode.OUT_OF_RANGE)
        await refused(wire.ingest.Heartbeat(ingest.HeartbeatRequest(stream="s")), INVALID)
        for bad in (Timestamp(nanos=-1), Timestamp(seconds=2**62), Timestamp(nanos=2**31 - 1)):
            await refused(wire.ingest.Heartbeat(ingest.HeartbeatRequest(stream="s", time=bad)), INVALID)

    run(script, clock=clock)


BAD_TABLES = {
    "missing": (pa.table({"t": ["a"]}), "NOT NULL"),
    "extra": (pa.table({"x": [1], "z": [1]}), "'z'"),
    "twice": (pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "X"]), "twice"),
    "type": (pa.table({"x": ["1"]}), "'x'"),
    "null": (pa.table({"x": pa.array([1, None], pa.int64())}), "row 1"),
    "fraction": (pa.table({"x": [1, 2**63]}, pa.schema([("x", pa.uint64())])), "row 1"),
    "nested": (pa.table({"x": [[1]]}), "'x'"),
    "struct": (pa.table({"x": [{"a": 1}]}), "'x'"),
    "text of 4 MB": (pa.table({"x": [1, 2], "t": ["", "a" * 4_000_000]}), "row 1"),
    "rows": (pa.table({"x": np.zeros(1_048_577, np.int8)}), "1,048,577"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_batches_are_refused_whole(name: str) -> None:
    table, said = BAD_TABLES[name]

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT NOT NULL, t TEXT)")
        before = wire.service.host._admission.state()
        refusal = await refused(wire.push("s", table), INVALID)
        assert said in refusal.message
        assert refusal.details["BadRequest"].field_violations[0].field == "arrow_ipc"
        assert wire.service.host._admission.state() == before
        done = await wire.push("s", pa.table({"X": pa.array([5], pa.int8())}))
        assert done.accepted == 1
        assert await values(wire) == [5]

    run(script)


def test_an_empty_batch_is_no_error() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        empty = pa.table({"x": pa.array([], pa.int64())})
        assert (await wire.push("s", empty)).accepted == 0
        assert (await wire.push("s", empty, producer="p", epoch=0, number=0)).accepted == 0
        assert (await wire.push("s", empty, producer="p", epoch=0, number=0)).duplicate
        await refused(wire.push("s", b""), INVALID)
        await refused(wire.push("nope", empty), grpc.StatusCode.NOT_FOUND)
        await refused(wire.push("", empty), grpc.StatusCode.NOT_FOUND)
        await refused(wire.push("s", empty, number=1), INVALID)
        await refused(wire.push("s", empty, producer="p" * 300, number=0), INVALID)
        await refused(wire.push("s", empty, producer="p", epoch=-1), INVALID)

    run(script)


def test_the_memory_budget_refuses_and_says_so() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        half = pa.table({"x": np.arange(40_000)})
        await wire.push("s", half)
        refusal = await refused(wire.push("s", half), grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert refusal.reason == "MEMORY_BUDGET"
        assert refusal.facts["limit"] == str(1024 * 1024)
        assert "QuotaFailure" in refusal.details
        assert len(await values(wire)) == 40_000

    run(script, Settings(port=0, memory_mib=1))


@pytest.mark.long
def test_many_senders_at_once_lose_nothing() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")

        async def sender(name: int) -> None:
            batches = [message(n, name * 100 + n, stream="s", producer=str(name)) for n in range(50)]
            replies, refusal = await push_all(wire, batches)
            assert refusal is None, refusal
            assert len(replies) == 50

        await asyncio.gather(*(sender(name) for name in range(8)))
        found = await values(wire)
        assert sorted(found) == [name * 100 + n for name in range(8) for n in range(50)]
        for name in range(8):
            assert [v for v in found if v // 100 == name] == [name * 100 + n for n in range(50)]

    run(script, Settings(port=0, pending=4))


@pytest.mark.long
def test_a_client_that_goes_away_midway_leaves_nothing_open() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")

        async def endless(epoch: int) -> AsyncIterator[ingest.PushStreamRequest]:
            number = 0
            while True:
                yield message(number, number, stream="s", producer="p", epoch=epoch)
                number += 1

        for epoch in range(50):
            call = wire.ingest.PushStream(endless(epoch))
            await call.read()
            call.cancel()
        assert await wire.service._calls.under_way.finished(60)

    run(script)
