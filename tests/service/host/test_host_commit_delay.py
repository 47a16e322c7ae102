"""The time that small pushes wait for further ones: it is learned, and short; and no push waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa
import pytest

from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import Command, CreateStream, Push
from psoup_service.host import sequencer
from psoup_service.host.commit_delay import MOST_PAUSE, MOST_S, CommitDelay
from psoup_testing.services.host_rig import PATIENCE, RecordingStore, Rig, come_to_pass, serving

COST = 0.001


class Simulated:
    """Closed-loop clients: each pushes again `think` seconds after its answer, and sends take `gap` seconds each."""

    def __init__(self, clients: int, gap: float, cost: float = COST) -> None:
        self.now = 0.0
        self.delay = CommitDelay(lambda: cost, lambda: self.now)
        self._gap, self._cost = gap, cost
        self._due = [gap * (client + 1) for client in range(clients)]
        self.waits: list[float] = []

    def group(self) -> int:
        """Run the next group. Returns its number of pushes."""
        self._due.sort()
        self.now = max(self.now, self._due[0])
        first, taken = self.now, 0
        while self._due and self._due[0] <= self.now:
            taken += self._come()
        while (left := self.delay.left()) > 0:
            if self._due and self._due[0] <= self.now + left:
                self.now = max(self.now, self._due[0])
                taken += self._come()
            else:
                self.now += left + 1e-9
        self.waits.append(self.now - first)
        self.delay.begin()
        self.now += self._cost
        self._due += [self.now + self._gap * (place + 1) for place in range(taken)]
        return taken

    def _come(self) -> int:
        self._due.pop(0)
        self.delay.come()
        return 1


def test_clients_that_push_at_the_same_time_share_a_group() -> None:
    simulated = Simulated(clients=8, gap=0.4 * COST)
    groups = [simulated.group() for _ in range(100)]
    assert groups[0] < 8 and groups[-50:] == [8] * 50


def test_the_last_group_of_clients_that_leave_waits_once() -> None:
    simulated = Simulated(clients=8, gap=0.4 * COST)
    for _ in range(100):
        simulated.group()
    del simulated._due[1:]
    assert [simulated.group() for _ in range(50)] == [1] * 50
    assert sum(wait > 0 for wait in simulated.waits[-50:]) <= 7, "one for the seven, and some trials"


@pytest.mark.seeded("a client that pushes alone waits for company each time")
def test_a_client_that_pushes_alone_seldom_waits() -> None:
    simulated = Simulated(clients=1, gap=2 * COST)
    assert [simulated.group() for _ in range(1_000)] == [1] * 1_000
    waited = [wait for wait in simulated.waits if wait > 0]
    assert 0 < len(waited) <= 1_000 / MOST_PAUSE + 8 and max(waited) <= 1.01 * COST


def test_pushes_that_come_slowly_seldom_wait() -> None:
    simulated = Simulated(clients=0, gap=0.0)
    waited = 0
    for place in range(1_000):
        simulated._due = [place * 3 * COST]
        assert simulated.group() == 1
        waited += simulated.waits[-1] > 0
    assert waited <= 1_000 / MOST_PAUSE + 8


def test_no_push_waits_longer_than_the_limit() -> None:
    simulated = Simulated(clients=500, gap=0.9 * COST)
    groups = [simulated.group() for _ in range(300)]
    assert max(groups) > 5 and max(simulated.waits) <= MOST_S + 1e-6


def test_a_command_that_cannot_share_the_group_ends_the_wait() -> None:
    delay = expecting_two(lambda: 0.0)
    delay.come()
    assert delay.left() > 0
    delay.hurry()
    assert delay.left() == 0
    delay.begin()
    delay.come()
    assert delay.left() > 0, "it says nothing about the company that comes"


def test_a_group_without_pushes_that_came_for_it_changes_nothing() -> None:
    delay = expecting_two(lambda: 0.0)
    delay.hurry()
    delay.begin()
    delay.come()
    assert delay.left() > 0


def test_pushes_that_come_as_the_group_is_taken_count() -> None:
    delay = expecting_two(lambda: 0.0)
    for _ in range(2):
        delay.come()
    delay.begin()
    delay.come()
    delay.join()
    assert delay.left() == 0
    for _ in range(2):
        delay.come()
        assert delay.left() > 0
    delay.come()
    assert delay.left() == 0, "three were in the last group"


def expecting_two(clock: Callable[[], float]) -> CommitDelay:
    """A delay in its first trial: it waits for two pushes."""
    delay = CommitDelay(lambda: 1.0, clock)
    for _ in range(2):
        delay.come()
        delay.begin()
    return delay


def row(value: int) -> Push:
    return Push("s", pa.record_batch({"x": [value]}))


@pytest.fixture(autouse=True, params=[False, True], ids=["one thread", "two threads"])
def durable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a thread of its own writes the log."""
    monkeypatch.setattr(RecordingStore, "durable", request.param)
    return bool(request.param)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still, so that only company, or another command, ends a wait."""
    monkeypatch.setattr(sequencer, "CommitDelay", lambda cost: CommitDelay(lambda: 1.0, lambda: 0.0))


async def waiting_push(rig: Rig) -> asyncio.Future[object]:
    """A push that waits for a second one, after two groups of a push each."""
    for value in (1, 2):
        await rig.host.submit(row(value))
    third = asyncio.ensure_future(rig.host.submit(row(3)))
    await come_to_pass(lambda: rig.host._sequencer._line.delay.left() > 0)
    assert not third.done()
    return third


@pytest.mark.usefixtures("endless")
def test_a_push_that_waits_shares_the_event_of_the_next_one() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            third, fourth = await waiting_push(rig), await rig.host.submit(row(4))
            assert isinstance(fourth, PushAcknowledgement) and fourth.first_row == 1
            assert (await third).sequence == fourth.sequence == 4  # type: ignore[attr-defined]

    asyncio.run(scenario())


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize(
    "other", [CreateStream("CREATE STREAM t (x BIGINT)"), Push("s", pa.record_batch({"x": [9]}), "p")]
)
def test_another_command_does_not_wait_with_it(other: Command) -> None:
    async def scenario() -> None:
        async with serving() as rig:
            third = await waiting_push(rig)
            await rig.host.submit(other)
            assert (await third).sequence == 4  # type: ignore[attr-defined]

    asyncio.run(scenario())


@pytest.mark.usefixtures("endless")
def test_a_push_that_waits_is_answered_before_a_drain_ends() -> None:
    async def scenario() -> None:
        async with serving() as rig:
            third = await waiting_push(rig)
            assert await rig.host.drain(PATIENCE)
            assert (await third).sequence == 4  # type: ignore[attr-defined]

    asyncio.run(scenario())


@pytest.mark.seeded("a wait that ends while the sequencer looks is never over")
@pytest.mark.parametrize("step", [0.0005, 0.0011, 0.0017, 0.0026, 0.003, 0.0049])
def test_a_wait_that_ends_at_any_moment_ends(step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes `step` seconds, so the wait ends between two looks."""
    times: Iterator[float] = count(0.0, step)
    monkeypatch.setattr(sequencer, "CommitDelay", lambda cost: CommitDelay(lambda: 1.0, times.__next__))

    async def scenario() -> None:
        async with serving() as rig:
            for value in range(8):
                await asyncio.wait_for(rig.host.submit(row(value)), PATIENCE)

    asyncio.run(scenario())


