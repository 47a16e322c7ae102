"""Room that all tenants share: each has its own part, whatever other tenants use, and a single tenant has all."""

from __future__ import annotations

import random

import pytest

from psoup.admission.shared_room import SharedRoom
from psoup.admission.tenants import KnownTenants
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.events.commands import AlterStream
from psoup.events.tenants import AlterTenant, CreateTenant, Quotas, Tenant, TenantAltered, TenantCreated, TenantDropped
from psoup_testing.engines.admission_gate import Gate

WIDE = ", ".join(f"c{number} BIGINT" for number in range(1_000))
LIMIT = 80_000_000
"""What streams of so wide a table may take here: 7 of them, of 10,032,000 bytes each."""


def crowded(weight: float = 1.0) -> Gate:
    """A service of two tenants beside `default`, of which `evil` has all the streams that it gets."""
    gate = Gate(EngineConfig(memory_bytes=4 * LIMIT))
    for name in ("evil", "good"):
        gate.send(CreateTenant(name, Quotas(weight=weight if name == "good" else 1.0)))
    assert fill(gate, "evil") == 5, "40 MB for who comes first, and 13 of its own"
    return gate


def fill(gate: Gate, tenant: str) -> int:
    """Make wide streams until one is refused; returns how many there are."""
    for number in range(100):
        try:
            gate.create(f"CREATE STREAM wide{number} ({WIDE})", tenant=tenant)
        except ResourceExhausted as problem:
            assert problem.reason == "STREAMS_BUDGET"
            return number
    raise AssertionError("none is refused")


@pytest.mark.long
def test_a_tenant_finds_its_own_part_of_the_room_for_streams() -> None:
    gate = crowded()
    assert fill(gate, "good") == 1, "13 MB of its own"
    gate.create("CREATE STREAM narrow (a BIGINT)", tenant="good")
    gate.send(AlterStream("ALTER STREAM narrow ADD COLUMN b BIGINT", tenant="good"))
    assert fill(gate, "default") == 1
    gate.drop("wide0", tenant="evil")
    gate.create(f"CREATE STREAM more ({WIDE})", tenant="good")
    gate.admission.check()


@pytest.mark.long
def test_its_part_is_by_weight() -> None:
    assert fill(crowded(), "good") == 1
    gate = crowded()
    gate.send(AlterTenant("good", {"weight": 4.0}))
    assert fill(gate, "good") == 2, "27 MB of its own"
    gate.admission.check()


@pytest.mark.long
def test_columns_that_are_added_are_streams_like_others() -> None:
    gate = crowded()
    gate.drop("wide0", tenant="evil")
    added = ", ".join(f"ADD COLUMN IF NOT EXISTS c{number} BIGINT" for number in range(1_000))
    for name in ("narrow", "narrower"):
        gate.create(f"CREATE STREAM {name} (c0 BIGINT)", tenant="evil")
    gate.send(AlterStream(f"ALTER STREAM narrow {added}", tenant="evil"))
    with pytest.raises(ResourceExhausted, match="stream 'narrower' needs 9,990,000 more") as caught:
        gate.send(AlterStream(f"ALTER STREAM narrower {added}", tenant="evil"))
    assert caught.value.reason == "STREAMS_BUDGET"
    gate.send(AlterStream(f"ALTER STREAM narrow {added}", tenant="evil"))  # what is there already needs nothing
    gate.send(AlterStream("ALTER STREAM narrower ADD COLUMN d BIGINT", tenant="evil"))


def test_a_refusal_tells_what_the_tenant_has_and_may_have() -> None:
    gate = crowded()
    fill(gate, "good")
    with pytest.raises(ResourceExhausted) as caught:
        gate.create(f"CREATE STREAM other ({WIDE})", tenant="good")
    assert caught.value.message == (
        "streams of tenant 'good' may take 53,333,333 bytes before they have a tuple (13,333,333 are its own, the"
        " others are for the tenant that comes first), and take 10,032,000; stream 'other' needs 10,032,000 more: drop"
        " streams, or ask the service's operator for more (memory_mib)"
    )
    told = {name: caught.value.facts[name] for name in ("used", "limit", "needed")}
    assert told == {"used": "10032000", "limit": "53333333", "needed": "10032000"}


@pytest.mark.long
def test_a_tenant_that_is_alone_has_all_and_one_that_comes_later_has_its_part() -> None:
    gate = Gate(EngineConfig(memory_bytes=4 * LIMIT))
    assert fill(gate, "default") == 7
    gate.send(CreateTenant("late", Quotas()))
    assert fill(gate, "late") == 1, "20 MB of its own, beside the limit as it was"
    with pytest.raises(ResourceExhausted):
        gate.create("CREATE STREAM narrow (a BIGINT)")
    gate.admission.check()


def test_parts_and_sums_follow_what_comes_and_goes() -> None:
    """Random tenants: nobody within its own part is refused, and what is beyond all parts fits into the other half."""
    chance = random.Random(7)
    known = KnownTenants()
    room, held = SharedRoom(1_000_000, known), dict[str, int]()
    names = ["default", *(f"t{number}" for number in range(8))]
    for sequence in range(5_000):
        name = chance.choice(names)
        if chance.random() < 0.02 and name != "default":
            weight = chance.choice([0.01, 0.3, 1.0, 7.0])
            tenant = Tenant(name, Quotas(weight=weight))
            if name not in known:
                known.adopt(TenantCreated(sequence, tenant))
            elif room.of(name):
                known.adopt(TenantAltered(sequence, tenant, 0))
            else:
                known.adopt(TenantDropped(sequence, name, 0))
        elif name in known:
            size = chance.randrange(1, 60_000)
            if chance.random() < 0.3:
                size = min(size, held.get(name, 0))
                room.add(name, -size)
                held[name] = held.get(name, 0) - size
            else:
                within = held.get(name, 0) + size <= room.own(name)
                fits = room.fits(name, size)
                assert fits or not within
                if fits:
                    room.add(name, size)
                    held[name] = held.get(name, 0) + size
                    assert within or room.beyond() <= 500_000
        assert room.counted()
        assert room.held == {name: size for name, size in held.items() if size}
    assert sum(room.own(name) for name in known) <= 500_000
    assert room.used == sum(held.values()) > 0
