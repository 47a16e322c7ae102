"""Several batches of a producer in a message of a PushStream: each has its number, its reply, and its refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
import pyarrow as pa
import pytest

from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import ingest_pb2_grpc
from psoup_service.servicers.ingest import MOST_MORE
from psoup_testing.services.wire import Refusal, Wire, ipc, refusal_of, run

INVALID = grpc.StatusCode.INVALID_ARGUMENT
BAD = ipc(pa.table({"y": [1]}))
"""Rows without the column of the stream."""


def rows(*values: int) -> bytes:
    return ipc(pa.table({"x": [*values]}))


def message(number: int, payloads: Sequence[bytes], producer: str = "p", **fields: object) -> ingest.PushStreamRequest:
    first, *more = payloads
    return ingest.PushStreamRequest(
        stream="s", producer=producer, epoch=1, number=number, arrow_ipc=first, more=more, **fields
    )


async def push(
    wire: Wire, *messages: ingest.PushStreamRequest
) -> tuple[list[ingest.PushStreamResponse], Refusal | None]:
    """The replies to a PushStream, and its refusal."""
    replies = list[ingest.PushStreamResponse]()

    def pushed() -> Refusal | None:
        with grpc.insecure_channel(wire.service.address) as channel:
            try:
                for reply in ingest_pb2_grpc.IngestServiceStub(channel).PushStream(iter(messages)):
                    replies.append(reply)
            except grpc.RpcError as error:
                return refusal_of(error)
        return None

    refusal = await asyncio.to_thread(pushed)
    return replies, refusal


async def values(wire: Wire) -> list[int]:
    query = await wire.register("SELECT x FROM s")
    sequence = wire.service.host.counters()["sequence"]
    return (await wire.invoke(query, min_sequence=sequence)).to_pydict()["x"]


def test_each_batch_has_a_reply() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        replies, refusal = await push(
            wire, message(0, [rows(0)]), message(1, [rows(1), rows(2, 3), rows(4)]), message(4, [rows(5), rows(6)])
        )
        assert refusal is None
        assert [(reply.number, len(reply.more), reply.takes_more) for reply in replies] == [
            (0, 0, True),
            (1, 2, True),
            (4, 1, True),
        ]
        flat = [part for reply in replies for part in (reply, *reply.more)]
        assert [part.accepted for part in flat] == [1, 1, 2, 1, 1, 1]
        assert [part.sequence for part in flat] == sorted({part.sequence for part in flat})
        assert await values(wire) == list(range(7))

    run(script)


def test_a_repeat_in_other_messages_is_taken_once() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        await push(wire, message(0, [rows(0), rows(1), rows(2)]))
        replies, refusal = await push(wire, message(0, [rows(0)]), message(1, [rows(1), rows(2), rows(3), rows(4)]))
        assert refusal is None
        assert [part.duplicate for reply in replies for part in (reply, *reply.more)] == [True] * 3 + [False] * 2
        assert await values(wire) == list(range(5))

    run(script)


@pytest.mark.seeded("a message whose second batch is refused loses the reply to its first")
@pytest.mark.parametrize("place", range(5))
def test_batches_before_a_refused_one_are_taken_and_have_replies(place: int) -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        good = [rows(value) for value in range(5)]
        replies, refusal = await push(wire, message(0, [*good[:place], BAD, *good[place + 1 :]]), message(5, [rows(9)]))
        taken = [part for reply in replies for part in (reply, *reply.more)]
        assert len(taken) == place and len(replies) == min(place, 1)
        assert refusal is not None
        assert (refusal.code, refusal.facts["number"], refusal.facts["index"]) == (INVALID, str(place), str(place))
        assert await values(wire) == list(range(place))
        again, refusal = await push(wire, message(0, good))  # the sender goes on with right rows
        assert refusal is None
        assert [part.duplicate for reply in again for part in (reply, *reply.more)] == [i < place for i in range(5)]
        assert await values(wire) == list(range(5))

    run(script)


def test_a_conflict_within_a_message_is_refused_after_the_replies_before_it() -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        await push(wire, message(0, [rows(0), rows(1)]))
        replies, refusal = await push(wire, message(0, [rows(0), rows(7), rows(2)]))
        assert [(reply.duplicate, len(reply.more)) for reply in replies] == [(True, 0)]
        assert refusal is not None and refusal.facts["number"] == "1"
        assert (await values(wire))[:2] == [0, 1]

    run(script)


@pytest.mark.parametrize(
    "sent",
    [
        message(0, [rows(0), rows(1)], producer=""),
        message(0, [rows(0), rows(1)], position=b"40"),
        message(0, [rows(0), rows(1)], after=b""),
        message(0, [rows(0)] * (MOST_MORE + 2)),
    ],
    ids=["no producer", "position", "after", "too many"],
)
def test_further_batches_need_a_producer_and_no_position(sent: ingest.PushStreamRequest) -> None:
    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        replies, refusal = await push(wire, sent)
        assert replies == [] and refusal is not None
        assert (refusal.code, refusal.facts["field"]) == (INVALID, "more")
        assert await values(wire) == []

    run(script)
