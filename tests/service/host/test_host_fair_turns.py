"""Turns by measured time: shares by weight, no idle time while a tenant waits, no saved time, debts kept."""

from __future__ import annotations

import random

import pytest

from psoup_service.host.turns.fair_turns import FairTurns, TenantTimes

WEIGHTS = {"acme": 1.0, "umbra": 3.0, "zeta": 0.5}


def _times() -> TenantTimes:
    return TenantTimes(lambda tenant: WEIGHTS.get(tenant, 1.0))


@pytest.mark.seeded("weights are not looked at")
@pytest.mark.parametrize("seed", range(10))
def test_whoever_waits_all_the_time_gets_what_its_weight_says(seed: int) -> None:
    chance, times = random.Random(seed), _times()
    turns, longest = FairTurns(times), 0.05
    for tenant in WEIGHTS:
        turns.wait(tenant)
    for _ in range(500):
        tenant = turns.serve()
        times.charge(tenant, chance.uniform(0, longest))
        shares = [times.used.get(name, 0.0) / weight for name, weight in WEIGHTS.items()]
        assert max(shares) - min(shares) <= longest / min(WEIGHTS.values()), "one piece of work apart, at most"


def test_equals_take_turns_before_anything_is_charged() -> None:
    turns = FairTurns(_times())
    for tenant in ("a", "b", "c"):
        turns.wait(tenant)
    assert [turns.serve() for _ in range(6)] == ["a", "b", "c"] * 2


@pytest.mark.seeded("who was away has saved time")
def test_who_was_away_has_saved_nothing() -> None:
    times = _times()
    turns = FairTurns(times)
    turns.wait("a")
    for _ in range(100):
        times.charge(turns.serve(), 1.0)
    turns.wait("b")
    served = []
    for _ in range(10):
        served.append(turns.serve())
        times.charge(served[-1], 1.0)
    assert sorted(served[:2]) == ["a", "b"]
    assert served.count("a") == served.count("b") == 5


def test_a_debt_is_there_when_its_tenant_comes_back() -> None:
    times = _times()
    turns = FairTurns(times)
    turns.wait("a")
    turns.wait("b")
    turns.serve()
    turns.leave("a")
    times.charge("a", 10.0)
    turns.wait("a")
    for _ in range(9):
        assert turns.serve() == "b"
        times.charge("b", 1.0)
    assert turns.first == "b"


def test_two_lines_of_one_resource_know_what_a_tenant_had_in_both() -> None:
    times = _times()
    quick, long = FairTurns(times), FairTurns(times)
    for turns in (quick, long):
        turns.wait("a")
        turns.wait("b")
    assert long.serve() == "a"
    times.charge("a", 1.0)
    assert quick.first == "b"
    assert quick.had < times.had["a"]


def test_somebody_is_served_as_long_as_somebody_waits() -> None:
    chance, times = random.Random(3), _times()
    turns, waiting = FairTurns(times), set[str]()
    names = [f"t{k}" for k in range(12)]
    for _ in range(3_000):
        tenant = chance.choice(names)
        if chance.random() < 0.5:
            turns.wait(tenant)
            waiting.add(tenant)
        else:
            turns.leave(tenant)
            waiting.discard(tenant)
        assert bool(turns) == bool(waiting)
        assert (turns.first in waiting) if waiting else (turns.first is None)
        if waiting and chance.random() < 0.5:
            times.charge(turns.serve(), chance.random())
        assert turns.entries <= 2 * len(waiting) + 17, "and those who come and go leave nothing behind"


def test_used_is_the_sum_of_what_was_charged() -> None:
    times = _times()
    times.charge("umbra", 0.3)
    times.charge("umbra", 0.2)
    assert times.used == {"umbra": 0.5}


def test_who_is_served_early_has_had_little_more_than_the_first_and_keeps_waiting() -> None:
    times = _times()
    turns = FairTurns(times)
    for tenant in ("a", "b", "c", "d"):
        turns.wait(tenant)
    for tenant, seconds in (("b", 0.2), ("c", 0.1), ("d", 0.3)):
        times.charge(tenant, seconds)
    assert turns.behind(0.2) == ["c", "b"]
    assert turns.behind(0.0) == []
    turns.serve_early("c")
    assert (turns.first, len(turns)) == ("a", 4)
    turns.leave("c")
    assert turns.behind(1.0) == ["b", "d"]
    assert times.now == 0.0, "the present is not what those had who were served early"
