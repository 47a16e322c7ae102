"""Chunks that slow readers hold: charged as long as they are there, and the stream that came first makes way."""

from __future__ import annotations

from dataclasses import dataclass, field

import grpc
import pyarrow as pa
import pytest

from psoup.errors import PSoupError
from psoup_proto.v1 import queries_pb2 as queries
from psoup_proto.v1 import server_pb2 as server
from psoup_service.host.reads.pins import Pin, Pins
from psoup_service.process.settings import Settings
from psoup_testing.services.wire import Wire, refused, run

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@dataclass
class _Chunk:
    first_id: int
    nbytes: int = 100
    in_memory: bool = True


@dataclass
class _View:
    hot_id: int


@dataclass
class _Snapshot:
    by_id: dict[int, _View] = field(default_factory=dict)


class _Rig:
    """Pins of a memory of 8,000 bytes, of which readers may have 1,000, and a snapshot of stream 1."""

    def __init__(self) -> None:
        self.snapshot = _Snapshot({1: _View(0)})
        self.pins = Pins(8_000, lambda: self.snapshot)
        self.ended: list[tuple[str, PSoupError]] = []
        self.used = 0

    def hold(self, name: str, *first_ids: int, stream_id: int = 1, tenant: str = "default") -> Pin:
        chunks = [_Chunk(first_id) for first_id in first_ids]
        end = lambda error: self.ended.append((name, error))  # noqa: E731
        return self.pins.hold(stream_id, chunks, end, tenant)  # type: ignore[arg-type]

    def settle(self, hot_id: int | None = None) -> int:
        """What is charged for readers after the oldest chunk in memory is `hot_id`."""
        if hot_id is not None:
            self.snapshot.by_id[1].hot_id = hot_id
        self.used -= self.pins.settle(self.used)
        return self.used


def test_a_chunk_is_charged_once_from_when_it_has_left_the_memory_to_its_last_reader() -> None:
    rig = _Rig()
    assert rig.settle() == 0
    first, second = rig.hold("a", 0, 10), rig.hold("b", 10, 20)
    assert rig.settle(5) == 100, "chunk 0"
    assert rig.settle(15) == 200, "chunk 10 is held by both"
    assert rig.pins.bytes == 200
    rig.pins.release(first)
    assert rig.settle() == 100
    rig.pins.release(second)
    assert (rig.settle(), rig.settle(1_000), rig.pins.streams) == (0, 0, 0)


def test_a_stream_that_is_dropped_is_gone_and_what_is_on_disk_is_not_held() -> None:
    rig = _Rig()
    rig.hold("a", 0, 10)
    rig.pins.hold(1, [_Chunk(99, 1_000, in_memory=False)], lambda _: None)  # type: ignore[list-item]
    del rig.snapshot.by_id[1]
    assert rig.settle() == 200


def test_an_answer_of_a_join_holds_chunks_of_several_streams() -> None:
    rig = _Rig()
    rig.snapshot.by_id[2] = _View(0)
    parts = [(1, [_Chunk(0)]), (2, [_Chunk(0), _Chunk(10)])]
    pin = rig.pins.hold_all(parts, lambda _: None)  # type: ignore[arg-type]
    rig.snapshot.by_id[2].hot_id = 5
    assert rig.settle(5) == 200, "chunk 0 of both"
    rig.pins.release(pin)
    assert rig.settle() == 0


def test_those_that_came_first_end_until_the_others_fit() -> None:
    rig = _Rig()
    for number in range(12):
        rig.hold(f"r{number}", 10 * number, 10 * number + 10)
    assert rig.settle(100) == 1_000
    assert not rig.ended
    assert rig.settle(130) == 1_300
    assert [name for name, _ in rig.ended] == ["r0", "r1", "r2"], "one chunk less for each"
    assert all(error.reason == "STREAM_BEHIND" for _, error in rig.ended)
    assert rig.settle() == 1_300, "they are told once, and charged until they have ended"
    assert len(rig.ended) == rig.pins.ended == 3


