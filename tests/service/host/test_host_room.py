"""Limits on work under way: counts, bytes, waiting in line."""

from __future__ import annotations

import asyncio
import random

import pyarrow as pa
import pytest

from psoup.errors import ResourceExhausted, Unavailable
from psoup.events.commands import Push
from psoup.events.tenants import FIRST_TENANT, Quotas, Tenant
from psoup_service.host.room import LEAD_S, Division, Room
from psoup_service.host.turns.fair_turns import Weights
from psoup_testing.services.host_rig import PATIENCE, happened, held, serving
from psoup_testing.suite.sweeps import swept


def closed() -> Unavailable:
    return Unavailable("over")


def test_commands_beyond_the_limit_are_refused_with_a_time_to_retry() -> None:
    async def scenario() -> None:
        room = Room(2, 100)
        await room.enter("a", 1, 0)
        await room.enter("a", 1, 0)
        with pytest.raises(ResourceExhausted, match="2 of 2 commands") as caught:
            await room.enter("a", 1, 0)
        assert (caught.value.reason, int(caught.value.facts["retry_after_ms"]) > 0) == ("BUSY", True)
        room.leave("a", 1, 1)
        await room.enter("a", 1, 0)

    asyncio.run(scenario())


def test_bytes_beyond_the_limit_are_refused_but_one_large_command_enters_alone() -> None:
    async def scenario() -> None:
        room = Room(10, 100)
        await room.enter("a", 500, 0)
        with pytest.raises(ResourceExhausted, match="500 of 100 bytes"):
            await room.enter("a", 1, 0)
        room.leave("a", 1, 500)
        await room.enter("a", 60, 0)
        with pytest.raises(ResourceExhausted):
            await room.enter("a", 41, 0)
        await room.enter("a", 40, 0)
        assert (room.commands, room.bytes) == (2, 100)

    asyncio.run(scenario())


def test_who_waits_enters_in_the_order_of_coming() -> None:
    async def scenario() -> None:
        room, order = Room(1, 100), list[int]()
        await room.enter("a", 1, 0)

        async def wait(who: int) -> None:
            await room.enter("a", 1, PATIENCE)
            order.append(who)
            room.leave("a", 1, 1)

        waiting = [asyncio.ensure_future(wait(who)) for who in range(5)]
        await asyncio.to_thread(int)
        with pytest.raises(ResourceExhausted):
            await room.enter("a", 1, 0)  # nobody overtakes the line
        await asyncio.to_thread(room.leave, "a", 1, 1)
        await asyncio.gather(*waiting)
        assert order == [0, 1, 2, 3, 4]
        assert (room.commands, room.bytes) == (0, 0)

    asyncio.run(scenario())


def test_who_gives_up_takes_no_room_and_blocks_nobody() -> None:
    async def scenario() -> None:
        room = Room(10, 100)
        await room.enter("a", 90, 0)
        with pytest.raises(ResourceExhausted):
            await room.enter("a", 50, 0.001)
        large = asyncio.ensure_future(room.enter("a", 50, PATIENCE))
        small = asyncio.ensure_future(room.enter("a", 5, PATIENCE))
        await asyncio.to_thread(int)
        assert not small.done()
        large.cancel()
        await small
        assert (room.commands, room.bytes) == (2, 95)
        room.leave("a", 1, 90)
        room.leave("a", 1, 5)
        assert (room.commands, room.bytes) == (0, 0)

    asyncio.run(scenario())


def test_who_gives_up_at_the_moment_of_entering_gives_the_room_back() -> None:
    async def scenario() -> None:
        room = Room(1, 100)
        await room.enter("a", 1, 0)
        first = asyncio.ensure_future(room.enter("a", 1, PATIENCE))
        second = asyncio.ensure_future(room.enter("a", 2, PATIENCE))
        await asyncio.to_thread(int)
        room.leave("a", 1, 1)  # grants the first, whose wake-up is still on its way
        first.cancel()
        await second
        assert (room.commands, room.bytes) == (1, 2)

    asyncio.run(scenario())