@pytest.mark.seeded("a wait that has ended begins again as groups take longer")
def test_a_wait_that_has_ended_does_not_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups take longer with each look at their cost; the clock advances too, but more slowly."""
    times, costs = count(0.0, 0.0001), count(0.0, 0.0003)
    monkeypatch.setattr(sequencer, "CommitDelay", lambda cost: CommitDelay(costs.__next__, times.__next__))

    async def scenario() -> None:
        async with serving() as rig:
            for value in range(8):
                await asyncio.wait_for(rig.host.submit(row(value)), PATIENCE)

    asyncio.run(scenario())


@pytest.mark.parametrize("stray", [1, 2, 5])
def test_a_push_is_taken_although_more_are_counted_than_wait(stray: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage may sleep without a limit then."""
    times: Iterator[float] = count(0.0, 0.0007)
    monkeypatch.setattr(sequencer, "CommitDelay", lambda cost: CommitDelay(lambda: 0.003, times.__next__))

    async def scenario() -> None:
        async with serving() as rig:
            delay = rig.host._sequencer._line.delay
            for value in range(8):
                with rig.host._sequencer.condition:
                    delay._expected = 9
                    for _ in range(stray):
                        delay.come()
                await asyncio.wait_for(rig.host.submit(row(value)), PATIENCE)

    asyncio.run(scenario())