def test_who_holds_most_ends_before_others_that_came_first() -> None:
    rig = _Rig()
    rig.snapshot.by_id[2] = _View(1_000)
    rig.hold("quiet", 0, 10, 20, stream_id=2, tenant="quiet")
    for number in range(12):
        rig.hold(f"r{number}", 10 * number, tenant="loud")
    assert rig.settle(1_000) == 1_500
    assert [name for name, _ in rig.ended] == ["r0", "r1", "r2", "r3", "r4"]
    assert (rig.pins.held_by("quiet"), rig.pins.held_by("loud")) == (300, 1_200)


def test_chunks_of_a_dropped_stream_are_still_their_tenants() -> None:
    rig = _Rig()
    pin = rig.hold("a", 0, 10, tenant="acme")
    del rig.snapshot.by_id[1]
    rig.settle()
    assert (rig.pins.held_by("acme"), rig.pins.held_by("default")) == (200, 0)
    rig.pins.release(pin)
    assert rig.pins.held_by("acme") == 0


def test_pushes_need_the_room_more_than_readers_do() -> None:
    rig = _Rig()
    rig.hold("a", 0, 10)
    rig.used = 7_400
    assert rig.settle(20) == 7_600
    assert [name for name, _ in rig.ended] == ["a"], "7,500 and the sixteenth that is spared leave 100"


class _Stream:
    """A stream that keeps two chunks, and readers of all of it that stop after one message."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._query = ""

    async def create(self) -> None:
        await self._wire.create("CREATE STREAM s (x BIGINT, t TEXT) RETENTION 65536 ROWS")
        self._query = await self._wire.register("SELECT x, t FROM s")

    async def turn_over(self) -> None:
        """What was there is gone, but for readers."""
        for _ in range(4):
            await self._push(32_768, "t" * 200)

    async def settle(self) -> None:
        """What is charged is what is held now."""
        await self._push(1, "settled")

    async def stalled(self) -> grpc.aio.UnaryStreamCall:
        asked = queries.InvokeStreamRequest(query_id=self._query, accept_truncation=True)
        call = self._wire.queries.InvokeStream(asked)
        await call.read()
        return call

    async def _push(self, rows: int, text: str) -> None:
        done = await self._wire.push("s", pa.table({"x": range(rows), "t": [text] * rows}))
        await self._wire.queries.WaitForSequence(queries.WaitForSequenceRequest(sequence=done.sequence))


async def _rest(call: grpc.aio.UnaryStreamCall) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


@pytest.mark.long
@pytest.mark.seeded("F11: stalled streams hold chunks that nobody counts")
def test_a_stalled_stream_is_charged_and_ended_when_others_need_the_memory() -> None:
    async def script(wire: Wire) -> None:
        stream = _Stream(wire)
        await stream.create()
        await stream.turn_over()
        first = await stream.stalled()
        await stream.turn_over()
        await stream.settle()
        counters = wire.service.host.counters()
        assert counters["pinned_bytes"] > 10_000_000
        assert counters["reserved_bytes"] > counters["pinned_bytes"], "held for the reader, and the window of now"
        info = await wire.server.GetServerInfo(server.GetServerInfoRequest(with_bill=True))
        held = {item.structure: item for item in info.bill}["held for readers"]
        assert (held.bytes, held.count, held.per) == (counters["pinned_bytes"], 1, "stream")
        second = await stream.stalled()
        await stream.turn_over()
        await stream.settle()
        refusal = await refused(_rest(first), EXHAUSTED)
        assert refusal.reason == "STREAM_BEHIND"
        assert not second.done()
        await stream.settle()
        assert 10_000_000 < wire.service.host.counters()["pinned_bytes"] < 20_000_000, "the second one's"
        second.cancel()
        assert await wire.service._calls.under_way.finished(60)
        await stream.settle()
        assert wire.service.host.counters()["pinned_bytes"] == 0
        bill = wire.service.host._engine.bill()["tuples_bytes"]  # type: ignore[attr-defined]
        assert wire.service.host.counters()["reserved_bytes"] == bill

    run(script, Settings(port=0, memory_mib=160))