def test_closing_refuses_the_line_and_all_who_come() -> None:
    async def scenario() -> None:
        room = Room(1, 100)
        await room.enter("a", 1, 0)
        waiting = asyncio.ensure_future(room.enter("a", 1, PATIENCE))
        await asyncio.to_thread(int)
        room.close(closed)
        for call in (waiting, room.enter("a", 1, 0)):
            with pytest.raises(Unavailable):
                await call
        room.leave("a", 1, 1)
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


ACME, UMBRA = (Tenant(name, Quotas(weight=weight)) for name, weight in (("acme", 1.0), ("umbra", 3.0)))
TENANTS = {tenant.name: tenant for tenant in (FIRST_TENANT, ACME, UMBRA)}
DIVISION = Division(own=0.1, contended=0.8)
"""Of 1,000 bytes 20 are acme's own, 60 umbra's. Who is alone has 900 more; acme and umbra have 200 and 600 of 800."""


def divided() -> Room:
    return Room(1_000, 1_000, Weights(lambda: TENANTS), DIVISION)


@pytest.mark.seeded("what is another tenant's own is taken at the door")
def test_a_tenant_that_takes_all_it_can_leaves_what_is_others_own() -> None:
    room = divided()
    taken = 0
    while room.try_enter("acme", 10):
        taken += 10
    assert taken == room.held("acme") == 920, "its own, and all that is shared"
    assert room.try_enter("umbra", 60)
    assert not room.try_enter("umbra", 10)
    assert not room.try_enter("acme", 10)


def test_beside_others_each_has_a_part_by_weight() -> None:
    room = divided()
    assert room.try_enter("umbra", 10)
    for tenant, most in (("acme", 200), ("umbra", 600)):
        while room.try_enter(tenant, 10):
            assert room.held(tenant) <= most
        assert room.held(tenant) == most


def test_one_command_of_a_tenant_enters_whatever_its_part_is() -> None:
    room = divided()
    assert room.try_enter("umbra", 300)
    assert room.try_enter("acme", 500)
    assert not room.try_enter("acme", 1)


def test_who_had_more_waits_at_the_door_until_those_who_had_less_are_in() -> None:
    async def scenario() -> None:
        room, order = divided(), list[str]()
        await room.enter("acme", 200, 0)
        await room.enter("umbra", 600, 0)
        room.charge("acme", 0.3)

        async def wait(tenant: str) -> None:
            await room.enter(tenant, 100, PATIENCE)
            order.append(tenant)
            room.charge(tenant, 0.06)

        waiting = [asyncio.ensure_future(wait(tenant)) for tenant in ("acme", "umbra", "umbra", "acme", "umbra")]
        await asyncio.to_thread(int)
        with pytest.raises(ResourceExhausted):
            await room.enter("acme", 1, 0)
        room.leave("acme", 1, 100)
        await asyncio.to_thread(int)
        assert order == [], "umbra is before acme, and has all of its part"
        for _ in range(3):
            room.leave("umbra", 1, 100)
            await asyncio.to_thread(int)
        assert order == ["umbra", "umbra", "umbra", "acme"]
        room.leave("acme", 1, 100)
        await asyncio.gather(*waiting)

    asyncio.run(scenario())


@pytest.mark.seeded("a tenant in debt passes one that waits")
def test_who_had_more_does_not_pass_one_that_waits_though_there_is_room() -> None:
    async def scenario() -> None:
        room = divided()
        assert room.try_enter("umbra", 600)
        room.charge("acme", 0.3)
        assert room.try_enter("acme", 10), "nobody waits yet"
        waiting = asyncio.ensure_future(room.enter("umbra", 100, PATIENCE))
        await asyncio.to_thread(int)
        assert not room.try_enter("acme", 10)
        assert room.try_enter("default", 10), "which had nothing so far"
        room.leave("umbra", 1, 500)
        await waiting
        assert room.try_enter("acme", 10)

    asyncio.run(scenario())


def test_who_comes_has_saved_nothing_while_another_worked_alone() -> None:
    async def scenario() -> None:
        room = divided()
        for _ in range(100):
            assert room.try_enter("acme", 10)
            room.charge("acme", 1.0)
            room.leave("acme", 1, 10)
        assert room.try_enter("umbra", 960)
        waiting = asyncio.ensure_future(room.enter("umbra", 100, PATIENCE))
        await asyncio.to_thread(int)
        assert room.try_enter("acme", 10), "umbra would wait 100 s of work long"
        room.leave("umbra", 1, 960)
        await waiting

    asyncio.run(scenario())


