"""The guarded clock on a pair of virtual clocks: steps of the wall clock beside boot time."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_service.process.clock import HOLD, STEP, GuardedClock, boot_time, guarded, wall_time
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.services.machine_clocks import START, Machine
from psoup_testing.suite.log_records import own_records
from psoup_testing.suite.sweeps import swept

HOUR = 3_600 * SECOND
HELD = HOLD // SECOND


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.pass_seconds(3)
    return machine


def values(answer: Answer) -> list[int]:
    column: list[int] = answer.to_table().column(0).to_pylist()
    return column


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in own_records(caplog)]


@pytest.mark.parametrize("seconds", [61, 7_200, 10 * 365 * 86_400])
def test_a_step_forward_is_not_followed(machine: Machine, seconds: int, caplog: pytest.LogCaptureFixture) -> None:
    machine.set_forward(seconds)
    assert machine.error == 0, "the very first reading after the step"
    machine.pass_seconds(300)
    assert machine.error == 0
    state = machine.clock.state()
    assert (state.ahead, state.steps, state.followed_in) == (seconds * SECOND, 1, 300 * SECOND)
    assert state.pending == START + 3 * SECOND
    assert messages(caplog) == ["the wall clock was set forward, and is not followed yet"]
    record = own_records(caplog)[0]
    assert record.levelno == logging.WARNING
    assert vars(record)["seconds_ahead"] == seconds
    assert "psoup clock accept" in vars(record)["way_out"]


@pytest.mark.parametrize("seconds", [0.001, 59, 60])
def test_a_small_step_is_followed_at_once(machine: Machine, seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    machine.set_forward(seconds)
    assert machine.error == seconds
    machine.pass_seconds(60)
    machine.set_forward(seconds)
    assert machine.error == 2 * seconds, "a minute later another"
    assert machine.clock.state().steps == 0
    assert machine.clock.state().notice() == ""
    assert not own_records(caplog)


def test_a_step_in_pieces_is_a_step(machine: Machine) -> None:
    machine.set_forward(40)
    assert machine.error == 40
    machine.pass_seconds(2)
    machine.set_forward(40)
    assert machine.error == 40
    assert machine.clock.state().steps == 1


def test_a_piece_is_followed_once_the_pieces_before_it_are_trusted(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.set_forward(40)
    machine.pass_seconds(1)
    machine.set_forward(40)
    machine.pass_seconds(60)
    assert machine.error == 80
    assert messages(caplog)[1:] == ["the wall clock is within a minute of the trusted time, and is followed"]


def test_a_clock_that_comes_back_has_changed_nothing(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.set_forward(7_200)
    machine.pass_seconds(HELD - 1)
    machine.set_forward(-7_200)
    machine.pass_seconds(2 * HELD)
    assert machine.error == 0
    state = machine.clock.state()
    assert (state.ahead, state.pending, state.behind, state.steps) == (0, None, 0, 1)
    assert messages(caplog)[1:] == ["the wall clock was set back before it was followed: nothing has changed"]


def test_a_clock_that_goes_back_further_than_it_came(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.set_forward(7_200)
    machine.pass_seconds(1)
    machine.set_forward(-7_200 - 3_600)
    assert machine.error == -3_600
    assert [line.partition(":")[0] for line in messages(caplog)[1:]] == [
        "the wall clock was set back before it was followed",
        "the wall clock was set back, and is followed",
    ]


def test_a_step_that_has_held_for_ten_minutes_is_followed(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.set_forward(7_200)
    machine.pass_seconds(HELD)
    assert machine.error == 0
    assert machine.clock.state().followed_in == SECOND
    machine.pass_seconds(1)
    assert machine.error == 7_200
    assert messages(caplog)[1:] == ["the wall clock has held for ten minutes, and is followed"]
    machine.set_forward(61)
    assert machine.error == 7_200, "the next step is judged anew"


def test_nothing_is_followed_early_by_readings_that_are_far_apart(machine: Machine) -> None:
    machine.pass_seconds(3 * HELD, observed=False)
    machine.set_forward(7_200)
    assert machine.error == 0
    machine.pass_seconds(HELD - 1, observed=False)
    assert machine.error == 0
    machine.pass_seconds(1, observed=False)
    assert machine.error == 7_200


def test_an_operator_accepts_a_step(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.set_forward(7_200)
    machine.pass_seconds(5)
    assert machine.clock.accept()
    state = machine.clock.state()
    assert (state.ahead, state.pending, state.time) == (0, None, state.wall)
    machine.pass_seconds(5)
    assert machine.error == 7_200
    assert "an operator has accepted the wall clock" in messages(caplog)[-1]
    count = len(own_records(caplog))
    assert not machine.clock.accept(), "there is nothing to accept: nothing happens"
    assert machine.error == 7_200
    assert len(own_records(caplog)) == count


@pytest.mark.parametrize("second", [7_200, 61, -3_600])
def test_a_second_step_begins_the_wait_anew(machine: Machine, second: int) -> None:
    machine.set_forward(7_200)
    machine.pass_seconds(HELD - 10)
    machine.set_forward(second)
    machine.pass_seconds(HELD)
    assert machine.error == 0
    assert machine.clock.state().steps == 2
    machine.pass_seconds(1)
    assert machine.error == 7_200 + second


def test_a_pending_clock_may_be_slewed(machine: Machine) -> None:
    machine.set_forward(7_200)
    machine.pass_seconds(HELD // 2)
    machine.set_forward(20)
    machine.pass_seconds(HELD // 2 + 1)
    assert machine.error == 7_220


def test_a_step_back_is_followed_and_the_way_back_too(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.set_forward(-7_200)
    assert machine.error == -7_200
    machine.pass_seconds(HELD - 5)
    state = machine.clock.state()
    assert 7_200 - HELD <= state.behind // SECOND <= 7_200
    assert "before 2026-" in state.notice()
    machine.set_forward(7_200)
    assert machine.error == 0, "the service had this time already"
    assert machine.clock.state().steps == 0
    assert machine.clock.state().behind == 0
    assert messages(caplog) == [
        "the wall clock was set back, and is followed: new tuples of streams in system time get the time of the last"
        " one until it is reached"
    ]


def test_a_step_back_that_has_held_is_the_time_that_is_trusted(machine: Machine) -> None:
    machine.set_forward(-7_200)
    machine.pass_seconds(HELD + 2)
    machine.set_forward(7_200)
    assert machine.error == -7_200
    machine.pass_seconds(HELD + 1)
    assert machine.error == 0


def test_past_the_greatest_time_of_all_a_minute_is_followed(machine: Machine) -> None:
    machine.set_forward(-7_200)
    machine.pass_seconds(10)
    machine.set_forward(7_200 + 40)
    assert machine.error == 40
    machine.set_forward(-7_240)
    machine.pass_seconds(10)
    machine.set_forward(7_200 + 3_600)
    assert machine.error == -7_200


def test_a_suspension_is_no_step(machine: Machine) -> None:
    machine.pass_seconds(86_400, observed=False)
    assert machine.error == 0
    assert machine.clock.state().steps == 0


def test_a_thread_that_is_stopped_between_two_readings_sees_no_step() -> None:
    true, stops = START, [7_200]

    def wall() -> int:
        nonlocal true
        if stops and asked:
            true += stops.pop() * SECOND
        return true

    asked = False
    clock = GuardedClock(wall, lambda: true)
    asked = True
    assert clock.now() == true
    assert clock.state().steps == 0


def test_a_clock_before_the_last_event_is_reported(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    clock = machine.clock
    clock.begin(machine.true - 5)
    assert not own_records(caplog)
    assert clock.state().behind == 0
    clock.begin(machine.true + HOUR)
    assert "the clock is before the last event" in messages(caplog)[0]
    assert vars(own_records(caplog)[0])["seconds"] == 3_600
    assert clock.state().behind == HOUR
    assert "3,600 s before 2026-" in clock.state().notice()
    machine.set_forward(1_800)
    assert machine.error == 0, "the last event is no reason to trust a step"
    machine.set_forward(-1_800)
    machine.pass_seconds(3_600, observed=False)
    assert clock.state().notice() == ""


WRONG = (-86_400, -7_200, -61, -20, 20, 50, 300, 7_200, 86_400)
"""Seconds by which a wall clock is wrong for some minutes; small ones together are less than a minute."""


@pytest.mark.parametrize("seed", swept(range(6), fast=1))
def test_random_histories_lose_no_tuple_and_double_none(seed: int) -> None:
    """A clock is wrong for less than ten minutes at a time: windows and retention are right during and after that."""
    chosen = random.Random(seed)
    machine = Machine()
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), machine.clock, verify="all")
    soup.execute("CREATE STREAM s (v BIGINT) RETENTION 1 HOUR")
    query = soup.register("SELECT v FROM s BEGIN (NOW - 30 MINUTES)")
    soup.push("s", pa.table({"v": [0]}))
    pushed = [machine.true]

    def live(seconds: int) -> None:
        while seconds > 0:
            machine.pass_seconds(least := min(chosen.choice((1, 20, 60)), seconds))
            seconds -= least
            soup.push("s", pa.table({"v": [len(pushed)]}))
            pushed.append(machine.true)
            assert machine.error <= 50
            shown = values(again(soup.invoke, query))
            assert len(shown) == len({*shown})
            assert {*shown} >= {v for v, at in enumerate(pushed) if at >= machine.true - HOUR // 2 + HOLD}
            soup.maintain()

    for _ in range(8):
        spells = chosen.randrange(1, 4)
        for _ in range(spells):
            machine.off = chosen.choice(WRONG) * SECOND
            live(HELD // spells - 5)
        machine.off = 0
        assert machine.error == 0
        live(120)
    kept = values(again(soup.ask, "SELECT v FROM s"))
    assert kept == list(range(kept[0], len(pushed)))
    assert kept[0] > 0, "retention goes on"
    assert pushed[kept[0]] <= machine.true - HOUR + HOLD
    machine.off = 300 * SECOND
    live(HELD - 5)
    machine.pass_seconds(6)
    assert machine.error == 300


def test_a_given_clock_never_jumps() -> None:
    virtual = VirtualClock(START)
    clock = guarded(virtual)
    moves: list[Callable[[], None]] = [
        lambda: virtual.set(START + HOUR),
        lambda: virtual.set(START - HOUR),
        lambda: virtual.advance(seconds=3 * 86_400),
        lambda: virtual.set(0),
    ]
    for move in moves * 2:
        move()
        assert clock.now() == virtual.now() == clock.state().time
    assert clock.state().steps == 0
    assert guarded(clock) is clock


def test_the_clocks_of_this_machine() -> None:
    assert 1_700_000_000 * SECOND < wall_time() < 4_102_444_800 * SECOND
    assert 0 < boot_time() <= boot_time()
    assert abs(guarded(None).now() - wall_time()) < STEP


@pytest.mark.parametrize("idle", [0, 30, 86_400])
def test_the_clock_of_a_promoted_standby_is_that_of_its_machine(machine: Machine, idle: int) -> None:
    """The standby's clock stood still at the last event, `idle` seconds ago."""
    standby, last = VirtualClock(machine.true - idle * SECOND), machine.true - idle * SECOND
    clock = guarded(standby)
    assert clock.now() == last
    clock.take_up(lambda: machine.true + machine.off, lambda: machine.true - START, last)
    machine.clock = clock
    assert machine.error == 0 and clock.state().pending is None
    machine.pass_seconds(120)
    assert machine.error == 0
    machine.set_forward(7_200)
    machine.pass_seconds(30)
    assert machine.error == 0, "it guards against steps, too"


def test_a_promoted_standby_before_its_last_event_says_so(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    last = machine.true + 300 * SECOND
    clock = guarded(VirtualClock(last))
    clock.take_up(lambda: machine.true, lambda: machine.true - START, last)
    assert clock.now() == machine.true and clock.state().last == last
    assert messages(caplog)[0].startswith("the clock is before the last event")
