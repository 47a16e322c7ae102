"""Turns at the event loop: a tenant with many calls waits briefly while a quieter tenant's call is served."""

from __future__ import annotations

import asyncio
import time

import pytest

from psoup_service.gate import call_turns
from psoup_service.gate.call_turns import MOST_SAVED_S, YOUNG_S, CallTurns, ServedCall

LONG = 60.0
MANY = 1_000


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class StartedClock(Clock):
    """A clock that stands still until it is started, and then shows the time that goes by."""

    began: float | None = None

    def __call__(self) -> float:
        return self.now if self.began is None else self.now + time.monotonic() - self.began


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls stay young, and tenants have saved all the time there is: only the end of a call ends a wait."""
    monkeypatch.setattr(call_turns, "YOUNG_S", 2 * LONG)
    monkeypatch.setattr(call_turns, "MOST_SAVED_S", 2 * LONG)


async def busy(turns: CallTurns, tenant: str, calls: int = MANY) -> None:
    """Let a tenant have made many calls, and some other few."""
    await turns.come_in("zeta")
    for _ in range(calls):
        await turns.come_in(tenant)


async def held(turns: CallTurns, tenant: str, calls: int = 1) -> list[asyncio.Task[ServedCall]]:
    """Calls of a tenant that have come as far as they may."""
    tasks = [asyncio.create_task(turns.come_in(tenant)) for _ in range(calls)]
    await asyncio.wait(tasks, timeout=0)
    return tasks


@pytest.mark.seeded("an end of a call lets nobody in")
@pytest.mark.usefixtures("endless")
def test_a_tenant_that_calls_more_waits_for_the_end_of_a_call(clock: Clock) -> None:
    async def story() -> None:
        turns = CallTurns(now=clock)
        await busy(turns, "umbra")
        with await turns.come_in("acme"):
            waiting = await held(turns, "umbra", 3)
            assert (turns.held, [task.done() for task in waiting]) == (3, [False] * 3)
            await asyncio.wait_for(turns.come_in("acme"), LONG)  # who calls less does not wait
        done = await asyncio.wait_for(asyncio.gather(*waiting), LONG)
        assert (turns.held, len(done)) == (0, 3)

    asyncio.run(story())


@pytest.mark.seeded("a new call passes those that are held")
@pytest.mark.usefixtures("endless")
def test_held_calls_come_in_one_by_one_and_in_their_order(clock: Clock) -> None:
    async def story() -> None:
        turns, order = CallTurns(now=clock), list[int]()
        await busy(turns, "umbra")

        async def call(number: int) -> None:
            await turns.come_in("umbra")
            order.append(number)
            if number == 1:  # the other comes back, and finds the loop free
                other.__enter__()

        other = await turns.come_in("acme")
        with await turns.come_in("acme"):
            tasks = [asyncio.create_task(call(number)) for number in range(5)]
            await asyncio.wait(tasks, timeout=0)
        while len(order) < 2:
            await asyncio.sleep(0)
        await asyncio.wait(tasks, timeout=0)
        assert (order, turns.held) == ([0, 1], 3)
        other.__exit__()
        tasks.append(asyncio.create_task(call(5)))  # nobody keeps it out but those before it
        await asyncio.wait_for(asyncio.gather(*tasks), LONG)
        assert order == [0, 1, 2, 3, 4, 5]

    asyncio.run(story())


def test_tenants_that_call_about_as_much_take_no_notice_of_each_other(clock: Clock) -> None:
    async def story() -> None:
        turns = CallTurns(now=clock)
        await busy(turns, "umbra")
        await busy(turns, "acme", 2 * MANY // 3)
        with await turns.come_in("acme"):
            (call,) = await held(turns, "umbra")
            assert call.done()

    asyncio.run(story())


@pytest.mark.seeded("a tenant of few calls waits for others")
def test_a_tenant_of_few_calls_waits_for_nobody(clock: Clock) -> None:
    async def story(calls: int) -> bool:
        turns = CallTurns(now=clock)
        await busy(turns, "umbra", calls)  # in an instant: about half as many a second
        with await turns.come_in("acme"):
            (call,) = await held(turns, "umbra")
            return call.done()

    few = int(call_turns.MANY)
    assert (asyncio.run(story(few)), asyncio.run(story(3 * few))) == (True, False)


@pytest.mark.seeded("calls count as much of a tenant of more weight")
def test_a_call_counts_for_less_of_a_tenant_of_more_weight(clock: Clock) -> None:
    async def story(weight: float) -> bool:
        turns = CallTurns({"umbra": weight, "acme": 1.0, "zeta": 1.0}.__getitem__, clock)
        await busy(turns, "umbra")
        await busy(turns, "acme", MANY // 5)
        with await turns.come_in("acme"):
            (call,) = await held(turns, "umbra")
            return call.done()

    assert (asyncio.run(story(1.0)), asyncio.run(story(3.0))) == (False, True)


@pytest.mark.seeded("a call that lasts keeps others out for ever, or beyond half of the time")
@pytest.mark.parametrize(("young", "saved"), [(YOUNG_S, 2 * LONG), (2 * LONG, MOST_SAVED_S)])
def test_nobody_waits_for_a_call_that_lasts(monkeypatch: pytest.MonkeyPatch, young: float, saved: float) -> None:
    monkeypatch.setattr(call_turns, "YOUNG_S", young)
    monkeypatch.setattr(call_turns, "MOST_SAVED_S", saved)

    async def story() -> None:
        clock = StartedClock()
        turns = CallTurns(now=clock)
        await busy(turns, "umbra")
        with await turns.come_in("acme"):
            calls = await held(turns, "umbra", 2)
            assert not calls[0].done()
            clock.began = time.monotonic()
            await asyncio.wait_for(asyncio.gather(*calls), LONG / 2)

    asyncio.run(story())


@pytest.mark.seeded("a call that lasts keeps others out for ever, or beyond half of the time")
def test_waiting_is_half_of_the_time_at_most(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_turns, "YOUNG_S", 2 * LONG)

    async def story() -> None:
        turns = CallTurns(now=clock)
        await busy(turns, "umbra")
        with await turns.come_in("acme"):
            (first,) = await held(turns, "umbra")
            clock.now += MOST_SAVED_S  # it has waited for all that it had saved
            await asyncio.wait_for(first, LONG)
            (second,) = await held(turns, "umbra")
            assert second.done()
            clock.now += MOST_SAVED_S / 2
            (third,) = await held(turns, "umbra")
            assert not third.done()
            clock.now += MOST_SAVED_S
            await asyncio.wait_for(third, LONG)

    asyncio.run(story())


@pytest.mark.seeded("a held call of a client that has left keeps its place")
def test_a_client_that_leaves_takes_its_place_along(clock: Clock) -> None:
    async def story() -> None:
        turns = CallTurns(now=clock)
        await busy(turns, "umbra")
        with await turns.come_in("acme"):
            first, second = await held(turns, "umbra", 2)
            first.cancel()
            await asyncio.wait([first])
            assert (turns.held, first.cancelled()) == (1, True)
        await asyncio.wait_for(second, LONG)
        assert turns.held == 0

    asyncio.run(story())


def test_tenants_that_are_silent_are_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_turns, "_KNOWN", 4)

    async def story() -> None:
        turns = CallTurns(now=clock)
        with await turns.come_in("stays"):
            for number in range(20):
                await turns.come_in(f"t{number}")
            assert len(turns._known) == 4
            assert "stays" in turns._known

    asyncio.run(story())