def test_who_comes_while_others_are_there_has_what_the_least_of_them_has() -> None:
    room = divided()
    for tenant, seconds in (("acme", 8.0), ("umbra", 15.0)):
        assert room.try_enter(tenant, 10)
        room.charge(tenant, seconds)
    assert room.try_enter("default", 10)
    assert [room.times.begins(tenant) for tenant in ("acme", "umbra", "default")] == [8.0, 13.0, 8.0]


def test_who_does_not_fit_is_passed_by_those_who_had_little_more() -> None:
    async def scenario() -> None:
        room, order = divided(), list[str]()
        assert room.try_enter("umbra", 600)
        for _ in range(20):
            assert room.try_enter("acme", 10)
        room.charge("acme", 0.9 * LEAD_S)

        async def wait(tenant: str, size: int) -> None:
            await room.enter(tenant, size, PATIENCE)
            order.append(tenant)

        waiting = [asyncio.ensure_future(wait(tenant, size)) for tenant, size in (("umbra", 300), ("acme", 10))]
        await asyncio.to_thread(int)
        room.leave("acme", 1, 10)
        await asyncio.to_thread(int)
        assert order == ["acme"], "its part has room, that of umbra has none"
        room.leave("acme", 1, 10)
        assert room.try_enter("acme", 10), "nobody of its own waits"
        room.charge("acme", 0.2 * LEAD_S)
        room.leave("acme", 1, 10)
        assert not room.try_enter("acme", 10), "now it has had too much more"
        room.leave("umbra", 1, 600)
        await asyncio.gather(*waiting)
        assert order == ["acme", "umbra"]
        assert room.try_enter("acme", 10)

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", swept(range(5), fast=1))
def test_tenants_that_are_never_idle_have_what_their_weights_say(seed: int) -> None:
    """However large and dear the commands of each are: within the lead, and the work that each had in the room."""
    chance = random.Random(seed)
    works = {"acme": (150, 0.04), "umbra": (20, 0.001), "default": (60, 0.02)}

    async def scenario() -> None:
        room, queue = divided(), list[tuple[str, int, float]]()

        async def send(tenant: str) -> None:
            most_bytes, most_seconds = works[tenant]
            while True:
                size = chance.randint(1, most_bytes)
                await room.enter(tenant, size, PATIENCE)
                queue.append((tenant, size, chance.uniform(0, most_seconds)))

        senders = [asyncio.ensure_future(send(tenant)) for tenant in works for _ in range(20)]
        for _ in range(6_000):
            for _ in range(3):
                await asyncio.sleep(0)
            tenant, size, seconds = queue.pop(0)
            room.charge(tenant, seconds)
            room.leave(tenant, 1, size)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        left = dict.fromkeys(works, 0.0)
        for tenant, _, seconds in queue:
            left[tenant] += seconds
        shares = [(room.times.used[tenant] + left[tenant]) / TENANTS[tenant].quotas.weight for tenant in works]
        assert max(shares) - min(shares) <= LEAD_S + 0.15
        assert min(shares) > 0.8

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(5))
def test_what_is_taken_is_given_back_to_the_byte_and_nobody_waits_beside_free_room(seed: int) -> None:
    chance = random.Random(seed)

    async def scenario() -> None:
        room = divided()

        async def command() -> None:
            tenant, size = chance.choice([*TENANTS]), chance.choice((1, 40, 260))
            try:
                place = await room.place(tenant, size, chance.choice((0.0, 0.000_1, PATIENCE)))
            except ResourceExhausted:
                return
            assert room.bytes <= 1_000
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            room.charge(tenant, chance.random())
            place.release()

        await asyncio.gather(*(command() for _ in range(300)))
        assert (room.commands, room.bytes) == (0, 0)
        assert all(room.held(tenant) == 0 for tenant in TENANTS)
        assert room.try_enter("acme", 900)

    asyncio.run(scenario())
