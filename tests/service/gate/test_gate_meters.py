"""The use of each tenant, on a virtual clock: rates, debts, open calls, and complete refusals."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from psoup.errors import ResourceExhausted
from psoup.events.tenants import FIRST_TENANT, Quotas, Tenant
from psoup_service.gate.meters import HELD_MS, PAYS, RATES, TOLD, Meters
from psoup_service.gate.roles import ALLOWED
from psoup_service.host.turns.fair_turns import TenantTimes

CALL = "ServerService/GetServerInfo"


class Rig:
    """Meters with a tenant of its own, a clock, and times that it charges by hand."""

    def __init__(self, **quotas: float) -> None:
        self.tenants = {"default": FIRST_TENANT, "acme": Tenant("acme", Quotas(**quotas))}  # type: ignore[arg-type]
        self.times = {quota: TenantTimes() for quota in TOLD}
        self.clock = 100.0
        sources = {quota: (times,) for quota, times in self.times.items()}
        self.meters = Meters(lambda: self.tenants, sources, lambda: self.clock)

    def call(self, call: str = CALL, tenant: str = "acme", *, watching: bool = False) -> None:
        """A call that ends at once."""
        with self.meters.call(tenant, call, watching=watching):
            pass

    def refused(self, call: str = CALL) -> dict[str, str]:
        """The facts of the refusal of a call."""
        with pytest.raises(ResourceExhausted) as caught:
            self.call(call)
        assert caught.value.reason == "QUOTA"
        assert caught.value.facts["quota"] in caught.value.message
        return caught.value.facts


@pytest.mark.seeded("a rate is not asked before a call, or before a batch")
def test_calls_a_second_are_those_of_the_quota_whatever_their_pattern() -> None:
    chance, rig = random.Random(5), Rig(calls_per_second=20)
    let_in, began = 0, rig.clock
    while rig.clock < began + 30:
        rig.clock += chance.choice((0.0, 0.001, 0.02, 0.3))
        try:
            rig.call()
            let_in += 1
        except ResourceExhausted as refusal:
            waited = rig.clock + int(refusal.facts["retry_after_ms"]) / 1_000
            assert waited <= rig.clock + 1
    assert let_in <= 20 * (rig.clock - began) + 20
    assert let_in > 20 * (rig.clock - began) * 0.5


def test_of_a_quota_next_to_nothing_a_wait_is_told_all_the_same() -> None:
    """The wait was more than a number can say, which was a defect of each call."""
    rig = Rig(calls_per_second=5e-324)
    rig.call()
    assert rig.refused()["retry_after_ms"] == "86400000"


def test_who_comes_when_he_was_told_to_is_let_in() -> None:
    rig = Rig(calls_per_second=0.5)
    rig.call()
    for _ in range(5):
        facts = rig.refused()
        rig.clock += int(facts["retry_after_ms"]) / 1_000
        rig.call()


def test_a_refusal_says_quota_use_limit_and_when_to_come_again() -> None:
    rig = Rig(calls_per_second=2)
    rig.call()
    rig.call()
    facts = rig.refused()
    assert (facts["quota"], facts["limit"], facts["tenant"]) == ("calls_per_second", "2", "acme")
    assert float(facts["used"]) > 0
    assert int(facts["retry_after_ms"]) == 500


def test_a_long_wait_is_told_in_hours_and_exactly_in_the_facts() -> None:
    """The use of late was told too, which is below the limit by then: it sounded as if nothing was used up."""
    rig = Rig(pushed_bytes_per_second=1_000)
    rig.meters.push("acme", 7_857_418)
    rig.clock += 1
    with pytest.raises(ResourceExhausted) as caught:
        rig.meters.push("acme", 1)
    assert caught.value.message.startswith(
        "tenant 'acme' has used up its quota pushed_bytes_per_second of 1,000 a second: come again in 2 h 11 min, when"
    )
    facts = caught.value.facts
    assert (facts["limit"], facts["retry_after_ms"]) == ("1000", "7855418")
    assert float(facts["used"]) > 1_000


@pytest.mark.parametrize(("quota", "watching"), [("open_calls", False), ("watchers", True)])
def test_calls_and_watches_that_are_open_are_counted_apart(quota: str, watching: bool) -> None:
    rig = Rig(**{quota: 2})
    with rig.meters.call("acme", CALL, watching=watching):
        with rig.meters.call("acme", CALL, watching=watching):
            with pytest.raises(ResourceExhausted, match=rf"2 of the 2 that its quota {quota} allows") as caught:
                rig.call(watching=watching)
            assert int(caught.value.facts["retry_after_ms"]) > 0
            rig.call(watching=not watching)
            assert rig.meters.used("acme")[quota] == 2
        rig.call(watching=watching)
    assert rig.meters.used("acme")[quota] == 0


@pytest.mark.seeded("a rate is not asked before a call, or before a batch")
def test_bytes_beyond_a_second_are_paid_by_waiting_and_pushes_alone_wait() -> None:
    rig = Rig(pushed_bytes_per_second=1_000)
    rig.meters.push("acme", 5_000)
    rig.call()
    assert rig.refused("IngestService/Push")["retry_after_ms"] == "4000"
    with pytest.raises(ResourceExhausted, match="pushed_bytes_per_second"):
        rig.meters.push("acme", 1)
    rig.clock += 4.0
    rig.call("IngestService/Push")
    rig.meters.push("acme", 1)


@pytest.mark.seeded("who can never be let in by waiting is told to come again")
@pytest.mark.parametrize("quota", HELD_MS)
def test_what_others_hold_may_be_had_later_and_what_never_fits_may_not(quota: str) -> None:
    """`receive_bytes`, `stages`, `staged_bytes` and `pinned_bytes`: of what waits in vain, no wait is told."""
    rig = Rig(**{quota: 10})
    rig.meters.check("acme", quota, lambda: 9, 1, "wait")
    rig.meters.check("umbra", quota, lambda: 99, 1, "wait")
    for held, more, own, told in ((10, 1, 0, True), (9, 2, 8, True), (9, 2, 9, False), (0, 11, 0, False)):
        with pytest.raises(ResourceExhausted) as caught:
            rig.meters.check("acme", quota, lambda held=held: held, more, "wait", charged=own)  # type: ignore[misc]
        facts = caught.value.facts
        assert (facts["quota"], facts["used"], facts["needed"]) == (quota, str(held), str(more))
        assert facts.get("retry_after_ms") == (str(HELD_MS[quota]) if told else None)


@pytest.mark.seeded("a tenant pays for what others have used")
@pytest.mark.parametrize(
    ("quota", "call"),
    [
        ("prepare_share", "QueryService/RegisterMany"),
        ("join_share", "IngestService/Push"),
        ("join_share", "IngestService/PushRows"),
        ("read_share", "QueryService/Invoke"),
        ("matches_per_second", "StagingService/CommitStage"),
    ],
)
def test_processor_time_is_told_afterwards_and_paid_before_the_next_call(quota: str, call: str) -> None:
    rig = Rig(**{quota: 0.25})
    rig.call(call)
    rig.times[quota].charge("acme", 1.25)
    rig.times[quota].charge("umbra", 100.0)
    facts = rig.refused(call)
    assert (facts["quota"], facts["retry_after_ms"]) == (quota, "4000")
    rig.call("QueryService/Unregister")
    rig.clock += 4.0
    rig.call(call)


@pytest.mark.seeded("what was used before a tenant had a quota is owed, at its first quota or at a later one")
@pytest.mark.parametrize("quota", TOLD)
def test_what_was_used_before_there_was_a_quota_is_not_owed(quota: str) -> None:
    """A tenant that had an hour of processor time in its life would have been refused for days."""
    call = next(call for call, quotas in PAYS.items() if quota in quotas)
    rig, limited = Rig(), Quotas(**{quota: 0.25})  # type: ignore[arg-type]
    for _ in range(3):
        rig.tenants["acme"] = replace(rig.tenants["acme"], quotas=Quotas())
        rig.times[quota].charge("acme", 3_600.0)
        rig.call(call)
        rig.tenants["acme"] = replace(rig.tenants["acme"], quotas=limited)
        rig.call(call)
        rig.times[quota].charge("acme", 0.75)
        assert rig.refused(call)["retry_after_ms"] == "2000"
        rig.clock += 3.0
        rig.call(call)


def test_statements_that_are_bound_pay_with_the_time_of_registrations() -> None:
    rig = Rig(prepare_share=0.5, read_share=0.5)
    rig.call("StatementService/Ask")
    rig.meters.prepare("acme")
    rig.times["prepare_share"].charge("acme", 1.5)
    rig.call("StatementService/Ask")  # it may be known
    with pytest.raises(ResourceExhausted, match="prepare_share"):
        rig.meters.prepare("acme")
    rig.meters.prepare("gone")
    rig.clock += 2.0
    rig.meters.prepare("acme")


@pytest.mark.seeded("time of before is owed though it was allowed")
def test_time_used_as_slowly_as_allowed_is_no_debt_however_seldom_it_is_looked_at() -> None:
    rig = Rig(read_share=0.5)
    for _ in range(5):
        rig.clock += 10.0
        rig.times["read_share"].charge("acme", 4.9)
        rig.call("QueryService/Invoke")


def test_a_tenant_without_quotas_and_one_that_is_not_known_are_only_counted() -> None:
    rig = Rig()
    for tenant in ("default", "gone"):
        for _ in range(1_000):
            rig.call("QueryService/Invoke", tenant)
        rig.meters.push(tenant, 2**50)
        assert rig.meters.used(tenant)["calls_per_second"] > 100
    counted = dict.fromkeys(("open_calls", "watchers", *RATES), 0)
    del counted["matches_per_second"]
    assert rig.meters.used("acme") == counted


def test_quotas_hold_from_the_moment_they_are_set() -> None:
    rig = Rig()
    for _ in range(50):
        rig.call()
    rig.tenants["acme"] = replace(rig.tenants["acme"], quotas=Quotas(calls_per_second=1))
    rig.call()
    rig.refused()


def test_what_is_held_now_is_checked_before_more_is() -> None:
    rig = Rig(staged_bytes=100)
    rig.meters.check("acme", "staged_bytes", lambda: 60, 40, "commit some")
    with pytest.raises(ResourceExhausted, match=r"60 of the 100 that its quota staged_bytes allows.*41 more: commit"):
        rig.meters.check("acme", "staged_bytes", lambda: 60, 41, "commit some")
    rig.meters.check("default", "staged_bytes", lambda: 2**50, 2**50, "never")


def test_every_call_that_pays_is_a_call_and_what_takes_away_pays_nothing() -> None:
    assert set(PAYS) <= set(ALLOWED)
    free = {
        "QueryService/Unregister",
        "QueryService/UnregisterMany",
        "StreamService/DropStream",
        "StagingService/AbortStage",
    }
    assert not free & set(PAYS)
    assert {quota for quotas in PAYS.values() for quota in quotas} <= set(RATES)
