"""Long work rests while a call of another tenant is under way: until its end, and not for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from psoup_service.host import giving_way
from psoup_service.host.binder import BindingJob, BindingThread
from psoup_service.host.giving_way import LEAST_S, GivingWay

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
