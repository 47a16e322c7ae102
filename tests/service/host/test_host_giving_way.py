"""Long work rests while a call of another tenant is under way: until its end, and not for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from psoup.work.rest_points import may_rest
from psoup_service.host.binder import BindingJob, BindingThread
from psoup_service.host.turns import giving_way
from psoup_service.host.turns.giving_way import LEAST_S, MOST_SAVED_S, GivingWay, Rests

LONG = 60.0


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> GivingWay:
    """Calls stay young, so that only their ends end a rest."""
    monkeypatch.setattr(giving_way, "YOUNG_S", 2 * LONG)
    return GivingWay()


def test_work_gives_way_to_calls_of_other_tenants_only(way: GivingWay) -> None:
    assert not way.wanted("umbra")
    assert not way.rest("umbra", LONG)
    way.begun("umbra")
    assert not way.wanted("umbra")
    assert way.wanted("acme")
    way.begun("acme")
    way.begun("acme")
    way.begun("umbra")  # the newest: the one before counts for it
    assert way.wanted("umbra")
    way.ended("acme")
    assert way.wanted("umbra")
    way.ended("acme")
    assert not way.wanted("umbra")
    assert not way.rest("umbra", LONG)


def test_a_rest_ends_with_the_call(way: GivingWay) -> None:
    way.begun("acme")
    with ThreadPoolExecutor(1) as pool:
        resting = pool.submit(way.rest, "umbra", LONG)
        while not way.resting and not resting.done():
            pass
        way.ended("acme")
        assert resting.result(LONG / 2)


def test_a_rest_is_no_longer_than_the_work_before_it(way: GivingWay) -> None:
    way.begun("acme")
    assert way.rest("umbra", 2 * LEAST_S)  # returns, while the call is under way
    assert not way.rest("umbra", LEAST_S / 2)


def test_work_does_not_give_way_to_a_call_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_way, "YOUNG_S", -1.0)
    way = GivingWay()
    way.begun("acme")
    assert not way.wanted("umbra")
    assert not way.rest("umbra", LONG)


def test_a_slice_of_binding_ends_when_a_call_comes(way: GivingWay) -> None:
    ended, slices = threading.Event(), list[int]()

    def advance(may_go_on: Callable[[], bool]) -> bool:
        if not slices:
            way.begun("acme")
        slices.append(0)
        while may_go_on():
            slices[-1] += 1
        return len(slices) > 1

    binder = BindingThread(lambda: 0, pytest.fail)
    binder.way = way
    binder.put(BindingJob("umbra", "a client", lambda: False, advance, ended.set))
    binder.start()
    assert ended.wait(LONG)  # it was given way to for a moment, and not for ever
    binder.stop(finish=True)
    assert binder.join(LONG)
    assert len(slices) == 2


class Clock:
    """Instead of the module's clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter


class Noted(GivingWay):
    """A call of another tenant is always under way, and lasts; rests take the clock's time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock, self.rests = clock, list[tuple[str, float]]()

    def rest(self, tenant: str, worked: float) -> bool:
        self.rests.append((tenant, worked))
        self._clock.now += worked
        return True


def _passing(way: GivingWay, monkeypatch: pytest.MonkeyPatch) -> tuple[Clock, list[float]]:
    """A clock that rests move on at once, and the seconds of each."""
    clock, rested = Clock(), list[float]()

    def wait(seconds: float) -> None:
        rested.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(giving_way, "time", clock)
    monkeypatch.setattr(way._changed, "wait", wait)
    return clock, rested


def test_rests_are_as_long_as_the_work_and_no_longer_than_what_is_saved(
    way: GivingWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, rested = _passing(way, monkeypatch)
    way.begun("acme")
    rests = Rests(way)
    clock.now += 100.0  # no work
    rests.begin("umbra")
    assert not rests.rest()
    for worked in (LEAST_S, LEAST_S / 2, LEAST_S, 3 * LEAST_S, 2 * MOST_SAVED_S):
        clock.now += worked
        rests.rest()
    assert rested == pytest.approx([MOST_SAVED_S, 1.5 * LEAST_S, 3 * LEAST_S, MOST_SAVED_S])


def test_what_a_tenants_work_has_not_rested_is_saved_for_all_of_it(
    way: GivingWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, rested = _passing(way, monkeypatch)
    way.begun("acme")
    assert way.rest("umbra", LEAST_S)  # what each tenant begins with
    way.ended("acme")
    reads = Rests(way), Rests(way)
    for read in reads:
        read.begin("umbra")
        clock.now += 2 * LEAST_S
        assert not read.rest()
    way.begun("acme")
    clock.now += 2 * LEAST_S
    assert reads[1].rest()
    assert way.rest("third", LEAST_S)
    assert rested == pytest.approx([MOST_SAVED_S, 6 * LEAST_S, MOST_SAVED_S])


def test_work_that_need_not_rest_lets_those_go_first_that_wait_for_its_processor(
    way: GivingWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, rested = _passing(way, monkeypatch)
    yielded = list[float]()
    monkeypatch.setattr(giving_way, "_yield", lambda: yielded.append(clock.now))
    rests = Rests(way)
    rests.begin("umbra")
    for _ in range(4):
        clock.now += LEAST_S / 2
        assert not rests.rest()
    assert yielded == pytest.approx([LEAST_S, 2 * LEAST_S])
    way.begun("acme")
    clock.now += LEAST_S
    assert rests.rest()
    assert len(yielded) == 2
    assert len(rested) == 1


def test_one_step_of_binding_rests_in_its_midst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_way, "LEAST_S", 0.0)
    ended, way = threading.Event(), Noted(Clock())
    within = list[int]()

    def advance(_: Callable[[], bool]) -> bool:
        for _ in range(3):
            may_rest()
            within.append(len(way.rests))
        return True

    binder = BindingThread(lambda: 0, pytest.fail)
    binder.way = way
    binder.put(BindingJob("umbra", "a client", lambda: False, advance, ended.set))
    binder.start()
    assert ended.wait(LONG)
    binder.stop(finish=True)
    assert binder.join(LONG)
    assert within == [1, 2, 3]
    assert {tenant for tenant, _ in way.rests} == {"umbra"}
