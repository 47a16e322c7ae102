"""The memory of producers' last batches: charged to their tenant, with a reserved part for each tenant."""

from __future__ import annotations

import pytest

from psoup.admission.rows.producers import ACKNOWLEDGEMENT_BYTES, PRODUCER_BYTES
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, ResourceExhausted
from psoup.events.commands import Push, Register
from psoup.events.tenants import CreateTenant, Quotas
from psoup.model import SECOND
from psoup_testing.engines.admission_gate import Gate, rows

EACH = PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES
NOTHING = rows(x=[])
"""A batch of no tuples: it is remembered like others."""


def make(memory: int = 160_000, tenants: tuple[str, ...] = ("evil", "good"), **quotas: int) -> Gate:
    """Tenants with a stream each: the producers of one may take 26,666 of 40,000 bytes, and 6,666 are its own."""
    gate = Gate(EngineConfig(memory_bytes=memory, kept_acknowledgements=4, producer_rest=60 * SECOND))
    for name in tenants:
        gate.send(CreateTenant(name, Quotas(**quotas)))  # type: ignore[arg-type]
    for name in tenants or ("default",):
        gate.create("CREATE STREAM s (x BIGINT)", tenant=name)
    return gate


def produce(gate: Gate, tenant: str, producer: str, number: int = 0, epoch: int = 0, since: int = 1) -> None:
    gate.send(Push("s", NOTHING, producer, epoch, number, tenant=tenant, since=since))


def fill(gate: Gate, tenant: str, batches: int = 1) -> tuple[int, ResourceExhausted]:
    """Send some batches under each of many names until one is refused; returns how many names there were, and why."""
    for name in range(1_000):
        for number in range(batches):
            try:
                produce(gate, tenant, f"p{name}", number)
            except ResourceExhausted as problem:
                return name, problem
    raise AssertionError("none is refused")


def test_what_producers_sent_last_counts_as_tuples_do() -> None:
    gate = make(2**30, tuple_bytes=5_000)
    count, problem = fill(gate, "evil", batches=4)
    used = 2 * PRODUCER_BYTES + 8 * ACKNOWLEDGEMENT_BYTES
    assert (count, gate.admission.judge.producer_bytes("evil")) == (2, used)
    told = {"quota": "tuple_bytes", "used": str(used), "limit": "5000", "needed": str(EACH), "tenant": "evil"}
    assert (problem.reason, problem.facts) == ("QUOTA", told)
    assert f"send from fewer producers: {used:,} are what they sent last" in problem.message
    produce(gate, "evil", "p0", 4)  # which takes the place of its first
    with pytest.raises(ResourceExhausted, match="tuple_bytes"):
        gate.send(Push("s", rows(x=[1] * 40), "p0", 0, 5, tenant="evil"))
    gate.send(Push("s", rows(x=[1] * 20), "p0", 0, 5, tenant="evil"))
    produce(gate, "good", "p0")
    gate.drop("s", tenant="evil")
    assert gate.admission.judge.producer_bytes("evil") == 0
    gate.create("CREATE STREAM s (x BIGINT)", tenant="evil")
    produce(gate, "evil", "p0")


def test_a_tenant_finds_room_for_its_producers_where_another_sent_all_it_could() -> None:
    gate = make()
    count, problem = fill(gate, "evil", batches=4)
    assert (count, problem.reason) == (12, "PRODUCERS_BUDGET")
    used = gate.admission.judge.producer_bytes("evil")
    assert {name: problem.facts[name] for name in ("used", "limit")} == {"used": str(used), "limit": "26666"}
    assert "of tenant 'evil' may take 26,666 bytes (6,666 are its own" in problem.message
    gate.send(Push("s", rows(x=list(range(1_000))), tenant="good"))
    gate.send(Register("SELECT x FROM s", tenant="good"))
    assert fill(gate, "good")[0] == 5, "5 of 1,300 bytes are within its own part"
    gate.send(Push("s", rows(x=list(range(1_000))), tenant="evil"))
    gate.drop("s", tenant="evil")
    assert fill(gate, "good")[0] == 20


def test_the_longest_silent_one_makes_way_when_they_take_all_that_they_may() -> None:
    gate = make()
    count, _ = fill(gate, "evil")
    gate.now = 60
    with pytest.raises(ResourceExhausted, match="has been silent for long enough"):
        produce(gate, "evil", "new", since=0)  # it may be one that was forgotten, and does not say so
    produce(gate, "evil", "new", since=gate.admission.sequence)
    with pytest.raises(FailedPrecondition) as caught:
        produce(gate, "evil", "p0", 1)
    assert caught.value.reason == "PRODUCER_FORGOTTEN"
    for number in range(1, 4):  # the second of these makes p1 forgotten
        produce(gate, "evil", f"p{count - 1}", number, since=0)
    with pytest.raises(FailedPrecondition):
        produce(gate, "evil", "p1", 1)
    produce(gate, "evil", "p2", 1)
    assert gate.admission.judge.producer_bytes("evil") <= 26_666


def test_a_producer_does_not_make_way_for_itself() -> None:
    gate = make(12_000)
    for number in range(3):
        produce(gate, "evil", "p0", number)
    gate.now = 60
    with pytest.raises(ResourceExhausted) as caught:
        produce(gate, "evil", "p0", 3)
    assert caught.value.reason == "PRODUCERS_BUDGET"
    produce(gate, "evil", "p0", 2)
    produce(gate, "evil", "p1", since=gate.admission.sequence)
    with pytest.raises(FailedPrecondition) as gone:
        produce(gate, "evil", "p0", 2)
    assert gone.value.reason == "PRODUCER_FORGOTTEN"


def test_a_tenant_that_is_alone_may_take_all_of_the_memory() -> None:
    gate = make(tenants=())
    count, problem = fill(gate, "default")
    assert (count, problem.reason) == (160_000 // EACH, "MEMORY_BUDGET")
    assert "by tuples, about 0 by queries, about 159,900 by what producers sent last" in problem.message
    assert problem.facts["would_need"] == str((count + 1) * EACH)


def test_the_memory_budget_tells_tenants_nothing_of_one_another() -> None:
    gate = make(53_000)
    gate.send(Push("s", rows(x=[1] * 3_000), tenant="evil"))
    for command in (Push("s", rows(x=[1] * 1_000), tenant="good"), Register("SELECT x FROM s", tenant="good")):
        with pytest.raises(ResourceExhausted) as caught:
            gate.send(command)
        assert caught.value.reason == "MEMORY_BUDGET"
        assert caught.value.message.startswith("the memory budget of 53,000 bytes is used up by all tenants, and this ")
        assert caught.value.message.endswith(
            " more; ask the service's operator for more (memory_mib), drop streams or queries, or lessen a RETENTION"
        )
        assert set(caught.value.facts) == {"budget", "limit", "setting", "needed"}
