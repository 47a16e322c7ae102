"""The declared sizes of a payload decide where and after what wait it is decoded, before any decompression."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import InvalidBatch, ResourceExhausted
from psoup.model import BIGINT, TEXT, Attribute, Retention, Schema, StreamSpec
from psoup_service.gate.principal import EVERYBODY
from psoup_service.host.room import Room
from psoup_service.wire import ipc as wire_ipc
from psoup_service.wire.decoders import QUICK_BYTES, Decoders
from psoup_service.wire.envelope import check
from psoup_service.wire.limits import Limits
from psoup_service.wire.payload_decoder import Decoded, Decoding
from psoup_testing.services.wire import ipc, sharing

LIMITS = Limits()
SPEC = StreamSpec("s", Schema((Attribute("x", BIGINT), Attribute("t", TEXT))), None, 0, Retention(None, None, 0))
ZEROS = pa.table({"x": np.zeros(500_000, np.int64)})
BOMB = ipc(ZEROS, compression="zstd")
"""4 MB in a few kB."""


class Somebody:
    """Sends."""

    principal = EVERYBODY

    def peer(self) -> str:
        return "somebody"


SENDER = Somebody()


def decoding(room: Room, script: Callable[[Decoding], Awaitable[None]], limits: Limits = LIMITS) -> None:
    decoders = Decoders()

    async def main() -> None:
        async def reserve(tenant: str, size: int, *, patience: float) -> object:
            return await room.place(tenant, size, patience)

        await script(Decoding(limits, decoders, reserve, 0.0))  # type: ignore[arg-type]

    try:
        asyncio.run(main())
    finally:
        decoders.close()
    assert (room.commands, room.bytes) == (0, 0)


@pytest.mark.seeded("F4: zeros are decoded on the event loop, before they are refused")
def test_room_is_taken_for_what_it_decodes_to_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    room, decoded = Room(9, 6_000_000), list[int]()
    decode = wire_ipc.decode_push

    def seen(payload: bytes, limits: Limits, field: str) -> pa.Table | pa.RecordBatch:
        decoded.append(room.bytes)
        return decode(payload, limits, field)

    monkeypatch.setattr(wire_ipc, "decode_push", seen)

    async def script(here: Decoding) -> None:
        assert len(BOMB) < 20_000
        done = await here.batch(SPEC, BOMB, SENDER)
        assert done.table.num_rows == len(ZEROS)
        assert decoded == [room.bytes]
        assert room.bytes > ZEROS.nbytes
        with pytest.raises(ResourceExhausted, match="try again"):
            await here.batch(SPEC, BOMB, SENDER)
        assert len(decoded) == 1
        done.place.release()

    decoding(room, script)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_name_that_is_no_text_is_the_senders_mistake(compression: str | None) -> None:
    payload = ipc(pa.table({"xyz": [1, 2, 3]}), compression=compression).replace(b"xyz\0", b"x\xbcz\0")

    async def script(here: Decoding) -> None:
        with pytest.raises(InvalidBatch, match=r"not an Arrow IPC stream: .*utf-8"):
            await here.batch(SPEC, payload, SENDER)
        with pytest.raises(InvalidBatch, match=r"not an Arrow IPC stream: .*utf-8"):
            await here.parameters(payload, 10, SENDER, lambda _: None)

    decoding(Room(9, 6_000_000), script)


@pytest.mark.parametrize("names", [["y"], ["x", "X"], ["x", "t", "z"]])
def test_columns_that_the_stream_has_not_are_refused_undecoded(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table([pa.array(np.zeros(500_000, np.int64))] * len(names), names)
    monkeypatch.setattr(wire_ipc, "decode_push", None)

    async def script(here: Decoding) -> None:
        for payload in (ipc(table, compression="zstd"), ipc(table, compression="lz4"), ipc(table)):
            with pytest.raises(InvalidBatch, match=r"no column|comes twice"):
                await here.batch(SPEC, payload, SENDER)

    decoding(Room(1, 1), script)


def test_what_is_long_decoded_is_not_decoded_on_the_loop() -> None:
    loop, where = threading.get_ident(), list[int]()

    class Where(Decoders):
        async def run(self, *args: object, **more: object) -> object:  # type: ignore[override]
            where.append(1)
            return await super().run(*args, **more)  # type: ignore[arg-type]

    small = pa.table({"x": [1, 2], "t": ["a", "b"]})
    dictionary = pa.table({"x": [1, 2], "t": pa.array(["a", "b"]).dictionary_encode()})
    many = pa.Table.from_batches(small.to_batches() * 20)

    async def script() -> None:
        decoders = Where()

        async def reserve(tenant: str, size: int, *, patience: float) -> object:
            return await Room(9, 10**9).place(tenant, size, patience)

        here = Decoding(LIMITS, decoders, reserve, 0.0)  # type: ignore[arg-type]
        for payload, hops in (
            (ipc(small), 0),
            (ipc(small, compression="zstd"), 0),
            (ipc(dictionary), 0),
            (ipc(many), 1),  # to look at all of its messages; then it is known to be small
            (BOMB, 1),
            (ipc(ZEROS), 1),
        ):
            where.clear()
            done = await here.batch(SPEC, payload, SENDER, digest=True)
            assert done.table.num_rows > 1
            assert done.digest == wire_ipc.digest(payload)
            assert len(where) == hops, payload[:40]
        decoders.close()

    asyncio.run(script())
    assert loop == threading.get_ident()


def test_the_outline_says_what_a_close_look_says() -> None:
    small = pa.table({"x": [1, None], "t": ["a", "b"]})
    text = pa.table({"t": pa.array(["a" * 99, "b", None] * 5)})
    tables = [small, ZEROS, text, text.set_column(0, "t", text["t"].dictionary_encode()), small.slice(0, 0)]
    tables += [pa.Table.from_batches([*small.to_batches(), *small.to_batches()])]
    for table in tables:
        for options in ({}, {"compression": "zstd"}, {"compression": "lz4"}):
            payload = ipc(table, **options)
            told = wire_ipc.outlined(payload, LIMITS)
            assert told is not None
            assert told == wire_ipc.measured(payload, LIMITS)
            assert (told.rows, told.size) == check(payload, LIMITS)
            assert told.size >= wire_ipc.decode(payload, LIMITS).nbytes


@pytest.mark.seeded("F22: batches of very many empty messages")
def test_the_number_of_messages_is_bounded() -> None:
    """16 MiB of empty batches are 100,000 of them: as many turns of a loop in Python."""
    batch = pa.table({"x": pa.array([], pa.int64())}).to_batches(1) or [
        pa.record_batch({"x": pa.array([], pa.int64())})
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch[0].schema) as writer:
        for _ in range(2_000):
            writer.write_batch(batch[0])
    payload = sink.getvalue().to_pybytes()
    for read in (wire_ipc.decode, wire_ipc.decode_push, wire_ipc.measured):
        with pytest.raises(InvalidBatch, match="more than 1,024 messages") as caught:
            read(payload, LIMITS)
        assert caught.value.reason == "BATCH_TOO_LARGE"
    assert wire_ipc.outlined(payload, LIMITS) is None
    assert wire_ipc.decode(payload, replace(LIMITS, batch_messages=3_000)).num_rows == 0


@pytest.mark.parametrize("lie", [2**62, 2**28 - 1, 3_999_999, 4_000_001, 8, 0, -1, -5])
def test_a_lie_about_the_decoded_size_costs_what_it_declares(lie: int) -> None:
    payload = bytearray(BOMB)
    at = payload.index((4_000_000).to_bytes(8, "little"))
    payload[at : at + 8] = lie.to_bytes(8, "little", signed=True)
    room, pool = Room(9, 2**29), pa.default_memory_pool()
    before, most = pool.bytes_allocated(), list[int]()
    enter = room.enter

    async def entered(tenant: str, size: int, patience: float) -> None:
        most.append(size)
        await enter(tenant, size, patience)

    room.enter = entered  # type: ignore[method-assign]

    async def script(here: Decoding) -> None:
        with pytest.raises((InvalidBatch, pa.ArrowInvalid)):
            await taken(here)

    async def taken(here: Decoding) -> None:
        done = await here.batch(SPEC, bytes(payload), SENDER)
        done.place.release()
        done.table.validate(full=True)

    decoding(room, script)
    assert pool.bytes_allocated() - before < 1_000_000
    assert max(most, default=0) < LIMITS.batch_decoded_bytes + 100_000


def test_dictionaries_are_charged_as_they_are_written_out() -> None:
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000, np.int8)), pa.array(["a" * 10_000]))
    room = Room(9, 50_000_000)

    async def script(here: Decoding) -> None:
        done = await here.batch(SPEC, ipc(pa.table({"t": long})), SENDER)
        assert room.bytes == done.place.size > 10_000_000
        done.place.release()

    decoding(room, script)


WIDE = StreamSpec("w", Schema(tuple(Attribute(f"t{i}", TEXT) for i in range(16))), None, 0, Retention(None, None, 0))


@pytest.mark.parametrize("length", [1_000, 1_000_000])
def test_buffers_that_share_their_place_are_charged_each(length: int) -> None:
    table = pa.table({f"t{i}": ["a" * length] for i in range(16)})
    payload = sharing(table, 1)
    assert len(payload) < length + 8_000
    room = Room(9, 50_000_000)

    async def script(here: Decoding) -> None:
        pushed = await here.batch(WIDE, payload, SENDER)
        assert pa.table(pushed.table).equals(table)
        assert room.bytes == pushed.place.size > 16 * length
        pushed.place.release()
        values = await here.parameters(payload, 10, SENDER, lambda _: None)
        assert room.bytes == values.place.size > 16 * length
        values.place.release()

    decoding(room, script)


def test_buffers_that_share_their_place_are_refused_if_they_are_too_much_together() -> None:
    table = pa.table({f"t{i}": ["a" * 10_000] for i in range(16)})
    payload, small = sharing(table, 1), Limits(batch_decoded_bytes=100_000)

    async def script(here: Decoding) -> None:
        with pytest.raises(InvalidBatch, match="bytes once decompressed; 100,000 is the most"):
            await here.batch(WIDE, payload, SENDER)

    decoding(Room(9, 50_000_000), script, small)


def test_a_caller_who_leaves_gives_the_room_back_when_the_work_ends() -> None:
    gate, inside = threading.Event(), threading.Event()
    room = Room(9, 10**9)

    async def script(here: Decoding) -> None:
        def held(_: object) -> None:
            inside.set()
            assert gate.wait(60)

        def done() -> Decoded:
            return Decoded(ZEROS, b"", place)

        place = await room.place("t", 1_000, 0)
        first = asyncio.create_task(here.finish(done(), SENDER, held))
        other = await room.place("t", 100, 0)
        second = asyncio.create_task(here.finish(Decoded(ZEROS, b"", other), SENDER, held))
        await asyncio.to_thread(inside.wait, 60)
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert room.bytes == 1_000  # what is being read stays charged; what had not begun is gone
        gate.set()

    decoding(room, script)


def test_whose_turn_it_is_goes_by_bytes() -> None:
    order, gate, inside = list[str](), threading.Event(), threading.Event()

    async def script() -> None:
        decoders = Decoders()

        def held() -> None:
            inside.set()
            assert gate.wait(60)

        jobs = [asyncio.create_task(decoders.run("first", 1, held))]
        await asyncio.to_thread(inside.wait, 60)
        for sender, size in [("greedy", 900_000)] * 4 + [("modest", 1_000)] * 3 + [("late", 900_000)]:
            jobs.append(asyncio.create_task(decoders.run(sender, size, lambda sender=sender: order.append(sender))))
            await asyncio.sleep(0)
        await decoders.run("greedy", QUICK_BYTES + 1, lambda: None)  # the other thread is free
        gate.set()
        await asyncio.gather(*jobs)
        decoders.close()

    asyncio.run(script())
    assert order == ["greedy", "modest", "late", "modest", "modest", "greedy", "greedy", "greedy"]


def test_what_comes_after_the_end_is_cancelled() -> None:
    given_back = list[str]()

    async def script() -> None:
        decoders = Decoders()
        assert await decoders.run("one", 1, lambda: "done") == "done"
        decoders.close()
        for size in (1, QUICK_BYTES + 1):  # of the thread that has worked, and of the one that never began
            with pytest.raises(asyncio.CancelledError):
                await decoders.run("one", size, lambda: "done", dropped=lambda: given_back.append("room"))

    asyncio.run(asyncio.wait_for(script(), 60))
    assert given_back == ["room", "room"]
