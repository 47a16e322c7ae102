"""Bytes that all reads share: a part is reserved for each tenant, whatever other tenants hold."""

from __future__ import annotations

import random

from psoup.events.tenants import Quotas, Tenant
from psoup.work.read_budget import ReadBudget
from psoup_service.host.shared_bytes import SharedBytes
from psoup_service.host.turns.fair_turns import Weights
from psoup_testing.suite.budget import Budget

MIB = 1024 * 1024


def _weights(**weights: float) -> Weights:
    tenants = {name: Tenant(name, Quotas(weight=weight)) for name, weight in weights.items()}
    return Weights(lambda: tenants)


def test_who_is_alone_may_hold_all() -> None:
    shared = SharedBytes(8 * MIB)
    assert shared.of("default").limit == 8 * MIB
    assert shared.take(8 * MIB)
    assert not shared.take(1)
    shared.give_back(8 * MIB)
    assert shared.used == 0


def test_a_tenant_holds_its_own_part_whatever_others_hold() -> None:
    shared = SharedBytes(8 * MIB, _weights(acme=3, umbra=1))
    acme, umbra = shared.of("acme"), shared.of("umbra")
    assert (acme.limit, umbra.limit) == (7 * MIB, 5 * MIB)
    assert acme.take(7 * MIB)
    assert not acme.take(1)
    assert umbra.take(MIB)
    assert not umbra.take(1)
    acme.give_back(2 * MIB)
    assert umbra.take(2 * MIB)
    assert not acme.take(1), "what was given back is nobody's own"
    acme.give_back(5 * MIB)
    umbra.give_back(3 * MIB)
    assert shared.used == 0


def test_the_limit_holds_also_when_tenants_come() -> None:
    tenants = {"acme": Tenant("acme")}
    shared = SharedBytes(1_000, Weights(lambda: tenants))
    assert shared.take(1_000, "acme")
    tenants = {name: Tenant(name) for name in ("acme", "umbra")}
    assert not shared.take(1, "umbra")
    shared.give_back(600, "acme")
    assert shared.take(250, "umbra")
    assert shared.take(350, "umbra")
    assert not shared.take(1, "acme")
    shared.give_back(400, "acme")
    shared.give_back(600, "umbra")
    assert shared.take(250, "acme")
    assert shared.used == 250


def test_a_read_gives_back_once_what_it_has_taken() -> None:
    """A caller who leaves ends the read; the sort that it was in the midst of ends later."""
    shared = SharedBytes(100)
    first, second = ReadBudget(shared=shared.of("default")), ReadBudget(shared=shared.of("default"))
    first.hold(40)
    second.hold(30)
    first.close()
    assert shared.used == 30
    first.give_back(40)
    first.close()
    first.give_back_joined(40)
    assert shared.used == 30
    first.hold(20)  # of a thread that has not noticed yet
    first.give_back(60)
    assert shared.used == 30
    second.close()
    assert shared.used == 0


def test_own_parts_are_always_there_and_the_limit_holds() -> None:
    budget = Budget("shared bytes", 3_000)
    for seed in budget.rounds():
        rng = random.Random(seed)
        weights = {name: rng.choice([0.5, 1.0, 3.0]) for name in "abcd"}
        shared, held = SharedBytes(1_000, _weights(**weights)), dict.fromkeys(weights, 0)
        reads = {name: shared.of(name) for name in weights}
        for _ in range(100):
            name, size = rng.choice("abcd"), rng.randint(0, 400)
            own = int(500 * weights[name] / sum(weights.values()))
            if rng.random() < 0.4:
                reads[name].give_back(size)
                held[name] -= min(size, held[name])
            elif reads[name].take(size):
                held[name] += size
            else:
                assert held[name] + size > own
            assert shared.used == sum(held.values()) <= 1_000
            budget.count()
