"""Several batches of a producer in a message of a PushStream: each has its number, its reply, and its refusal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_proto.v1 import ingest_pb2_grpc
from psoup_service.servicers.push_stream import MOST_MORE
from psoup_storage import DurableStore, Store
from psoup_storage.replica.restore import restore_copy
from psoup_testing.oracles.questions import again_awaited
from psoup_testing.services.copied_service import copied_service
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
    return (await again_awaited(wire.invoke, query, min_sequence=sequence)).to_pydict()["x"]


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
        first = replies[0].sequence
        assert [part.sequence - first for part in flat] == [0, 1, 1, 1, 2, 2]
        assert [part.first_row for part in flat] == [0, 0, 1, 3, 0, 1]
        assert await values(wire) == list(range(7))

    run(script)


def test_batches_that_cannot_share_an_event_are_taken_alone() -> None:
    """Compressed, with other columns, and of more than 256 KiB."""
    long = pa.table({"x": range(40_000)})
    named = ipc(pa.table({"X": [3]}))
    payloads = [rows(1), rows(2), named, ipc(pa.table({"x": [4]}), compression="zstd"), ipc(long), rows(5), rows(6)]

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        (reply,), refusal = await push(wire, message(0, payloads))
        assert refusal is None
        assert [part.accepted for part in (reply, *reply.more)] == [1, 1, 1, 1, 40_000, 1, 1]
        assert [part.sequence - reply.sequence for part in (reply, *reply.more)] == [0, 0, 1, 2, 3, 4, 4]
        assert await values(wire) == [1, 2, 3, 4, *range(40_000), 5, 6]

    run(script)


def numbered(number: int) -> bytes:
    """The rows of a batch in `History`."""
    return rows(*[number] * (1 + number % 3))


class History:
    """Random messages of one producer over several lives of a service. Each life checks what earlier ones took."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._expected = 0
        self.replies: dict[int, Any] = {}
        """The first reply to each batch."""

    def live(self, store: Store) -> None:
        run(self._live, store=store)

    async def _live(self, wire: Wire) -> None:
        if not self._expected:
            await wire.create("CREATE STREAM s (x BIGINT)")
        for _ in range(self._draw.randrange(4, 9)):
            await self._send(wire)
        await self._check(wire)

    async def _send(self, wire: Wire) -> None:
        """Two messages, which may begin with batches that were taken before, or have a bad batch."""
        first = max(0, self._expected - self._draw.choice((0, 0, 1, 5)))
        counts = self._draw.randrange(1, 9), self._draw.randrange(1, 9)
        last = first + sum(counts)
        bad = self._draw.randrange(first, last) if self._draw.random() < 0.4 else last
        if bad < self._expected:  # new batches behind it have the numbers that the service expects: it may take them
            bad = last
        payloads = [BAD if number == bad else numbered(number) for number in range(first, last)]
        messages = message(first, payloads[: counts[0]]), message(first + counts[0], payloads[counts[0] :])
        replies, refusal = await push(wire, *messages)
        parts = [part for reply in replies for part in (reply, *reply.more)]
        assert len(parts) == bad - first and (refusal is None) == (bad == last)
        for number, part in enumerate(parts, first):
            assert part.duplicate == (number < self._expected)
            before = self.replies.setdefault(number, part)
            assert (part.sequence, part.first_row, part.accepted) == (before.sequence, before.first_row, 1 + number % 3)
        self._expected = max(self._expected, bad)

    async def _check(self, wire: Wire) -> None:
        """Each number was taken once, and the replies name the rows of their batches."""
        assert await values(wire) == [number for number in range(self._expected) for _ in range(1 + number % 3)]
        for number in self._draw.sample(sorted(self.replies), min(4, len(self.replies))):
            reply = self.replies[number]
            request = ingest.TupleIdsRequest(
                stream="s", sequence=reply.sequence, first_row=reply.first_row, rows=reply.accepted
            )
            assert (await wire.ingest.TupleIds(request)).first_id == sum(1 + before % 3 for before in range(number))


@pytest.mark.seeded("an event applied twice")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_any_messages_are_taken_once_over_restarts(seed: int, tmp_path: Path) -> None:
    history = History(seed)
    for _ in range(2 if seed == 1 else 5):
        history.live(DurableStore(tmp_path))


def test_a_copy_has_the_batches_that_share_an_event(tmp_path: Path) -> None:
    with copied_service(tmp_path) as copied:
        copied.client.create_stream("CREATE STREAM s (x BIGINT)")
        with grpc.insecure_channel(copied.running.address) as channel:
            stub = ingest_pb2_grpc.IngestServiceStub(channel)
            [taken] = stub.PushStream(iter([message(0, [rows(0), rows(1, 2), rows(3)])]))
        copied.wait_for_copy()
        restore_copy(copied.target, tmp_path / "new")

    async def script(wire: Wire) -> None:
        assert await values(wire) == [0, 1, 2, 3]
        (reply,), refusal = await push(wire, message(1, [rows(1, 2), rows(3), rows(4)]))
        assert refusal is None
        again = [reply, *reply.more]
        assert [part.duplicate for part in again] == [True, True, False]
        assert [(part.sequence, part.first_row) for part in again[:2]] == [
            (part.sequence, part.first_row) for part in taken.more
        ]
        assert await values(wire) == [0, 1, 2, 3, 4]

    run(script, store=DurableStore(tmp_path / "new"))


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
