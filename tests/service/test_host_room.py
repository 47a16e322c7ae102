"""How much may be under way: counts, bytes, waiting in line."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from psoup.errors import ResourceExhausted, Unavailable
from psoup.events.commands import Push
from psoup_service.host.room import Room
from psoup_testing.host_rig import PATIENCE, happened, held, serving


def closed() -> Unavailable:
    return Unavailable("over")


def test_commands_beyond_the_limit_are_refused_with_a_time_to_retry() -> None:
    async def scenario() -> None:
        room = Room(2, 100)
        await room.enter(1, 0)
        await room.enter(1, 0)
        with pytest.raises(ResourceExhausted, match="2 of 2 commands") as caught:
            await room.enter(1, 0)
        assert (caught.value.reason, int(caught.value.facts["retry_after_ms"]) > 0) == ("BUSY", True)
        room.leave(1, 1)
        await room.enter(1, 0)

    asyncio.run(scenario())


def test_bytes_beyond_the_limit_are_refused_but_one_large_command_enters_alone() -> None:
    async def scenario() -> None:
        room = Room(10, 100)
        await room.enter(500, 0)
        with pytest.raises(ResourceExhausted, match="500 of 100 bytes"):
            await room.enter(1, 0)
        room.leave(1, 500)
        await room.enter(60, 0)
        with pytest.raises(ResourceExhausted):
            await room.enter(41, 0)
        await room.enter(40, 0)
        assert (room.commands, room.bytes) == (2, 100)

    asyncio.run(scenario())


def test_who_waits_enters_in_the_order_of_coming() -> None:
    async def scenario() -> None:
        room, order = Room(1, 100), list[int]()
        await room.enter(1, 0)

        async def wait(who: int) -> None:
            await room.enter(1, PATIENCE)
            order.append(who)
            room.leave(1, 1)

        waiting = [asyncio.ensure_future(wait(who)) for who in range(5)]
        await asyncio.to_thread(int)
        with pytest.raises(ResourceExhausted):
            await room.enter(1, 0)  # nobody overtakes the line
        await asyncio.to_thread(room.leave, 1, 1)
        await asyncio.gather(*waiting)
        assert order == [0, 1, 2, 3, 4]
        assert (room.commands, room.bytes) == (0, 0)

    asyncio.run(scenario())


def test_who_gives_up_takes_no_room_and_blocks_nobody() -> None:
    async def scenario() -> None:
        room = Room(10, 100)
        await room.enter(90, 0)
        with pytest.raises(ResourceExhausted):
            await room.enter(50, 0.001)
        large = asyncio.ensure_future(room.enter(50, PATIENCE))
        small = asyncio.ensure_future(room.enter(5, PATIENCE))
        await asyncio.to_thread(int)
        assert not small.done()
        large.cancel()
        await small
        assert (room.commands, room.bytes) == (2, 95)
        room.leave(1, 90)
        room.leave(1, 5)
        assert (room.commands, room.bytes) == (0, 0)

    asyncio.run(scenario())


def test_who_gives_up_at_the_moment_of_entering_gives_the_room_back() -> None:
    async def scenario() -> None:
        room = Room(1, 100)
        await room.enter(1, 0)
        first = asyncio.ensure_future(room.enter(1, PATIENCE))
        second = asyncio.ensure_future(room.enter(2, PATIENCE))
        await asyncio.to_thread(int)
        room.leave(1, 1)  # grants the first, whose wake-up is still on its way
        first.cancel()
        await second
        assert (room.commands, room.bytes) == (1, 2)

    asyncio.run(scenario())


def test_closing_refuses_the_line_and_all_who_come() -> None:
    async def scenario() -> None:
        room = Room(1, 100)
        await room.enter(1, 0)
        waiting = asyncio.ensure_future(room.enter(1, PATIENCE))
        await asyncio.to_thread(int)
        room.close(closed)
        for call in (waiting, room.enter(1, 0)):
            with pytest.raises(Unavailable):
                await call
        room.leave(1, 1)
        assert (room.commands, room.bytes) == (0, 0)

    asyncio.run(scenario())


def test_the_host_holds_room_until_a_batch_is_applied() -> None:
    async def scenario() -> None:
        row = Push("s", pa.table({"x": [1]}))
        async with serving(queue_bytes=2 * 1_008 + 100, pending=3) as rig:
            rig.engine.inside.clear()
            with held(rig.engine.gate):
                await rig.host.submit(row)
                await happened(rig.engine.inside)
                await rig.host.submit(row)
                assert rig.host.counters()["queued_bytes"] == 2 * 1_008
                with pytest.raises(ResourceExhausted):
                    await rig.host.submit(row)
                patient = asyncio.ensure_future(rig.host.submit(row, patience=PATIENCE))
                await asyncio.to_thread(int)
                assert not patient.done()
            answer = await patient
            await rig.host.wait_for(answer.sequence, PATIENCE)
            assert (rig.host.counters()["queued_bytes"], rig.host.counters()["pending_commands"]) == (0, 0)

    asyncio.run(scenario())


def test_refused_and_repeated_commands_give_their_room_back() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            numbered = Push("s", pa.table({"x": [1]}), "p", 0, 0)
            for command in (numbered, numbered, Push("s", pa.table({"y": [1]})), Push("nope", pa.table({"x": [1]}))):
                await asyncio.gather(rig.host.submit(command), return_exceptions=True)
            await rig.host.wait_for(2, PATIENCE)
            assert (rig.host.counters()["queued_bytes"], rig.host.counters()["pending_commands"]) == (0, 0)

    asyncio.run(scenario())
